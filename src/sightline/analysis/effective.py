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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightline.attention import BandedAttention
from sightline.attention.arrays import check_dense_size
from sightline.attention.protocol import DENSE_LIMIT
from sightline.passes.trace import Trace
from sightline.settings.arguments import check_head, check_layer

if TYPE_CHECKING:
    import pandas as pd

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EffectiveHead:
    """The attention of one head beside its effective attention, and what is cancelled in every head."""

    layer: int
    head: int
    attention: Values
    """(n, n)."""
    effective: Values
    """(n, n); weights may be negative."""
    cancelled: Values
    """(L, H): the share of every head's squared weights that has no effect."""
    width: int
    """Dimensions of a head; nothing is cancelled in texts of up to so many tokens."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per head, the largest share first: layer, head, cancelled."""
        import pandas as pd

        layers, heads = np.indices(self.cancelled.shape)
        frame = pd.DataFrame({"layer": layers.ravel(), "head": heads.ravel(), "cancelled": self.cancelled.ravel()})
        return frame.sort_values("cancelled", ascending=False, kind="stable", ignore_index=True)


def effective_head(trace: Trace, layer: int, head: int) -> EffectiveHead:
    """Return one head's attention and effective attention, with the cancelled share of all heads."""
    layer, head = check_layer(layer, trace.layer_count), check_head(head, trace.head_count)
    return EffectiveHead(
        layer=layer,
        head=head,
        attention=np.asarray(trace.attentions[layer].head(head).dense()[0], dtype=np.float64),
        effective=effective_attention(trace, layer)[head],
        cancelled=cancelled_share(trace),
        width=int(trace.block(layer).values.shape[2]),
    )


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


def cancelled_share(trace: Trace) -> Values:
    """Return the share of every head's squared weights that has no effect, ‖A − A_eff‖² / ‖A‖², (L, H), in [0, 1]."""
    shares = []
    for layer in range(trace.layer_count):
        weights = np.asarray(trace.attentions[layer].dense(), dtype=np.float64)
        removed = ((weights - effective_attention(trace, layer)) ** 2).sum(axis=(1, 2))
        shares.append(removed / (weights**2).sum(axis=(1, 2)))
    return np.asarray(np.clip(np.array(shares), 0.0, 1.0))


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
