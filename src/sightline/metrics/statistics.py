"""How certain is a mean over documents, and can a difference be chance? Intervals, sign flips, Holm's correction.

Every interval of a mean in the package comes from `column_intervals`: the studentised bootstrap (Efron & Tibshirani
1993, chapter 12), never narrower than Student's t. Over resamples of the D documents

    t* = (mean* − mean) / error*,   error* = s* / √D,   interval = mean − error · (upper, lower quantile of t*).

A few documents of a skewed distribution seldom show its tail, so the quantiles are those of the tail probability
α/2 · n / (n + 12) instead of α/2, for n documents. In simulations 95 % intervals then cover the mean in at least 93 %
of the samples of 6, 10 and 30 documents, of a normal and of a lognormal distribution. With fewer than six documents
there is no interval (NaN). Everything is seeded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline.metrics.score_inputs import BoolArray, FloatArray, score_vector
from sightline.settings.values import check_count

BLOCK_ENTRIES = 2**22
"""Entries of one block of random rows: 32 MB of float64."""
FEWEST_DOCUMENTS = 6
"""A mean of fewer documents has no interval."""
RESAMPLES = 2000
FLIPS = 10_000
SIGNIFICANCE = 0.05
LEVEL = 0.95
"""Share of a distribution that its interval contains."""
TAIL = (1.0 - LEVEL) / 2.0
SKEWNESS_ALLOWANCE = 12
"""The 12 in the formula above, chosen by simulation."""
SMALLEST_VARIANCE = 1e-12
"""A variance below this share of the mean square is rounding."""

Alternative = Literal["two-sided", "greater"]


@dataclass(frozen=True)
class Interval:
    """A mean with the central `level` of the distribution it was drawn from, `samples` draws."""

    mean: float
    low: float
    """NaN, as is `high`, where there are too few documents for an interval."""
    high: float
    level: float
    """Share of the distribution between `low` and `high`: 0.95."""
    samples: int
    """Number of draws."""

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def block_sizes(samples: int, width: int) -> list[int]:
    """Return the sizes of the blocks of rows that together make `samples` rows of `width` entries."""
    size = max(1, BLOCK_ENTRIES // width)
    return [min(size, samples - start) for start in range(0, samples, size)]


def bootstrap_interval(values: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Return the mean of `values` (D,), one per document, with its studentised 95 % bootstrap interval.

    For a paired comparison of two methods on the same documents pass their differences. Fewer than six documents have
    no interval (NaN); equal values have one of width 0, which says that nothing varied, not that nothing can.
    O(resamples · D).
    """
    documents = score_vector(values, "values")
    mean = float(documents.mean())
    centred = (documents - mean)[:, None]  # sums of squares lose no digits around 0
    ends = column_intervals(centred, np.ones_like(centred), resamples=resamples, seed=seed)
    return Interval(mean, float(mean + ends[0, 0]), float(mean + ends[1, 0]), LEVEL, resamples)


def mean_interval(
    values: npt.ArrayLike, *, seed: int = 0, within: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[float, float, float]:
    """Return mean, low and high of the 95 % interval of `bootstrap_interval`; of no value, three NaN.

    within: the range of possible values, to which the interval is clipped. This does not change its coverage, because
    the mean cannot lie outside the range.
    """
    if not np.size(values):
        return (float("nan"),) * 3
    interval = bootstrap_interval(values, seed=seed)
    low, high = np.clip([interval.low, interval.high], *within).tolist()
    return interval.mean, low, high


def share_interval(hits: npt.ArrayLike) -> tuple[float, float, float]:
    """Return the share of hits in 0/1 values (D,) with its exact 95 % interval (Clopper & Pearson 1934).

    It is valid for any number of values, also if all are hits. Without values: three NaN.
    """
    from scipy import stats

    array = np.asarray(hits, dtype=np.float64)
    if not array.size:
        return (float("nan"),) * 3
    interval = stats.binomtest(int(array.sum()), array.size).proportion_ci()
    return float(array.mean()), float(interval.low), float(interval.high)


def column_intervals(
    values: Any,
    holds: Any,
    *,
    over_holding: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> FloatArray:
    """Return the ends (2, K) of the studentised 95 % bootstrap intervals of K means over D documents.

    values (D, K): arrays or sparse matrices, 0 where a document does not contain the word of the column; holds (D, K):
    1 where it does. over_holding: the mean is over the documents that contain the word, else over all. NaN for words in
    fewer than six documents.
    """
    from scipy import stats

    documents = values.shape[0]
    squares = values.multiply(values) if hasattr(values, "multiply") else values * values

    def moments(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and their standard errors (R, K) of resamples with `counts` (R, D) copies of each document."""
        sums, sums_of_squares, held = ((matrix.T @ counts.T).T for matrix in (values, squares, holds))
        sizes = held if over_holding else float(documents)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = sums / sizes
            variance = sums_of_squares / sizes - mean**2
            variance = np.where(variance > SMALLEST_VARIANCE * sums_of_squares / sizes, variance, 0.0)
            return mean, np.sqrt(variance / (sizes - 1))

    (mean,), (error,) = moments(np.ones((1, documents)))
    draws = []
    for counts in resample_counts(documents, check_count("resamples", resamples), seed):
        drawn, errors = moments(counts)
        with np.errstate(invalid="ignore", divide="ignore"):
            draws.append(np.where(errors > 0.0, (drawn - mean) / errors, np.nan))
    studentised = np.concatenate(draws)
    ends = np.full((2, values.shape[1]), np.nan)
    held = np.asarray(holds.sum(axis=0)).ravel()
    for column in np.flatnonzero(held >= FEWEST_DOCUMENTS):
        n = held[column]
        quantile = stats.t.ppf(1.0 - TAIL, n - 1)
        # Resamples whose values are all equal say nothing about the spread.
        known = studentised[np.isfinite(studentised[:, column]), column]
        low, high = np.quantile(np.append(known, 0.0), [q := TAIL * n / (n + SKEWNESS_ALLOWANCE), 1.0 - q])
        ends[:, column] = mean[column] - np.array([max(high, quantile), min(low, -quantile)]) * error[column]
    return ends


def difference_ends(
    first: tuple[Any, Any, Any], second: tuple[Any, Any, Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the ends of the interval of first − second, each given as (mean, low, high) of independent documents.

    The distances of the ends from the means are added in squares (Zou & Donner 2008). NaN where one has no interval.
    """
    (mean, low, high), (other, other_low, other_high) = (tuple(map(np.asarray, part)) for part in (first, second))
    return (
        mean - other - np.hypot(mean - low, other_high - other),
        mean - other + np.hypot(high - mean, other - other_low),
    )


def resample_counts(documents: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield how often each of D documents is drawn in each resample, in blocks of bounded size (block, D)."""
    generator = np.random.default_rng(seed)
    for size in block_sizes(resamples, documents):
        drawn = generator.integers(documents, size=(size, documents)) + documents * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * documents).reshape(size, documents).astype(np.float64)


def sign_flip_p(
    differences: npt.ArrayLike, *, alternative: Alternative = "two-sided", permutations: int = FLIPS, seed: int = 0
) -> FloatArray:
    """Return the p-values (P,) of P mean differences from 0, by flipping signs (Fisher 1935).

    p = P(|mean of ε_d δ_d| ≥ |mean of δ_d|), or without the bars if "greater"; ε_d = ±1 with equal chance, δ (D, P) the
    differences of D documents, NaN where a document has none. Exact over all 2^D signs where these are no more than
    `permutations`, else (hits + 1) / (permutations + 1) over random ones (Phipson & Smyth 2010). No document: NaN.
    O(permutations · D · P).
    """
    given = np.asarray(differences, dtype=np.float64)
    known: BoolArray = np.isfinite(given)
    delta = np.where(known, given, 0.0)
    count = len(delta)
    read = np.abs if alternative == "two-sided" else np.asarray
    # Sums of the same numbers in another order differ by rounding: within it, they count as equally extreme.
    bar = read(delta.sum(axis=0)) - 1e-12 * np.abs(delta).sum(axis=0)
    hits = np.zeros(delta.shape[1])
    exact = count < 63 and 2**count <= permutations
    generator = np.random.default_rng(seed)
    for size in [2**count] if exact else block_sizes(permutations, max(count, delta.shape[1])):
        bits = np.arange(size)[:, None] >> np.arange(count) & 1 if exact else generator.integers(2, size=(size, count))
        hits += (read((1.0 - 2.0 * bits) @ delta) >= bar).sum(axis=0)
    p_values = hits / 2**count if exact else (hits + 1) / (permutations + 1)
    return np.where(known.any(axis=0), p_values, np.nan)


def documents_needed(comparisons: int, alternative: Alternative = "two-sided") -> int:
    """Return how many documents sign flips need for the smallest of several p-values to be significant after Holm.

    D documents that all favour one side have p = 2^−D, twice that if two-sided.
    """
    sides = 2 if alternative == "two-sided" else 1
    return int(np.floor(np.log2(sides * max(comparisons, 1) / SIGNIFICANCE))) + 1


def holm(p_values: Sequence[float] | FloatArray) -> list[float]:
    """Return p-values corrected for their number (Holm 1979): p_(i) ← max over j ≤ i of min(1, (m − j + 1) p_(j)).

    m counts the p-values that are numbers; NaN stays NaN.
    """
    corrected = [float("nan")] * len(p_values)
    order = sorted((i for i, p in enumerate(p_values) if p == p), key=lambda i: p_values[i])
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
