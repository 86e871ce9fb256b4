"""The Trainer of transformers with class weights, a stop at NaN, progress, and complete checkpoints.

Everything else (AdamW, warm-up, accumulation, mixed devices through accelerate, the order of batches after a resumed
run) is the library's own.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback

from sightline.errors import SightlineError
from sightline.lab.training_tasks import NO_CLASS
from sightline.progress import Progress


class DivergedError(SightlineError):
    """Training produced a loss that is not a finite number."""


class ClassifierTrainer(Trainer):  # type: ignore[misc]
    """Cross-entropy with class weights, stopped by the first loss that is not finite."""

    def __init__(self, *, class_weights: Tensor | None, **options: Any) -> None:
        super().__init__(preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1), **options)
        self.class_weights = class_weights
        self._names = _accepted_names(self.model)

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

    def training_step(self, *arguments: Any, **options: Any) -> Tensor:
        """Run one step; raise DivergedError at a loss that is not finite."""
        loss: Tensor = super().training_step(*arguments, **options)
        if not bool(torch.isfinite(loss)):
            raise DivergedError(f"The loss of step {self.state.global_step + 1} is {float(loss)}.")
        return loss


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


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; the state of the trainer is written last, so it marks completeness."""
    complete = [path for path in folder.glob("checkpoint-*") if (path / "trainer_state.json").is_file()]
    return max(complete, key=lambda path: int(path.name.partition("-")[2]), default=None)
