"""Integrated gradients: the gradient averaged along the straight path from a baseline to the input.

s_i = Σ_d (x_i − x'_i) ⊙ ∫₀¹ ∂y/∂x_i (x' + α(x − x')) dα   (Sundararajan et al. 2017)
"""

from __future__ import annotations

import numpy as np

from sightline.methods.integration.paths import Baseline, Embeddings, build_paths
from sightline.methods.integration.patterson import nested_rules
from sightline.methods.integration.quadrature import PathProducts, gauss_legendre, gauss_legendre_nodes, nested
from sightline.methods.registry import Attribution, method
from sightline.passes.trace import Trace


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
