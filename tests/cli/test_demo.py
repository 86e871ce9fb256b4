"""`sightline demo`: the first thing a newcomer runs."""

from __future__ import annotations

import json
import re

import pytest

from sightline import builtin
from sightline.cli.demo import DEMO_DOCUMENT, DEMO_METHODS

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
    assert data["document"]["segments"][0]["text"] == builtin.documents()[DEMO_DOCUMENT].read_bytes().decode()


def test_demo_refuses_before_it_runs(sightline, tmp_path):
    unknown = sightline("demo", "--document", "compiler")
    assert unknown.exit_code == 2
    assert f"Known: {', '.join(builtin.documents())}." in unknown.stderr
    unwritable = sightline("demo", "-o", "absent/page.html")
    assert unwritable.exit_code == 2
    assert "does not exist" in unwritable.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"doc.txt"}
