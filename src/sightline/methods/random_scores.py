"""The floor every method must beat."""

from __future__ import annotations

import numpy as np

from sightline.methods.registry import Array, method
from sightline.passes.trace import Trace
from sightline.settings.values import check_seed


@method(
    "random",
    title="Random scores",
    kind="baseline",
    summary="Uniform random scores from a seed: the floor for every comparison.",
    formula="s_i ~ U(0, 1)",
    citation="baseline",
    needs=set(),
    signed=False,
    class_specific=False,
    cost="none",
    use="Use it as the chance level in comparisons.",
    avoid="Avoid it as an explanation.",
)
def random(trace: Trace, *, seed: int = 0) -> Array:
    """Independent uniform scores from numpy's PCG64."""
    return np.random.default_rng(check_seed(seed)).random(trace.token_count)
