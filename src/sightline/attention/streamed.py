"""Attention whose rows are computed when they are asked for: full attention of documents too long to keep its matrices.

Stored is a function that returns a few neighbouring rows of all heads, for example softmax(q kᵀ) of these rows. Every
operation goes over the document once, in chunks of rows, so that memory is that of one chunk: no (heads, n, n) array is
made except by `dense()`. Cost O(heads · n²) time per operation, as for stored matrices, plus computing the rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.attention import arrays
from sightline.attention.arrays import Booleans, Floats, Vector
from sightline.attention.protocol import DENSE_LIMIT, Attention, Pool, TopK
from sightline.errors import InputError
from sightline.settings.values import check_count, check_index, check_one_of, check_position

Rows = Callable[[slice, int, int], Tensor]
"""(heads, first row, row after the last) -> A[heads, first:stop], (heads, rows, n)."""
CHUNK_BYTES = 32_000_000
"""Bytes of one chunk of rows: large enough for efficient matrix products."""


class StreamedAttention(Attention):
    """The weights of one layer as a function of its rows.

    rows: see `Rows`. dtype: float32 or float64, of what it returns. hidden: (n,) booleans, keys that no row attends to;
    weights there must be 0. stored: bytes of what the function computes from. computed: heads that it computes at once
    where they are more than it returns.
    """

    def __init__(
        self,
        rows: Rows,
        heads: int,
        tokens: int,
        dtype: torch.dtype,
        hidden: Tensor | None = None,
        stored: int = 0,
        computed: int | None = None,
    ) -> None:
        self._rows, self._heads, self._tokens, self._stored = rows, heads, tokens, stored
        self._hidden = hidden
        self._computed = heads if computed is None else computed
        self._zero = torch.zeros((), dtype=dtype)

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self._heads

    @property
    def tokens(self) -> int:
        """Number of tokens n."""
        return self._tokens

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """float32 or float64."""
        return arrays.numpy_dtype(self._zero)

    @property
    def nbytes(self) -> int:
        """Bytes of what the rows are computed from."""
        return self._stored

    def allowed(self, i: int) -> Booleans:
        """Which tokens row i may attend to, (n,)."""
        check_position(i, self.tokens, "Row")
        return np.ones(self.tokens, dtype=np.bool_) if self._hidden is None else ~self._hidden.numpy()

    def row(self, i: int) -> Floats:
        """A[:, i, :], (heads, n)."""
        i = check_position(i, self.tokens, "Row")
        return arrays.to_array(self._rows(slice(None), i, i + 1)[:, 0])

    def column(self, j: int) -> Floats:
        """A[:, :, j], (heads, n)."""
        j = check_position(j, self.tokens, "Column")
        return arrays.to_array(torch.cat([rows[:, :, j] for _, rows in self.chunks()], dim=1))

    def received(self) -> Floats:
        """Σ_i A[:, i, :], (heads, n)."""
        total = self._empty(self.tokens)
        for _, rows in self.chunks():
            total += rows.sum(1)
        return arrays.to_array(total)

    def top_attended(self, k: int) -> TopK:
        """For every row the k allowed columns of largest weight."""
        from sightline.attention import top_k

        chunks = ((start, rows, self._allowed(rows)) for start, rows in self.chunks())
        return top_k.streamed_attended(chunks, self.tokens, check_count("k", k))

    def top_attending(self, k: int) -> TopK:
        """For every column the k rows of largest weight that may attend to it."""
        from sightline.attention import top_k

        chunks = ((start, rows, self._allowed(rows)) for start, rows in self.chunks())
        return top_k.streamed_attending(chunks, check_count("k", k))

    def left(self, v: Vector) -> Floats:
        """v·A, (heads, n)."""
        vectors = arrays.row_vectors(v, self.heads, self.tokens, self._zero.dtype)
        total = self._empty(self.tokens)
        for start, rows in self.chunks(vectors):
            total += torch.bmm(vectors[:, None, start : start + rows.shape[1]], rows).squeeze(1)
        return arrays.to_array(total)

    def right(self, v: Vector) -> Floats:
        """A·v, (heads, n) or (heads, n, m)."""
        vectors, single = arrays.column_vectors(v, self.heads, self.tokens, self._zero.dtype)
        product = torch.cat([torch.bmm(rows, vectors) for _, rows in self.chunks()], dim=1)
        return arrays.to_array(product.squeeze(-1) if single else product)

    def head(self, index: int) -> StreamedAttention:
        """One head, computed alone."""
        index = check_index("Head", index, self.heads, "the layer")

        def rows(_: slice, start: int, stop: int) -> Tensor:
            return self._rows(slice(index, index + 1), start, stop)

        return self._with(rows, heads=1, computed=1 if self._computed == self.heads else None)

    def mean(self, weights: Vector | None = None) -> StreamedAttention:
        """Σ_h w_h A_h / Σ_h w_h as one head."""
        shares = arrays.head_weights(weights, self.heads, self._zero.dtype)
        return self._reduce(lambda rows: torch.tensordot(shares, rows, dims=1).unsqueeze(0))

    def max(self) -> StreamedAttention:
        """max_h A_h as one head."""
        return self._reduce(lambda rows: rows.amax(0, keepdim=True))

    def min(self) -> StreamedAttention:
        """min_h A_h as one head."""
        return self._reduce(lambda rows: rows.amin(0, keepdim=True))

    def multiply(self, other: Attention) -> StreamedAttention:
        """A ⊙ B for a StreamedAttention of the same shape."""
        if not isinstance(other, StreamedAttention) or (other.heads, other.tokens) != (self.heads, self.tokens):
            raise InputError(f"Only attention of the same layout can be multiplied: {self!r} with {other!r}.")
        return self._with(lambda heads, start, stop: self._rows(heads, start, stop) * other._rows(heads, start, stop))

    def relu(self) -> StreamedAttention:
        """max(A, 0)."""
        return self._with(lambda heads, start, stop: self._rows(heads, start, stop).relu())

    def abs(self) -> StreamedAttention:
        """|A|."""
        return self._with(lambda heads, start, stop: self._rows(heads, start, stop).abs())

    def image(self, size: int, pool: Pool = "mean") -> Floats:
        """Blocks of the matrices reduced to pixels, (heads, s, s)."""
        from sightline.attention import images

        check_one_of("pool", pool, images.POOLS)
        return images.streamed_image(self.chunks(), self.heads, self.tokens, check_count("size", size), pool)

    def dense(self, limit: int = DENSE_LIMIT) -> Floats:
        """The full matrices, (heads, n, n)."""
        arrays.check_dense_size(self.heads, self.tokens, self._zero.itemsize, limit)
        return arrays.to_array(torch.cat([rows for _, rows in self.chunks()], dim=1))

    def chunks(self, used: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
        """Yield the first row of every chunk and its rows (heads, rows, n); none for rows where `used` (·, n) is 0."""
        step = max(1, CHUNK_BYTES // (self._computed * self.tokens * self._zero.itemsize))
        for start in range(0, self.tokens, step):
            stop = min(start + step, self.tokens)
            if used is None or bool(used[:, start:stop].any()):
                yield start, self._rows(slice(None), start, stop)

    def change(self, change: Callable[[Tensor, int], Tensor]) -> StreamedAttention:
        """Return the layer with change(rows, first row) in place of every chunk of rows (heads, rows, n)."""
        return self._with(lambda heads, start, stop: change(self._rows(heads, start, stop), start))

    def _reduce(self, reduce: Callable[[Tensor], Tensor]) -> StreamedAttention:
        return self._with(lambda _, start, stop: reduce(self._rows(slice(None), start, stop)), heads=1)

    def _with(self, rows: Rows, heads: int | None = None, computed: int | None = None) -> StreamedAttention:
        """Other rows of the same document."""
        count, together = heads or self.heads, computed or self._computed
        return StreamedAttention(rows, count, self.tokens, self._zero.dtype, self._hidden, self._stored, together)

    def _allowed(self, rows: Tensor) -> Tensor | None:
        return None if self._hidden is None else (~self._hidden).expand(rows.shape[1], -1)

    def _empty(self, columns: int) -> Tensor:
        return self._zero.new_zeros(self.heads, columns)
