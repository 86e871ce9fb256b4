"""The mean of the gradient along a path, ∫₀¹ ∂y/∂x (x' + α(x − x')) dα, by a fixed or an adaptive rule.

Adaptive: Gauss-Patterson rules of 1, 3, 7, 15 … nodes, every evaluation reused (`patterson`). It stops when both the
completeness gap |Σ s − (y(x) − y(x'))| and the change that the next rule is expected to bring to the attributions s are
under tolerance: the gap alone can be small by accident. If the last two rules changed s by a and then by b < a, the
next one is expected to change it by b · b/a; on smooth paths it is less, for the errors fall faster than geometrically.
Shapes as in `paths`. Memory: one batch of points and at most eight arrays (n, D), whatever the number of steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.special
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import OptionError
from sightline.methods.integration.paths import Path
from sightline.methods.integration.patterson import nested_rules
from sightline.methods.registry import Check
from sightline.models.batching import BATCH_TOKENS
from sightline.trace import Trace

FIRST_RULE = 2
"""The rules of 1, 3 and 7 nodes are evaluated together: fewer say nothing about their error."""
SMALLEST_SHARE = 0.05
"""Gaps are relative to |y(x) − y(x')|, or to Σ|s| where that difference is below this share of it."""
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

    def weighted(self, positions: NDArray[np.float64], weights: NDArray[np.float64]) -> Tensor:
        """Σ_k w_k ∂y/∂x(α_k) for each of R rules, weights (R, m): (R, n, D), in batches that fit in memory."""
        total = self.path.end.new_zeros(len(weights), *self.path.end.shape)
        step = max(1, BATCH_TOKENS // self.trace.token_count)
        for begin in range(0, len(positions), step):
            chunk = torch.from_numpy(positions[begin : begin + step])
            shares = torch.from_numpy(weights[:, begin : begin + step]).to(total)
            _, gradients = self.trace.values_and_gradients(self.path.points(chunk))
            total += torch.cat([torch.tensordot(shares, gradient, dims=1) for gradient in gradients], dim=-1)
            self.evaluations += len(chunk)
            if self.trace.progress is not None:
                self.trace.progress(self.evaluations, 0)
        return total

    def ends(self) -> NDArray[np.float64]:
        """y(x') and y(x), by forwards without gradient, one at most: y(x) is what the trace has computed already."""
        start = self.path.points(torch.zeros(1, dtype=torch.float64))
        return np.array([self.trace.values_without_gradient(start)[0], self.trace.value])

    def attribution(self, gradient: Tensor) -> Tensor:
        """s_i = Σ_d (x_i − x'_i) ⊙ gradient_i, (n,)."""
        return (self.path.difference * gradient).sum(dim=-1)


def gauss_legendre(trace: Trace, path: Path, steps: int) -> Integral:
    """Integrate by a fixed rule with `steps` nodes."""
    check_steps(steps)
    sums = PathSums(trace, path)
    nodes, weights = scipy.special.roots_legendre(steps)
    (total,) = sums.weighted((nodes + 1) / 2, weights[None] / 2)
    gap = completeness_gap(sums.attribution(total), sums.ends())
    return Integral(total, {"completeness_gap": gap, "evaluations": steps})


def nested(trace: Trace, path: Path, tolerance: float, max_evaluations: int) -> Integral:
    """Integrate by nested rules until the attributions converge."""
    check_tolerance(tolerance)
    sums = PathSums(trace, path)
    ends = sums.ends()
    nodes, weights, sizes = nested_rules(max_evaluations)
    totals = path.end.new_zeros(len(sizes), *path.end.shape)
    rule = min(FIRST_RULE, len(sizes) - 1)
    begin = 0
    while True:
        totals += sums.weighted(nodes[begin : sizes[rule]], weights[:, begin : sizes[rule]])
        begin = sizes[rule]
        attributions = [sums.attribution(total) for total in totals[max(0, rule - 2) : rule + 1]]
        gap, change = completeness_gap(attributions[-1], ends), expected_change(attributions)
        if (gap <= tolerance and change <= tolerance) or rule == len(sizes) - 1:
            return Integral(
                totals[rule], convergence_checks(gap, change, tolerance, sums.evaluations, trace.target.quantity)
            )
        rule += 1


def expected_change(attributions: Sequence[Tensor]) -> float:
    """Return the relative change that one more rule will bring, from the attributions by the last three; 1 from fewer.

    Changes a, then b, are extrapolated to b · min(1, b/a).
    """
    if len(attributions) < 3:
        return 1.0
    before, last = (relative_change(*pair) for pair in pairwise(attributions))
    return last * min(1.0, last / before) if before else last


def check_steps(steps: int) -> None:
    """Raise OptionError for a rule without nodes."""
    if steps < 1:
        raise OptionError(f"The integral along the path needs at least one step, not {steps}.")


def check_tolerance(tolerance: float) -> None:
    """Raise OptionError unless the tolerance is a share."""
    if not 0 < tolerance < 1:
        raise OptionError(f"The tolerance of an integral is a share between 0 and 1, not {tolerance}.")


def convergence_checks(
    gap: float, change: float, tolerance: float, evaluations: int, quantity: str = "logit"
) -> dict[str, Check]:
    """Return the checks of an adaptive rule, and warn when it stopped before the attributions were settled.

    quantity: what is explained; logits are smoother than probabilities, so they are advised where they are not.
    """
    converged = gap <= tolerance and change <= tolerance
    if not converged:
        advice = "raise max_evaluations" + ("" if quantity == "logit" else " or use the logit as target quantity")
        warnings.warn(
            f"The integral along the path stopped after {evaluations} evaluations with a completeness gap of {gap:.1%} "
            f"and a change of {change:.1%}; {advice}.",
            stacklevel=2,
        )
    return {"completeness_gap": gap, "change": change, "evaluations": evaluations, "converged": converged}


def relative_change(before: Tensor, after: Tensor) -> float:
    """Σ|after − before| / Σ|after|; 0 where all is zero."""
    scale = float(after.abs().sum())
    return float((after - before).abs().sum()) / scale if scale else 0.0


def completeness_gap(attribution: Tensor, ends: NDArray[np.float64]) -> float:
    """|Σ s − (y(x) − y(x'))| relative to |y(x) − y(x')|, or to Σ|s| if the difference is near zero beside it.

    ends = (y(x'), y(x)). A difference below `SMALLEST_SHARE` of Σ|s| is what scores of both signs leave of each other.
    """
    rise, magnitude = float(ends[1] - ends[0]), float(attribution.abs().sum())
    near_zero = abs(rise) < SMALLEST_SHARE * magnitude
    scale = max(magnitude if near_zero else abs(rise), ROUNDING * float(np.abs(ends).max()))
    return abs(float(attribution.sum()) - rise) / scale if scale else 0.0
