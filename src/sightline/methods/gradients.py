"""Gradients of the target with respect to the word embeddings.

Notation: e_i word embedding of token i, g_i = ∂y/∂e_i, both (d,).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sightline.methods.registry import Array, method
from sightline.methods.scaling.shares import sum_to_one
from sightline.passes.trace import Trace


@method(
    "gradient",
    title="Gradient norm",
    kind="gradients",
    summary="Norm of the gradient with respect to each word embedding, scaled to sum to 1.",
    formula="s_i = ‖∂y/∂e_i‖₂ / Σ_j ‖∂y/∂e_j‖₂",
    citation="Simonyan et al. 2014; Li et al. 2016",
    needs={"gradients"},
    signed=False,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as a quick, robust map of where the output is sensitive.",
    avoid="Avoid it when the sign matters, or where the model is saturated.",
)
def gradient(trace: Trace) -> Array:
    """ℓ2 norm of ∂y/∂e_i, normalised."""
    return sum_to_one(np.linalg.norm(trace.embedding_gradient, axis=-1))


@method(
    "input_x_gradient",
    title="Input × gradient",
    kind="gradients",
    summary="Signed first-order effect of each token: gradient times word embedding.",
    formula="s_i = Σ_d (∂y/∂e_i ⊙ e_i)",
    citation="Shrikumar et al. 2017; Denil et al. 2014",
    needs={"gradients"},
    signed=True,
    class_specific=True,
    cost="one forward and one backward pass",
    use="Use it as a cheap signed explanation.",
    avoid="Avoid it where a single word decides: LayerNorm makes the sign unreliable; use integrated_gradients.",
)
def input_x_gradient(trace: Trace, *, form: Literal["signed", "abs", "clip", "mean"] = "signed") -> Array:
    """Σ_d g⊙e; `abs` its magnitude, `clip` its positive part, `mean` the mean over d instead of the sum."""
    product = trace.embedding_gradient * trace.embeddings
    signed: Array = product.mean(axis=-1) if form == "mean" else product.sum(axis=-1)
    if form == "abs":
        return np.abs(signed)
    return np.maximum(signed, 0) if form == "clip" else signed
