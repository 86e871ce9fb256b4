"""A training run that was stopped goes on as if it had not been; what it cannot go on from is refused by name."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import sightline as sl
from sightline.errors import InputError
from tests.lab.test_train import SMALL, InterruptedTestError, rows

pytestmark = pytest.mark.slow


def noisy_rows(count=96):
    """Rows of which three in ten have the wrong label, so that the validation loss soon rises again."""
    generator = random.Random(1)
    other = {"good": "bad", "bad": "good"}
    return [row | {"label": other[row["label"]]} if generator.random() < 0.3 else row for row in rows(count)]


STOPPED = {"epochs": 12, "patience": 1, **SMALL}
BETWEEN = {"epochs": 3, "evaluations": 3, "patience": None, **SMALL}
"""Six steps per epoch, a checkpoint after every second one."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    return {
        name: sl.lab.train(noisy_rows(), "new-bilstm", out=folder / name, **options)
        for name, options in (("stopped", STOPPED), ("between", BETWEEN))
    }


def assert_resumed_as(expected, out, **options):
    resumed = sl.lab.train(noisy_rows(), "new-bilstm", out=out, resume=True, **options)
    assert resumed.steps == expected.steps
    assert sl.load(resumed.folder).network.weights_hash == sl.load(expected.folder).network.weights_hash


def interrupt(out, step, **options):
    def stop(stage, done, total):
        if done == step:
            raise InterruptedTestError

    with pytest.raises(InterruptedTestError):
        sl.lab.train(noisy_rows(), "new-bilstm", out=out, progress=stop, **options)


@pytest.fixture(scope="module")
def after_three_steps(tmp_path_factory):
    """The working folder of a run that was interrupted after three steps; it holds one checkpoint."""
    out = tmp_path_factory.mktemp("interrupted") / "model"
    interrupt(out, 3, **BETWEEN)
    return out.with_name("model.training")


@pytest.fixture
def work(after_three_steps, tmp_path):
    """A copy of that folder, for a run into `tmp_path / "model"`."""
    return shutil.copytree(after_three_steps, tmp_path / "model.training")


@pytest.mark.parametrize("moved", [False, True], ids=["in place", "in a folder that was moved"])
def test_a_run_that_was_killed_after_stopping_early_does_not_go_on(moved, uninterrupted, tmp_path, monkeypatch):
    def fail(*arguments):
        raise InterruptedTestError

    expected = uninterrupted["stopped"]
    assert expected.steps < 72
    (tmp_path / "old").mkdir()
    monkeypatch.setattr(sys.modules["sightline.lab.train"], "write_model", fail)
    with pytest.raises(InterruptedTestError):
        sl.lab.train(noisy_rows(), "new-bilstm", out=tmp_path / "old" / "model", **STOPPED)
    monkeypatch.undo()
    if moved:
        (tmp_path / "old").rename(tmp_path / "new")
    assert_resumed_as(expected, tmp_path / ("new" if moved else "old") / "model", **STOPPED)


@pytest.mark.parametrize("step", [3, 9, 13])
def test_a_run_that_was_interrupted_within_an_epoch_reads_the_rest_of_its_rows(step, uninterrupted, tmp_path):
    interrupt(tmp_path / "model", step, **BETWEEN)
    assert_resumed_as(uninterrupted["between"], tmp_path / "model", **BETWEEN)


def test_a_run_with_its_own_rate_for_attention_and_amsgrad_resumes(uninterrupted, tmp_path):
    options = BETWEEN | {"attention_rate": 4.0, "amsgrad": True}
    whole = sl.lab.train(noisy_rows(), "new-bilstm", out=tmp_path / "whole", **options)
    plain = uninterrupted["between"]
    assert sl.load(whole.folder).network.weights_hash != sl.load(plain.folder).network.weights_hash
    interrupt(tmp_path / "model", 9, **options)
    assert_resumed_as(whole, tmp_path / "model", **options)


def test_a_checkpoint_that_was_written_or_deleted_in_part_is_not_used(uninterrupted, tmp_path):
    interrupt(tmp_path / "model", 9, **BETWEEN)
    work = tmp_path / "model.training"
    state = work / "checkpoint-8" / "trainer_state.json"
    state.write_text(state.read_text()[:100])
    (work / "checkpoint-1").mkdir()
    with pytest.warns(UserWarning, match=r"checkpoint-8' is damaged: 'trainer_state.json' is not as .* goes on from"):
        assert_resumed_as(uninterrupted["between"], tmp_path / "model", **BETWEEN)


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("optimizer.safetensors", Path.unlink, "is not complete: it has no file 'optimizer.safetensors'"),
        ("model.safetensors", lambda path: os.truncate(path, 500), "is damaged: 'model.safetensors' is not as it was"),
        ("progress.json", lambda path: path.write_text("{}"), "is damaged: 'progress.json' is not as it was written"),
        ("checkpoint.json", lambda path: path.write_text("[]"), "is damaged"),
    ],
)
def test_a_run_whose_only_checkpoint_is_damaged_is_not_resumed(name, damage, says, work, tmp_path):
    (checkpoint,) = work.glob("checkpoint-*")
    damage(checkpoint / name)
    with pytest.raises(InputError, match=f"{says}.* No other checkpoint is complete: delete"):
        sl.lab.train(noisy_rows(), "new-bilstm", out=tmp_path / "model", resume=True, **BETWEEN)


def forge(checkpoint):
    """Record the hashes of a checkpoint's files as they are now."""
    hashes = json.loads((checkpoint / "checkpoint.json").read_text())
    hashes = {name: hashlib.blake2b((checkpoint / name).read_bytes()).hexdigest() for name in hashes}
    (checkpoint / "checkpoint.json").write_text(json.dumps(hashes))


def change_state(checkpoint, **values):
    path = checkpoint / "trainer_state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def move_position(checkpoint):
    progress = json.loads((checkpoint / "progress.json").read_text())
    progress["numpy"][2] = 10**6
    (checkpoint / "progress.json").write_text(json.dumps(progress))


def drop_tensor(path):
    tensors = load_file(path)
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, path)


@pytest.mark.parametrize(
    "change",
    [
        lambda checkpoint: drop_tensor(checkpoint / "model.safetensors"),
        lambda checkpoint: drop_tensor(checkpoint / "optimizer.safetensors"),
        lambda checkpoint: change_state(checkpoint, logging_steps=0),
        lambda checkpoint: change_state(checkpoint, log_history=[{"loss": "high"}]),
        lambda checkpoint: change_state(checkpoint, best_metric="good", best_global_step=2),
        lambda checkpoint: change_state(checkpoint, stateful_callbacks={}),
        move_position,
    ],
    ids=["weights", "optimizer", "steps", "history", "metric", "callbacks", "generator"],
)
def test_files_of_a_checkpoint_that_do_not_fit_are_refused_although_their_hashes_are_right(change, work, tmp_path):
    (checkpoint,) = work.glob("checkpoint-*")
    change(checkpoint)
    forge(checkpoint)
    with pytest.raises(InputError, match=r"is damaged: .* not fit this run"):
        sl.lab.train(noisy_rows(), "new-bilstm", out=tmp_path / "model", resume=True, **BETWEEN)
    assert not (tmp_path / "model").exists()


def test_what_others_put_beside_checkpoints_is_neither_read_nor_deleted(uninterrupted, work, tmp_path):
    planted = [work / "checkpoint-2" / name for name in ("pytorch_model.bin", "optimizer.pt", "scaler.pt")]
    (work / "checkpoint-abc").mkdir()
    planted.append(work / "checkpoint-abc" / "notes.txt")
    for path in planted:
        path.write_text("no pickle")
    assert_resumed_as(uninterrupted["between"], tmp_path / "model", **BETWEEN)
    assert all(path.read_text() == "no pickle" for path in planted)


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00"])
def test_a_damaged_description_of_a_run_is_named(content, work, tmp_path):
    (work / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run.json' is damaged"):
        sl.lab.train(noisy_rows(), "new-bilstm", out=tmp_path / "model", resume=True, **BETWEEN)


def test_checkpoints_hold_no_pickles(work):
    written = {path.suffix for path in work.rglob("*") if path.is_file()}
    assert written == {".json", ".safetensors"}


def test_a_checkpoint_that_was_being_deleted_is_passed_over(uninterrupted, work, tmp_path):
    (checkpoint,) = work.glob("checkpoint-*")
    (checkpoint / "checkpoint.json").unlink()
    assert_resumed_as(uninterrupted["between"], tmp_path / "model", **BETWEEN)
