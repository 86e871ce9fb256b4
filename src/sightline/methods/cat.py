"""CAT and AttCAT: class activation of every token in every layer, without and with attention.

Notation: x^l (n, d) the input of layer l, c^l_i = Σ_d (∂y/∂x^l_i ⊙ x^l_i), a^l_i a weight from the layer's attention.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sightline.methods.applicability import check_applies
from sightline.methods.registry import Array, Attribution, method
from sightline.methods.relevance.mode import propagate
from sightline.methods.relevance.rules import ATTENTION_AWARE
from sightline.passes.forward import Need
from sightline.passes.trace import Trace

Hidden = Literal["input", "output"]
Slope = Literal["gradient", "relevance"]
"""What multiplies a state: its gradient, or what AttnLRP propagates to it, with LayerNorm's divisors held constant."""
Aggregate = Literal["sum", "product"]


def activations(trace: Trace, hidden: Hidden, slope: Slope = "gradient") -> Array:
    """c^l_i for every layer, (L, n): of the layers' inputs (default) or outputs.

    LayerNorm divides by the size of what it reads. Where one word decides, y therefore no longer rises with the word's
    state, and the sign of the small gradient that is left is an accident. slope="relevance" takes c^l = Σ_d R(x^l)
    from the rules of AttnLRP, which hold that divisor constant.
    """
    if slope == "relevance":
        check_applies("attnlrp", trace.network)
        states = propagate(trace, ATTENTION_AWARE).hidden
        return np.stack([state.sum(axis=-1) for state in (states[:-1] if hidden == "input" else states[1:])])
    if hidden == "input":
        pairs = zip(trace.inputs, trace.input_gradients, strict=True)
    else:
        pairs = zip(trace.hidden_states[1:], trace.hidden_gradients[1:], strict=True)
    return np.stack([(state * gradient).sum(axis=-1) for state, gradient in pairs])


def combine_layers(layers: Array, aggregate: Aggregate) -> Attribution:
    """Return the sum or product over layers of scores by layer (L, n), with these.

    A product is positive where an even number of layers is negative: read its magnitude.
    """
    if aggregate == "sum":
        return Attribution(layers.sum(axis=0), layers=layers, layer_kind="additive")
    return Attribution(layers.prod(axis=0), layers=layers, layer_kind="separate")


def _needs(options: dict[str, Any], *further: Need) -> set[Need]:
    if options["slope"] == "relevance":
        return set(further)
    needs: set[Need] = (
        {"gradients", "inputs"} if options["hidden"] == "input" else {"hidden_states", "hidden_gradients"}
    )
    return needs | set(further)


@method(
    "cat",
    title="CAT",
    kind="gradients",
    summary="Signed class activation of each token: gradient times hidden state, summed over the layers' inputs.",
    formula="s_i = Σ_l Σ_d (∂y/∂x^l_i ⊙ x^l_i)",
    citation="Qiang et al. 2022 (AttCAT), without attention",
    needs=_needs,
    signed=True,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as a cheap signed explanation that covers all layers.",
    avoid="Avoid it where a single word decides (its sign is unreliable; slope='relevance' helps) and for comparing "
    "models of different depth.",
)
def cat(
    trace: Trace, *, hidden: Hidden = "input", aggregate: Aggregate = "sum", slope: Slope = "gradient"
) -> Attribution:
    """Σ_l c^l. With hidden="output" the last term vanishes for every token but the readout."""
    return combine_layers(activations(trace, hidden, slope), aggregate)


@method(
    "attcat",
    title="AttCAT",
    kind="gradients",
    summary="Signed class activation of each token, weighted by the attention it receives and summed over layers.",
    formula="s_i = Σ_l a^l_i Σ_d (∂y/∂x^l_i ⊙ x^l_i), a^l_i = mean_{h,j} A^l_{h,j,i}",
    citation="Qiang et al. 2022 (AttCAT)",
    needs=lambda options: _needs(options, "attentions"),
    signed=True,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as a cheap explanation that is signed, class-specific and by layer, where attnlrp cannot run.",
    avoid="Avoid it where a single word decides: LayerNorm divides by what it reads, so that the slope at the word is "
    "small and its sign an accident (use slope='relevance' or attnlrp, or read magnitudes). Where attention sinks "
    "dominate, compare cat.",
)
def attcat(
    trace: Trace,
    *,
    hidden: Hidden = "input",
    attention: Literal["column", "readout", "row", "sum"] = "column",
    aggregate: Aggregate = "sum",
    slope: Slope = "gradient",
) -> Attribution:
    """Σ_l a^l⊙c^l; slope="relevance" for signs that can be trusted where a single word decides (`activations`).

    `attention` chooses a^l_i: "column" the mean over heads and rows of column i; "sum" the same summed over rows;
    "readout" the entry of the readout row; "row" the mean over heads and columns of row i.
    """
    return combine_layers(attention_factor(trace, attention) * activations(trace, hidden, slope), aggregate)


def attention_factor(trace: Trace, attention: Literal["column", "readout", "row", "sum"]) -> Array:
    """a^l_i for every layer, (L, n)."""
    if attention in ("column", "sum"):
        sums: Array = trace.received.mean(axis=1)
        mean: Array = sums / trace.token_count
        return mean if attention == "column" else sums
    if attention == "readout":
        rows: Array = trace.readout_rows.mean(axis=1)
        return rows
    ones = np.ones(trace.token_count)
    return np.stack([mean.right(ones)[0] / trace.token_count for mean in trace.mean_attentions])
