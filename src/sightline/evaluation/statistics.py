"""Three small statistics of evaluations: the interval of a mean, a paired permutation test, and Holm's correction.

All are seeded and say in their docstrings what they give for no value and for one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightline.metrics import SightlineWarning, bootstrap_interval

BLOCK_ENTRIES = 2**22
"""Signs drawn at once in a permutation test: 32 MB."""


def mean_interval(values: npt.ArrayLike, *, seed: int = 0) -> tuple[float, float, float]:
    """Return mean, low and high of the bootstrap 95 % interval; one value is its own interval, none is NaN."""
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return (float("nan"),) * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SightlineWarning)  # one document: the column `documents` says it
        interval = bootstrap_interval(array, seed=seed)
    return interval.mean, interval.low, interval.high


def sign_flip_p(differences: npt.ArrayLike, *, permutations: int = 10_000, seed: int = 0) -> float:
    """Return the two-sided p-value of a mean difference other than 0, by flipping signs (Fisher 1935).

    p = P(|mean of ε_d δ_d| ≥ |mean of δ_d|), ε_d = ±1 with equal chance, δ (D,) the differences of D documents. Exact
    over all 2^D signs where these are no more than `permutations`, else (hits + 1) / (permutations + 1) over random
    ones (Phipson & Smyth 2010). No document: NaN. O(permutations · D).
    """
    delta = np.asarray(differences, dtype=np.float64)
    count = delta.size
    if not count:
        return float("nan")
    # Sums of the same numbers in another order differ by rounding: what is within it counts as equally extreme.
    bar = abs(delta.sum()) - 1e-12 * np.abs(delta).sum()
    if count < 63 and 2**count <= permutations:
        patterns = np.arange(2**count)[:, None] >> np.arange(count) & 1
        return float((np.abs((1.0 - 2.0 * patterns) @ delta) >= bar).mean())
    generator = np.random.default_rng(seed)
    hits, left = 0, permutations
    while left:
        size = min(left, max(1, BLOCK_ENTRIES // count))
        signs = 1.0 - 2.0 * generator.integers(2, size=(size, count))
        hits += int((np.abs(signs @ delta) >= bar).sum())
        left -= size
    return (hits + 1) / (permutations + 1)


def holm(p_values: Sequence[float]) -> list[float]:
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
