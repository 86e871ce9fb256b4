"""The Trainer of transformers with class weights, a stop at NaN, progress, and resumption with identical results.

Everything else (AdamW, warm-up, accumulation, devices through accelerate) is the library's own.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from sightline.errors import InputError, SightlineError
from sightline.lab.checkpoints import (
    checkpoint_folder,
    clear_way,
    find_checkpoint,
    restore_generators,
    restore_optimizer,
    restore_weights,
    write_checkpoint,
)
from sightline.lab.training_tasks import NO_CLASS
from sightline.models.single_attention import SingleAttentionConfig
from sightline.progress import Progress


class DivergedError(SightlineError):
    """Training produced a loss that is not a finite number."""


class CheckedTrainer(Trainer):  # type: ignore[misc]
    """The library's Trainer, which stops at the first loss that is not finite."""

    def __init__(self, *, amsgrad: bool = False, attention_rate: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.amsgrad, self.attention_rate = amsgrad, attention_rate
        # The losses here are means over a batch, so accumulated gradients have to be divided by the number of batches.
        self.model_accepts_loss_kwargs = False
        self._names = _accepted_names(self.model)

    def create_optimizer(self, *arguments: Any, **options: Any) -> Any:
        """Return AdamW; a single attention is a group of its own, without weight decay (Meister et al. 2021)."""
        optimizer = super().create_optimizer(*arguments, **options)
        is_single = isinstance(self.model.config, SingleAttentionConfig)
        attention = list(self.model.model.attention.parameters()) if is_single else []
        for group in optimizer.param_groups:
            group["amsgrad"] = self.amsgrad
            group["params"] = [parameter for parameter in group["params"] if not any(parameter is a for a in attention)]
        if attention:
            rate = self.args.learning_rate * self.attention_rate
            own = {"params": attention, "lr": rate, "weight_decay": 0.0, "amsgrad": self.amsgrad}
            optimizer.add_param_group(own)
        return optimizer

    def training_step(self, *arguments: Any, **options: Any) -> Tensor:
        """Run one step; raise DivergedError at a loss that is not finite."""
        loss: Tensor = super().training_step(*arguments, **options)
        if not bool(torch.isfinite(loss)):
            raise DivergedError(f"The loss of step {self.state.global_step + 1} is {float(loss)}.")
        return loss

    # The library's own checkpoints are pickles, appear file by file, and are rotated by deleting everything named
    # checkpoint-*. The following methods replace them.

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        for callback in [*self.callback_handler.callbacks, self.control]:
            if isinstance(callback, ExportableState):
                self.state.stateful_callbacks[type(callback).__name__] = callback.state()
        write_checkpoint(Path(self.args.output_dir), self)

    def _load_from_checkpoint(self, checkpoint: str, model: Any = None) -> None:
        restore_weights(Path(checkpoint), self.model)

    def _load_best_model(self) -> None:
        restore_weights(Path(self.state.best_model_checkpoint), self.model)

    def _load_scaler(self, checkpoint: str | None) -> None:
        pass  # nothing is scaled here

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            restore_optimizer(Path(checkpoint), self.optimizer, self.lr_scheduler)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            restore_generators(Path(checkpoint))


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
            # A few short texts may have no hidden token: such a batch teaches nothing, and its mean would be 0/0.
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

    The library resumes in the middle of an epoch with a new order, so that some rows would be read twice, others never.
    """

    def __init__(self, restored: str = "") -> None:
        self.restored = restored
        """State at the start of the epoch in which a resumed run continues."""
        self.start = ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Update the path of the best weights, which may have moved since the checkpoint was written."""
        best = state.best_global_step
        state.best_model_checkpoint = None if best is None else str(checkpoint_folder(Path(args.output_dir), best))

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Restore or keep the state."""
        if self.restored:
            torch.set_rng_state(_decode(self.restored))
            self.restored = ""
        self.start = _generator_state()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores: the state at the start of the epoch, and at the checkpoint."""
        return {"args": {}, "attributes": {"start": self.start, "now": _generator_state()}}


def _generator_state() -> str:
    return b64encode(torch.get_rng_state().numpy().tobytes()).decode()


def _decode(state: str) -> Tensor:
    return torch.frombuffer(bytearray(b64decode(state, validate=True)), dtype=torch.uint8)


def prepare_to_resume(
    work: Path, options: Any, steps_per_epoch: int, patience: int | None
) -> tuple[Path | None, list[Any]]:
    """Return the last checkpoint, if any, and in its state the callbacks that stop early and keep the order of batches.

    The library does not store how long training has gone without improvement. If that was long enough to stop,
    `options.max_steps` is set to the steps taken. Checkpoints that the run no longer needs are removed.
    """
    stopping = None if patience is None else EarlyStoppingCallback(patience)
    order = EpochStart()
    callbacks = [order] if stopping is None else [order, stopping]
    found = find_checkpoint(work)
    if found is None:
        clear_way(work)
        return None, callbacks
    start, state = found
    step = state["global_step"]
    try:
        if not 1 <= step <= options.max_steps:
            raise ValueError("global_step")
        if any(state[name] != getattr(options, name) for name in ("logging_steps", "eval_steps", "save_steps")):
            raise ValueError("steps")
        stored = {name: entry["attributes"] for name, entry in state["stateful_callbacks"].items()}
        if stopping is not None:
            waited = stored[EarlyStoppingCallback.__name__]["early_stopping_patience_counter"]
            if type(waited) is not int or waited < 0:
                raise ValueError("early_stopping_patience_counter")
            stopping.early_stopping_patience_counter = waited
            if stopping.early_stopping_patience_counter >= stopping.early_stopping_patience:
                options.max_steps = step
        order.restored = stored[EpochStart.__name__]["start" if step % steps_per_epoch else "now"]
        torch.Generator().set_state(_decode(order.restored))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError):
        raise InputError(
            f"The checkpoint '{start}' is damaged: '{TRAINER_STATE_NAME}' does not fit this run."
        ) from None
    clear_way(work, start, checkpoint_folder(work, state["best_global_step"] or step))
    return start, callbacks
