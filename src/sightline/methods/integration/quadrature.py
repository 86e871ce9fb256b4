"""The mean of the gradient along a path, ∫₀¹ ∂y/∂x (x' + α(x − x')) dα, by a fixed or an adaptive rule.

Adaptive: nested uniform nodes, m intervals, then 2m, every evaluation reused, by Simpson's rule S_2m = (4 T_2m − T_m)/3
with T the trapezoid sums. It stops when both the completeness gap |Σ s − (y(x) − y(x'))| and the change of the
attributions s between S_m and S_2m are under tolerance: the gap alone can be small by accident.
Shapes as in `paths`. Memory: one batch of points and three arrays (n, D), whatever the number of steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.special
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import OptionError
from sightline.methods.integration.paths import Path
from sightline.methods.registry import Check
from sightline.models.batching import BATCH_TOKENS
from sightline.trace import Trace

FIRST_INTERVALS = 4
SMALLEST_SHARE = 1e-3
"""Gaps are relative to |y(x) − y(x')|, but never to less than this share of Σ|s| (else a tie would never finish)."""
ROUNDING = 1e-6
"""Nor to less than this share of |y|: below it there is only rounding."""


@dataclass(frozen=True)
class Integral:
    """The mean gradient (n, D) along a path and how far to trust it."""

    gradient: Tensor
    checks: Mapping[str, Check]


class PathSums:
    """Evaluates gradients on a path and counts the evaluations."""

    def __init__(self, trace: Trace, path: Path) -> None:
        self.trace = trace
        self.path = path
        self.evaluations = 0

    def weighted(self, positions: Tensor, weights: Tensor) -> tuple[Tensor, NDArray[np.float64]]:
        """Σ_k w_k ∂y/∂x(α_k), (n, D), and the values y(α_k), in batches that fit in memory."""
        total = torch.zeros_like(self.path.end)
        values = []
        step = max(1, BATCH_TOKENS // self.trace.token_count)
        for chunk, weight in zip(torch.split(positions, step), torch.split(weights, step), strict=True):
            point_values, gradients = self.trace.values_and_gradients(self.path.points(chunk))
            total += torch.cat([torch.tensordot(weight.to(total), gradient, dims=1) for gradient in gradients], dim=-1)
            values.append(point_values)
            self.evaluations += len(chunk)
            if self.trace.progress is not None:
                self.trace.progress(self.evaluations, 0)
        return total, np.concatenate(values)

    def attribution(self, gradient: Tensor) -> Tensor:
        """s_i = Σ_d (x_i − x'_i) ⊙ gradient_i, (n,)."""
        return (self.path.difference * gradient).sum(dim=-1)


def gauss_legendre(trace: Trace, path: Path, steps: int) -> Integral:
    """Integrate by a fixed rule with `steps` nodes."""
    check_steps(steps)
    sums = PathSums(trace, path)
    nodes, weights = scipy.special.roots_legendre(steps)
    total, _ = sums.weighted(torch.from_numpy((nodes + 1) / 2), torch.from_numpy(weights / 2))
    _, ends = sums.weighted(torch.tensor([0.0, 1.0]), torch.zeros(2))
    gap = completeness_gap(sums.attribution(total), ends)
    return Integral(total, {"completeness_gap": gap, "evaluations": steps})


def nested(trace: Trace, path: Path, tolerance: float, max_evaluations: int) -> Integral:
    """Integrate by Simpson's rule on nested nodes until the attributions converge."""
    check_tolerance(tolerance)
    sums = PathSums(trace, path)
    intervals = FIRST_INTERVALS
    nodes = torch.linspace(0, 1, intervals + 1, dtype=torch.float64)
    weights = torch.ones(intervals + 1, dtype=torch.float64)
    weights[[0, -1]] = 0.5
    # The same evaluations give the trapezoid sums on all nodes and on every second one.
    even, values = sums.weighted(nodes[::2], weights[::2])
    odd, _ = sums.weighted(nodes[1::2], weights[1::2])
    ends = values[[0, -1]]
    fine = (even + odd) / intervals
    simpson = (4 * fine - even / (intervals / 2)) / 3
    attribution = sums.attribution(simpson)
    gap, change = completeness_gap(attribution, ends), 1.0
    while (gap > tolerance or change > tolerance) and sums.evaluations + intervals <= max_evaluations:
        middles = (torch.arange(intervals, dtype=torch.float64) + 0.5) / intervals
        new, _ = sums.weighted(middles, torch.ones(intervals, dtype=torch.float64))
        finer = fine / 2 + new / (2 * intervals)
        simpson = (4 * finer - fine) / 3
        fine, intervals, before = finer, 2 * intervals, attribution
        attribution = sums.attribution(simpson)
        change = relative_change(before, attribution)
        gap = completeness_gap(attribution, ends)
    return Integral(simpson, convergence_checks(gap, change, tolerance, sums.evaluations))


def check_steps(steps: int) -> None:
    """Raise OptionError for a rule without nodes."""
    if steps < 1:
        raise OptionError(f"The integral along the path needs at least one step, not {steps}.")


def check_tolerance(tolerance: float) -> None:
    """Raise OptionError unless the tolerance is a share."""
    if not 0 < tolerance < 1:
        raise OptionError(f"The tolerance of an integral is a share between 0 and 1, not {tolerance}.")


def convergence_checks(gap: float, change: float, tolerance: float, evaluations: int) -> dict[str, Check]:
    """Return the checks of an adaptive rule, and warn when it stopped before the attributions were settled."""
    converged = gap <= tolerance and change <= tolerance
    if not converged:
        warnings.warn(
            f"The integral along the path stopped after {evaluations} evaluations with a completeness gap of {gap:.1%} "
            f"and a change of {change:.1%}; raise max_evaluations or use the logit as target quantity.",
            stacklevel=2,
        )
    return {"completeness_gap": gap, "change": change, "evaluations": evaluations, "converged": converged}


def relative_change(before: Tensor, after: Tensor) -> float:
    """Σ|after − before| / Σ|after|; 0 where all is zero."""
    scale = float(after.abs().sum())
    return float((after - before).abs().sum()) / scale if scale else 0.0


def completeness_gap(attribution: Tensor, ends: NDArray[np.float64]) -> float:
    """|Σ s − (y(x) − y(x'))| relative to |y(x) − y(x')|; ends = (y(x'), y(x))."""
    rise = float(ends[1] - ends[0])
    scale = max(abs(rise), SMALLEST_SHARE * float(attribution.abs().sum()), ROUNDING * float(np.abs(ends).max()))
    return abs(float(attribution.sum()) - rise) / scale if scale else 0.0
