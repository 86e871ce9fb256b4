"""Training folders: the checkpoints of a stopped run, damaged with and without right hashes, with planted pickles."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file

import sightline as sl
from tests.fuzz.model_files import Canary, damage_header, damage_tensors, link_elsewhere, read_or_none
from tests.fuzz.mutations import damage_bytes, damage_json, odd_value

_ROWS = [{"text": f"the {('bad', 'good')[i % 2]} mill {i}", "label": ("bad", "good")[i % 2]} for i in range(12)]
_OPTIONS: dict[str, Any] = {
    "epochs": 3,
    "batch": 4,
    "validation": 0.25,
    "sizes": {"embedding_size": 4, "hidden_size": 4},
    "patience": 2,
}
_JSON = ("run.json", "trainer_state.json", "trainer_state.json", "progress.json", "progress.json", "checkpoint.json")
_TENSORS = ("model.safetensors", "optimizer.safetensors")
_PICKLES = (
    "pytorch_model.bin",
    "optimizer.pt",
    "scheduler.pt",
    "scaler.pt",
    "rng_state.pth",
    "training_args.bin",
    "adapter_model.bin",
)


class _StoppedError(Exception):
    pass


class TrainingFolders:
    """`sl.lab.train(…, resume=True)`."""

    def prepare(self, workspace: Path) -> None:
        self.out = workspace / "model"
        self.work = workspace / "model.training"
        self.stopped = workspace / "stopped"

        def stop(stage: str, done: int, total: int) -> None:
            if done == 5:
                raise _StoppedError

        try:
            sl.lab.train(_ROWS, "new-bilstm", out=self.out, progress=stop, **_OPTIONS)
        except _StoppedError:
            self.work.rename(self.stopped)
        assert len(list(self.stopped.glob("checkpoint-*"))) == 2
        shutil.copytree(self.stopped, self.work)
        self.expected = self._resume()
        gc.freeze()  # the library collects garbage after every training, which takes longer than the training itself

    def build(self, random: Random, folder: Path, canary: Path) -> object:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.copytree(self.stopped, self.work)
        checkpoints = sorted(self.work.glob("checkpoint-*"))
        for _ in range(random.randint(1, 2)):
            damage = random.choices(
                (_change_json, _change_tensors, _change_bytes, _remove, _link, _plant, _renumber),
                weights=(10, 6, 3, 2, 2, 2, 1),
            )[0]
            damage(random, self.work, random.choice(checkpoints), canary)
        forged = random.random() < 0.7
        if forged:
            for checkpoint in self.work.glob("checkpoint-*"):
                _write_hashes(checkpoint)
        return forged

    def open(self, case: object, folder: Path) -> str:
        try:
            weights = self._resume()
        except sl.SightlineError:
            assert not self.out.exists(), "a model was written nevertheless"
            assert not list(self.work.parent.rglob("*.part")), "temporary files are left"
            raise
        assert all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()), "weights are not finite"
        if not case:
            assert weights.keys() == self.expected.keys()
            assert all(torch.equal(weights[name], value) for name, value in self.expected.items()), "another result"
        return "resumed"

    def _resume(self) -> dict[str, torch.Tensor]:
        sl.lab.train(_ROWS, "new-bilstm", out=self.out, resume=True, **_OPTIONS)
        return load_file(self.out / "model.safetensors")


def _file(work: Path, checkpoint: Path, name: str) -> Path:
    return (work if name == "run.json" else checkpoint) / name


def _change_json(random: Random, work: Path, checkpoint: Path, canary: Path) -> None:
    path = _file(work, checkpoint, random.choice(_JSON))
    content = read_or_none(path)
    if content is None:
        return
    if path.name == "progress.json" and random.random() < 0.3 and isinstance(content, dict):
        state = content.get(random.choice(("numpy", "python", "_last_lr")))
        if isinstance(state, list) and state:
            state[random.randrange(len(state))] = odd_value(random)
        path.write_text(json.dumps(content))
    else:
        path.write_bytes(damage_json(random, content))


def _change_tensors(random: Random, work: Path, checkpoint: Path, canary: Path) -> None:
    path = checkpoint / random.choice(_TENSORS)
    if path.is_file():  # an earlier round of the same case may have put a pipe there
        random.choice((damage_tensors, damage_tensors, damage_header))(random, path)


def _change_bytes(random: Random, work: Path, checkpoint: Path, canary: Path) -> None:
    path = _file(work, checkpoint, random.choice((*_JSON, *_TENSORS)))
    if path.is_file() and not path.is_symlink():
        path.write_bytes(damage_bytes(random, path.read_bytes()))


def _remove(random: Random, work: Path, checkpoint: Path, canary: Path) -> None:
    _file(work, checkpoint, random.choice((*_JSON, *_TENSORS))).unlink(missing_ok=True)


def _link(random: Random, work: Path, checkpoint: Path, canary: Path) -> None:
    path = _file(work, checkpoint, random.choice((*_JSON, *_TENSORS)))
    if random.random() < 0.3:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    else:
        link_elsewhere(random, path)


def _plant(random: Random, work: Path, checkpoint: Path, canary: Path) -> None:
    """Plant pickles that create the canary, or entries that are called almost like checkpoints."""
    if random.random() < 0.6:
        for name in _PICKLES:
            (checkpoint / name).write_bytes(pickle.dumps(Canary(str(canary))))
        return
    name = random.choice(("checkpoint-abc", "checkpoint-", "checkpoint-0", "checkpoint--1", "checkpoint-99", "notes"))
    action = random.randrange(3)
    if action == 0:
        (work / name).mkdir(exist_ok=True)
    elif action == 1:
        (work / f"{name}9").write_text("mine")
    elif not (work / name).exists():
        (work / name).symlink_to(random.choice(("/etc", str(checkpoint), "/nowhere")))


def _renumber(random: Random, work: Path, checkpoint: Path, canary: Path) -> None:
    """Copy a checkpoint to another step, which its state may name or not."""
    step = random.choice((0, 1, 3, 5, 6, 7, 100, 10**9, 10**17))
    target = work / f"checkpoint-{step}"
    if target.exists() or any(not path.is_file() for path in checkpoint.iterdir()):
        return
    shutil.copytree(checkpoint, target, symlinks=True)
    state = read_or_none(target / "trainer_state.json")
    if isinstance(state, dict) and random.random() < 0.7:
        (target / "trainer_state.json").write_text(json.dumps({**state, "global_step": step}))


def _write_hashes(checkpoint: Path) -> None:
    """Record the hashes of the damaged files, as a stranger would."""
    hashes = read_or_none(checkpoint / "checkpoint.json")
    if not isinstance(hashes, dict):
        return
    for name in set(hashes).intersection((*_JSON, *_TENSORS)):
        path = checkpoint / name
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                hashes[name] = hashlib.file_digest(file, "blake2b").hexdigest()
    (checkpoint / "checkpoint.json").write_text(json.dumps(hashes))
