"""The documentation is true: generated pages are current, links lead somewhere, Python blocks run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import docs, docs_metrics

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("tool", [docs, docs_metrics], ids=["methods", "metrics"])
def test_the_generated_pages_are_what_the_registries_say(tool):
    assert tool.PAGE.read_text() == tool.page(), "run: python -m tools.docs"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_to_files_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def python_of(path: Path) -> str:
    """Return the Python blocks of a page: one goes on where the other ends."""
    return "\n".join(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        ("README.md", "alti.json"),
        ("docs/guides/explain.md", None),
        ("docs/guides/corpus.md", "document.html"),
        ("docs/guides/inspect.md", "heads.svg"),
        ("docs/guides/studies.md", "attcat/index.html"),
    ],
)
def test_the_python_of_a_page_runs(name, writes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(python_of(ROOT / name), {})
    assert writes is None or (tmp_path / writes).exists()
