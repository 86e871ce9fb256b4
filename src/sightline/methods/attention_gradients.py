"""Methods that weigh attention by the gradient of the target with respect to it.

Notation: A^l (H, n, n), ∂A^l = ∂y/∂A^l, r the readout row.
"""

from __future__ import annotations

import numpy as np

from sightline.methods.registry import Array, Attribution, method
from sightline.passes.trace import Trace
from sightline.settings.arguments import check_layer


@method(
    "grads",
    title="Attention gradient",
    kind="gradients",
    summary="Gradient with respect to the last layer's attention, in the readout row, averaged over heads.",
    formula="s_j = mean_h ∂y/∂A^{L,h}_rj",
    citation="baseline of Qiang et al. 2022 (AttCAT)",
    needs={"attention_gradients"},
    signed=True,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as the gradient-only half of attgrads.",
    avoid="Avoid relying on it alone: it shows what a change of attention would do, not what attention carried.",
)
def grads(trace: Trace, *, layer: int = -1) -> Array:
    """Readout row of the head mean of ∂A in one layer."""
    chosen = check_layer(layer, trace.layer_count)
    scores: Array = trace.attention_gradients[chosen].mean().left(trace.readout)[0]
    return scores


@method(
    "attgrads",
    title="Grad-SAM",
    kind="gradients",
    summary="Attention times the positive part of its gradient, averaged over layers, heads and rows.",
    formula="s_j = mean_{l,h,i} (A^l ⊙ relu(∂y/∂A^l))_{h,i,j}",
    citation="Barkan et al. 2021 (Grad-SAM)",
    needs={"attention_gradients"},
    signed=False,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as a class-specific view of the tokens from which attention draws evidence.",
    avoid="Avoid it for finding evidence against the class: negative gradients are dropped.",
    zeros_mean="no attention weight has a positive gradient",
)
def attgrads(trace: Trace) -> Attribution:
    """Column means of A⊙relu(∂A)."""
    layers = trace.gradient_received.mean(axis=1) / trace.token_count
    scores = layers.mean(axis=0)
    return Attribution(scores, layers=layers, layer_kind="averaged")


@method(
    "attention_gradcam",
    title="Attention Grad-CAM",
    kind="gradients",
    summary="Positive part of the last layer's heads, weighted by their mean gradient, in the readout row.",
    formula="w_h = mean_ij ∂y/∂A^{L,h}_ij; s_j = relu(mean_h w_h A^{L,h}_rj)",
    citation="Chefer et al. 2021, after Selvaraju et al. 2017",
    needs={"attention_gradients"},
    signed=False,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as a coarse class-specific attention map.",
    avoid="Avoid it when all head weights may be negative: every score is then zero.",
    zeros_mean="the heads' mean gradients count against the target",
)
def attention_gradcam(trace: Trace, *, layer: int = -1) -> Array:
    """Heads of one layer weighted by their mean gradient; zeros when every weighted entry is negative."""
    chosen = check_layer(layer, trace.layer_count)
    weights = trace.attention_gradients[chosen].received().sum(axis=1) / trace.token_count**2
    rows = trace.readout_rows[chosen]
    scores: Array = np.maximum((weights[:, None] * rows).mean(axis=0), 0)
    return scores
