"""`sightline run` explains a data set and continues; `sightline query` answers questions about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pandas as pd
import pytest
import typer

import sightline as sl
from sightline.cli.app import app
from sightline.corpus.streaming import Selection
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow

TEXTS = ["The river runs past the mill.", "Hello, old world.", "=SUM(A1) mill", "The mill is old."]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.jsonl"
    rows = [{"text": text, "label": ("AI", "PL")[number % 2], "id": f"={number}"} for number, text in enumerate(TEXTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, good_model, data):
    """A finished run, made in this process, with the settings that `run` has by default."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return sl.run(data, sl.load(good_model), ["attcat"], out=out, target="PL").path


def run_here(data, model, out, **settings):
    """Do what `run --method attcat --measure none` does, without a worker that imports everything first."""
    return sl.run(data, sl.load(model), ["attcat"], out=out, measures=(), **settings)


def test_run_explains_continues_and_writes_a_page(sightline, tmp_path, good_model, data):
    arguments = ["run", str(data), "--model", str(good_model), "--method", "attcat", "--measure", "none"]
    arguments += ["--out", str(tmp_path / "out"), "--workers", "1"]
    first = sightline(*arguments, "--page", str(tmp_path / "page"))
    assert first.exit_code == 0, first.output
    assert "4 rows: 4 explained, 0 failed. Results" in first.stderr
    assert "before" not in first.stderr
    assert (tmp_path / "page" / "index.html").exists()
    again = sightline(*arguments)
    assert again.exit_code == 0
    assert "Nothing to do: all 4 documents were explained before." in again.stderr
    refused = sightline(*arguments, "--target", "PL")
    assert refused.exit_code == 2
    assert "settings.target" in refused.stderr


def test_a_run_that_goes_on_says_first_how_much_was_done_before(sightline, tmp_path, good_model, data):
    arguments = ["run", str(data), "--model", str(good_model), "--method", "attcat", "--measure", "none"]
    arguments += ["--out", str(tmp_path / "out"), "--workers", "1"]
    run_here(data, good_model, tmp_path / "out", selection=Selection(limit=2))
    more = sightline(*arguments, "--limit", "3")
    assert more.exit_code == 0, more.output
    assert more.stderr.index("Resumed: 2 of 3 documents were explained before.") < more.stderr.index(
        "3 rows: 3 explained"
    )
    fewer = sightline(*arguments, "--limit", "2")
    assert fewer.exit_code == 2
    assert "cannot be shortened to 2" in fewer.stderr


def test_labels_that_are_no_classes_of_the_model_are_counted(sightline, tmp_path, good_model):
    data = tmp_path / "tickets.csv"
    data.write_text("text,label\nThe old mill,billing\nHello world,PL\nThe river,tech\n")
    arguments = ["run", str(data), "--model", str(good_model), "--method", "attcat", "--measure", "none"]
    run_here(data, good_model, tmp_path / "out")
    result = sightline(*arguments, "--out", str(tmp_path / "out"), "--workers", "1")
    assert result.exit_code == 0, result.output
    assert "Note: 2 labels are not classes of the model" in result.stderr


def test_workers_import_nothing_from_the_current_folder(tmp_path, good_model, data):
    """Somebody may run it inside a folder that came from elsewhere."""
    here, program = tmp_path / "here", tmp_path / "program.py"  # as pip writes it, into a folder of programs
    here.mkdir()
    (here / "multiprocessing.py").write_text("open('executed', 'w').close()\n")
    program.write_text("from sightline.cli import main\n\nif __name__ == '__main__':\n    main()\n")
    command = [sys.executable, str(program), "run", str(data)]
    command += ["--model", str(good_model), "--method", "attcat", "--measure", "none", "--workers", "1", "--out", "out"]
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    result = subprocess.run(
        command, cwd=here, env=settings, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert result.returncode == 0, result.stderr
    assert not (here / "executed").exists()


def test_query_prints_and_writes_tables(sightline, tmp_path, finished):
    printed = sightline("query", str(finished), "SELECT id, label FROM documents ORDER BY row")
    assert printed.exit_code == 0
    assert "=2" in printed.stdout
    parsed = json.loads(sightline("query", str(finished), "SELECT count(*) AS n FROM rows", "--format", "json").stdout)
    assert parsed == [{"n": 4}]
    table = sightline("query", str(finished), "--by", "word", "--rule", "mean-all", "--top", "2", "--interval")
    assert table.exit_code == 0
    assert "low" in table.stdout
    file = tmp_path / "table.parquet"
    done = sightline("query", str(finished), "SELECT * FROM documents", "--format", "parquet", "-o", str(file))
    assert done.exit_code == 0
    assert len(pd.read_parquet(file)) == 4


def test_a_spreadsheet_shows_cells_that_look_like_formulas_as_text(sightline, finished):
    lines = sightline(
        "query", str(finished), "SELECT id, -1 AS n FROM documents ORDER BY row", "--format", "csv"
    ).stdout.splitlines()
    assert lines[0] == "id,n"
    assert lines[1] == "'=0,-1"


def test_slices_are_compared(sightline, finished):
    done = sightline("query", str(finished), "--by", "type", "--where", "label = 'AI'", "--against", "label = 'PL'")
    assert done.exit_code == 0, done.output


def test_slices_are_compared_by_the_rule_that_was_asked_for(sightline, tmp_path, good_model):
    """The means over all documents and over those with a word differ for a word that some documents lack."""
    data = tmp_path / "letters.csv"
    texts = ["The old mill", "The river", "Hello world"] * 10
    data.write_text("text,label\n" + "".join(f"{text} {n},{('AI', 'PL')[n % 2]}\n" for n, text in enumerate(texts)))
    out = tmp_path / "out"
    run_here(data, good_model, out, target="PL")
    question = ["query", str(out), "--by", "type", "--where", "label = 'AI'", "--against", "label = 'PL'"]
    by_default, over_all, over_present = (
        sightline(*question, *rule, "--format", "csv")
        for rule in ([], ["--rule", "mean-all"], ["--rule", "mean-present"])
    )
    assert over_all.exit_code == 0, over_all.output
    assert by_default.stdout == over_all.stdout
    assert over_present.exit_code == 0, over_present.output
    assert over_present.stdout != over_all.stdout
    refused = sightline(*question, "--rule", "sum")
    assert refused.exit_code == 2
    assert "rule='sum'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["query", "DIR"], "Give either a query"),
        (["query", "DIR", "SELECT 1", "--by", "word"], "Give either a query"),
        (["query", "DIR", "SELECT 1", "--where", "correct"], "--where goes with --by"),
        (["query", "DIR", "SELECT 1", "--method", "no-such-method"], "--method goes with --by"),
        (["query", "DIR", "SELECT 1", "--rule", "mean-present"], "--rule goes with --by"),
        (["query", "DIR", "SELECT 1", "--interval"], "--interval goes with --by"),
        (
            ["query", "DIR", "--by", "type", "--where", "correct", "--against", "true", "--interval"],
            "--interval is left",
        ),
        (["run", "DATA", "--out", "x", "--address", "head:6379"], "--address names a Ray cluster"),
        (["run", "DATA", "--out", "x", "--page-documents", "3"], "--page-documents needs a page"),
        (["query", "DIR", "SELEC 1"], "cannot be answered"),
        (["query", "DIR", "--by", "word", "--against", "correct"], "give both"),
        (["query", "DIR", "SELECT 1", "--format", "parquet"], "name a file"),
        (["query", "nowhere", "SELECT 1"], "no manifest.json"),
        (["run", "nowhere.csv", "--out", "x"], "There is no data set"),
        (["run", "DATA", "--out", "x", "--method", "attcta"], "attcta"),
        (["run", "DATA", "--out", "x", "--measure", "weather"], "weather"),
        (["run", "DATA", "--out", "x", "--where", "lbl = 1"], "Fields: text, label, id"),
    ],
)
def test_a_bad_request_gets_one_sentence(sightline, finished, data, arguments, says):
    names = {"DIR": str(finished), "DATA": str(data)}
    done = sightline(*[names.get(argument, argument) for argument in arguments])
    assert done.exit_code == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_commands_are_listed():
    assert {"run", "query"} <= set(typer.main.get_command(app).list_commands(None))
