"""In which order units are removed, and how many at each point of a removal curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightline.metrics.inputs import FloatArray, IntArray, score_vector
from sightline.metrics.plans import Direction
from sightline.metrics.token_sets import descending_order
from sightline.text.units import Units


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
