"""Integrated gradients: the gradient averaged along the straight path from a baseline to the input.

s_i = Σ_d (x_i − x'_i) ⊙ ∫₀¹ ∂y/∂x_i (x' + α(x − x')) dα   (Sundararajan et al. 2017)

The integral is computed on nested uniform nodes: m intervals, then 2m, every evaluation reused, by Simpson's rule:
S_2m = (4 T_2m − T_m)/3 with T the trapezoid sums. It stops when both the completeness gap |Σ s − (y(x) − y(x'))| and
the change of the attributions between S_m and S_2m are under tolerance: the gap alone can be small by accident.
Shapes: n tokens, d width of the embedding that is interpolated.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.special
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import OptionError
from sightline.methods.registry import Attribution, method
from sightline.models.batching import BATCH_TOKENS
from sightline.trace import Trace

Place = Literal["embeddings", "first_hidden"]

FIRST_INTERVALS = 4
SMALLEST_SHARE = 1e-3
"""Gaps are relative to |y(x) − y(x')|, but never to less than this share of Σ|s| (else a tie would never finish)."""
ROUNDING = 1e-6
"""Nor to less than this share of |y|: below it there is only rounding."""


@dataclass(frozen=True)
class Path:
    """The straight line from the baseline to the input, in embedding space: both (n, d)."""

    start: Tensor
    end: Tensor
    place: Place

    def points(self, positions: Tensor) -> Tensor:
        """x' + α(x − x') for every α: (m,) -> (m, n, d)."""
        return torch.lerp(self.start[None], self.end[None], positions[:, None, None].to(self.start))


class PathSums:
    """Evaluates gradients on a path and counts the evaluations."""

    def __init__(self, trace: Trace, path: Path) -> None:
        self.trace = trace
        self.path = path
        self.evaluations = 0

    def weighted(self, positions: Tensor, weights: Tensor) -> tuple[Tensor, NDArray[np.float64]]:
        """Σ_k w_k ∂y/∂x(α_k), (n, d), and the values y(α_k), in batches that fit in memory."""
        total = torch.zeros_like(self.path.end)
        values = []
        step = max(1, BATCH_TOKENS // self.trace.tokens)
        for chunk, weight in zip(torch.split(positions, step), torch.split(weights, step), strict=True):
            found, gradients = self.trace.values_and_gradients(self.path.points(chunk), self.path.place)
            total += torch.tensordot(weight.to(total), gradients, dims=1)
            values.append(found)
            self.evaluations += len(chunk)
            if self.trace.progress is not None:
                self.trace.progress(self.evaluations, 0)
        return total, np.concatenate(values)


@method(
    "integrated_gradients",
    summary="Gradient averaged along the path from a baseline; its scores add up to the change of the output.",
    formula="s_i = Σ_d (x_i − x'_i) ⊙ ∫ ∂y/∂x_i dα",
    citation="Sundararajan et al. 2017",
    needs={"gradients", "probes"},
    signed=True,
    class_specific=True,
    cost="9 to 257 forwards and backwards, as many as the tolerance needs",
    use="When the explanation must add up, and a few seconds more are fine.",
    avoid="With a baseline that is itself meaningful to the model: try another one.",
)
def integrated_gradients(
    trace: Trace,
    *,
    baseline: Literal["pad", "mask", "zero"] = "pad",
    embeddings: Literal["full", "word"] = "full",
    steps: int | None = None,
    tolerance: float = 0.01,
    max_evaluations: int = 257,
) -> Attribution:
    """Integrate from `baseline` (specials kept) over the full embedding output or the word embeddings alone.

    Position ids are those of the input everywhere. `steps` asks for a fixed Gauss-Legendre rule instead of the
    adaptive one. Checks: completeness_gap and change (relative), evaluations, converged.
    """
    if steps is not None and steps < 1:
        raise OptionError(f"integrated_gradients needs at least one step, not {steps}.")
    if not 0 < tolerance < 1:
        raise OptionError(f"The tolerance of integrated_gradients is a share between 0 and 1, not {tolerance}.")
    path = build_path(trace, baseline, "first_hidden" if embeddings == "full" else "embeddings")
    sums = PathSums(trace, path)
    difference = path.end - path.start
    if steps is not None:
        attribution, gap = _gauss_legendre(sums, difference, steps)
        checks = {"completeness_gap": gap, "evaluations": sums.evaluations}
        return Attribution(attribution.cpu().numpy(), checks=checks)
    attribution, gap, change = _nested(sums, difference, tolerance, max_evaluations)
    converged = gap <= tolerance and change <= tolerance
    if not converged:
        warnings.warn(
            f"integrated_gradients stopped after {sums.evaluations} evaluations with a completeness gap of {gap:.1%} "
            f"and a change of {change:.1%}; raise max_evaluations or use the logit as target quantity.",
            stacklevel=2,
        )
    checks = {
        "completeness_gap": gap,
        "change": change,
        "evaluations": sums.evaluations,
        "converged": converged,
    }
    return Attribution(attribution.cpu().numpy(), checks=checks)


def build_path(trace: Trace, baseline: Literal["pad", "mask", "zero"], place: Place) -> Path:
    """Return the path from the baseline, in which specials keep their embedding, to the input."""
    end = trace.network.embed(trace.encoding, place)
    if baseline == "zero":
        start = torch.where(
            torch.from_numpy(trace.encoding.special).to(end.device)[:, None], end, torch.zeros_like(end)
        )
    else:
        ids = np.where(trace.encoding.special, trace.encoding.ids, trace.network.token_id(baseline))
        start = trace.network.embed(trace.encoding.replace_ids(ids), place)
    return Path(start, end, place)


def _gauss_legendre(sums: PathSums, difference: Tensor, steps: int) -> tuple[Tensor, float]:
    nodes, weights = scipy.special.roots_legendre(steps)
    positions = torch.from_numpy((nodes + 1) / 2)
    total, _ = sums.weighted(positions, torch.from_numpy(weights / 2))
    _, ends = sums.weighted(torch.tensor([0.0, 1.0]), torch.zeros(2))
    sums.evaluations = steps
    attribution = (difference * total).sum(dim=-1)
    return attribution, _gap(attribution, ends)


def _nested(sums: PathSums, difference: Tensor, tolerance: float, max_evaluations: int) -> tuple[Tensor, float, float]:
    """Simpson on nested nodes; returns attributions (n,), completeness gap and change, both relative."""
    intervals = FIRST_INTERVALS
    nodes = torch.linspace(0, 1, intervals + 1, dtype=torch.float64)
    weights = torch.ones(intervals + 1, dtype=torch.float64)
    weights[[0, -1]] = 0.5
    every_second = weights.clone()
    every_second[1::2] = 0
    # The same evaluations give the trapezoid sums on all nodes and on every second one.
    coarse_gradients, coarse_values = sums.weighted(nodes[::2], every_second[::2])
    odd_gradients, _ = sums.weighted(nodes[1::2], weights[1::2])
    ends = coarse_values[[0, -1]]
    fine = (coarse_gradients + odd_gradients) / intervals
    simpson = (4 * fine - coarse_gradients / (intervals / 2)) / 3
    attribution = (difference * simpson).sum(dim=-1)
    gap, change = _gap(attribution, ends), 1.0
    while (gap > tolerance or change > tolerance) and sums.evaluations + intervals <= max_evaluations:
        middles = (torch.arange(intervals, dtype=torch.float64) + 0.5) / intervals
        new, _ = sums.weighted(middles, torch.ones(intervals, dtype=torch.float64))
        finer = fine / 2 + new / (2 * intervals)
        simpson = (4 * finer - fine) / 3
        fine, intervals, before = finer, 2 * intervals, attribution
        attribution = (difference * simpson).sum(dim=-1)
        scale = float(attribution.abs().sum())
        change = float((attribution - before).abs().sum()) / scale if scale else 0.0
        gap = _gap(attribution, ends)
    return attribution, gap, change


def _gap(attribution: Tensor, ends: NDArray[np.float64]) -> float:
    """|Σ s − (y(x) − y(x'))| relative to |y(x) − y(x')|; ends = (y(x'), y(x))."""
    rise = float(ends[1] - ends[0])
    scale = max(abs(rise), SMALLEST_SHARE * float(attribution.abs().sum()), ROUNDING * float(np.abs(ends).max()))
    return abs(float(attribution.sum()) - rise) / scale if scale else 0.0
