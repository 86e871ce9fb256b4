"""`train`: fine-tune a model on texts (classifier, masked language model, answers), or train a small one from scratch.

The loop is transformers' Trainer (with accelerate); this module has the checks before it, the folder from which a
killed run resumes, and the output. While training, checkpoints are in `OUT.training` next to the model folder; the
model folder itself appears complete when training has ended, with the weights of the best validation loss.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError

from sightline.errors import InputError, OptionError, UsageError
from sightline.files.foreign import read_json
from sightline.files.writing import new_folder, write_whole
from sightline.lab.answer_rows import LABELS, AnswerRows, pad_windows
from sightline.lab.card import model_card
from sightline.lab.checkpoints import (
    RUN,
    check_new_folder,
    check_work_folder,
    find_checkpoint,
    quiet_bars,
    remove_work_folder,
    write_model,
    writing_failure,
)
from sightline.lab.starting_points import StartingPoint, default_settings, starting_point
from sightline.lab.training_data import TrainingData, read_training_data
from sightline.lab.training_tasks import TokenisedRows, check_task, make_collator
from sightline.metrics.statistics import mean_interval, share_interval
from sightline.models import load_network
from sightline.settings.extras import require
from sightline.settings.options import declared_options
from sightline.settings.training import DivisionSettings, StartingSettings, TrainingSettings, VocabularyUnits
from sightline.settings.values import refuse_unused

if TYPE_CHECKING:
    import pandas as pd

    from sightline.progress import Progress


WORK_SUFFIX = ".training"
"""Suffix of the checkpoint folder's name."""
LARGEST_DESCRIPTION = 10_000_000
"""Bytes of run.json that are read."""


@dataclass(frozen=True, eq=False)
class Training:
    """The result of a training run."""

    folder: Path
    """The folder of the trained model."""
    labels: tuple[str, ...]
    """Names of the classes."""
    metrics: dict[str, dict[str, float]]
    """By split (validation, test): rows, loss, accuracy with its 95 % interval (accuracy_low, accuracy_high) and
    macro_f1 of classes; of answers instead exact_match and f1, each with its interval."""
    history: list[dict[str, float]]
    """What was logged: step, epoch, loss, eval_loss, eval_accuracy …"""
    steps: int
    """Steps taken."""
    seconds: float
    """Duration of the training."""
    cut: int
    """Training rows that were cut at max_tokens."""
    left_out: int = 0
    """Rows without text or label (question or answers), and training rows whose answer fits into no window."""
    new_head: bool = False
    """Whether the head of the checkpoint was replaced, so that it was learnt from these rows alone."""
    notes: tuple[str, ...] = ()
    """Sentences on how the rows were read: how many each split got, and how many repeat a text."""

    def to_frame(self) -> pd.DataFrame:
        """Return the training curve, one row per log entry."""
        import pandas as pd

        return pd.DataFrame(self.history)


def train(
    data: str | Path | Iterable[Any],
    model: str | Path | Any = "new-bilstm",
    *,
    out: str | Path,
    task: str = "sequence_classification",
    text: str = "text",
    pair: str = "text_pair",
    label: str = "label",
    validation: float | None = None,
    limit: int | None = None,
    projection: str | None = None,
    sizes: dict[str, Any] | None = None,
    vocabulary: int | None = None,
    units: VocabularyUnits | None = None,
    dropout: float | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Training:
    """Train a model and write it to the new folder `out` with tokenizer, card and training curve.

    data: rows, or whatever `read_examples` reads. Its splits, or those in a field `split`, are kept: train, validation
    (valid, val, dev) and test, in any case.
    model: a folder or hub id to fine-tune, or new-bilstm, new-transformer or new-encoder to train from scratch.
    task: "sequence_classification", "token_classification", "masked_lm" or "question_answering", where the text is the
    context and the pair is the question.
    text, pair, label: the names of the fields.
    validation: share of the rows that is held out if the data have no validation split, 0.1 by default.
    limit: draw this many training rows at random, stratified by class.
    projection: how scores become weights in new models with a single attention, such as sparsemax.
    sizes: sizes of a new model, such as {"hidden_size": 64}.
    vocabulary, units: size of the vocabulary of a new model (20,000), and whether it holds "words" or "subwords".
    dropout: share of dropout of a new model.
    resume: continue from the last checkpoint of a run with the same settings.
    settings: the fields of `TrainingSettings`.
    """
    known = declared_options(TrainingSettings)
    if unknown := [name for name in settings if name not in known]:
        raise OptionError(f"Training has no setting '{unknown[0]}'. Its settings: {', '.join(known)}.")
    chosen, learnt = TrainingSettings(**{**default_settings(model), **settings}), check_task(task)
    if chosen.precision == "float16" and not torch.cuda.is_available():
        raise OptionError("precision='float16' needs a GPU; use 'bfloat16' or 'float32' on this machine.")
    new = StartingSettings(projection=projection, units=units, vocabulary=vocabulary, dropout=dropout)
    chosen_rows = DivisionSettings(
        text=text, pair=pair, label=label, validation=validation, limit=limit, seed=chosen.seed
    )
    require("accelerate", "lab", "Training")
    folder = check_new_folder(out, WORK_SUFFIX)
    work = folder.with_name(f"{folder.name}{WORK_SUFFIX}")
    check_work_folder(work, resume=resume)
    rows = read_training_data(data, **vars(chosen_rows), task=learnt)
    with _random_state_of_its_own(chosen.seed):
        options = {**vars(new), "sizes": sizes or {}}
        point = starting_point(model, rows, new, sizes or {})
        description = {
            **asdict(chosen),
            **options,
            "task": task,
            "model": _name(model),
            "data": rows.fingerprint,
        }
        open_work_folder = partial(_open_work_folder, work, description, resume)
        return _run(point, rows, chosen, folder, work, open_work_folder, _name(model), progress)


def _run(
    point: StartingPoint,
    data: TrainingData,
    settings: TrainingSettings,
    folder: Path,
    work: Path,
    open_work_folder: Callable[[], None],
    base: str,
    progress: Progress | None,
) -> Training:
    from transformers import PrinterCallback, TrainingArguments

    from sightline.lab.trainer import (
        AnswerTrainer,
        ClassifierTrainer,
        DivergedError,
        ShowProgress,
        prepare_to_resume,
    )

    tokenizer = point.tokenizer
    answers = data.task == "question_answering"
    network, _ = load_network(point.module, task=data.task, tokenizer=tokenizer)
    module = network.module.requires_grad_(True)
    if not module.supports_gradient_checkpointing:
        unused = {"gradient_checkpointing=True": settings.gradient_checkpointing}
        refuse_unused(
            unused, f"is not possible: a '{module.config.model_type}' model cannot compute activations again."
        )
    if not network.family.single_attention:
        unused = {"attention_rate": settings.attention_rate != 1}
        refuse_unused(unused, "is for models with a single attention (new-bilstm, new-transformer).")
    max_tokens = _max_tokens(network.max_tokens, tokenizer, data, settings.max_tokens)
    sets = _make_sets(data, module, tokenizer, max_tokens, settings.seed)
    open_work_folder()
    steps_per_epoch = -(-len(sets["train"]) // (settings.batch * settings.accumulate))
    total = settings.max_steps or max(1, round(settings.epochs * steps_per_epoch))
    every = max(1, min(total, steps_per_epoch // settings.evaluations))
    options = TrainingArguments(
        output_dir=str(work),
        max_steps=total,
        per_device_train_batch_size=min(settings.batch, len(sets["train"])),
        per_device_eval_batch_size=2 * min(settings.batch, len(sets["train"])),
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=round(settings.warmup * total),
        lr_scheduler_type="linear",
        gradient_checkpointing=settings.gradient_checkpointing,
        bf16=settings.precision == "bfloat16",
        fp16=settings.precision == "float16",
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        logging_steps=max(1, min(every, total // 50)),
        logging_nan_inf_filter=False,
        load_best_model_at_end=True,
        metric_for_best_model="exact_match" if answers and settings.best == "accuracy" else settings.best,
        greater_is_better=settings.best == "accuracy",
        label_names=list(LABELS) if answers else None,
        seed=settings.seed,
        # Texts of similar length share a batch, so that little of it is padding.
        train_sampling_strategy="group_by_length",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=False,
        log_level="error",
    )
    start, callbacks = prepare_to_resume(work, options, steps_per_epoch, settings.patience)
    parts: dict[str, Any] = {
        "model": module,
        "args": options,
        "train_dataset": sets["train"],
        "eval_dataset": sets["validation"],
        "compute_metrics": sets["validation"].measure,
        "callbacks": [ShowProgress(progress), *callbacks],
        "amsgrad": settings.amsgrad,
        "attention_rate": settings.attention_rate,
    }
    weights = _class_weights(data) if settings.class_weights else None
    if answers:
        trainer: Any = AnswerTrainer(**parts, data_collator=partial(pad_windows, pad=int(tokenizer.pad_token_id or 0)))
    else:
        trainer = ClassifierTrainer(**parts, data_collator=make_collator(data.task, tokenizer), class_weights=weights)
    trainer.remove_callback(PrinterCallback)
    began = time.monotonic()
    try:
        with quiet_bars():
            trainer.train(resume_from_checkpoint=None if start is None else str(start))
    except DivergedError as error:
        kept = find_checkpoint(work)
        place = f"the last good checkpoint is in '{kept[0]}'" if kept else "no checkpoint had been written yet"
        raise DivergedError(
            f"Training diverged: {str(error)[:-1].lower()}, so it was stopped; {place}. Lower learning_rate."
        ) from None
    except (OSError, RuntimeError, SafetensorError) as error:
        raise UsageError(
            f"A checkpoint could not be written to '{work}': {writing_failure(error)}. Make room and go on from the "
            "last complete one (resume, --resume)."
        ) from error
    metrics: dict[str, dict[str, float]] = {
        split: _measure(trainer, sets[split]) for split in ("validation", "test") if split in sets
    }
    if not all(math.isfinite(values["loss"]) for values in metrics.values()):
        raise DivergedError(
            f"Training diverged: the loss of the {next(iter(metrics))} rows is not finite, so no model was written. "
            "Lower learning_rate."
        )
    history = [dict(entry) for entry in trainer.state.log_history]
    facts = {"base": base, "max_tokens": max_tokens, **{k: v for k, v in asdict(settings).items() if k != "max_tokens"}}
    result = Training(
        folder=folder,
        labels=data.labels,
        metrics=metrics,
        history=history,
        steps=int(trainer.state.global_step),
        seconds=time.monotonic() - began,
        cut=sets["train"].cut,
        left_out=data.left_out + sets["train"].left_out,
        new_head=point.new_head,
        notes=data.notes,
    )
    report = {"settings": facts, "metrics": metrics, "history": history}
    texts = {
        "README.md": model_card(data, base, facts, metrics, new_head=point.new_head),
        "training.json": json.dumps(report, indent=2) + "\n",
    }
    write_model(module.eval(), tokenizer, folder, texts)
    remove_work_folder(work)
    return result


def _make_sets(
    data: TrainingData, module: Any, tokenizer: Any, max_tokens: int, seed: int
) -> dict[str, TokenisedRows | AnswerRows]:
    """Return the rows of every split as the model reads them."""
    sets: dict[str, TokenisedRows | AnswerRows] = {}
    for split in ("train", "validation", "test"):
        rows = getattr(data, split)
        if not rows:
            continue
        if data.task == "question_answering":
            options = {"learnt": split == "train", "predicts_none": any(not row.answer for row in data.train)}
            sets[split] = AnswerRows(rows, tokenizer, max_tokens, module.config, **options)
            continue
        made = TokenisedRows(rows, data.classes(rows), tokenizer, max_tokens, data.task, len(data.labels))
        if data.task == "masked_lm" and split != "train":
            made.hide_tokens(tokenizer, seed)
        sets[split] = made
    if data.task == "question_answering":
        if not len(sets["train"]):
            raise InputError("No training question has an answer that fits into one window. Raise max_tokens.")
        # The model later reads contexts in windows of the length that it was trained and measured on.
        tokenizer.model_max_length = max_tokens
    return sets


def _measure(trainer: Any, rows: TokenisedRows | AnswerRows) -> dict[str, float]:
    """Return the metrics of the current weights with 95 % intervals over rows, and the loss."""
    trainer.compute_metrics = None  # it belongs to the validation rows
    prediction = trainer.predict(rows)
    metrics = rows.measure(prediction)
    for name, values in rows.values(prediction).items():
        _, low, high = share_interval(values) if set(values) <= {0.0, 1.0} else mean_interval(values)
        metrics |= {"rows": len(values)} | ({} if math.isnan(low) else {f"{name}_low": low, f"{name}_high": high})
    return {**metrics, "loss": float(prediction.metrics["test_loss"])}


def _class_weights(data: TrainingData) -> torch.Tensor:
    """Return weights rows/(C · rows of the class), (C,): a balanced batch weighs as much as without them."""
    if not data.labels:
        raise OptionError(f"class_weights=True needs classes; the task {data.task} has none.")
    counts = Counter(number for row in data.classes(data.train) for number in row)
    return torch.tensor([counts.total() / (len(counts) * counts[number]) for number in range(len(data.labels))])


def _max_tokens(positions: int, tokenizer: Any, data: TrainingData, asked: int | None) -> int:
    """Return the length to which texts are truncated: the requested one, at most what model and tokenizer read."""
    most = min(positions, int(tokenizer.model_max_length))
    if asked is not None and asked > most:
        raise OptionError(f"max_tokens={asked} is more than the {most} tokens that the model reads.")
    marks = tokenizer.num_special_tokens_to_add(pair=any(row.pair for row in data.train))
    if (asked or most) <= marks:
        raise OptionError(f"max_tokens={asked or most} leaves no room for text beside {marks} special tokens.")
    return asked or most


def _open_work_folder(work: Path, description: dict[str, Any], resume: bool) -> None:
    """Create the checkpoint folder, or check that the existing one belongs to the same run."""
    path = work / RUN
    if resume:
        earlier = read_json(path, limit=LARGEST_DESCRIPTION, error=InputError, name=f"'{path}' is damaged and")
        if not isinstance(earlier, dict):
            raise InputError(f"'{path}' is damaged: it does not describe a run. Delete '{work}' and train again.")
        changed = [name for name, value in json.loads(json.dumps(description)).items() if earlier.get(name) != value]
        if changed:
            raise UsageError(
                f"The run in '{work}' had other settings of {', '.join(changed)}. Resume it with these, or delete it."
            )
        return
    # The folder appears together with its description: without it, it could be neither resumed nor restarted.
    try:
        with new_folder(work) as part:
            write_whole(part / path.name, json.dumps(description, indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"Cannot write '{work}': {writing_failure(error)}.") from error


def _name(model: Any) -> str:
    if isinstance(model, str | Path):
        return Path(str(model)).name
    return str(getattr(getattr(model, "config", None), "name_or_path", "") or type(model).__name__)


@contextmanager
def _random_state_of_its_own(seed: int) -> Iterator[None]:
    """Seed all random generators inside the block, and restore their states afterwards."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (the library draws from the old generator)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
