"""The guides of the lab run as written."""

from __future__ import annotations

import pytest

from tests.docs.test_docs import ROOT, python_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["train", "convert", "adversarial-attention", "from-rows-to-explanations"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_python_of_a_guide_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(python_of(ROOT / "docs" / "guides" / f"{name}.md"), {})
