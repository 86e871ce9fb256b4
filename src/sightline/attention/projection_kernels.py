"""Compiled kernels of the sparse projections: rows of scores in, rows of weights out, and the vector-Jacobian product.

Below, z are the scores times α−1, so that the weights are p_j = [z_j − τ]₊^q with q = 1/(α−1) and τ such that they sum
to 1 (Peters, Niculae & Martins 2019). The threshold is at least max z − 1, so only the scores above that are
candidates; they are collected in one sweep and the root is searched among them alone, in double precision.

For q ≥ 1 the norm ‖[z − τ]₊‖_q, which is 1 where the sum is, is convex in τ and nearly straight. By Jensen's inequality
τ is at least m − k^(−1/q), m the mean of the k candidates; from the larger of the two bounds Newton's method on the
norm rises to the root without passing it (for q = 1 it is Michelot's algorithm, exact after a few steps). For q < 1
the interval is halved.

Shapes: R rows, n scores per row. Cost: two sweeps of a row and a few of its candidates; no sort.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.attention.compiled import compiled, compiled_with_reordering

Rows = NDArray[Any]

MOST_STEPS = 100
"""Newton steps at most (about five are usual), and halvings of the interval (60 exhaust double precision)."""
ENOUGH = 1e-10
"""A Newton step from a sum this close to 1 ends at rounding error: convergence is quadratic."""


@compiled
def project_rows(scores: Rows, largest: Rows, alpha: float, weights: Rows) -> None:
    """Fill `weights` (R, n) from `scores` (R, n) and the largest score of each row (R,); a row of −∞ becomes zeros."""
    count, columns = scores.shape
    scale, power = alpha - 1.0, 1.0 / (alpha - 1.0)
    candidates = np.empty(columns, dtype=np.float64)
    for row in range(count):
        top = scale * float(largest[row])
        z, p = scores[row], weights[row]
        if top == -np.inf:
            p[:] = 0.0
            continue
        size = 0
        for column in range(columns):
            candidates[size] = scale * float(z[column])
            size += candidates[size] > top - 1.0
        if power >= 1.0:
            threshold = _newton(candidates[:size], top, power)
        else:
            threshold = _bisection(candidates[:size], top, power)
        # In double precision, or the rounding of a large threshold would show in the sum.
        if power == 1.0:
            for column in range(columns):
                excess = scale * float(z[column]) - threshold
                p[column] = excess if excess > 0.0 else 0.0
        elif power == 2.0:
            for column in range(columns):
                excess = scale * float(z[column]) - threshold
                p[column] = excess * excess if excess > 0.0 else 0.0
        else:
            for column in range(columns):
                excess = scale * float(z[column]) - threshold
                p[column] = excess**power if excess > 0.0 else 0.0


@compiled_with_reordering
def _linear_sums(candidates: Rows, threshold: float) -> tuple[float, float]:
    """Return Σ[z_j − τ]₊ and the number of scores above τ."""
    total, count = 0.0, 0
    for place in range(candidates.size):
        excess = candidates[place] - threshold
        total += excess if excess > 0.0 else 0.0
        count += excess > 0.0
    return total, float(count)


@compiled_with_reordering
def _square_sums(candidates: Rows, threshold: float) -> tuple[float, float]:
    """Return Σ[z_j − τ]₊² and Σ[z_j − τ]₊."""
    total, slope = 0.0, 0.0
    for place in range(candidates.size):
        excess = candidates[place] - threshold
        excess = excess if excess > 0.0 else 0.0
        total += excess * excess
        slope += excess
    return total, slope


@compiled_with_reordering
def _power_sums(candidates: Rows, threshold: float, power: float) -> tuple[float, float]:
    """Return Σ[z_j − τ]₊^q and Σ[z_j − τ]₊^(q−1) over scores above τ."""
    total, slope = 0.0, 0.0
    for place in range(candidates.size):
        excess = candidates[place] - threshold
        if excess > 0.0:
            share = excess ** (power - 1.0)
            total += share * excess
            slope += share
    return total, slope


@compiled
def _newton(candidates: Rows, top: float, power: float) -> float:
    """Return τ for q ≥ 1."""
    total, size = _linear_sums(candidates, top - 1.0)
    threshold: float = top - 1.0 + max(0.0, total / size - size ** (-1.0 / power))
    for _ in range(MOST_STEPS):
        if power == 1.0:
            total, slope = _linear_sums(candidates, threshold)
        elif power == 2.0:
            total, slope = _square_sums(candidates, threshold)
        else:
            total, slope = _power_sums(candidates, threshold, power)
        if power == 1.0:
            step = (total - 1.0) / slope
        elif power == 2.0:
            step = (total - math.sqrt(total)) / slope
        else:
            step = (total - total ** (1.0 - 1.0 / power)) / slope
        threshold += max(step, 0.0)
        if total - 1.0 < ENOUGH:
            break
    return threshold


@compiled
def _bisection(candidates: Rows, top: float, power: float) -> float:
    """Return τ for q < 1, where the sum is not convex."""
    low, high = top - 1.0, top
    for _ in range(MOST_STEPS):
        middle = 0.5 * (low + high)
        total = 0.0
        for value in candidates:
            if value > middle:
                total += (value - middle) ** power
        if total > 1.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@compiled_with_reordering
def pull_back_rows(weights: Rows, gradient: Rows, alpha: float, result: Rows) -> None:
    """Fill `result` (R, n) with Jᵀ·g: s ⊙ (g − ⟨s, g⟩ / Σs), s_j = p_j^(2−α) where p_j > 0, else 0."""
    count, columns = weights.shape
    zero, one = weights.dtype.type(0), weights.dtype.type(1)
    for row in range(count):
        p, g, shares = weights[row], gradient[row], result[row]
        if alpha == 2.0:
            for column in range(columns):
                shares[column] = one if p[column] > zero else zero
        elif alpha == 1.5:
            for column in range(columns):
                shares[column] = np.sqrt(p[column])
        else:
            for column in range(columns):
                shares[column] = p[column] ** (2.0 - alpha) if p[column] > zero else zero
        product, total = zero, zero
        for column in range(columns):
            product += shares[column] * g[column]
            total += shares[column]
        mean = product / total if total > zero else zero
        for column in range(columns):
            shares[column] *= g[column] - mean
