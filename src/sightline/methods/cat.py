"""CAT and AttCAT: class activation of every token in every layer, without and with attention.

Notation: x^l (n, d) the input of layer l, c^l_i = Σ_d (∂y/∂x^l_i ⊙ x^l_i), a^l_i a weight from the layer's attention.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sightline.methods.registry import Array, Attribution, method
from sightline.passes import Need
from sightline.trace import Trace

Hidden = Literal["input", "output"]
Aggregate = Literal["sum", "product"]


def activations(trace: Trace, hidden: Hidden) -> Array:
    """c^l_i for every layer, (L, n): of the layers' inputs (default) or outputs."""
    if hidden == "input":
        pairs = zip(trace.inputs, trace.input_gradients, strict=True)
    else:
        pairs = zip(trace.hidden_states[1:], trace.hidden_gradients[1:], strict=True)
    return np.stack([(state * gradient).sum(axis=-1) for state, gradient in pairs])


def combine(layers: Array, aggregate: Aggregate) -> Array:
    """Sum or product of layer-by-layer scores, (L, n) -> (n,).

    A product is positive where an even number of layers is against: read its magnitude.
    """
    combined: Array = layers.sum(axis=0) if aggregate == "sum" else layers.prod(axis=0)
    return combined


def _needs(options: dict[str, Any], *further: Need) -> set[Need]:
    own: set[Need] = {"gradients", "inputs"} if options["hidden"] == "input" else {"hidden_states", "hidden_gradients"}
    return own | set(further)


@method(
    "cat",
    summary="Class activation of tokens: gradient times hidden state, summed over the layers' inputs, signed.",
    formula="s_i = Σ_l Σ_d (∂y/∂x^l_i ⊙ x^l_i)",
    citation="Qiang et al. 2022 (AttCAT), without attention",
    needs=_needs,
    signed=True,
    class_specific=True,
    cost="one forward, one backward",
    use="As a cheap signed explanation that looks at all layers.",
    avoid="Where one word decides alone (its sign is unreliable); to compare sizes between models of different depth.",
)
def cat(trace: Trace, *, hidden: Hidden = "input", aggregate: Aggregate = "sum") -> Attribution:
    """Σ_l c^l. With hidden="output" the last term vanishes for every token but the readout."""
    layers = activations(trace, hidden)
    return Attribution(combine(layers, aggregate), layers=layers)


@method(
    "attcat",
    summary="AttCAT: class activation of tokens weighted by the attention they receive, summed over layers, signed.",
    formula="s_i = Σ_l a^l_i Σ_d (∂y/∂x^l_i ⊙ x^l_i), a^l_i = mean_{h,j} A^l_{h,j,i}",
    citation="Qiang et al. 2022 (AttCAT)",
    needs=lambda options: _needs(options, "attentions"),
    signed=True,
    class_specific=True,
    cost="one forward, one backward",
    use="As the default: signed, class-specific, cheap, layer by layer.",
    avoid="Where one word decides alone (its sign is unreliable), or attention sinks dominate: compare with cat.",
)
def attcat(
    trace: Trace,
    *,
    hidden: Hidden = "input",
    attention: Literal["column", "readout", "row", "sum"] = "column",
    aggregate: Aggregate = "sum",
) -> Attribution:
    """Σ_l a^l⊙c^l.

    `attention` chooses a^l_i: "column" the mean over heads and rows of column i; "sum" the same summed over rows;
    "readout" the entry of the readout row; "row" the mean over heads and columns of row i.
    """
    layers = attention_factor(trace, attention) * activations(trace, hidden)
    return Attribution(combine(layers, aggregate), layers=layers)


def attention_factor(trace: Trace, attention: Literal["column", "readout", "row", "sum"]) -> Array:
    """a^l_i for every layer, (L, n)."""
    if attention in ("column", "sum"):
        sums: Array = trace.received.mean(axis=1)
        mean: Array = sums / trace.tokens
        return mean if attention == "column" else sums
    if attention == "readout":
        rows: Array = trace.readout_rows.mean(axis=1)
        return rows
    ones = np.ones(trace.tokens)
    return np.stack([mean.right(ones)[0] / trace.tokens for mean in trace.mean_attentions])
