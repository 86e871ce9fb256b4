"""The notebooks run from top to bottom, and what they promise is what comes out."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow
NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
WRITES = {
    "first_explanation": "first.html",
    "is_it_right": None,
    "longformer_contracts": "contract.html",
    "what_does_it_use": "wrong.html",
}
PROMISES = {
    "first_explanation": "the model says 'programming languages'",
    "is_it_right": "random scores  weak     not_shown",
    "longformer_contracts": "safe",
    "what_does_it_use": "praise",
}
"""A line that the notebook prints where it shows what it is about."""


def test_every_notebook_is_tested():
    assert {path.stem for path in NOTEBOOKS} == set(WRITES) == set(PROMISES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_promises(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert PROMISES[path.stem] in printed
    assert WRITES[path.stem] is None or (tmp_path / WRITES[path.stem]).stat().st_size > 10_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook.cells)
