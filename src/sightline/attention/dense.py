"""Attention with every weight stored: the layout of short inputs.

Cost of every operation: O(heads · n²), in torch's own kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.attention import arrays
from sightline.attention.arrays import Booleans, Floats, Vector
from sightline.attention.protocol import DENSE_LIMIT, Attention, Pool, TopK
from sightline.errors import InputError
from sightline.settings.values import check_count, check_index, check_one_of, check_position


class DenseAttention(Attention):
    """The weights of one layer as full matrices.

    weights: (heads, n, n), or (n, n) for one head; shared, not copied.
    allowed: (n, n) booleans, True where row i may attend to column j (causal or sliding layers); everything by default.
             Weights elsewhere must be 0.
    """

    def __init__(self, weights: Vector, allowed: Vector | None = None) -> None:
        tensor = arrays.to_tensor(weights, "The attention weights")
        if tensor.ndim == 2:
            tensor = tensor.unsqueeze(0)
        if tensor.ndim != 3 or tensor.shape[1] != tensor.shape[2] or 0 in tensor.shape:
            raise InputError(
                f"Dense weights have shape (heads, n, n) or (n, n), none of them 0, not {tuple(tensor.shape)}."
            )
        self.weights = tensor
        """(heads, n, n) tensor; not to be changed."""
        self._allowed = None if allowed is None else _allowed_matrix(allowed, tensor)

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.weights.shape[0]

    @property
    def tokens(self) -> int:
        """Number of tokens n."""
        return self.weights.shape[1]

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """float32 or float64."""
        return arrays.numpy_dtype(self.weights)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices."""
        return self.weights.nbytes

    def allowed(self, i: int) -> Booleans:
        """Which tokens row i may attend to, (n,)."""
        i = check_position(i, self.tokens, "Row")
        if self._allowed is None:
            return np.ones(self.tokens, dtype=np.bool_)
        return arrays.to_array(self._allowed[i].clone())

    def row(self, i: int) -> Floats:
        """A[:, i, :], (heads, n)."""
        return arrays.to_array(self.weights[:, check_position(i, self.tokens, "Row")].clone())

    def column(self, j: int) -> Floats:
        """A[:, :, j], (heads, n)."""
        return arrays.to_array(self.weights[:, :, check_position(j, self.tokens, "Column")].clone())

    def received(self) -> Floats:
        """Σ_i A[:, i, :], (heads, n)."""
        return arrays.to_array(self.weights.sum(1))

    def top_attended(self, k: int) -> TopK:
        """For every row the k allowed columns of largest weight."""
        from sightline.attention import top_k

        return top_k.dense_attended(self.weights, self._allowed, check_count("k", k))

    def top_attending(self, k: int) -> TopK:
        """For every column the k rows of largest weight that may attend to it."""
        from sightline.attention import top_k

        return top_k.dense_attending(self.weights, self._allowed, check_count("k", k))

    def left(self, v: Vector) -> Floats:
        """v·A, (heads, n)."""
        vectors = arrays.row_vectors(v, self.heads, self.tokens, self.weights.dtype)
        return arrays.to_array(torch.bmm(vectors.unsqueeze(1), self.weights).squeeze(1))

    def right(self, v: Vector) -> Floats:
        """A·v, (heads, n) or (heads, n, m)."""
        vectors, single = arrays.column_vectors(v, self.heads, self.tokens, self.weights.dtype)
        product = torch.bmm(self.weights, vectors)
        return arrays.to_array(product.squeeze(-1) if single else product)

    def head(self, index: int) -> DenseAttention:
        """One head, sharing memory."""
        index = check_index("Head", index, self.heads, "the layer")
        return self._with(self.weights[index : index + 1])

    def mean(self, weights: Vector | None = None) -> DenseAttention:
        """Σ_h w_h A_h / Σ_h w_h as one head."""
        shares = arrays.head_weights(weights, self.heads, self.weights.dtype)
        return self._with(torch.tensordot(shares, self.weights, dims=1).unsqueeze(0))

    def max(self) -> DenseAttention:
        """max_h A_h as one head."""
        return self._with(self.weights.amax(0, keepdim=True))

    def min(self) -> DenseAttention:
        """min_h A_h as one head."""
        return self._with(self.weights.amin(0, keepdim=True))

    def multiply(self, other: Attention) -> DenseAttention:
        """A ⊙ B for a DenseAttention of the same shape."""
        if not isinstance(other, DenseAttention) or other.weights.shape != self.weights.shape:
            raise InputError(f"Only attention of the same layout can be multiplied: {self!r} with {other!r}.")
        return self._with(self.weights * other.weights)

    def relu(self) -> DenseAttention:
        """max(A, 0)."""
        return self._with(self.weights.relu())

    def abs(self) -> DenseAttention:
        """|A|."""
        return self._with(self.weights.abs())

    def image(self, size: int, pool: Pool = "mean") -> Floats:
        """Blocks of the matrices reduced to pixels, (heads, s, s)."""
        from sightline.attention import images

        check_one_of("pool", pool, images.POOLS)
        return images.dense_image(self.weights, check_count("size", size), pool)

    def dense(self, limit: int = DENSE_LIMIT) -> Floats:
        """A copy of the matrices, (heads, n, n)."""
        arrays.check_dense_size(self.heads, self.tokens, self.weights.itemsize, limit)
        return arrays.to_array(self.weights.clone())

    def _with(self, weights: Tensor) -> DenseAttention:
        """Other weights on the same allowed positions."""
        result = DenseAttention(weights)
        result._allowed = self._allowed
        return result


def _allowed_matrix(allowed: Vector, weights: Tensor) -> Tensor:
    """Return `allowed` as a boolean tensor (n, n) that covers every weight that is not 0."""
    mask = allowed.detach().to("cpu") if isinstance(allowed, Tensor) else torch.from_numpy(np.array(allowed))
    if mask.dtype != torch.bool or mask.shape != weights.shape[1:]:
        n = weights.shape[1]
        raise InputError(f"`allowed` must be booleans of shape ({n}, {n}), not {mask.dtype} of {tuple(mask.shape)}.")
    outside = ~mask
    if any(bool((head != 0).logical_and_(outside).any()) for head in weights):
        raise InputError("A weight that is not 0 lies where `allowed` is False; set it to 0 or allow the position.")
    return mask.contiguous()
