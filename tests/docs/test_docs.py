"""The documentation is true: generated pages are current, links lead somewhere, Python blocks run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs import PAGE, page

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_methods_page_is_what_the_registry_says():
    assert PAGE.read_text() == page(), "run: python -m tools.docs"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_to_files_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_readme_s_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    exec("\n".join(blocks), {})  # one block goes on where the other ends
    assert (tmp_path / "alti.json").exists()
