"""The Trainer of transformers with class weights, a stop at NaN, progress, and runs that resume as if never stopped.

Everything else (AdamW, warm-up, accumulation, mixed devices through accelerate) is the library's own.
"""

from __future__ import annotations

import json
import shutil
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from sightline.errors import SightlineError
from sightline.files import write_whole
from sightline.lab.training_tasks import NO_CLASS
from sightline.progress import Progress


class DivergedError(SightlineError):
    """Training produced a loss that is not a finite number."""


class CheckedTrainer(Trainer):  # type: ignore[misc]
    """The library's Trainer, stopped by the first loss that is not finite."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # The losses here are means over a batch, so accumulated gradients have to be divided by the number of batches.
        self.model_accepts_loss_kwargs = False
        self._names = _accepted_names(self.model)

    def training_step(self, *arguments: Any, **options: Any) -> Tensor:
        """Run one step; raise DivergedError at a loss that is not finite."""
        loss: Tensor = super().training_step(*arguments, **options)
        if not bool(torch.isfinite(loss)):
            raise DivergedError(f"The loss of step {self.state.global_step + 1} is {float(loss)}.")
        return loss


class AnswerTrainer(CheckedTrainer):
    """The library's loss of start and end positions; predictions are the scores of both, (windows, n, 2)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(preprocess_logits_for_metrics=lambda logits, labels: torch.stack(logits[:2], -1), **options)

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the mean of the cross-entropies of start and end."""
        outputs = model(**{name: value for name, value in inputs.items() if name in self._names})
        return (outputs.loss, outputs) if return_outputs else outputs.loss


class ClassifierTrainer(CheckedTrainer):
    """Cross-entropy with class weights."""

    def __init__(self, *, class_weights: Tensor | None, **options: Any) -> None:
        super().__init__(preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1), **options)
        self.class_weights = class_weights

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return −Σ_i w_{y_i} log p_i(y_i) / Σ_i w_{y_i} over the rows or tokens i of a batch that have a class y_i."""
        labels = inputs["labels"]
        outputs = model(**{name: value for name, value in inputs.items() if name in self._names})
        weights = None if self.class_weights is None else self.class_weights.to(outputs.logits)
        if bool((labels == NO_CLASS).all()):
            # Of a few short texts no token may be hidden: such a batch teaches nothing, and its mean would be 0/0.
            loss = outputs.logits.sum() * 0
        else:
            loss = nn.functional.cross_entropy(outputs.logits.flatten(0, -2), labels.flatten(), weight=weights)
        return (loss, outputs) if return_outputs else loss


def _accepted_names(model: Any) -> set[str]:
    import inspect

    return set(inspect.signature(model.forward).parameters) - {"labels"}


class ShowProgress(TrainerCallback):  # type: ignore[misc]
    """Calls `progress` with the latest loss and the time left, and keeps the training curve."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.started = 0.0
        self.first_step = 0
        self.loss = ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self.started, self.first_step = time.monotonic(), state.global_step

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        """Keep the latest loss."""
        if logs and "loss" in logs:
            self.loss = f", loss {logs['loss']:.3f}"

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the step."""
        if self.progress is None:
            return
        done = state.global_step - self.first_step
        left = (time.monotonic() - self.started) / max(1, done) * (state.max_steps - state.global_step)
        minutes, seconds = divmod(round(left), 60)
        self.progress(f"training{self.loss}, {minutes}:{seconds:02d} left", state.global_step, state.max_steps)


class EpochStart(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Keeps the state of the random generator from which the order of an epoch's batches is drawn.

    The library resumes in the middle of an epoch with a new order, so that rows would be read twice and others never.
    """

    def __init__(self, restored: str = "") -> None:
        self.restored = restored
        """State at the start of the epoch in which a resumed run goes on."""
        self.start = ""

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Restore or keep the state."""
        if self.restored:
            torch.set_rng_state(torch.frombuffer(bytearray(b64decode(self.restored)), dtype=torch.uint8))
            self.restored = ""
        self.start = _generator_state()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores: the state at the start of the epoch, and at the checkpoint."""
        return {"args": {}, "attributes": {"start": self.start, "now": _generator_state()}}


def _generator_state() -> str:
    return b64encode(torch.get_rng_state().numpy().tobytes()).decode()


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; the state of the trainer is written last, so it marks completeness."""
    complete = [path for path in folder.glob("checkpoint-*") if _read_state(path) is not None]
    return max(complete, key=lambda path: int(path.name.partition("-")[2]), default=None)


def _read_state(checkpoint: Path) -> dict[str, Any] | None:
    """Return the state of the trainer; None if the process was killed before all of it was written."""
    try:
        state: dict[str, Any] = json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state


def prepare_to_resume(work: Path, options: Any, steps_per_epoch: int, patience: int | None) -> list[Any]:
    """Return the callbacks that stop early and keep the order of batches, in the state of the last checkpoint, if any.

    The library itself forgets how long training has gone without a better result. If that was long enough to stop,
    `options.max_steps` is set to the steps that were taken. It knows the checkpoint with the best weights by the path
    that the folder had when it was written, which is renewed here. Checkpoints that the run does not need any more, or
    that were not written or deleted completely, are removed.
    """
    stopping = None if patience is None else EarlyStoppingCallback(patience)
    order = EpochStart()
    callbacks = [order] if stopping is None else [order, stopping]
    start = last_checkpoint(work)
    state = None if start is None else _read_state(start)
    if start is None or state is None:
        return callbacks
    stored = {name: entry["attributes"] for name, entry in state["stateful_callbacks"].items()}
    if stopping is not None:
        counter = "early_stopping_patience_counter"
        stopping.early_stopping_patience_counter = stored[EarlyStoppingCallback.__name__][counter]
        if stopping.early_stopping_patience_counter >= stopping.early_stopping_patience:
            options.max_steps = state["global_step"]
    order.restored = stored[EpochStart.__name__]["start" if state["global_step"] % steps_per_epoch else "now"]
    best = work / f"checkpoint-{state['best_global_step']}"
    state["best_model_checkpoint"] = str(best) if best.is_dir() else None
    write_whole(start / TRAINER_STATE_NAME, json.dumps(state, indent=2, sort_keys=True) + "\n")
    for path in work.glob("checkpoint-*"):
        if path not in (start, best):
            shutil.rmtree(path, ignore_errors=True)
    return callbacks
