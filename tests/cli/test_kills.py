"""Killed at random moments, no command leaves a half-written file, and a repeated one ends with the same result.

Runs over a corpus are killed in `tests/corpus/test_processes.py`, together with their workers. SIGHTLINE_TEST_KILLS is
the number of kills per command.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import random
import shutil
import signal
import time
import warnings
from pathlib import Path

import pandas as pd
import pytest
from pyarrow import parquet

import sightline as sl
from sightline.files.writing import is_part

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("forkserver" not in mp.get_all_start_methods(), reason="processes are started by a fork server"),
]

KILLS = int(os.environ.get("SIGHTLINE_TEST_KILLS", "4"))
ROWS = [{"text": f"The {('good', 'bad')[n % 2]} mill {n} is old.", "label": ("AI", "PL")[n % 2]} for n in range(24)]
COMMANDS = {
    "train": ["train", "rows.jsonl", "--model", "new-bilstm", "--epochs", "4", "--batch", "4", "--out", "out"],
    "study": ["study", "flow", "--size", "tiny", "--documents", "2", "--workers", "1", "--out", "out"],
    "evaluate": [
        "evaluate",
        "rows.jsonl",
        "--model",
        "MODEL",
        "--methods",
        "attcat",
        "--metrics",
        "entropy",
        "-o",
        "out",
    ],
    "convert": ["convert", "MODEL", "--positions", "256", "--window", "16", "--out", "out"],
}
TIMED = (
    "training.json",
    "evaluation.json",
    "records.",
    "overview",
    "metric_",
    "summary.",
    "index.html",
    "README.md",
    "provenance",
)
"""How the names of files begin that say how long something took: they are read instead of compared."""


def run_command(arguments: list[str], folder: Path) -> None:
    """Run the command line in this process, which a fork server started with everything imported."""
    import torch

    from sightline.cli.app import app

    os.chdir(folder)
    torch.set_num_threads(1)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    app(arguments)


def start(arguments: list[str], folder: Path) -> mp.process.BaseProcess:
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["sightline.cli.app", "sightline.evaluation", "sightline.lab.trainer"])
    process = context.Process(target=run_command, args=(arguments, folder))
    process.start()
    return process


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by name, except temporary ones, locks and checkpoints of training runs."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folder): path for path in paths}
    return {
        name.as_posix(): path.read_bytes()
        for name, path in names.items()
        if not any(is_part(part) or part.endswith(".training") for part in name.parts)
        and not path.name.endswith(".lock")
    }


def count_files(folder: Path) -> int:
    """Return how many files and folders there are; folders may be renamed meanwhile, which `rglob` does not bear."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def assert_complete(folder: Path, expected: dict[str, bytes]) -> None:
    """Assert that every file under a final name is as an undisturbed command writes it."""
    for name, content in files_in(folder).items():
        place = Path(name)
        if place.name == ".sightline.json":
            assert set(json.loads(content)["files"]) <= set(json.loads(expected[name])["files"])
        elif not place.name.startswith(TIMED):
            assert content == expected[name], f"{name} is not as an undisturbed command writes it"
        elif place.suffix == ".json":
            assert json.loads(content).keys() == json.loads(expected[name]).keys()
        elif place.suffix == ".parquet":
            assert parquet.ParquetFile(folder / name).schema_arrow.names
        else:
            assert content.endswith((b"</html>\n",) if place.suffix == ".html" else b"\n"), f"{name} is cut off"


def assert_equal_evaluations(first: Path, second: Path) -> None:
    frames = [sl.Evaluation.load(folder).to_frame().drop(columns="seconds") for folder in (first, second)]
    pd.testing.assert_frame_equal(*frames)


def assert_checkpoints_complete(work: Path) -> None:
    """Assert that the newest checkpoint of a training run, if there is any, can be used."""
    from sightline.lab.checkpoints import find_checkpoint

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_checkpoint(work)


@pytest.fixture
def work(tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_leaves_whole_files_and_ends_with_the_same_result(name, work, good_model):
    arguments = [str(good_model) if part == "MODEL" else part for part in COMMANDS[name]]
    out, training = work / "out", work / "out.training"
    began = time.monotonic()
    process = start(arguments, work)
    process.join()
    assert process.exitcode == 0
    seconds = time.monotonic() - began
    expected = files_in(out)
    out.rename(work / "undisturbed")
    seed = int(time.time())
    print(f"seed {seed}")  # noqa: T201  # shown if the test fails
    generator = random.Random(seed)
    kills = ends = 0
    while kills < KILLS and ends < 10 * KILLS:
        resume = ["--resume"] if training.exists() else []
        process = start([*arguments, *resume], work)
        if generator.random() < 0.5:
            process.join(generator.uniform(0, seconds))
        else:  # right after one of its files has appeared
            awaited = generator.randrange(len(expected) + 1)
            while process.is_alive() and count_files(work) - len(expected) < awaited:
                time.sleep(0.001)
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        kills += process.exitcode != 0
        ends += process.exitcode == 0
        assert_complete(out, expected)
        for checkpoints in work.rglob("*.training"):
            assert_checkpoints_complete(checkpoints)
        if process.exitcode == 0 or (name in ("train", "convert") and any(out.glob("*"))):
            assert files_in(out).keys() == expected.keys()
            shutil.rmtree(out)
            shutil.rmtree(training, ignore_errors=True)
    process = start([*arguments, *(["--resume"] if training.exists() else [])], work)
    process.join()
    assert process.exitcode == 0
    assert files_in(out).keys() == expected.keys()
    assert_complete(out, expected)
    if name == "evaluate":
        assert_equal_evaluations(out, work / "undisturbed")
    assert not list(work.rglob("*.training"))
    assert kills == KILLS
