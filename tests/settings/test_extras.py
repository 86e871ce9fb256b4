"""Without the extras everything about one document works, and everything else names the extra that it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sightline.errors import UnsupportedError
from sightline.settings.extras import require

BLOCKED = ("pyarrow", "duckdb", "fsspec", "matplotlib", "entmax", "captum", "stop_words", "accelerate", "pypdf", "ray")
BLOCKED += ("datasets", "anywidget", "ipywidgets", "traitlets", "fastapi", "uvicorn", "starlette")

# Where nothing finds a package, it is absent, also for libraries that look before they import.
BLOCK = f"""
from importlib.machinery import PathFinder

BLOCKED = {BLOCKED!r}
find = PathFinder.find_spec

def find_others(name, *rest):
    return None if name.partition(".")[0] in BLOCKED else find(name, *rest)

PathFinder.find_spec = staticmethod(find_others)
"""

PROGRAM = """
import contextlib, io, json, sys
from sitecustomize import BLOCKED

import sightline as sl
from sightline.cli import main

def sentence(call):
    try:
        call()
    except sl.SightlineError as error:
        return str(error)

def command(*arguments):
    sys.argv = ["sightline", *arguments]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return [code, said.getvalue()]

model = sl.load()
text = "The delivery was late and the box was broken. I want my money back."
explanation = model.explain(text)
model.check(explanation)
report = model.report(text)
evaluation = sl.evaluate(model, "rows.jsonl", ["attcat"], ["log_odds"])
explanation.save("one.json")
answers = {
    "page": report.to_html(),
    "pages": [command("explain", "letter.txt", "-o", "page.html"), command("demo", "-o", "demo.html")],
    "blocked": sorted({name.partition(".")[0] for name in sys.modules} & set(BLOCKED)),
    "sentences": {
        "plot": sentence(explanation.plot),
        "widget": sentence(report.show),
        "save": sentence(lambda: explanation.save("one.parquet")),
        "evaluation": sentence(lambda: evaluation.save("evaluation")),
        "run": sentence(lambda: sl.run),
        "open": sentence(lambda: sl.open_run),
        "parquet": sentence(lambda: sl.read_examples("rows.parquet")),
        "hub": sentence(lambda: sl.read_examples("hf://owner/name")),
        "language": sentence(lambda: sl.analysis.TokenFilter(stop_words="de")),
        "pdf": sentence(lambda: sl.read_document("letter.pdf")),
        "train": sentence(lambda: sl.lab.train("new-bilstm", "rows.jsonl", out="trained")),
    },
    "commands": {
        "run": command("run", "rows.jsonl", "--out", "explained"),
        "query": command("query", "explained", "SELECT 1"),
        "figure": command("explain", "letter.txt", "-o", "figure.svg"),
        "inspect": command("inspect", "letter.txt", "-o", "inspected"),
        "evaluate": command("evaluate", "rows.jsonl", "-o", "evaluated"),
        "compare": command("compare", "rows.jsonl", "-o", "compared"),
        "where": command("evaluate", "rows.jsonl", "--where", "label = 1"),
        "serve": command("serve"),
        "study": command("study", "attcat", "--size", "tiny", "-o", "studied"),
    },
}
print(json.dumps(answers))
"""

GIVEN = {
    "letter.txt": "The delivery was late and the box was broken. I want my money back.\n",
    "letter.pdf": "%PDF-1.4\n%%EOF\n",
    "rows.parquet": "PAR1",
    "rows.jsonl": '{"text": "The box was broken.", "label": 1}\n{"text": "Thanks!", "label": 0}\n',
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bare")
    for name, content in GIVEN.items():
        (folder / name).write_text(content)
    (folder / "sitecustomize.py").write_text(BLOCK)  # also for the processes that this one starts
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return {**json.loads(result.stdout), "folder": folder}


@pytest.mark.slow
def test_one_document_is_explained_without_extras(answers):
    assert answers["page"].startswith("<!doctype html>")
    assert answers["pages"] == [[0, "Wrote page.html\n"], [0, ""]]
    for name in ("page.html", "demo.html"):
        assert "<html" in (answers["folder"] / name).read_text(encoding="utf-8")
    assert answers["blocked"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "extra"),
    {
        "plot": "plots",
        "widget": "notebook",
        "save": "corpus",
        "evaluation": "corpus",
        "run": "corpus",
        "open": "corpus",
        "parquet": "corpus",
        "hub": "datasets",
        "language": "languages",
        "pdf": "pdf",
        "train": "lab",
    }.items(),
)
def test_a_function_names_its_extra_in_one_sentence(answers, call, extra):
    sentence = answers["sentences"][call]
    assert f"pip install 'sightline-xai[{extra}]'" in sentence
    assert sentence.count(".") - sentence.count(".pdf") - sentence.count(".json") <= 1
    assert "\n" not in sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "extra"),
    {
        "run": "corpus",
        "query": "corpus",
        "figure": "plots",
        "inspect": "plots",
        "evaluate": "corpus,plots",
        "compare": "plots",
        "where": "corpus",
        "serve": "serve",
        "study": "corpus,lab,plots",
    }.items(),
)
def test_a_command_names_its_extra_and_writes_nothing(answers, command, extra):
    code, said = answers["commands"][command]
    assert code in (1, 2)
    assert said.startswith("Error: ")
    assert said.endswith(f"pip install 'sightline-xai[{extra}]'.\n")
    names = {path.name for path in answers["folder"].iterdir()}
    assert not names & {
        "explained",
        "figure.svg",
        "inspected",
        "evaluated",
        "compared",
        "studied",
        "one.parquet",
        "evaluation",
    }


def test_the_sentence_says_what_for_which_package_and_what_instead():
    expected = "Flying needs the package no-such-package: pip install 'sightline-xai[wings]', or walk."
    with pytest.raises(UnsupportedError, match="^Flying") as raised:
        require("no_such_package.inside", "wings", "Flying", instead="or walk")
    assert str(raised.value) == expected
    assert require("json", "wings", "Flying") is json


def test_at_most_twelve_packages_are_required():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert len(project["dependencies"]) <= 12
