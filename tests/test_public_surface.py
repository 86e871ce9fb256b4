"""`import sightline` gives every public name and loads nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import sightline as sl


@pytest.mark.parametrize("name", sl.__all__)
def test_every_public_name_leads_somewhere(name):
    assert getattr(sl, name) is not None
    assert name in dir(sl)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = sl.lod


@pytest.mark.slow
def test_importing_loads_no_heavy_library():
    heavy = "{'torch', 'transformers', 'pandas', 'numba', 'scipy', 'pyarrow', 'matplotlib'}"
    code = f"import sys, sightline; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_metrics_and_methods_are_listed_with_one_line_each():
    for entry in (*sl.list_methods(), *sl.list_metrics()):
        assert entry.name
        assert entry.summary
        assert entry.citation


def test_the_names_of_the_contract():
    stack = np.stack([np.full((3, 3), 1 / 3)] * 2)
    assert sl.methods.attention_flow(stack, 0).shape == (3,)
    assert sl.attention.DenseAttention(np.full((2, 3, 3), 1 / 3)).heads == 2


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_sleep_unless_the_user_decided_otherwise(chosen, expected):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    if chosen is not None:
        environment["OMP_WAIT_POLICY"] = chosen
    code = "import os, sightline; print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
