"""The guides of the lab run as they stand, and the table of models and methods is current."""

from __future__ import annotations

import pytest

from tests.docs.test_docs import ROOT, python_of
from tools import docs_models


@pytest.mark.parametrize("name", ["train", "convert", "adversarial-attention", "from-rows-to-explanations"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_python_of_a_guide_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(python_of(ROOT / "docs" / "guides" / f"{name}.md"), {})


def test_the_table_of_models_and_methods_is_what_the_registries_say():
    assert docs_models.PAGE.read_text() == docs_models.page(), "run: python -m tools.docs_models"
