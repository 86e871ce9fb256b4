"""The steps of a layered method as operators, and their products as matrices.

Methods that multiply layers hand out the readout's row of every R^l (`Explanation.layers`), which is all that an
explanation needs. To study how *every* token mixes:

    C^l   what layer l takes from where, one operator per layer (banded where attention is);
    R^l = C^l ⋯ C^1, (n, n): how much of input token j is in token i after layer l.

`rollout`: C = (Ā + I)/2 with rows that sum to 1 (Abnar & Zuidema 2020); `norm_rollout`, `globenc` (Kobayashi et al.
2021; Modarressi et al. 2022) and `alti` (Ferrando et al. 2022): contributions of the decomposed attention block.
Matrices cost O(L·n·nnz) and L·n² numbers, so they are for short documents.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sightline.attention import Attention
from sightline.attention.arrays import check_dense_size
from sightline.attention.protocol import DENSE_LIMIT
from sightline.errors import OptionError
from sightline.methods.decomposition.block import Kind, measure_contributions
from sightline.methods.decomposition.from_trace import attention_block
from sightline.trace import Trace

LayeredMethod = Literal["rollout", "norm_rollout", "globenc", "alti"]
Matrix = NDArray[np.floating[Any]]
_KINDS: dict[str, tuple[Kind, bool]] = {
    "norm_rollout": ("norm", False),
    "globenc": ("norm", True),
    "alti": ("alti", False),
}


def layer_contributions(
    trace: Trace, method: LayeredMethod = "alti", *, p: int = 1, second_norm: bool = False
) -> list[Attention]:
    """Return C^1 … C^L, one-head operators whose rows sum to 1: all rows, not only those the readout needs."""
    if method not in _KINDS:
        raise OptionError(f"'{method}' has no contributions by layer. Those that have: {', '.join(_KINDS)}.")
    kind, both_norms = _KINDS[method]
    return [
        measure_contributions(
            attention_block(trace, layer), kind=kind, p=p, second_norm=second_norm or both_norms
        ).attention
        for layer in range(trace.layer_count)
    ]


def relevance_matrices(
    trace: Trace, method: LayeredMethod = "rollout", *, p: int = 1, second_norm: bool = False
) -> Matrix:
    """Return R^1 … R^L, (L, n, n), bottom layer first; refuses documents whose matrices would not fit.

    `p` and `second_norm` are the options of `alti`.
    """
    check_dense_size(trace.layer_count, trace.token_count, np.dtype(np.float64).itemsize, DENSE_LIMIT)
    relevance: Matrix = np.eye(trace.token_count)
    relevances = []
    residual = method == "rollout"
    steps = trace.mean_attentions if residual else layer_contributions(trace, method, p=p, second_norm=second_norm)
    for step in steps:
        carried = step.right(relevance[None])[0]
        if residual:
            sums = step.right(np.ones(trace.token_count))[0][:, None] + 1.0
            carried = (carried + relevance) / sums
        relevance = carried
        relevances.append(relevance)
    return np.stack(relevances)
