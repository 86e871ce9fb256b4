"""The programs in `examples/` are short, run, and each writes the page that is named after it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:Sightline knows only the embeddings")
def test_an_example_is_short_and_writes_its_page(path, tmp_path, monkeypatch):
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    assert len(lines) < 25
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert (tmp_path / f"{path.stem}.html").stat().st_size > 10_000
