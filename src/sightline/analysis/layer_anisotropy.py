"""Anisotropy by layer: do all representations point the same way, and do the vectors that they are sums of?

Anisotropy is the mean cosine between two different vectors (Ethayarajh 2019): 0 when directions are spread evenly, near
1 when all point the same way. Ferrando et al. 2022 ("ALTI") compare it for

    y_i     the outputs of the attention block, n vectors per layer;
    T_ij    the transformed vectors they are sums of, y_i = Σ_j T_ij + what belongs to no token
            (`methods/decomposition/block.py`), as many as there are pairs that may attend.

With unit vectors u the sum over all pairs of m vectors is ‖Σ u‖² − m, so that no pair is ever formed; the vectors T_ij
of one row i are made at a time, O(n·d) memory and O(n²·H·d) time per layer. Vectors of length 0 have no direction and
are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from sightline.attention import BandedAttention
from sightline.attention.arrays import check_dense_size
from sightline.attention.protocol import DENSE_LIMIT
from sightline.methods.decomposition.block import AttentionBlock, attention_block
from sightline.metrics.dispersion import anisotropy
from sightline.metrics.score_inputs import SightlineWarning
from sightline.passes.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LayerAnisotropy:
    """Mean cosines by layer, bottom layer first; L layers."""

    hidden: Values
    """(L + 1,) of the hidden states: the embeddings, then the output of every layer."""
    outputs: Values
    """(L,) of y, the output of every attention block."""
    transformed: Values | None
    """(L,) of all transformed vectors T of a layer; None unless requested."""
    transformed_in_row: Values | None
    """(L,) of the vectors T_i1 … T_in whose sum is y_i, mean over i."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per layer: layer, hidden (its output), y, and T of all rows and within a row."""
        import pandas as pd

        columns = {"layer": np.arange(len(self.outputs)), "hidden": self.hidden[1:], "y": self.outputs}
        if self.transformed is not None and self.transformed_in_row is not None:
            columns |= {"T": self.transformed, "T_in_row": self.transformed_in_row}
        return pd.DataFrame(columns)


def anisotropy_by_layer(trace: Trace, *, transformed: bool = True) -> LayerAnisotropy:
    """Return the anisotropy of hidden states, y and T in every layer.

    transformed=False leaves out T, whose cost grows with the square of the length; with T, documents whose n × n
    attention would not fit raise an error.
    """
    if transformed:
        check_dense_size(trace.head_count, trace.token_count, np.dtype(np.float64).itemsize, DENSE_LIMIT)
    blocks = [attention_block(trace, layer) for layer in range(trace.layer_count)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SightlineWarning)  # one token has no pair: 0
        hidden = np.array([anisotropy(states) for states in trace.hidden_states])
        outputs = np.array([anisotropy(_as_array(block.output)) for block in blocks])
    both = np.array([_mean_cosines(block) for block in blocks]).reshape(-1, 2) if transformed else None
    return LayerAnisotropy(hidden, outputs, None if both is None else both[:, 0], None if both is None else both[:, 1])


def mean_anisotropy(documents: Sequence[LayerAnisotropy]) -> LayerAnisotropy:
    """Return the mean over documents of every number; of T over the documents for which it was computed."""
    with_vectors = [document for document in documents if document.transformed is not None]
    return LayerAnisotropy(
        hidden=np.mean([document.hidden for document in documents], axis=0),
        outputs=np.mean([document.outputs for document in documents], axis=0),
        transformed=_mean_over([document.transformed for document in with_vectors]),
        transformed_in_row=_mean_over([document.transformed_in_row for document in with_vectors]),
    )


def _mean_over(curves: Sequence[Values | None]) -> Values | None:
    return np.mean(np.array(curves, dtype=np.float64), axis=0) if curves else None


def _mean_cosines(block: AttentionBlock) -> tuple[float, float]:
    """Return the mean cosine over all pairs of vectors T, and over pairs of the same row, mean over rows."""
    width, inner = block.output_weight.shape
    heads = block.attention.heads
    norm, branch_norm = block.norm, block.branch_norm
    # Dividing a row by its deviation, as LayerNorm does, changes no direction; only its linear part matters.
    weight = block.output_weight.T.double()
    folded = weight if norm is None else norm.linear(weight)
    folded = folded if branch_norm is None else folded * branch_norm.gain.double()
    by_head = folded.reshape(heads, inner // heads, width)
    residual = block.inputs.double() if norm is None else norm.linear(block.inputs.double())
    projected = torch.einsum("jhe,hed->hjd", block.values.double(), by_head)
    global_rows = {}
    if isinstance(block.attention, BandedAttention) and block.global_values is not None:
        other = torch.einsum("jhe,hed->hjd", block.global_values.double(), by_head)
        global_rows = dict.fromkeys(block.attention.global_tokens.tolist(), other)
    total, vectors, in_row = torch.zeros(width, dtype=torch.float64), 0, []
    for row in range(block.attention.tokens):
        weights = torch.from_numpy(block.attention.row(row)).double()  # (H, n)
        terms = torch.einsum("hj,hjd->jd", weights, global_rows.get(row, projected))
        # A norm before the residual sum divides the terms of the attention only.
        terms[row] += residual[row] * (1 if branch_norm is None else _root_of_row(block, weights))
        lengths = terms.norm(dim=1)
        direction = (terms[lengths > 0] / lengths[lengths > 0, None]).sum(0)
        count = int((lengths > 0).sum())
        total += direction
        vectors += count
        if count > 1:
            in_row.append(_mean_cosine(direction, count))
    return _mean_cosine(total, vectors), float(np.mean(in_row)) if in_row else 0.0


def _root_of_row(block: AttentionBlock, weights: torch.Tensor) -> torch.Tensor:
    """Return the divisor (1,) of the norm before the residual sum, for a row with these weights (H, n)."""
    assert block.branch_norm is not None
    mixed = torch.einsum("hj,jhe->he", weights, block.values.double()).flatten()
    attended = block.output_weight.double() @ mixed
    return block.branch_norm.root(attended if block.output_bias is None else attended + block.output_bias.double())


def _mean_cosine(total: torch.Tensor, count: int) -> float:
    """Return the mean over pairs of `count` unit vectors whose sum is `total`; 0 without a pair."""
    return (float(total @ total) - count) / (count * (count - 1)) if count > 1 else 0.0


def _as_array(tensor: torch.Tensor | None) -> npt.NDArray[np.floating]:
    assert tensor is not None
    return tensor.detach().double().numpy()
