"""Gradients of the target with respect to the word embeddings.

Notation: e_i word embedding of token i, g_i = ∂y/∂e_i, both (d,).

Integrated gradients: the gradient averaged along the straight path from a baseline to the input.

s_i = Σ_d (x_i − x'_i) ⊙ ∫₀¹ ∂y/∂x_i (x' + α(x − x')) dα   (Sundararajan et al. 2017)
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sightline.methods.attention_weights import sum_to_one
from sightline.methods.integration import (
    Baseline,
    Embeddings,
    PathProducts,
    build_paths,
    gauss_legendre,
    gauss_legendre_nodes,
    nested,
    nested_rules,
)
from sightline.methods.registry import Array, Attribution, method
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


@method(
    "integrated_gradients",
    title="Integrated gradients",
    kind="gradients",
    summary="Gradient averaged along the path from a baseline; the scores add up to the change in the output.",
    formula="s_i = Σ_d (x_i − x'_i) ⊙ ∫ ∂y/∂x_i dα",
    citation="Sundararajan et al. 2017",
    needs={"probes"},
    signed=True,
    class_specific=True,
    reads_windows=True,
    cost="7 to 127 forward and backward passes (as many as the tolerance requires)",
    use="Use it when the scores must add up and a few more seconds are acceptable.",
    avoid="Avoid a baseline that is itself meaningful to the model: try another one.",
)
def integrated_gradients(
    trace: Trace,
    *,
    baseline: Baseline = "pad",
    baseline_text: str | None = None,
    embeddings: Embeddings = "full",
    steps: int | None = None,
    tolerance: float = 0.01,
    max_evaluations: int = 127,
) -> Attribution:
    """Integrate from `baseline` (specials kept) over the full embedding output, or over the embedding tables.

    A text of one's own that says nothing, as `baseline_text` or as a list of ids, is cut or filled up with pads to the
    length of the document. embeddings="separate" moves word, position and type embeddings together from baseline to
    input and returns what each of them contributes as extras "word", "position" and "type" (those that the family has),
    which sum to the scores. `steps` asks for a fixed Gauss-Legendre rule instead of the adaptive one, which stops when
    the completeness gap and the expected further change are under `tolerance`, or after the largest rule (1, 3, 7, 15,
    31, 63 or 127 nodes) that `max_evaluations` allows. Checks: completeness_gap and change (relative), evaluations (a
    forward and a backward each; all classes of a document share the forwards), converged.
    """
    nodes = nested_rules(max_evaluations)[0] if steps is None else gauss_legendre_nodes(steps)[0]
    text = baseline if isinstance(baseline, str) else tuple(np.ravel(baseline).tolist())
    products = trace.once(
        ("integrated_gradients", text, baseline_text, embeddings, steps, max_evaluations),
        lambda: PathProducts(build_paths(trace, baseline, baseline_text, embeddings), nodes),
    )
    if steps is None:
        integral = nested(trace, products, tolerance, max_evaluations)
    else:
        integral = gauss_legendre(trace, products, steps)
    scores = integral.parts.sum(dim=0).numpy()
    if embeddings != "separate":
        return Attribution(scores, checks=integral.checks)
    extras = {str(place): part.numpy() for place, part in zip(products.places, integral.parts, strict=True)}
    return Attribution(scores, checks=integral.checks, extras=extras)
