"""Attention of a window and a few global tokens: the layout of long documents (Beltagy et al. 2020, Longformer).

Token i attends to the keys within w positions of it and to the G global tokens; a global token attends to every key.
Stored as the library's slots: `local` (heads, n, G+2w+1) holds the global columns first, then the window, slot G+c of
row i being key i-w+c (slot G+w is the token itself); `global_rows` (heads, G, n) holds the rows of the global tokens.
Every weight has one place: a global key inside a window keeps its weight in its global column (0 in the window), and
the rows of global tokens in `local` are 0.

A window may end at the borders of blocks of b tokens: token i then attends only to keys of its own block and of the two
next to it, |⌊i/b⌋ - ⌊j/b⌋| ≤ 1 (Zaheer et al. 2020, BigBird); the slots of other keys are 0 and hold no weight.

Cost of every operation: O(heads · n · (G+2w+1)) time; no n×n array is made except by `dense()`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.attention import arrays
from sightline.attention.arrays import Booleans, Floats, Integers, Vector
from sightline.attention.band_layout import (
    slots_of_keys,
    slots_outside,
    window_dense,
    window_left,
    window_right,
)
from sightline.attention.protocol import DENSE_LIMIT, Attention, Pool, TopK
from sightline.errors import InputError
from sightline.settings.values import check_count, check_index, check_one_of, check_position


class BandedAttention(Attention):
    """The weights of one layer as a band with global rows and columns.

    Arrays are shared, not copied. Places that hold no weight (slots before the first or after the last token or beyond
    the neighbouring blocks, window slots of global keys, local rows of global tokens) must be 0.

    local: (heads, n, G+2w+1) slots. global_rows: (heads, G, n). global_tokens: (G,) distinct positions in any order, or
    none. block_size: b of a window that ends at the borders of blocks.
    """

    def __init__(
        self, local: Vector, global_rows: Vector, global_tokens: Vector, block_size: int | None = None
    ) -> None:
        slots = arrays.to_tensor(local, "The local attention")
        if slots.ndim != 3 or 0 in slots.shape:
            raise InputError(f"`local` has shape (heads, n, G+2w+1), none of them 0, not {tuple(slots.shape)}.")
        positions = _positions(global_tokens, slots.shape[1])
        rows = arrays.to_tensor(global_rows, "The global rows", slots.dtype)
        expected = (slots.shape[0], len(positions), slots.shape[1])
        if rows.shape != expected:
            raise InputError(f"`global_rows` must have shape (heads, G, n) = {expected}, not {tuple(rows.shape)}.")
        width = slots.shape[2] - len(positions)
        if width < 1 or width % 2 == 0:
            raise InputError(
                f"`local` has {slots.shape[2]} slots for {len(positions)} global tokens; needed are G+2w+1, "
                "that is an odd number of window slots after the global columns."
            )
        self.local = slots
        """(heads, n, G+2w+1) tensor; not to be changed."""
        self.global_rows = rows
        """(heads, G, n) tensor; not to be changed."""
        self.global_tokens = positions
        """(G,) int64 tensor, in the order of the global columns."""
        self.window = width // 2
        """w: how far a token sees to each side."""
        self.block_size = None if block_size is None else check_count("block_size", block_size)
        """b, where the window ends at the borders of blocks."""
        self._check_empty_places()

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.local.shape[0]

    @property
    def tokens(self) -> int:
        """Number of tokens n."""
        return self.local.shape[1]

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """float32 or float64."""
        return arrays.numpy_dtype(self.local)

    @property
    def nbytes(self) -> int:
        """Bytes of the band and the global rows."""
        return self.local.nbytes + self.global_rows.nbytes

    def allowed(self, i: int) -> Booleans:
        """Which tokens row i may attend to, (n,): its window and the global tokens; all for a global token."""
        i = check_position(i, self.tokens, "Row")
        mask = np.zeros(self.tokens, dtype=np.bool_)
        mask[slice(*(bounds[i] for bounds in self.window_bounds()))] = True
        mask[self.global_tokens.numpy()] = True
        return mask | bool((self.global_tokens == i).any())

    def row(self, i: int) -> Floats:
        """A[:, i, :], (heads, n)."""
        i = check_position(i, self.tokens, "Row")
        place = (self.global_tokens == i).nonzero()
        if len(place):
            return arrays.to_array(self.global_rows[:, int(place)].clone())
        first, stop = max(0, i - self.window), min(self.tokens, i + self.window + 1)
        out = self.local.new_zeros(self.heads, self.tokens)
        slot = first - i + self.window
        out[:, first:stop] = self._window_slots()[:, i, slot : slot + stop - first]
        out[:, self.global_tokens] = self._global_columns()[:, i]
        return arrays.to_array(out)

    def column(self, j: int) -> Floats:
        """A[:, :, j], (heads, n)."""
        j = check_position(j, self.tokens, "Column")
        place = (self.global_tokens == j).nonzero()
        if len(place):
            out = self._global_columns()[:, :, int(place)].clone()
        else:
            rows = torch.arange(max(0, j - self.window), min(self.tokens, j + self.window + 1))
            out = self.local.new_zeros(self.heads, self.tokens)
            out[:, rows] = self._window_slots()[:, rows, j - rows + self.window]
        out[:, self.global_tokens] = self.global_rows[:, :, j]
        return arrays.to_array(out)

    def received(self) -> Floats:
        """Σ_i A[:, i, :], (heads, n)."""
        return self.left(torch.ones(self.tokens))

    def top_attended(self, k: int) -> TopK:
        """For every row the k largest weights of its window and global columns (of all columns for a global token)."""
        from sightline.attention import top_k

        bounds = self.window_bounds()
        return top_k.banded_attended(self.local, self.global_rows, self.global_tokens, bounds, check_count("k", k))

    def top_attending(self, k: int) -> TopK:
        """For every column the k largest weights among the rows that may attend to it."""
        from sightline.attention import top_k

        bounds = self.window_bounds()
        return top_k.banded_attending(self.local, self.global_rows, self.global_tokens, bounds, check_count("k", k))

    def left(self, v: Vector) -> Floats:
        """v·A, (heads, n)."""
        vectors = arrays.row_vectors(v, self.heads, self.tokens, self.local.dtype)
        out = torch.stack([window_left(head, u) for head, u in zip(self._window_slots(), vectors, strict=True)])
        if len(self.global_tokens):
            # a sum over all n rows: torch's pairwise sum keeps ten times the precision of a strided matrix product
            out[:, self.global_tokens] += (vectors.unsqueeze(-1) * self._global_columns()).sum(1)
            out += torch.bmm(vectors[:, None, self.global_tokens], self.global_rows).squeeze(1)
        return arrays.to_array(out)

    def right(self, v: Vector) -> Floats:
        """A·v, (heads, n) or (heads, n, m)."""
        vectors, single = arrays.column_vectors(v, self.heads, self.tokens, self.local.dtype)
        out = torch.stack([window_right(head, u) for head, u in zip(self._window_slots(), vectors, strict=True)])
        if len(self.global_tokens):
            out += torch.bmm(self._global_columns(), vectors[:, self.global_tokens])
            out[:, self.global_tokens] = torch.bmm(self.global_rows, vectors)
        return arrays.to_array(out.squeeze(-1) if single else out)

    def head(self, index: int) -> BandedAttention:
        """One head, sharing memory."""
        index = check_index("Head", index, self.heads, "the layer")
        return self._with(self.local[index : index + 1], self.global_rows[index : index + 1])

    def mean(self, weights: Vector | None = None) -> BandedAttention:
        """Σ_h w_h A_h / Σ_h w_h as one head."""
        shares = arrays.head_weights(weights, self.heads, self.local.dtype)
        local, rows = (torch.tensordot(shares, part, dims=1).unsqueeze(0) for part in (self.local, self.global_rows))
        return self._with(local, rows)

    def max(self) -> BandedAttention:
        """max_h A_h as one head."""
        return self._with(self.local.amax(0, keepdim=True), self.global_rows.amax(0, keepdim=True))

    def min(self) -> BandedAttention:
        """min_h A_h as one head."""
        return self._with(self.local.amin(0, keepdim=True), self.global_rows.amin(0, keepdim=True))

    def multiply(self, other: Attention) -> BandedAttention:
        """A ⊙ B for a BandedAttention of the same shape and global tokens."""
        if (
            not isinstance(other, BandedAttention)
            or other.local.shape != self.local.shape
            or other.block_size != self.block_size
            or not torch.equal(other.global_tokens, self.global_tokens)
        ):
            raise InputError(f"Only attention of the same layout can be multiplied: {self!r} with {other!r}.")
        return self._with(self.local * other.local, self.global_rows * other.global_rows)

    def relu(self) -> BandedAttention:
        """max(A, 0)."""
        return self._with(self.local.relu(), self.global_rows.relu())

    def abs(self) -> BandedAttention:
        """|A|."""
        return self._with(self.local.abs(), self.global_rows.abs())

    def image(self, size: int, pool: Pool = "mean") -> Floats:
        """Blocks of the matrices reduced to pixels, (heads, s, s), from the band alone."""
        from sightline.attention import images

        check_one_of("pool", pool, images.POOLS)
        size = check_count("size", size)
        places = self.window_places()[None]
        return images.banded_image(self.local, self.global_rows, self.global_tokens, places, size, pool)

    def dense(self, limit: int = DENSE_LIMIT) -> Floats:
        """The full matrices, (heads, n, n), zero where a token does not attend."""
        arrays.check_dense_size(self.heads, self.tokens, self.local.itemsize, limit)
        out = self.local.new_empty(self.heads, self.tokens, self.tokens)
        for matrix, head in zip(out, self._window_slots(), strict=True):
            matrix.copy_(window_dense(head))
        out[:, :, self.global_tokens] = self._global_columns()
        out[:, self.global_tokens] = self.global_rows
        return arrays.to_array(out)

    def __repr__(self) -> str:
        return (
            f"BandedAttention(heads={self.heads}, tokens={self.tokens}, window={self.window}, "
            f"global_tokens={_abbreviate(self.global_tokens.tolist())}, {self.dtype})"
        )

    def window_bounds(self) -> tuple[Integers, Integers]:
        """Return the first key of the window of every row, and the key after the last: both (n,)."""
        rows = np.arange(self.tokens, dtype=np.int64)
        first, stop = rows - self.window, rows + self.window + 1
        if self.block_size is not None:
            start = rows // self.block_size * self.block_size
            first = np.maximum(first, start - self.block_size)
            stop = np.minimum(stop, start + 2 * self.block_size)
        return np.maximum(first, 0), np.minimum(stop, self.tokens)

    def window_places(self) -> Tensor:
        """Return which window slots (n, 2w+1) hold a key of the window, global keys included."""
        keys = torch.arange(self.tokens)[:, None] - self.window + torch.arange(2 * self.window + 1)
        first, stop = (torch.from_numpy(bounds)[:, None] for bounds in self.window_bounds())
        return (keys >= first) & (keys < stop)

    def _global_columns(self) -> Tensor:
        """Weights on the global tokens, (heads, n, G)."""
        return self.local[:, :, : len(self.global_tokens)]

    def _window_slots(self) -> Tensor:
        """Weights inside the window, (heads, n, 2w+1)."""
        return self.local[:, :, len(self.global_tokens) :]

    def _with(self, local: Tensor, global_rows: Tensor) -> BandedAttention:
        """Other weights in the same layout."""
        return BandedAttention(local, global_rows, self.global_tokens, self.block_size)

    def _check_empty_places(self) -> None:
        """Raise InputError if a place that holds no weight is not 0: operations would disagree about it."""
        window = self._window_slots()
        if bool(slots_outside(window).any()):
            raise InputError(
                "Window slots before the first or after the last token must be 0 (slot G+c of row i is key i-w+c)."
            )
        if self.block_size is not None and bool(window[:, ~self.window_places()].any()):
            raise InputError(
                f"Window slots of keys beyond the neighbouring blocks must be 0 (blocks of {self.block_size} tokens)."
            )
        if bool(slots_of_keys(window, self.global_tokens).any()):
            raise InputError("Window slots of global keys must be 0: their weight belongs in the global columns.")
        if bool(self.local[:, self.global_tokens].any()):
            raise InputError("Rows of global tokens in `local` must be 0: their weights belong in `global_rows`.")


def _positions(global_tokens: Vector, tokens: int) -> Tensor:
    """Return the global tokens as distinct positions, (G,) int64."""
    values = global_tokens.detach().cpu().numpy() if isinstance(global_tokens, Tensor) else np.asarray(global_tokens)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise InputError(f"`global_tokens` is a list of positions, not {values.dtype} of shape {values.shape}.")
    if values.size and (values.min() < 0 or values.max() >= tokens):
        raise InputError(
            f"`global_tokens` {_abbreviate(values.tolist())} reach outside the {tokens} tokens (0-{tokens - 1})."
        )
    if len(np.unique(values)) < values.size:
        raise InputError(f"`global_tokens` {_abbreviate(values.tolist())} name a position twice.")
    return torch.from_numpy(values.astype(np.int64))


def _abbreviate(positions: list[int]) -> str:
    """Return a list of positions as text, cut after eight."""
    return (
        str(positions) if len(positions) <= 8 else f"[{', '.join(map(str, positions[:8]))}, … {len(positions)} in all]"
    )
