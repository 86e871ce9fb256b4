"""The lowest and the highest AOPC that any order of a document's words reaches (Edin et al. 2025).

AOPC averages over nested sets S_1 ⊂ S_2 ⊂ … of removed words. The model and the document decide which values are within
reach; between the extremes over all orders AOPC becomes comparable: 0 for the worst order, 1 for the best.

- Up to EXACT words: all subsets are run, and the best chain of them is found by dynamic programming,
  M(S) = [times |S| is counted] · v(S) + max_{u ∈ S} M(S ∖ u).
- Beyond: a beam search over the steps of the curve. From each of the WIDTH best sets it tries BRANCHES blocks of words,
  ordered by what each removes alone. Long documents are ordered in PARTS parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sightline.metrics.plans import unit_counts
from sightline.metrics.score_inputs import FloatArray, IntArray

EXACT = 8
"""Words up to which all orders are compared: 256 documents."""
WIDTH, BRANCHES = 3, 4
PARTS = 40

Values = Callable[[Sequence[Sequence[int]]], FloatArray]
"""Maps sets of removed units to the falls p − p(without them)."""


class Bounds(NamedTuple):
    """The extremes of the mean fall over orders."""

    low: float
    high: float
    exact: bool
    """Whether all orders were compared; the beam search gives a `low` and a `high` that some order reaches."""


def extremes(values: Values, units: int, ratios: Sequence[float]) -> Bounds:
    """Return the lowest and the highest mean fall over the shares `ratios` of all orders of `units` units."""
    if units <= EXACT:
        low, high = (sign * _best_chain(values, unit_counts(ratios, units), units, sign) for sign in (-1, 1))
        return Bounds(low, high, exact=True)
    parts = [part.tolist() for part in np.array_split(np.arange(units), min(units, PARTS))]

    def of_parts(sets: Sequence[Sequence[int]]) -> FloatArray:
        return values([[unit for part in chosen for unit in parts[part]] for chosen in sets])

    counts = unit_counts(ratios, len(parts))
    alone = of_parts([[part] for part in range(len(parts))])
    low, high = (sign * _beam(of_parts, counts, sign * alone, sign) for sign in (-1, 1))
    return Bounds(low, high, exact=False)


def _best_chain(values: Values, counts: IntArray, units: int, sign: int) -> float:
    sets = [chosen for size in range(units + 1) for chosen in combinations(range(units), size)]
    times = np.bincount(counts, minlength=units + 1)
    best: dict[tuple[int, ...], float] = {}
    for chosen, value in zip(sets, values(sets), strict=True):
        before = [best[chosen[:place] + chosen[place + 1 :]] for place in range(len(chosen))]
        best[chosen] = times[len(chosen)] * sign * float(value) + max(before, default=0.0)
    return best[sets[-1]] / len(counts)


def _beam(values: Values, counts: IntArray, alone: FloatArray, sign: int) -> float:
    strongest = np.argsort(-alone, kind="stable").tolist()
    states: dict[frozenset[int], float] = {frozenset(): 0.0}
    for count in counts.tolist():
        candidates: dict[frozenset[int], float] = {}
        for chosen, total in states.items():
            left = [part for part in strongest if part not in chosen]
            more = count - len(chosen)
            for branch in range(min(BRANCHES, len(left) - more + 1) if more else 1):
                extended = chosen.union(left[: more - 1], left[more - 1 + branch : more + branch]) if more else chosen
                candidates[extended] = max(total, candidates.get(extended, -np.inf))
        falls = values([sorted(chosen) for chosen in candidates])
        totals = {
            chosen: total + sign * float(fall) for (chosen, total), fall in zip(candidates.items(), falls, strict=True)
        }
        states = dict(sorted(totals.items(), key=lambda state: -state[1])[:WIDTH])
    return max(states.values()) / len(counts)
