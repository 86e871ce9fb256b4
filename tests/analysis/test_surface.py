"""The room's front door."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sightline import analysis

HOMES = ("sightline.analysis", "sightline.methods.attention_weights", "sightline.results.inside")


def test_every_name_loads():
    for name in analysis.__all__:
        assert getattr(analysis, name).__module__.startswith(HOMES)
    assert set(analysis.__all__) <= set(dir(analysis))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        analysis.nothing  # noqa: B018


@pytest.mark.slow
def test_importing_the_room_loads_no_heavy_library():
    heavy = ("torch", "pandas", "scipy", "sklearn")
    code = f"import sys, sightline.analysis; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_functions_are_not_hidden_by_modules_of_the_same_name():
    assert callable(analysis.inside)
    assert callable(analysis.head_importance)
    assert callable(analysis.totals)
