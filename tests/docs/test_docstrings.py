"""The examples in docstrings of public functions run and print what they show."""

from __future__ import annotations

import doctest

import pytest

from sightline.api import load, model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("module", [load, model], ids=["load", "Model"])
def test_the_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(module)
    assert results.attempted >= 4
    assert results.failed == 0
