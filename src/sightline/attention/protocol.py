"""The attention weights of one layer as an operator.

`A` (heads, n, n) holds one matrix per head: row i = the token that attends, column j = the token attended to. A method
asks for what it needs (a row, the column sums, v·A, the strongest partners) and never for the matrix, so that a layer
with a window can answer from its band: work and memory grow with the weights that exist, not with n².

The same operators carry gradients ∂y/∂A and products with them, so nothing here assumes that rows sum to one or that
weights are positive.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from sightline.attention.arrays import Booleans, Floats, Integers, Vector

DENSE_LIMIT = 2_000_000_000
"""Bytes above which `dense()` refuses."""

Pool = Literal["mean", "max"]
"""How `image` makes one pixel of a block of cells."""


class TopK(NamedTuple):
    """The k strongest partners of every token, strongest first; equal values in the order of their positions."""

    values: Floats
    """(heads, n, k); 0 where a token has fewer than k partners."""
    indices: Integers
    """(heads, n, k) positions of the partners; -1 where a token has fewer than k."""


@runtime_checkable
class Attention(Protocol):
    """What every layer of attention weights can do, whatever its layout. Takes numpy or torch, returns numpy."""

    @property
    def heads(self) -> int:
        """Number of heads."""

    @property
    def tokens(self) -> int:
        """Number of tokens n."""

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """Type of the weights, float32 or float64, and of all results."""

    @property
    def nbytes(self) -> int:
        """Bytes the weights take in this layout."""

    def allowed(self, i: int) -> Booleans:
        """Which tokens row i may attend to, (n,)."""

    def row(self, i: int) -> Floats:
        """What token i attends to: A[:, i, :], (heads, n)."""

    def column(self, j: int) -> Floats:
        """Who attends to token j: A[:, :, j], (heads, n)."""

    def received(self) -> Floats:
        """Attention received: Σ_i A[:, i, :], (heads, n)."""

    def top_attended(self, k: int) -> TopK:
        """For every row the k columns of largest weight, among those the row may attend to."""

    def top_attending(self, k: int) -> TopK:
        """For every column the k rows of largest weight, among those that may attend to it."""

    def left(self, v: Vector) -> Floats:
        """v·A, (heads, n), for one vector v (n,) or one per head (heads, n)."""

    def right(self, v: Vector) -> Floats:
        """A·v, (heads, n), for v (n,) or (heads, n); (heads, n, m) for m columns v (n, m) or (heads, n, m).

        An array that fits both (heads, n) and (n, m) is read as one vector per head.
        """

    def head(self, index: int) -> Attention:
        """One head, sharing memory."""

    def mean(self, weights: Vector | None = None) -> Attention:
        """One head: Σ_h w_h A_h / Σ_h w_h; without weights (heads,) the plain mean."""

    def max(self) -> Attention:
        """One head: the largest weight of all heads, cell by cell."""

    def min(self) -> Attention:
        """One head: the smallest weight of all heads, cell by cell."""

    def multiply(self, other: Attention) -> Attention:
        """A ⊙ B, cell by cell, for an operator of the same layout."""

    def relu(self) -> Attention:
        """max(A, 0), cell by cell."""

    def abs(self) -> Attention:
        """|A|, cell by cell."""

    def image(self, size: int, pool: Pool = "mean") -> Floats:
        """The matrices as pictures (heads, s, s), s = min(size, n): pixel (⌊i·s/n⌋, ⌊j·s/n⌋) pools the cells (i, j)."""

    def dense(self, limit: int = DENSE_LIMIT) -> Floats:
        """The full matrices as a new array (heads, n, n); refuses above `limit` bytes."""

    def __array__(self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None) -> Floats:
        """`np.asarray(attention)` is `attention.dense()`."""
        if copy is False:
            raise ValueError("An Attention cannot become an array without a copy; use np.asarray(attention).")
        return self.dense().astype(dtype if dtype is not None else self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(heads={self.heads}, tokens={self.tokens}, {self.dtype})"
