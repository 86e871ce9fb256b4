"""Model folders that appear complete (`write_model`), and checkpoints of a training run, which hold everything needed
to resume as if it had never been stopped, without pickles.

    OUT.training/run.json            model, data and settings; it marks the folder as Sightline's own
    OUT.training/checkpoint-STEP/
        model.safetensors            the weights
        optimizer.safetensors        the optimizer's averages, and the states of torch's random generators
        progress.json                the learning rate, and the states of the other random generators
        trainer_state.json           the state of the library's Trainer
        checkpoint.json              the hashes of these files

A checkpoint appears in one step. It is used only if its files are those that were written; if some are missing or
damaged, training resumes from an earlier checkpoint with a warning, or raises an error. Only files of these names are
ever deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model
from transformers import logging as library_logging
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import TrainerState

from sightline.errors import InputError, UsageError
from sightline.files.foreign import quote, read_json
from sightline.files.ownership import foreign_names, not_empty, remove_own_file
from sightline.files.writing import check_writable, new_folder, remove_parts, write_whole
from sightline.results.records import LARGEST_WHOLE, JsonObject, Listed, Record, Whole

_TORCH_WRITER = ("inline_container", "PytorchStreamWriter")
"""Parts of torch's native code that write files, as its errors name them."""


def check_new_folder(out: str | Path, suffix: str = "") -> Path:
    """Return the folder to write to; raise UsageError if it is not empty, or if it cannot be written.

    suffix: ending of a folder that is written beside it under the same name.
    """
    folder = Path(out).expanduser()
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or foreign_names(folder)):
        held = f" ('{quote(foreign_names(folder)[0])}')" if folder.is_dir() and foreign_names(folder) else ""
        raise UsageError(f"'{out}' exists and is not an empty folder{held}. Name a new one for the model.")
    written = folder.with_name(f"{folder.name}{suffix}")
    check_writable(written.with_name(".part") if _is_folder(written) else written)
    return folder


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long, which is reported when the folder is created
        return False


def write_model(module: Any, tokenizer: Any, folder: Path, texts: Mapping[str, str] | None = None) -> None:
    """Write model, tokenizer and further texts by file name under a temporary name, then rename the folder."""
    try:
        with new_folder(folder) as part:
            with quiet_bars():
                module.save_pretrained(part)
                if tokenizer is not None:
                    tokenizer.save_pretrained(part)
            for name, text in (texts or {}).items():
                (part / name).write_text(text, encoding="utf-8")
    except (OSError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"Cannot write '{folder}': {writing_failure(error)}.") from error


def writing_failure(error: Exception) -> str:
    """Return why files of a model could not be written; raise the error again if it is about something else.

    torch and safetensors write in native code and do not raise OSError when a disk is full.
    """
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    if isinstance(error, SafetensorError) or any(sign in str(error) for sign in _TORCH_WRITER):
        return "a file could not be written completely; the disk may be full"
    raise error


@contextmanager
def quiet_bars() -> Iterator[None]:
    """Switch the library's progress bars off inside the block."""
    shown = library_logging.is_progress_bar_enabled()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            library_logging.enable_progress_bar()


RUN = "run.json"
WEIGHTS, OPTIMIZER, PROGRESS, HASHES = "model.safetensors", "optimizer.safetensors", "progress.json", "checkpoint.json"
_HASHED = (WEIGHTS, OPTIMIZER, PROGRESS, TRAINER_STATE_NAME)
_FILES = (HASHES, *_HASHED)
"""In the order of deletion: a folder without hashes does not count as a checkpoint."""
_SCHEDULE = ("last_epoch", "_step_count", "_last_lr")
"""The variable part of a learning rate scheduler's state."""
_LARGEST_JSON = 200_000_000
_AVERAGES = frozenset({"step", "exp_avg", "exp_avg_sq"})
"""What AdamW stores per parameter."""
_DAMAGED = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    RuntimeError,
    OverflowError,
    OSError,
    SafetensorError,
)
"""Exceptions that values of the wrong kind raise where they are used."""
_STATE_FIELDS = {field.name for field in fields(TrainerState)}
_Steps = Annotated[int, Field(ge=1, le=LARGEST_WHOLE)]


class _State(Record):
    """The Trainer's state, which the library uses as it is; the last five fields never change here."""

    model_config = ConfigDict(extra="allow")

    global_step: Whole
    max_steps: Whole
    num_train_epochs: Whole
    num_input_tokens_seen: Whole
    train_batch_size: Whole
    logging_steps: _Steps
    eval_steps: _Steps
    save_steps: _Steps
    epoch: float
    total_flos: float
    best_global_step: _Steps | None
    best_metric: float | None
    best_model_checkpoint: str | None
    log_history: Listed[dict[str, float]]
    stateful_callbacks: JsonObject
    is_local_process_zero: Literal[True]
    is_world_process_zero: Literal[True]
    is_hyper_param_search: Literal[False]
    trial_name: None
    trial_params: None


class _Progress(Record):
    """The learning rate, and the states of the random generators besides torch's."""

    last_epoch: Whole
    step_count: Whole = Field(alias="_step_count")
    last_lr: Listed[float] = Field(alias="_last_lr")
    python: tuple[int, Listed[Whole], float | None]
    numpy: tuple[str, Listed[Whole], Whole, Literal[0, 1], float]


def checkpoint_folder(work: Path, step: int) -> Path:
    """Return the folder of the checkpoint after a step."""
    return work / f"checkpoint-{step}"


def write_checkpoint(work: Path, trainer: Any) -> None:
    """Write a checkpoint of the Trainer, completely or not at all; remove those that are no longer needed."""
    state: TrainerState = trainer.state
    best = state.best_global_step or state.global_step
    state.best_model_checkpoint = str(checkpoint_folder(work, best))
    with new_folder(checkpoint_folder(work, state.global_step)) as folder:
        save_model(trainer.model, str(folder / WEIGHTS), metadata={"format": "pt"})
        averages = {
            f"{number}.{name}": value.detach().cpu().contiguous()
            for number, values in trainer.optimizer.state_dict()["state"].items()
            for name, value in values.items()
        }
        save_file(averages | _torch_generators(), folder / OPTIMIZER)
        schedule = trainer.lr_scheduler.state_dict()
        progress = {name: schedule[name] for name in _SCHEDULE} | _other_generators()
        write_whole(folder / PROGRESS, json.dumps(progress) + "\n")
        state.save_to_json(str(folder / TRAINER_STATE_NAME))
        hashes = {name: _hash(folder / name) for name in _HASHED}
        write_whole(folder / HASHES, json.dumps(hashes, indent=1) + "\n")
    earlier = sorted(step for step in _steps(work) if step not in (state.global_step, best))
    # Two are kept, so that training can resume if one is damaged.
    for step in earlier[:-1] if best == state.global_step else earlier:
        remove_checkpoint(work, step)


def find_checkpoint(work: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the newest complete checkpoint, and the state of its Trainer; None if none was written.

    A checkpoint also needs the one with the best weights so far. Raises InputError if all of them are damaged.
    """
    damage: list[InputError] = []
    for step in sorted(_steps(work), reverse=True):
        folder = checkpoint_folder(work, step)
        try:
            _verify(folder)
            state = _read_state(folder, step)
            if state["best_global_step"] not in (None, step):
                _verify(checkpoint_folder(work, state["best_global_step"]))
        except InputError as error:
            if (folder / HASHES).exists():  # written last and deleted first
                damage.append(error)
            continue
        if damage:
            warnings.warn(f"{damage[0]} Training goes on from '{folder}'.", stacklevel=2)
        return folder, state
    if damage:
        raise InputError(f"{damage[0]} No other checkpoint is complete: delete '{work}' and train again.")
    return None


def restore_weights(folder: Path, module: torch.nn.Module) -> None:
    """Load the weights of a checkpoint into a module."""
    with _fitting(folder):
        load_model(module, folder / WEIGHTS)
        if not all(bool(torch.isfinite(parameter).all()) for parameter in module.parameters()):
            raise ValueError("weights that are not finite")


def restore_optimizer(folder: Path, optimizer: Any, scheduler: Any) -> None:
    """Restore the states of optimizer and learning rate scheduler from a checkpoint."""
    with _fitting(folder):
        content = _read(folder / PROGRESS)
        progress = _Progress.read(content)
        shapes = [parameter.shape for group in optimizer.param_groups for parameter in group["params"]]
        averages: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in load_file(folder / OPTIMIZER).items():
            number, _, name = key.partition(".")
            if number != _RANDOM:
                if value.shape != (() if name == "step" else shapes[int(number)]) or not value.is_floating_point():
                    raise ValueError(key)
                averages.setdefault(int(number), {})[name] = value.float() if name == "step" else value
        wanted = _AVERAGES | {"max_exp_avg_sq"} if optimizer.param_groups[0]["amsgrad"] else _AVERAGES
        if any(frozenset(names) != wanted for names in averages.values()):
            raise ValueError("a parameter without averages")
        stored = optimizer.state_dict()
        for group, rate in zip(stored["param_groups"], progress.last_lr, strict=True):
            group["lr"] = rate
        optimizer.load_state_dict({**stored, "state": averages})
        scheduler.load_state_dict(scheduler.state_dict() | {name: content[name] for name in _SCHEDULE})


def restore_generators(folder: Path) -> None:
    """Restore the states of all random generators from a checkpoint."""
    with _fitting(folder):
        tensors, progress = load_file(folder / OPTIMIZER), _Progress.read(_read(folder / PROGRESS))
        version, words, gauss = progress.python
        random.setstate((version, tuple(words), gauss))
        kind, keys, position, has_gauss, cached = progress.numpy
        if position > len(keys):  # numpy does not check this, and would read out of bounds
            raise ValueError("numpy")
        state = (kind, np.array(keys, np.uint32), position, has_gauss, cached)
        np.random.set_state(state)  # noqa: NPY002 (the library draws from it)
        torch.set_rng_state(tensors[f"{_RANDOM}.cpu"])
        if torch.cuda.is_available() and f"{_RANDOM}.cuda" in tensors:
            torch.cuda.set_rng_state(tensors[f"{_RANDOM}.cuda"])


def remove_checkpoint(work: Path, step: int) -> None:
    """Delete the files of a checkpoint, and its folder if nothing else is in it."""
    folder = checkpoint_folder(work, step)
    for name in _FILES:
        remove_own_file(work, f"{folder.name}/{name}")
    with suppress(OSError):
        folder.rmdir()


def clear_way(work: Path, *kept: Path) -> None:
    """Delete all checkpoints but `kept`; raise UsageError if foreign files block the folder of a later one."""
    for step in _steps(work):
        folder = checkpoint_folder(work, step)
        if folder not in kept:
            remove_checkpoint(work, step)
            if names := foreign_names(folder):
                raise UsageError(f"{not_empty(folder, names)}. Move it out of the way and resume again.")


def check_work_folder(work: Path, *, resume: bool) -> None:
    """Raise UsageError unless there is a run to resume or, for a new run, nothing in the way."""
    if work.is_symlink():
        raise UsageError(f"'{work}' is a link, through which Sightline does not write. Remove it.")
    described = (work / RUN).is_file() and not (work / RUN).is_symlink()
    if resume and not described:
        raise UsageError(f"There is no run to resume in '{work}'. Leave resume out to start one.")
    if not resume and described:
        raise UsageError(f"'{work}' holds checkpoints of an earlier run. Resume it (resume, --resume), or delete it.")
    if not resume and work.exists():
        names = foreign_names(work) if work.is_dir() else [work.name]
        if names:
            raise UsageError(f"{not_empty(work, names)}. Checkpoints would be written there: move it out of the way.")


def remove_work_folder(work: Path) -> None:
    """Delete the checkpoints and the description of a run, and the folder if nothing else is in it."""
    for step in _steps(work):
        remove_checkpoint(work, step)
    remove_own_file(work, RUN)
    remove_parts(work)
    with suppress(OSError):
        work.rmdir()


_RANDOM = "random"


def _torch_generators() -> dict[str, torch.Tensor]:
    states = {f"{_RANDOM}.cpu": torch.get_rng_state()}
    return states | {f"{_RANDOM}.cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else states


def _other_generators() -> dict[str, Any]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 (the library draws from it)
    return {"python": random.getstate(), "numpy": [kind, np.asarray(keys).tolist(), *rest]}


def _steps(work: Path) -> list[int]:
    """Return the steps of the folders that are named like checkpoints; links are ignored."""
    try:
        entries = [path for path in work.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []
    matches = (re.fullmatch(r"checkpoint-(0|[1-9][0-9]{0,17})", path.name) for path in entries)
    return [int(match[1]) for match in matches if match is not None]


def _verify(folder: Path) -> None:
    """Raise InputError if a file of the checkpoint is missing or not as it was written."""
    for name in _FILES:
        if (folder / name).is_symlink() or not (folder / name).is_file():
            raise InputError(f"The checkpoint '{folder}' is not complete: it has no file '{name}'.")
    hashes = _read(folder / HASHES)
    for name in _HASHED:
        if not isinstance(hashes, dict) or hashes.get(name) != _hash(folder / name):
            raise InputError(f"The checkpoint '{folder}' is damaged: '{name}' is not as it was written.")


def _read_state(folder: Path, step: int) -> dict[str, Any]:
    """Return the state of the Trainer, after checking every field: the library uses them as they are."""
    with _fitting(folder):
        state: dict[str, Any] = _read(folder / TRAINER_STATE_NAME)
        best = _State.read(state).best_global_step
        if state["global_step"] != step or (best or step) > step or set(state) != _STATE_FIELDS:
            raise ValueError(TRAINER_STATE_NAME)
    return state


def _read(path: Path) -> Any:
    return read_json(path, limit=_LARGEST_JSON, error=InputError, name=f"'{path}' is damaged and")


@contextmanager
def _fitting(folder: Path) -> Iterator[None]:
    """Raise InputError for any exception that wrong values in a checkpoint cause."""
    try:
        yield
    except _DAMAGED as error:
        raise InputError(f"The checkpoint '{folder}' is damaged: its files do not fit this run.") from error


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
