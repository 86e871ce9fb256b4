"""How a faithfulness metric changes documents (`Plan`), and what it reads off the model at each share (`Quantity`).

A plan removes the share k of a document's words with the highest scores, or everything else, for K shares. What the
model then gives the explained class is a *removal curve*: probabilities p_k (K,) beside p, the probability of the whole
document. A quantity turns that curve into what the metric summarises and what its figure shows.

`score_order` and what follows say in which order units are removed, and how many at each point of a removal curve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, OptionError
from sightline.metrics.score_inputs import FloatArray, IntArray, score_vector
from sightline.metrics.token_sets import descending_order
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
    first words are nearly the same in every such order. The same holds for every method that scores tokens, so a fair
    floor for methods has this advantage too. The check of one document draws words uniformly (`random_order`).
    """
    return score_order(generator.random(len(units.of_token)), units)


def random_order(units: Units, generator: np.random.Generator) -> IntArray:
    """Return the units (U,) in an order drawn uniformly: the number of tokens of a word does not matter."""
    return np.asarray(generator.permutation(len(units)))


def unit_counts(ratios: Sequence[float], units: int) -> IntArray:
    """Return how many of the units each share stands for: rounded, at least 1 for a share above 0."""
    shares = np.asarray(ratios, dtype=np.float64)
    # The small term lets a half round up whatever its binary form: 0.35 · 10 is 3.5 and stands for 4.
    counts = np.floor(shares * units + 0.5 + 1e-9).astype(np.int64)
    return np.asarray(np.where(shares > 0.0, np.clip(counts, 1, units), 0))


def removed_positions(
    order: npt.ArrayLike, units: Units, counts: npt.ArrayLike, direction: Direction
) -> list[list[int]]:
    """Return for each count k the token positions to remove: of the first k units of `order`, or of all the others."""
    ranked = np.asarray(order)
    parts = [ranked[:k] if direction == "remove" else ranked[k:] for k in np.asarray(counts)]
    return [units.positions(part) for part in parts]
