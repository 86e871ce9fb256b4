"""`sightline demo`: the first thing a newcomer runs."""

from __future__ import annotations

import json
import re

import pytest

from sightline import builtin
from sightline.cli.explain import DEMO_METHODS, DemoCommand
from sightline.view.words.sentences import DEMONSTRATION

pytestmark = pytest.mark.slow


def test_demo_writes_a_page_says_where_and_prints_the_top_words(sightline, tmp_path):
    result = sightline("demo")
    assert result.exit_code == 0, result.stderr
    page = tmp_path / "sightline-demo.html"
    assert result.stdout.endswith(f"open {page} in a browser.\n")
    assert re.search(r"^(for|against)\t1\t\S+\t", result.stdout, re.MULTILINE)
    data = json.loads(re.search(r'id="sightline-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1])
    assert [exp["method"] for exp in data["explanations"]] == list(DEMO_METHODS)
    assert "relations.all.attended.partners" in data["arrays"]
    assert data["document"]["segments"][0]["text"] == builtin.documents()[DemoCommand().document].read_bytes().decode()


def test_demo_replaces_its_own_page_and_no_other_file_that_was_not_named(sightline, tmp_path):
    page = tmp_path / "sightline-demo.html"
    page.write_text("my notes")
    refused = sightline("demo")
    assert refused.exit_code == 2
    assert "'sightline-demo.html' was not written by Sightline" in refused.stderr
    assert page.read_text() == "my notes"
    assert sightline("demo", "-o", page.name).exit_code == 0
    written = page.read_bytes()
    assert sightline("demo").exit_code == 0
    assert page.read_bytes()[:2000] == written[:2000]


def test_demo_refuses_before_it_runs(sightline, tmp_path):
    unknown = sightline("demo", "--document", "compiler")
    assert unknown.exit_code == 2
    assert f"Known: {', '.join(builtin.documents())}." in unknown.stderr
    unwritable = sightline("demo", "-o", "absent/page.html")
    assert unwritable.exit_code == 2
    assert "does not exist" in unwritable.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"doc.txt"}


def test_every_form_says_at_once_that_the_built_in_model_is_a_demonstration(sightline, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    piped = sightline("explain", "doc.txt")
    assert piped.stdout.splitlines()[1] == f"notice\t{DEMONSTRATION}"
    assert json.loads(sightline("explain", "doc.txt", "--format", "json").stdout)["notices"] == [DEMONSTRATION]
    assert DEMONSTRATION in sightline("explain", "doc.txt", "--format", "csv").stderr
    assert sightline("explain", "doc.txt", "--no-check", "-o", str(page)).exit_code == 0
    data = json.loads(re.search(r'id="sightline-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1])
    assert [exp["notices"] for exp in data["explanations"]] == [[DEMONSTRATION]] * 2
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "400")
    seen = re.sub(r"\x1b\[[0-9;]*m", "", sightline("explain", "doc.txt").stdout)
    assert seen.splitlines()[1].strip() == DEMONSTRATION


def test_a_model_of_ones_own_is_no_demonstration(sightline, good_model):
    shown = json.loads(sightline("explain", "doc.txt", "--model", good_model, "--format", "json").stdout)
    assert shown["notices"] == []
