"""Attention flow as a method: the maximum flow of attention from the readout to every token (`flow/solve.py`).

If the readout has several rows (mean pooling, the two ends of an answer), the flow of each is solved separately and
averaged by the weight of its row, as in rollout: s = Σ_i r_i flow_i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sightline.arguments import check_head, check_layer
from sightline.attention import Attention
from sightline.errors import OptionError
from sightline.methods.attention_weights import Fusion, fuse_layers
from sightline.methods.flow.solve import FlowResult, solve_flow
from sightline.methods.registry import Array, Attribution, method
from sightline.methods.scaling.receptive_field import causal_checks, even_attention, rescale_by_field
from sightline.trace import Trace

Source = Literal["readout", "pooled"] | int
"""The rows that are read, each by itself; one node above the layers that reads them all; the token of that number."""


@method(
    "flow",
    title="Attention flow",
    kind="attention",
    summary="Exact maximum flow of attention from the readout to each token through all layers.",
    formula="capacities Â = (Ā + I)/2 with rows that sum to 1; s_j = maxflow((L, r) → (0, j)), divided by Σ s",
    citation="Abnar & Zuidema 2020",
    needs={"attentions"},
    signed=False,
    class_specific=False,
    cost="one forward pass, one maximum flow per token (about 1 s at 512 tokens, 1 min at 4,096, per readout row)",
    use="Use it when rollout's averaging hides narrow paths and the document is not too long.",
    avoid="Avoid it for telling classes apart, and on very long documents, where rollout is a thousand times cheaper.",
)
def flow(
    trace: Trace,
    *,
    fusion: Fusion = "mean",
    layer: int = -1,
    head: int | None = None,
    source: Source = "readout",
    residual: bool = True,
    values: Literal["normalised", "raw"] = "normalised",
    head_weights: Sequence[Sequence[float]] | None = None,
    receptive_field: bool = False,
) -> Attribution:
    """Flow from the readout of one layer, or from any token; extras hold the raw values and the ones that sum to 1.

    With `head` k the flow starts with the capacities of A(layer, k), without residual, above the layers below it.
    `source="pooled"` is for models that average tokens: one flow from a node above the top layer, whose arcs to the
    tokens carry the readout weights, instead of the mean of one flow a token, which takes n times as long.
    Checks: whether every value is certified by a cut, the largest gap, and how the tokens were settled.
    `receptive_field` is for causal models: normalised values are divided by those of even attention first.
    """
    top = check_layer(layer, trace.layer_count)
    causal = causal_checks(trace, "flow", receptive_field)
    fused = fuse_layers(trace, fusion, head_weights)
    starts = _starts(trace, source)
    if head is None:
        flows = _solve_flows(fused[: top + 1], starts, residual, trace.progress)
    else:
        rows = trace.attentions[top].head(check_head(head, trace.head_count))
        flows = _solve_flows(fused[:top], _lift_starts(rows, starts), residual, trace.progress)
    normalised = flows.normalised
    if receptive_field:
        even = even_attention(trace)
        layers, even_starts = (top + 1, starts) if head is None else (top, _lift_starts(even, starts))
        normalised = rescale_by_field(flows.raw, _solve_flows([even] * layers, even_starts, residual, None).raw, "flow")
    extras = {"raw": flows.raw, "normalised": normalised}
    return Attribution(extras[values], checks={**causal, **flows.checks()}, extras=extras)


_Starts = list[tuple[float, "int | Array"]]
"""Where flows start, each with its weight: a token of the top layer, or capacities (n,) of arcs to all of them."""


def _starts(trace: Trace, source: Source) -> _Starts:
    readout = trace.readout
    if source == "pooled":
        return [(1.0, readout)]
    if source == "readout":
        return [(float(readout[i]), int(i)) for i in np.flatnonzero(readout)]
    if not 0 <= source < trace.token_count:
        raise OptionError(
            f"Token {source} asked for as the source, the document has {trace.token_count} (0-{trace.token_count - 1})."
        )
    return [(1.0, int(source))]


def _lift_starts(top: Attention, starts: _Starts) -> _Starts:
    """The same starts one layer higher: their rows of a one-head operator as capacities."""
    return [(weight, top.row(start)[0] if isinstance(start, int) else top.left(start)[0]) for weight, start in starts]


@dataclass(frozen=True)
class _Average:
    """The weighted mean of several flows, of their values and of their values scaled to sum 1."""

    weights: list[float]
    flows: list[FlowResult]

    @property
    def raw(self) -> Array:
        return np.average([flow.values for flow in self.flows], axis=0, weights=self.weights)

    @property
    def normalised(self) -> Array:
        return np.average([flow.normalised for flow in self.flows], axis=0, weights=self.weights)

    def checks(self) -> dict[str, float | int | bool]:
        return {
            "certified": all(flow.certified for flow in self.flows),
            "largest_gap": max(flow.gap for flow in self.flows),
            "settled_by_bounds": sum(flow.settled_by_bounds for flow in self.flows),
            "settled_by_flow": sum(flow.settled_by_flow for flow in self.flows),
            "settled_by_cut": sum(flow.settled_by_cut for flow in self.flows),
        }


def _solve_flows(
    layers: Sequence[Attention], starts: _Starts, residual: bool, progress: Callable[[int, int], None] | None
) -> _Average:
    """Solve the flow from every start; progress counts the tokens of all of them."""
    flows: list[FlowResult] = []

    def watch(done: int, total: int) -> None:
        if progress is not None:
            progress(len(flows) * total + done, len(starts) * total)

    for _, start in starts:
        flows.append(solve_flow(layers, start, residual=residual, progress=watch))
    return _Average([weight for weight, _ in starts], flows)
