"""No command overwrites or deletes a file that it did not write, whatever is in the folder that it is given.

Every command that fills a folder runs into folders with planted files, links and read-only entries, foreign ones and
ones that it wrote itself before. What was planted is the same afterwards, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path

import pytest

import sightline as sl
from sightline.files.ownership import RECORD

ROWS = [{"text": f"The {word} mill is old.", "label": ("AI", "PL")[n % 2]} for n, word in enumerate("abcdefgh")]
OLD_PART = ".sightline-0123456789ab.part"
PLANTS = (
    "index.html",
    "manifest.json",
    "run.json",
    "texts/mine.parquet",
    "plan/rows/x.parquet",
    "plan/rows/000009.parquet",
    "attempts/essay.txt",
    "documents/0.html",
    "documents/mine.parquet",
    "figures/overview.svg",
    "tables/mine.csv",
    "results/study.json",
    "models/mine/model.safetensors",
    "checkpoint-1/mine.txt",
    "checkpoint-99/model.safetensors",
    "checkpoint-abc/notes.txt",
    OLD_PART,
    f"texts/{OLD_PART}",
    "heads/.0123.part",
    ".lock",
)
LINKED_FOLDERS = ("attempts", "texts", "documents", "figures", "tables", "results", "models", "checkpoint-5")
LINKED_FILES = ("index.html", ".lock", "records.csv", "study.md")


def commands(model: Path) -> dict[str, list[str]]:
    """Return the arguments of every command that fills a folder; the folder comes last."""
    return {
        "run": ["run", "rows.jsonl", "--model", str(model), "--method", "attcat", "--workers", "1", "--out"],
        "page": [
            "run",
            "rows.jsonl",
            "--model",
            str(model),
            "--method",
            "attcat",
            "--workers",
            "1",
            "--out",
            "r",
            "--page",
        ],
        "inspect": ["inspect", "doc.txt", "--model", str(model), "--no-head-importance", "-o"],
        "evaluate": [
            "evaluate",
            "rows.jsonl",
            "--model",
            str(model),
            "--methods",
            "attcat",
            "--metrics",
            "entropy",
            "-o",
        ],
        "compare": ["compare", "rows.jsonl", "--model", str(model), "--methods", "attcat,rollout", "-o"],
        "study": ["study", "flow", "--size", "tiny", "--documents", "2", "--out"],
        "train": ["train", "rows.jsonl", "--model", "new-bilstm", "--epochs", "1", "--out"],
        "convert": ["convert", str(model), "--positions", "256", "--window", "16", "--out"],
    }


NAMES = tuple(commands(Path()))
LASTING = tuple(name for name in NAMES if name not in ("train", "convert"))
"""Commands that write into their own folder again."""


def plant(folder: Path, name: str) -> None:
    """Plant a file, read-only every third time, as old as a file that a killed process left."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"mine: {name}")
    os.utime(path, (0, 0))
    if len(name) % 3 == 0:
        path.chmod(0o444)


def plant_links(folder: Path, outside: Path, generator: random.Random) -> None:
    """Plant a link to a folder and one to a file, both outside, where nothing else is."""
    folder.mkdir(parents=True, exist_ok=True)
    for names, target in ((LINKED_FOLDERS, outside), (LINKED_FILES, outside / "letter.txt")):
        free = [name for name in names if not os.path.lexists(folder / name)]
        if free:
            (folder / generator.choice(free)).symlink_to(target)


def state_of(*places: Path) -> dict[Path, str]:
    """Return the hash of every file below some folders, and where links lead."""
    found = {}
    for place in places:
        for path in [place, *place.rglob("*")]:
            if path.is_symlink():
                found[path] = f"-> {path.readlink()}"
            elif path.is_file():
                found[path] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def assert_unchanged(before: dict[Path, str], *places: Path) -> None:
    after = state_of(*places)
    assert {path: after.get(path) for path in before} == before


def run_here(work: Path, model: Path, out: str) -> None:
    """Do what the command "run" does, in this process: a worker would import everything first."""
    sl.run(work / "rows.jsonl", sl.load(model), ["attcat"], out=work / out)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "doc.txt").write_text("The river runs past the old mill. Hello, Miller!")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("letter.txt", "mine.parquet", "000000.parquet", "essay.txt", "0.html", "overview.svg", "x.csv"):
        plant(outside, name)
    return tmp_path


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_others_is_refused_and_left_as_it_is(name, seed, work, good_model, sightline):
    generator = random.Random(seed)
    out = work / "out"
    for planted in generator.sample([entry for entry in PLANTS if entry != ".lock"], 4):
        plant(out, planted)
    plant_links(out, work / "outside", generator)
    before = state_of(work)
    result = sightline(*commands(good_model)[name], "out")
    assert result.exit_code in (1, 2), result.output
    assert "Traceback" not in result.output
    assert_unchanged(before, work)


@pytest.mark.slow
@pytest.mark.parametrize("name", LASTING)
def test_what_others_put_into_a_folder_of_sightline_stays(name, work, good_model, sightline):
    arguments = commands(good_model)[name]
    if name == "page":
        run_here(work, good_model, "r")
    assert sightline(*arguments, "out").exit_code == 0
    out = work / "out"
    own = state_of(out)
    generator = random.Random(len(name))
    taken = {path.relative_to(out).as_posix() for path in own}
    planted = {out / entry for entry in PLANTS if entry not in taken}
    for path in planted:
        plant(out, path.relative_to(out).as_posix())
    before = {path: entry for path, entry in state_of(work).items() if path in planted or "outside" in path.parts}
    result = sightline(*arguments, "out")
    assert "Traceback" not in result.output
    assert_unchanged(before, work)
    shutil.rmtree(out / "attempts", ignore_errors=True)
    plant_links(out, work / "outside", generator)
    before = {path: entry for path, entry in state_of(work).items() if path in planted or "outside" in path.parts}
    before.pop(out / "attempts" / "essay.txt", None)
    for option in ([], ["--retry-failed"] if name == "run" else []):
        assert "Traceback" not in sightline(*arguments, "out", *option).output
        assert_unchanged({path: entry for path, entry in before.items() if os.path.lexists(path)}, work)
    assert all(os.path.lexists(path) for path in before)


@pytest.mark.parametrize("planted", ["texts/mine.parquet", "plan/rows/x.parquet", "attempts/essay.txt"])
def test_a_run_names_what_is_in_the_way(planted, work, good_model, sightline):
    plant(work / "out", planted)
    result = sightline(*commands(good_model)["run"], "out")
    assert result.exit_code == 2
    assert f"is not empty ('{Path(planted).parts[0]}')" in result.stderr
    assert (work / "out" / planted).read_text() == f"mine: {planted}"


def test_a_run_does_not_delete_its_own_input(work, good_model, sightline):
    (work / "ds" / "texts").mkdir(parents=True)
    (work / "rows.jsonl").rename(work / "ds" / "texts" / "mine.jsonl")
    before = state_of(work)
    arguments = [part.replace("rows.jsonl", "ds/texts/mine.jsonl") for part in commands(good_model)["run"]]
    assert sightline(*arguments, "ds").exit_code == 2
    assert_unchanged(before, work)


@pytest.mark.slow
def test_a_link_in_the_folder_of_a_run_is_not_followed(work, good_model, sightline):
    (work / "out").mkdir()
    (work / "out" / "attempts").symlink_to(work / "outside")
    before = state_of(work)
    assert sightline(*commands(good_model)["run"], "out").exit_code == 2
    assert_unchanged(before, work)
    (work / "out" / "attempts").unlink()
    run_here(work, good_model, "out")
    (work / "out" / "attempts").rmdir()
    (work / "out" / "attempts").symlink_to(work / "outside")
    before = state_of(work / "outside")
    result = sightline(*commands(good_model)["run"], "out", "--retry-failed")
    assert result.exit_code == 2
    assert "is a link" in result.stderr
    assert_unchanged(before, work / "outside")


def test_training_leaves_what_others_put_beside_its_checkpoints(work, good_model, sightline):
    for planted in ("notes.txt", "checkpoint-abc/mine.txt", "checkpoint-1/mine.txt"):
        plant(work / "out.training", planted)
    (work / "out.training" / "checkpoint-7").symlink_to(work / "outside")
    before = state_of(work)
    result = sightline(*commands(good_model)["train"], "out")
    assert result.exit_code == 2
    assert "out.training' is not empty ('checkpoint-1' and 3 more)" in result.stderr
    assert_unchanged(before, work)


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "doc.txt", "-o", "doc.txt", "--format", "json"],
        ["explain", "doc.txt", "-o", "link.txt", "--format", "json"],
        ["explain", "doc.txt", "-o", "MODEL/config.json", "--model", "MODEL"],
        ["evaluate", "ours/records.csv", "--model", "MODEL", "-o", "ours"],
        ["inspect", "ours/doc.txt", "--model", "MODEL", "-o", "ours"],
    ],
)
def test_an_output_that_is_an_input_is_refused(arguments, work, good_model, sightline):
    shutil.copytree(good_model, work / "model")
    (work / "link.txt").symlink_to(work / "doc.txt")
    (work / "ours").mkdir()
    shutil.copyfile(work / "doc.txt", work / "ours" / "doc.txt")
    (work / "ours" / "records.csv").write_text("text\nThe mill.\n")
    content = "an evaluation" if arguments[0] == "evaluate" else "an inspection"
    record = {"format": "sightline-folder", "content": content, "files": ["records.csv"]}
    (work / "ours" / RECORD).write_text(json.dumps(record))
    before = state_of(work)
    result = sightline(*(part.replace("MODEL", "model") for part in arguments))
    assert result.exit_code == 2
    assert "read by this command" in result.stderr
    assert_unchanged(before, work)


@pytest.mark.parametrize("files", [["../outside/letter.txt"], ["/etc/passwd"], "index.html", [3], None])
def test_a_forged_record_deletes_nothing(files, work, good_model, sightline):
    (work / "out").mkdir()
    record = {"format": "sightline-folder", "content": "an inspection", "files": files}
    (work / "out" / RECORD).write_text(json.dumps(record))
    before = state_of(work)
    result = sightline(*commands(good_model)["inspect"], "out")
    assert result.exit_code == 2
    assert "is damaged" in result.stderr
    assert_unchanged(before, work)
