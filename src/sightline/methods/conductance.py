"""Layer conductance: integrated gradients seen at the inputs (or outputs) of the encoder layers.

c^l_i = Σ_d ∫₀¹ ∂y/∂x^l_i · ∂x^l_i/∂α dα along the path of integrated gradients   (Dhamdhere et al. 2018)

In every layer the scores add up to y(x) − y(x'): how the same total is spread over the tokens, layer by layer.
The derivative of x^l along the path is not needed: as a Stieltjes integral ∫ ∂y/∂x^l · dx^l, the trapezoid rule is
T = Σ_k ½(g_k + g_{k+1}) · (x^l_{k+1} − x^l_k), and Simpson's S_2m = (4 T_2m − T_m)/3. The nodes are walked once, in
order, so that memory does not grow with their number; twice as many nodes are a new walk.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.methods.integration import (
    Baseline,
    Path,
    build_path,
    check_steps,
    check_tolerance,
    completeness_gap,
    convergence_checks,
    relative_change,
)
from sightline.methods.registry import Attribution, Check, method
from sightline.models import Recorder
from sightline.models.batching import BATCH_TOKENS
from sightline.passes.trace import Trace
from sightline.settings.values import check_layer

FIRST_INTERVALS = 8


@method(
    "layer_conductance",
    title="Layer conductance",
    kind="gradients",
    summary="Integrated gradients as they pass through every layer; each layer adds up to the change in the output.",
    formula="s^l_i = Σ_d ∫ ∂y/∂x^l_i · ∂x^l_i/∂α dα",
    citation="Dhamdhere et al. 2018",
    needs={"probes"},
    signed=True,
    class_specific=True,
    cost="26 to 510 forward and backward passes (as many as the tolerance requires)",
    use="Use it to see in which layer information moves from the words to the readout token.",
    avoid="Avoid reading upper layers as scores of words: a token there stands for more than its word.",
)
def layer_conductance(
    trace: Trace,
    *,
    baseline: Baseline = "pad",
    baseline_text: str | None = None,
    embeddings: Literal["full", "word"] = "full",
    hidden: Literal["input", "output"] = "input",
    layer: int | None = None,
    steps: int | None = None,
    tolerance: float = 0.01,
    max_evaluations: int = 257,
) -> Attribution:
    """Scores by layer (L, n), of the layers' inputs or outputs; the scores (n,) are one layer's or the mean of all.

    `steps` asks for one walk with so many intervals (rounded up to an even number) instead of doubling them until
    completeness gap and change are under `tolerance`; `max_evaluations` bounds the nodes of the last walk. Checks are
    those of the mean over layers, except the gap, which is that of the worst layer.
    """
    check_tolerance(tolerance)
    chosen = None if layer is None else check_layer(layer, trace.layer_count)
    walk = _Walk(trace, build_path(trace, baseline, baseline_text, embeddings), hidden)
    if steps is not None:
        check_steps(steps)
        intervals = max(2, steps + steps % 2)
        layers, ends = walk.simpson(intervals)
        checks: dict[str, Check] = {"completeness_gap": _worst_gap(layers, ends), "evaluations": walk.evaluations}
    else:
        intervals = FIRST_INTERVALS
        layers, ends = walk.simpson(intervals)
        gap, change = _worst_gap(layers, ends), 1.0
        while (gap > tolerance or change > tolerance) and 2 * intervals + 1 <= max_evaluations:
            intervals, before = 2 * intervals, layers
            layers, ends = walk.simpson(intervals)
            gap, change = _worst_gap(layers, ends), relative_change(before, layers)
        checks = convergence_checks(gap, change, tolerance, walk.evaluations, trace.target.quantity)
    by_layer = layers.numpy()
    if chosen is not None:
        return Attribution(by_layer[chosen], layers=by_layer, checks=checks, layer_kind="separate")
    return Attribution(by_layer.mean(axis=0), layers=by_layer, checks=checks, layer_kind="averaged")


class _Walk:
    """Walks a path from baseline to input and sums up conductances on the way."""

    def __init__(self, trace: Trace, path: Path, hidden: Literal["input", "output"]) -> None:
        self.trace = trace
        self.path = path
        self.hidden = hidden
        self.evaluations = 0

    def simpson(self, intervals: int) -> tuple[Tensor, NDArray[np.float64]]:
        """Conductances (L, n) on an even number of intervals, and y at both ends of the path."""
        fine = torch.zeros(self.trace.layer_count, self.trace.token_count, dtype=torch.float64)
        coarse = torch.zeros_like(fine)
        last: _Node | None = None
        last_even: _Node | None = None
        values: list[float] = []
        nodes = torch.linspace(0, 1, intervals + 1, dtype=torch.float64)
        for chunk in torch.split(nodes, max(1, BATCH_TOKENS // self.trace.token_count)):
            for node in self._evaluate(chunk):
                if last is not None:
                    fine += _trapezoid(last, node)
                if len(values) % 2 == 0:
                    if last_even is not None:
                        coarse += _trapezoid(last_even, node)
                    last_even = node
                last = node
                values.append(node[2])
        return (4 * fine - coarse) / 3, np.array([values[0], values[-1]])

    def _evaluate(self, positions: Tensor) -> list[_Node]:
        """x^l and ∂y/∂x^l of all layers, and y, at every position."""
        leaves = {place: point.requires_grad_() for place, point in self.path.points(positions).items()}
        recorder = Recorder(attention=False, readout_only=self.hidden == "input")
        y = self.trace.values_at(leaves, recorder)
        layers = self.trace.layer_count
        states = recorder.hidden[:layers] if self.hidden == "input" else recorder.hidden[1:]
        gradients = self.trace.network.backward(y.sum(), states)
        values = y.detach().cpu().double().tolist()
        self.evaluations += len(positions)
        if self.trace.progress is not None:
            self.trace.progress(self.evaluations, 0)
        return [
            (
                torch.stack([recorder.cut(state, k).detach() for state in states]),
                torch.stack([recorder.cut(gradient, k) for gradient in gradients]),
                values[k],
            )
            for k in range(len(positions))
        ]


_Node = tuple[Tensor, Tensor, float]
"""States (L, n, d), gradients (L, n, d) and y at one point of the path."""


def _trapezoid(start: _Node, end: _Node) -> Tensor:
    """½(g + g') · (x' − x), summed over the width: (L, n)."""
    return ((end[0] - start[0]) * (start[1] + end[1])).sum(dim=-1).cpu().double() / 2


def _worst_gap(layers: Tensor, ends: NDArray[np.float64]) -> float:
    return max(completeness_gap(layer, ends) for layer in layers)
