"""The part of the calibration that compares numbers of model calls: error and power of smaller checks.

`tools.calibrate` measures every count of the scale, so that the check of each budget is a part of what was measured
(`calibration.at_budget`) and all budgets are compared on the same documents and random orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sightline.results.verdict import SMALLEST_EFFECT
from tools.calibration import BUDGETS, RIGHT, WRONG, Case, at_budget, choose_threshold, share_held


def table(choosing: Sequence[Case], reporting: Sequence[Case]) -> Iterator[str]:
    """Yield the lines of a table: one row per budget, the choice on one half, errors and power on the other."""
    yield (
        "| calls | threshold by the choosing half | choosing half: worst kind of wrong | reporting half: worst kind "
        "| all wrong ones that hold up | right ones that hold up | same verdict as with 64 calls |"
    )
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    reference = [case.level for case in thin(reporting, BUDGETS[0])]
    for budget in BUDGETS:
        chosen, reported = thin(choosing, budget), thin(reporting, budget)
        agreement = np.mean([case.level == level for case, level in zip(reported, reference, strict=True)])
        yield (
            f"| {budget} | {choose_threshold(chosen):g} | {_worst(chosen)} | {_worst(reported)} | "
            f"{count_held([case for case in reported if case.kind in WRONG])} | "
            f"{count_held([case for case in reported if case.kind == RIGHT])} | {agreement:.0%} |"
        )


def thin(cases: Sequence[Case], budget: int) -> list[Case]:
    """Return the cases as a check with this many calls would have measured them."""
    return [at_budget(case, budget) for case in cases]


def count_held(cases: Sequence[Case]) -> str:
    """Return "3 of 108 (2.8%)"; a dash without cases."""
    held = sum(case.holds(SMALLEST_EFFECT) for case in cases)
    return f"{held} of {len(cases)} ({held / len(cases):.1%})" if cases else "–"


def _worst(cases: Sequence[Case]) -> str:
    """Return how many of the kind of wrong explanation that holds up most often do so."""
    kind = max(WRONG, key=lambda kind: share_held(cases, kind, SMALLEST_EFFECT))
    return count_held([case for case in cases if case.kind == kind])
