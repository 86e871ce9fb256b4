"""How a faithfulness metric changes documents (`Plan`), and what it measures at each share (`Quantity`).

A plan removes the share k of a document's words with the highest scores, or everything else, for K shares. The
probabilities of the explained class form a *removal curve* p_k (K,) beside p, the probability for the whole document. A
quantity turns that curve into the values that the metric summarises and its figure shows.

`score_order` and the functions after it give the order in which units are removed, and how many at each point.

`extremes` finds the lowest and the highest AOPC that any order of a document's words reaches (Edin et al. 2025). AOPC
averages over nested sets S_1 ⊂ S_2 ⊂ … of removed words. Its range depends on the model and the document; scaled by the
extremes over all orders, AOPC becomes comparable: 0 for the worst order, 1 for the best.

- Up to EXACT words: all subsets are run, and the best chain of them is found by dynamic programming,
  M(S) = [times |S| is counted] · v(S) + max_{u ∈ S} M(S ∖ u).
- Beyond: a beam search over the steps of the curve. From each of the WIDTH best sets it tries BRANCHES blocks of words,
  ordered by what each removes alone. Long documents are ordered in PARTS parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, OptionError
from sightline.metrics.score_inputs import FloatArray, IntArray, descending_order, score_vector
from sightline.text.units import Units

if TYPE_CHECKING:
    from sightline.passes.perturb import Replacement

Direction = Literal["remove", "keep"]
"""Whether the units with the highest scores are removed, or are the only ones kept."""

TENTHS = tuple(k / 10 for k in range(11))
ERASER_BINS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)
NINTHS = tuple(k / 9 for k in range(1, 10))
"""The shares of the published AttCAT program."""
SMALLEST_PROBABILITY = 1e-12
"""Probabilities are clipped here before a logarithm."""


@dataclass(frozen=True)
class Plan:
    """How a metric changes documents."""

    direction: Direction = "remove"
    replacement: Replacement = "delete"
    ratios: tuple[float, ...] = TENTHS
    """Shares of the units, ascending."""
    attcat_ratios: tuple[float, ...] | None = None
    """Shares under compat="attcat"; None if the published program does not compute the metric."""


@dataclass(frozen=True)
class Quantity:
    """What a metric reads at each share of a removal curve."""

    label: str
    """Label of the vertical axis of its figure."""
    of: Callable[[npt.ArrayLike, float], FloatArray]
    """Maps (p_k (K,), p) to the values (K,)."""


def check_ratios(ratios: npt.ArrayLike) -> tuple[float, ...]:
    """Return shares in [0, 1] in ascending order, without duplicates."""
    try:
        values = np.atleast_1d(np.asarray(ratios, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([])
    if values.ndim != 1 or not values.size:
        raise OptionError(f"ratios={ratios!r} is not a list of shares such as [0, 0.1, 0.5].")
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise OptionError(f"ratios={values.tolist()} are outside their range; shares lie in [0, 1], and 10 % is 0.1.")
    return tuple(np.unique(values).tolist())


def check_probabilities(probabilities: npt.ArrayLike, original: float = 0.0) -> FloatArray:
    """Return p_k (K,) after a check that it holds probabilities; `original` is there for the common signature."""
    curve = score_vector(probabilities, "probabilities")
    outside = (curve < 0.0) | (curve > 1.0)
    if outside.any():
        raise InputError(f"A probability of {curve[outside][0]} was given; they lie in [0, 1].")
    return curve


def probability_drop(probabilities: npt.ArrayLike, original: float) -> FloatArray:
    """Return p − p_k, (K,)."""
    return float(original) - check_probabilities(probabilities)


def log_ratio(probabilities: npt.ArrayLike, original: float) -> FloatArray:
    """Return ln(p_k / p), (K,), probabilities clipped at 1e-12."""
    clipped = np.maximum(check_probabilities(probabilities), SMALLEST_PROBABILITY)
    return np.asarray(np.log(clipped) - np.log(max(float(original), SMALLEST_PROBABILITY)))


PROBABILITY = Quantity("probability", check_probabilities)
DROP = Quantity("drop in probability", probability_drop)
LOG_RATIO = Quantity("ln(probability ratio)", log_ratio)


def score_order(scores: npt.ArrayLike, units: Units) -> IntArray:
    """Return the units (U,) from the highest to the lowest sum of token scores (n,); ties as in `shuffled_ties`."""
    return shuffled_ties(units.fold(score_vector(scores)))


def shuffled_ties(totals: FloatArray) -> IntArray:
    """Return the indices (U,) from the highest to the lowest of `totals` (U,), equal ones in a random order.

    Document order would favour explanations without information wherever the decisive words come first. The order is
    that of one seeded permutation: the same for every explanation of a document, and in every run.
    """
    places = np.random.default_rng(0).permutation(len(totals))
    return np.asarray(places[descending_order(totals[places])])


def random_score_order(units: Units, generator: np.random.Generator) -> IntArray:
    """Return the order of the units (U,) under an explanation without information: random token scores, summed.

    The order is not uniform: a word with more tokens has the higher sum more often, so that in a long document the
    first words are nearly the same in every such order. Every method that scores tokens has this advantage, so a fair
    floor has it too. The check of one document draws words uniformly (`random_order`).
    """
    return score_order(generator.random(len(units.of_token)), units)


def random_order(units: Units, generator: np.random.Generator) -> IntArray:
    """Return the units (U,) in an order drawn uniformly: the number of tokens of a word does not matter."""
    return np.asarray(generator.permutation(len(units)))


def unit_counts(ratios: Sequence[float], units: int) -> IntArray:
    """Return the number of units for each share: rounded, and at least 1 for a share above 0."""
    shares = np.asarray(ratios, dtype=np.float64)
    # The small term rounds halves up whatever their binary form: 0.35 · 10 is 3.5 and becomes 4.
    counts = np.floor(shares * units + 0.5 + 1e-9).astype(np.int64)
    return np.asarray(np.where(shares > 0.0, np.clip(counts, 1, units), 0))


def removed_positions(
    order: npt.ArrayLike, units: Units, counts: npt.ArrayLike, direction: Direction
) -> list[list[int]]:
    """Return for each count k the token positions to remove: of the first k units of `order`, or of all the others."""
    ranked = np.asarray(order)
    parts = [ranked[:k] if direction == "remove" else ranked[k:] for k in np.asarray(counts)]
    return [units.positions(part) for part in parts]


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
    """Whether all orders were compared; the bounds of a beam search are reached by some order, but may be narrow."""


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
