"""Effective attention: the part of attention that reaches the output.

Head h writes A^h T^h into its layer, with T^h = v^h W_O^h (n, d) what it reads from each token. A part of A that T
cancels, ãᵀT = 0, changes nothing that follows, so weights are determined only up to the left null space of T. The
effective attention is what is left without it:

    A_eff = A − P(A),   P the projection of every row on the left null space of T,     A_eff T = A T

T has rank at most e, the width of a head. With n ≤ e tokens (and T of full rank) the null space is empty and
A_eff = A; in longer documents a part of dimension n − e is removed. Rows of A_eff need not sum to 1, and weights may be
negative. Brunner et al. 2020, "On Identifiability in Transformers". O(H·n²·e) time per layer, H·n² numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightline.attention import Attention, BandedAttention, DenseAttention
from sightline.attention.arrays import check_dense_size
from sightline.attention.protocol import DENSE_LIMIT
from sightline.passes.trace import Trace
from sightline.settings.values import check_layer

Values = npt.NDArray[np.float64]


def effective_attention(trace: Trace, layer: int) -> Values:
    """Return A_eff of every head of one layer, (H, n, n); refuses documents whose matrices would not fit.

    Where rows of global tokens read values of their own (Longformer), each row loses the null space of what it reads.
    """
    layer = check_layer(layer, trace.layer_count)
    check_dense_size(trace.head_count, trace.token_count, np.dtype(np.float64).itemsize, DENSE_LIMIT)
    attention, parts = trace.attentions[layer], trace.block(layer)
    weights = np.asarray(attention.dense(), dtype=np.float64)
    effective = _project(weights, parts.values, parts.weights.output_weight)
    if parts.global_values is not None and isinstance(attention, BandedAttention):
        rows = attention.global_tokens.numpy()
        effective[:, rows] = _project(weights[:, rows], parts.global_values, parts.weights.output_weight)
    return effective


def effective_layers(trace: Trace) -> list[Attention]:
    """Return the effective attention of every layer as weights that can be followed through layers.

    Negative weights, which neither a mixture nor a capacity can have, count as 0, and rows are scaled to sum 1 again.
    """
    layers: list[Attention] = []
    for layer in range(trace.layer_count):
        weights = np.maximum(effective_attention(trace, layer), 0)
        sums = weights.sum(axis=-1, keepdims=True)
        layers.append(DenseAttention(np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)))
    return layers


def _project(weights: Values, values: Tensor, output_weight: Tensor) -> Values:
    """Project rows (H, m, n) on the column space of T^h = v^h W_O^h; values (n, H, e), output_weight (d, H·e)."""
    by_head = values.detach().double().transpose(0, 1)  # (H, n, e)
    heads, _, inner = by_head.shape
    projections = output_weight.detach().double().T.reshape(heads, inner, -1)  # (H, e, d)
    # T = V W has the column space and the singular values of V Rᵀ, where Wᵀ = Q R: (n, e) instead of (n, d).
    triangle = torch.linalg.qr(projections.transpose(1, 2), mode="r").R
    basis, sizes, _ = torch.linalg.svd(by_head @ triangle.transpose(1, 2), full_matrices=False)
    tolerance = sizes[:, :1] * max(values.shape[0], output_weight.shape[0]) * torch.finfo(torch.float64).eps
    basis = (basis * (sizes > tolerance)[:, None, :]).numpy()  # (H, n, r), columns of directions below rounding are 0
    return np.asarray(weights @ basis @ basis.transpose(0, 2, 1))
