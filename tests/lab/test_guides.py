"""The guides of the lab run as written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_docs import ROOT, python_of

pytestmark = pytest.mark.slow


def run_guide(name, tmp_path, monkeypatch):
    """Run the Python blocks of a guide in an empty folder, and return its variables."""
    monkeypatch.chdir(tmp_path)
    # The command of this environment, wherever Python was started from.
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    shown: dict[str, Any] = {}
    exec(python_of(ROOT / "docs" / "guides" / f"{name}.md"), shown)
    return shown


@pytest.mark.parametrize("name", ["train", "convert"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_python_of_a_guide_runs(name, tmp_path, monkeypatch):
    run_guide(name, tmp_path, monkeypatch)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_guide_to_adversarial_attention_writes_its_page(tmp_path, monkeypatch):
    run_guide("adversarial-attention", tmp_path, monkeypatch)
    assert "Weights of the model" in (tmp_path / "weights.html").read_text()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_tour_trains_converts_explains_inspects_evaluates_and_serves(tmp_path, monkeypatch):
    shown = run_guide("from-rows-to-explanations", tmp_path, monkeypatch)
    assert shown["conversion"].difference < 1e-4
    assert (tmp_path / "report.html").exists()
    assert shown["inspection"].importance.shape == (2, 4)
    assert shown["served"]["prediction"]["label"] == shown["report"].prediction.label
    assert len(shown["served"]["explanations"]["attcat"]["scores"]) == len(shown["report"].encoding)
