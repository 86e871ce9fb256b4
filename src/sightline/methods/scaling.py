"""Scores as shares that sum to 1, and a correction for causal models, where early tokens are seen by more others.

In a causal model token i attends to the tokens up to i, so early tokens lie on many more paths than late ones, and
rollout or flow favours them whatever the attention is. The receptive field of a token is measured by the same method on
attention that says nothing, every row spread evenly over what it may see:

    U^l_ij = 1/|V^l_i| for j in V^l_i, else 0;      s'_j ∝ s_j(A) / s_j(U), scaled to sum 1

where V^l_i are the tokens that token i may see in layer l: those up to i, or the last of them where the layer has a
sliding window. s' is flat exactly when the attention is even. Abnar & Zuidema 2020 treat bidirectional models only;
this correction is Sightline's own reading of "rescale by receptive field", and an option.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightline.attention import Attention, DenseAttention
from sightline.errors import OptionError
from sightline.methods.registry import Array, Check
from sightline.passes.trace import Trace


def sum_to_one(scores: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return scores / Σ scores, none below 0; all-zero scores stay zero."""
    total = scores.sum()
    share: NDArray[np.floating[Any]] = scores / total if total else scores
    return share


def causal_checks(trace: Trace, name: str, receptive_field: bool) -> dict[str, Check]:
    """Return the check `causal`, warn where scores of a causal model stay as they are; refuse the option elsewhere."""
    causal = trace.causal
    if receptive_field and not causal:
        raise OptionError(
            f"The option 'receptive_field' of '{name}' is for causal models; in this model, tokens attend in both "
            "directions."
        )
    if causal and not receptive_field:
        warnings.warn(
            f"In a causal model {name} favours early tokens, which more tokens can see; "
            "receptive_field=true divides by what even attention would give.",
            stacklevel=3,
        )
    return {"causal": True} if causal else {}


def even_attention(attention: Attention) -> Attention:
    """U of one layer as an operator of one head: every row spread evenly over the tokens it may attend to."""
    seen = torch.from_numpy(np.stack([attention.allowed(i) for i in range(attention.tokens)])).double()
    return DenseAttention((seen / seen.sum(dim=1, keepdim=True))[None])


def rescale_by_field(scores: Array, even: Array) -> NDArray[np.float64]:
    """s / s(U) scaled to sum 1, for scores (n,) or rows of them (L, n); 0 where even attention brings nothing."""
    ratios = np.divide(scores, even, out=np.zeros(scores.shape), where=even > 0)
    shares: NDArray[np.float64] = np.apply_along_axis(sum_to_one, -1, ratios)
    return shares
