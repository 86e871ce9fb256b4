"""Gradients of the target with respect to the word embeddings.

Notation: e_i word embedding of token i, g_i = ∂y/∂e_i, both (d,).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sightline.methods.normalise import sum_to_one
from sightline.methods.registry import Array, method
from sightline.trace import Trace


@method(
    "gradient",
    summary="Length of the gradient at each word embedding, scaled to sum 1.",
    formula="s_i = ‖∂y/∂e_i‖₂ / Σ_j ‖∂y/∂e_j‖₂",
    citation="Simonyan et al. 2014; Li et al. 2016",
    needs={"gradients"},
    signed=False,
    class_specific=True,
    cost="one forward, one backward",
    use="As a quick, robust map of where the output is sensitive.",
    avoid="When the sign matters, or where the model is saturated.",
)
def gradient(trace: Trace) -> Array:
    """ℓ2 norm of ∂y/∂e_i, normalised."""
    return sum_to_one(np.linalg.norm(trace.embedding_gradient, axis=-1), "gradient")


@method(
    "input_x_gradient",
    summary="Gradient times word embedding: the first-order effect of each word, signed.",
    formula="s_i = Σ_d (∂y/∂e_i ⊙ e_i)",
    citation="Shrikumar et al. 2017; Denil et al. 2014",
    needs={"gradients"},
    signed=True,
    class_specific=True,
    cost="one forward, one backward",
    use="As a cheap signed explanation.",
    avoid="Where one word decides alone: LayerNorm makes the sign unreliable, integrated_gradients keeps it.",
)
def input_x_gradient(trace: Trace, *, form: Literal["signed", "abs", "clip", "mean"] = "signed") -> Array:
    """Σ_d g⊙e; `abs` its magnitude, `clip` its positive part, `mean` the mean over d instead of the sum."""
    product = trace.embedding_gradient * trace.embeddings
    signed: Array = product.mean(axis=-1) if form == "mean" else product.sum(axis=-1)
    if form == "abs":
        return np.abs(signed)
    return np.maximum(signed, 0) if form == "clip" else signed
