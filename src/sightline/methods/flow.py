"""Attention flow as a method: the maximum flow of attention from the readout to every token (`attention_flow`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sightline.methods.attention_flow import solve_flow
from sightline.methods.attention_weights import Fusion, fused_layers
from sightline.methods.receptive_field import causal_checks, even_attention, rescaled
from sightline.methods.registry import Attribution, checked_head, checked_layer, method
from sightline.trace import Trace


@method(
    "flow",
    summary="Maximum flow of attention from the readout to each token through all layers, exact.",
    formula="capacities Â = (Ā + I)/2 by rows; s_j = maxflow((L, r) → (0, j)), divided by Σ s",
    citation="Abnar & Zuidema 2020",
    needs={"attentions"},
    signed=False,
    class_specific=False,
    cost="one forward, then a max-flow a token: about a second at 512 tokens, a minute at 4,096",
    use="When rollout's averaging hides narrow paths, and the document is not too long.",
    avoid="To tell classes apart; and on very long documents, where rollout is a thousand times cheaper.",
)
def flow(
    trace: Trace,
    *,
    fusion: Fusion = "mean",
    layer: int = -1,
    head: int | None = None,
    residual: bool = True,
    values: Literal["normalised", "raw"] = "normalised",
    head_weights: Sequence[Sequence[float]] | None = None,
    receptive_field: bool = False,
) -> Attribution:
    """Flow from the readout of one layer; extras hold the raw values and the ones that sum to 1.

    With `head` k the flow starts with the capacities of A(layer, k), without residual, above the layers below it.
    Checks: whether every value is certified by a cut, the largest gap, and how the tokens were settled.
    `receptive_field` is for causal models: normalised values are divided by those of even attention first.
    """
    top = checked_layer(layer, trace.layers)
    causal = causal_checks(trace, "flow", receptive_field)
    fused = fused_layers(trace, fusion, head_weights)
    if head is not None:
        row = trace.readout_rows[top, checked_head(head, trace.heads)]
        found = solve_flow(fused[:top], row, residual=residual, progress=trace.progress)
    else:
        rows = np.flatnonzero(trace.readout)
        source = int(rows[0]) if len(rows) == 1 else trace.readout
        found = solve_flow(fused[: top + 1], source, residual=residual, progress=trace.progress)
    normalised = found.normalised
    if receptive_field:
        even = even_attention(trace)
        layers, start = (top + 1, source) if head is None else (top, even.left(trace.readout)[0])
        normalised = rescaled(found.values, solve_flow([even] * layers, start, residual=residual).values, "flow")
    checks = {
        **causal,
        "certified": found.certified,
        "largest_gap": found.gap,
        "settled_by_bounds": found.settled_by_bounds,
        "settled_by_flow": found.settled_by_flow,
        "settled_by_cut": found.settled_by_cut,
    }
    extras = {"raw": found.values, "normalised": normalised}
    return Attribution(extras[values], checks=checks, extras=extras)
