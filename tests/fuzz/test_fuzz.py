"""A few seeded cases of every door; `make fuzz` runs thousands."""

from __future__ import annotations

import os
import sys

import pytest

from tests.fuzz.doors import DOORS, LONG_RUN
from tests.fuzz.harness import run

CASES = int(os.environ.get("SIGHTLINE_FUZZ_CASES", "60"))
SLOW_DOORS = {"stores": 4, "training_folders": 2}
"""By how much the number of cases is divided where one takes a second or more."""


def test_every_door_has_a_number_of_cases():
    assert set(LONG_RUN) == set(DOORS)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs address-space limits")
@pytest.mark.parametrize("door", DOORS)
def test_every_case_ends_with_a_right_result_or_one_sentence(door):
    count = CASES // SLOW_DOORS.get(door, 1)
    summary = run(door, count=count)
    assert len(summary.outcomes) == count
    assert {"right", "refused"} <= {outcome.kind for outcome in summary.outcomes}
    assert not summary.findings, summary.describe()
