"""Methods that weigh attention by the gradient of the target with respect to it.

Notation: A^l (H, n, n), ∂A^l = ∂y/∂A^l, r the readout row.
"""

from __future__ import annotations

import numpy as np

from sightline.methods.normalise import warn_of_zeros
from sightline.methods.registry import Array, Attribution, checked_layer, method
from sightline.trace import Trace


@method(
    "grads",
    summary="Gradient of the target with respect to the last layer's attention, readout row, heads averaged.",
    formula="s_j = mean_h ∂y/∂A^{L,h}_rj",
    citation="baseline of Qiang et al. 2022 (AttCAT)",
    needs={"attention_gradients"},
    signed=True,
    class_specific=True,
    cost="one forward, one backward",
    use="As the gradient-only half of attgrads.",
    avoid="Alone: it says what attention would change, not what it carried.",
)
def grads(trace: Trace, *, layer: int = -1) -> Array:
    """Readout row of the head mean of ∂A in one layer."""
    chosen = checked_layer(layer, trace.layers)
    found: Array = trace.attention_gradients[chosen].mean().left(trace.readout)[0]
    return found


@method(
    "attgrads",
    summary="Grad-SAM: attention times its positive gradient, averaged over layers, heads and rows.",
    formula="s_j = mean_{l,h,i} (A^l ⊙ relu(∂y/∂A^l))_{h,i,j}",
    citation="Barkan et al. 2021 (Grad-SAM)",
    needs={"attention_gradients"},
    signed=False,
    class_specific=True,
    cost="one forward, one backward",
    use="As a class-specific view of which tokens attention draws evidence from.",
    avoid="To find evidence against the class: negative gradients are dropped.",
)
def attgrads(trace: Trace) -> Attribution:
    """Column means of A⊙relu(∂A)."""
    layers = trace.gradient_received.mean(axis=1) / trace.tokens
    scores = layers.mean(axis=0)
    warn_of_zeros(scores, "attgrads", "no attention weight has a positive gradient")
    return Attribution(scores, layers=layers)


@method(
    "attention_gradcam",
    summary="Grad-CAM on attention: last layer's heads weighted by their mean gradient, positive part, readout row.",
    formula="w_h = mean_ij ∂y/∂A^{L,h}_ij; s_j = relu(mean_h w_h A^{L,h}_rj)",
    citation="Chefer et al. 2021, after Selvaraju et al. 2017",
    needs={"attention_gradients"},
    signed=False,
    class_specific=True,
    cost="one forward, one backward",
    use="As a coarse class-specific attention map.",
    avoid="When all head weights may be negative: the answer is then zero everywhere.",
)
def attention_gradcam(trace: Trace, *, layer: int = -1) -> Array:
    """Heads of one layer weighted by their mean gradient; zeros when every weighted entry is negative."""
    chosen = checked_layer(layer, trace.layers)
    weights = trace.attention_gradients[chosen].received().sum(axis=1) / trace.tokens**2
    rows = trace.readout_rows[chosen]
    found: Array = np.maximum((weights[:, None] * rows).mean(axis=0), 0)
    warn_of_zeros(found, "attention_gradcam", "the heads' mean gradients count against the target")
    return found
