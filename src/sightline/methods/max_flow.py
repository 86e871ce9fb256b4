"""Attention flow as a method: the maximum flow of attention from the readout to every token (`flow/solve.py`).

If the readout has several rows (mean pooling, the two ends of an answer), the flow of each is solved separately and
averaged by the weight of its row, as in rollout: s = Σ_i r_i flow_i.

The scores of layer l are the maximum flow from the readout at the output of layer l, through the layers up to l: the
lowest layer gives the raw row with its residual connection, the last one the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sightline.attention import Attention
from sightline.errors import OptionError
from sightline.methods.attention_weights import (
    Fusion,
    causal_checks,
    even_attention,
    fuse_layers,
    layers_of,
    needs_of_fused,
    rescale_by_field,
)
from sightline.methods.flow.solve import FlowResult, solve_flow
from sightline.methods.layer_kind import LayerKind
from sightline.methods.registry import Array, Attribution, method
from sightline.passes.trace import Trace
from sightline.progress import StepProgress
from sightline.settings.values import check_head, check_layer

LAYERED_FLOWS = 512
"""Flows per layer (readout rows × tokens) up to which every layer is solved unless asked otherwise: some seconds."""

Source = Literal["readout", "pooled"] | int
"""The rows that are read, each by itself; one node above the layers that reads them all; the token of that number."""


@method(
    "flow",
    title="Attention flow",
    kind="attention",
    summary="Exact maximum flow of attention from the readout to each token through all layers.",
    formula="capacities Â = (Ā + I)/2 with rows that sum to 1; s_j = maxflow((L, r) → (0, j)), divided by Σ s",
    citation="Abnar & Zuidema 2020",
    needs=needs_of_fused,
    signed=False,
    class_specific=False,
    cost="one forward pass, one maximum flow per token (about 1 s at 512 tokens, 1 min at 4,096, per readout row), as "
    "many again for each layer up to 512 tokens",
    use="Use it when rollout's averaging hides narrow paths and the document is not too long.",
    avoid="Avoid it for telling classes apart, and on very long documents, where rollout is a thousand times cheaper.",
    costly=True,
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
    every_layer: bool | None = None,
    effective: bool = False,
) -> Attribution:
    """Flow from the readout of one layer, or from any token; extras hold the raw values and the ones that sum to 1.

    With `head` k of `layer` i, as the paper's appendix defines it for single heads, the flow starts at the readout with
    the capacities of A(i, k) alone, without residual connection, and goes on through the fused layers below i.
    `source="pooled"` is for models that average tokens: one flow from a node above the top layer, whose arcs to the
    tokens carry the readout weights, instead of the mean of one flow per token, which takes n times as long.
    Checks: whether every value is certified by a cut, the largest gap, and how the tokens were settled.
    `receptive_field` is for causal models: normalised values are divided by those of even attention first.
    `every_layer` also solves the flow from the readout of every layer, for `layers`: about L/2 times the work. By
    default it does so when the last layer is explained and a layer takes no more than 512 flows. `effective` takes the
    attention that has an effect (Brunner et al. 2020) as capacities, negative weights as 0.
    """
    last = trace.layer_count - 1
    top = check_layer(layer, trace.layer_count)
    causal = causal_checks(trace, "flow", receptive_field)
    fused = fuse_layers(trace, fusion, head_weights, effective)
    starts = _starts(trace, source)
    cumulative = head is None and top == last
    if every_layer is None:
        every_layer = cumulative and len(starts) * trace.token_count <= LAYERED_FLOWS
    graphs = [_Graph(fused[: number + 1], starts) for number in range(last + 1)] if every_layer else []
    explained = top if every_layer and head is None else len(graphs)
    if head is not None:
        rows = layers_of(trace, effective)[top].head(check_head(head, trace.head_count))
        graphs.append(_Graph(fused[:top], _lift_starts(rows, starts)))
    elif not every_layer:
        graphs.append(_Graph(fused[: top + 1], starts))
    flows = _solve_graphs(graphs, residual, trace.progress)
    raw, normalised = (np.stack([getattr(flow, form) for flow in flows]) for form in ("raw", "normalised"))
    if receptive_field:
        even = [even_attention(attention) for attention in fused]
        even_starts = starts if head is None else _lift_starts(even[top], starts)
        even_graphs = [
            _Graph(even[: len(graph.layers)], starts if graph.starts is starts else even_starts) for graph in graphs
        ]
        even_raw = np.stack([flow.raw for flow in _solve_graphs(even_graphs, residual, None)])
        normalised = rescale_by_field(raw, even_raw)
    chosen = {"raw": raw, "normalised": normalised}[values]
    kind: LayerKind = "cumulative" if cumulative else "separate"
    return Attribution(
        chosen[explained],
        layers=chosen[: last + 1] if every_layer else None,
        checks={**causal, **flows[explained].checks(), **_certificate(flows)},
        extras={"raw": raw[explained], "normalised": normalised[explained]},
        layer_kind=kind,
    )


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

    def checks(self) -> dict[str, int]:
        return {
            "settled_by_bounds": sum(flow.settled_by_bounds for flow in self.flows),
            "settled_by_flow": sum(flow.settled_by_flow for flow in self.flows),
            "settled_by_cut": sum(flow.settled_by_cut for flow in self.flows),
        }


def _certificate(averages: Sequence[_Average]) -> dict[str, float | bool]:
    """Whether the flows of all layers are maxima, and the largest gap to a cut among them."""
    flows = [flow for average in averages for flow in average.flows]
    return {"certified": all(flow.certified for flow in flows), "largest_gap": max(flow.gap for flow in flows)}


@dataclass(frozen=True)
class _Graph:
    """The layers that a flow passes, bottom first, and where at their top it starts."""

    layers: Sequence[Attention]
    starts: _Starts


def _solve_graphs(graphs: Sequence[_Graph], residual: bool, progress: StepProgress | None) -> list[_Average]:
    """Solve every graph from each of its starts; progress counts the tokens of all of them."""
    solves = sum(len(graph.starts) for graph in graphs)
    flows: list[FlowResult] = []

    def watch(done: int, total: int) -> None:
        if progress is not None:
            progress(len(flows) * total + done, solves * total)

    averages = []
    for graph in graphs:
        before = len(flows)
        for _, start in graph.starts:
            flows.append(solve_flow(graph.layers, start, residual=residual, progress=watch))
        averages.append(_Average([weight for weight, _ in graph.starts], flows[before:]))
    return averages
