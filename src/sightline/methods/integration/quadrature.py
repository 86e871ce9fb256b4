"""The gradient summed along a path, (x − x') ∫₀¹ ∂y/∂x (x' + α(x − x')) dα, by a fixed or an adaptive rule.

Adaptive: Gauss-Patterson rules of 1, 3, 7, 15 … nodes, every evaluation reused (`patterson`). It stops when both the
completeness gap |Σ s − (y(x) − y(x'))| and the change that the next rule is expected to bring to the attributions s are
under tolerance: the gap alone can be small by accident. If the last two rules changed s by a and then by b < a, the
next one is expected to change it by b · b/a; on smooth paths it is less, for the errors fall faster than geometrically.
Only products (n,) are kept of every node, per place P of the path. Other shapes as in `paths`. Memory: one batch of
points, as many as the machine has memory for (`models.memory`).
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

from sightline.attention.arrays import as_array
from sightline.errors import OptionError
from sightline.methods.integration.paths import PathPart
from sightline.methods.integration.patterson import nested_rules
from sightline.methods.registry import Check
from sightline.models import Target
from sightline.passes.document_windows import window_targets
from sightline.passes.trace import Trace

FIRST_RULE = 2
"""The rules of 1, 3 and 7 nodes are evaluated together: fewer say nothing about their error."""
SMALLEST_SHARE = 0.05
"""Gaps are relative to |y(x) − y(x')|, or to Σ|s| where that difference is below this share of it."""
ROUNDING = 1e-6
"""Nor to less than this share of |y|: below it there is only rounding."""


@dataclass(frozen=True)
class Integral:
    """The attributions by place of the path, (P, n), and how far to trust them."""

    parts: Tensor
    checks: Mapping[str, Check]


class PathProducts:
    """(x − x') ⊙ ∂y/∂x at the nodes α_1, α_2, … of a path, summed over the width of every place: (P, n) per node.

    While all classes are explained, the first of them that needs a node also evaluates it for those that follow: one
    forward, and a backward for each. Adaptive rules of the classes of one document mostly stop at the same node.
    """

    def __init__(self, parts: Sequence[PathPart], nodes: NDArray[np.float64]) -> None:
        self.places = parts[0].path.places
        self._parts = parts
        self._nodes = nodes
        self._products: dict[Target, list[Tensor]] = {}
        self._start_logits: Tensor | None = None

    def first(self, trace: Trace, count: int) -> Tensor:
        """Return the products at the first `count` nodes for the target of the trace: (count, P, n)."""
        own = self._products.setdefault(trace.target, [])
        step = max(1, trace.network.graph_tokens // max(len(part.positions) for part in self._parts))
        while len(own) < count:
            start = len(own)
            nodes = torch.from_numpy(self._nodes[start : min(count, start + step)])
            targets = [trace.target, *(t for t in trace.later_targets if len(self._products.get(t, [])) == start)]
            for target, products in zip(targets, self._multiply(trace, nodes, targets), strict=True):
                self._products.setdefault(target, []).extend(products)
            if trace.progress is not None:
                trace.progress(len(own), 0)
        return torch.stack(own[:count])

    def _multiply(self, trace: Trace, nodes: Tensor, targets: Sequence[Target]) -> Tensor:
        """Σ_d (x − x') ⊙ ∂y/∂x of every place at m nodes, for T targets: (T, m, P, n).

        Tokens that several windows hold get the sum over these.
        """
        totals = torch.zeros(len(targets), len(nodes), len(self.places), trace.token_count, dtype=torch.float64)
        for part, rounds in zip(self._parts, self._part_targets(trace, nodes, targets), strict=True):
            differences = part.path.split(part.path.difference).values()
            for total, gradients in zip(totals, part.trace.gradients_at(part.path.points(nodes), rounds), strict=True):
                products = [(gradient * d).sum(dim=-1) for gradient, d in zip(gradients, differences, strict=True)]
                total[:, :, part.positions] += torch.from_numpy(as_array(torch.stack(products, dim=1))).double()
        return totals

    def _part_targets(self, trace: Trace, nodes: Tensor, targets: Sequence[Target]) -> list[list[list[Target]]]:
        """Return what is differentiated in each part, for each target and node: [part][target][node].

        In a window it is the linear function of its logits with the gradient of the document's y, which depends on
        what all windows say at that node; so they run once before, without gradient.
        """
        if not trace.windowed:
            return [[[target] * len(nodes) for target in targets]]
        task = trace.network.task
        logits = [part.trace.logits_at(part.path.points(nodes)) for part in self._parts]
        by_window = [
            [window_targets(task, trace.encoding, at_node, target) for at_node in zip(*logits, strict=True)]
            for target in targets
        ]
        return [[[at_node[w] for at_node in by_node] for by_node in by_window] for w in range(len(self._parts))]

    def ends(self, trace: Trace) -> NDArray[np.float64]:
        """y(x') and y(x), by forwards without gradient, one at most: y(x) is what the trace has computed already."""
        if self._start_logits is None:
            start = torch.zeros(1, dtype=torch.float64)
            logits = [part.trace.logits_at(part.path.points(start))[0] for part in self._parts]
            self._start_logits = trace.combine(logits)
        return np.array([trace.value_of(self._start_logits), trace.value])


def gauss_legendre_nodes(steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights (steps,) of the fixed rule on [0, 1]."""
    check_steps(steps)
    nodes, weights = scipy.special.roots_legendre(steps)
    return (nodes + 1) / 2, weights / 2


def gauss_legendre(trace: Trace, products: PathProducts, steps: int) -> Integral:
    """Integrate by a fixed rule with `steps` nodes, those of the products."""
    _, weights = gauss_legendre_nodes(steps)
    parts = _weighted(weights, products.first(trace, steps))
    gap = completeness_gap(parts.sum(dim=0), products.ends(trace))
    return Integral(parts, {"completeness_gap": gap, "evaluations": steps})


def nested(trace: Trace, products: PathProducts, tolerance: float, max_evaluations: int) -> Integral:
    """Integrate by nested rules, whose nodes are those of the products, until the attributions converge."""
    check_tolerance(tolerance)
    ends = products.ends(trace)
    _, weights, sizes = nested_rules(max_evaluations)
    rule = min(FIRST_RULE, len(sizes) - 1)
    while True:
        at_nodes = products.first(trace, sizes[rule])
        parts = [_weighted(weights[r, : sizes[rule]], at_nodes) for r in range(max(0, rule - 2), rule + 1)]
        attributions = [part.sum(dim=0) for part in parts]
        gap, change = completeness_gap(attributions[-1], ends), expected_change(attributions)
        if (gap <= tolerance and change <= tolerance) or rule == len(sizes) - 1:
            checks = convergence_checks(gap, change, tolerance, sizes[rule], trace.target.quantity)
            return Integral(parts[-1], checks)
        rule += 1


def _weighted(weights: NDArray[np.float64], at_nodes: Tensor) -> Tensor:
    """Σ_k w_k · products_k, (P, n)."""
    return torch.einsum("k,kpn->pn", torch.from_numpy(weights), at_nodes)


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
