"""The examples in docstrings of public functions run and print what they show."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

pytestmark = pytest.mark.slow

MODULES = [
    "api.load",
    "api.loaded",
    "api.model",
    "corpus.runner",
    "evaluation.comparison",
    "evaluation.data_set",
    "lab.distributions",
    "methods.registry",
    "metrics.registry",
    "results.explanation",
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(import_module(f"sightline.{name}"))
    assert results.attempted >= 2
    assert results.failed == 0
