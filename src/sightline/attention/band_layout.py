"""The window of a band as a matrix, without building it.

A band stores the window of row i as W = 2w+1 slots: slot c is the weight of key j = i - w + c. Read against t = i + c
instead (the key, shifted by w) the slots of successive rows are shifted by one:

    row 0   0 1 2 3 4 . . .            height B = 4 rows, W = 5 slots
    row 1   . 0 1 2 3 4 . .
    row 2   . . 0 1 2 3 4 .            t = 0..B-2 left triangle · B-1..W-1 middle · W..W+B-2 right triangle
    row 3   . . . 0 1 2 3 4

In memory, moving one row down at the same t is a step of (row length - 1), so each of the three parts is a *view* with
that stride. The middle holds weights only and goes to the matrix product as it lies; the triangles are small and are
copied with their other half cleared. Cost O(n·W) multiplications, extra memory O(n·B).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK_ROWS = 32
"""Rows of a block: small beside a window of 512, so the copied triangles are; large enough for a matrix product."""


@dataclass(frozen=True)
class Tiles:
    """`blocks` blocks of `height` neighbouring rows each, from row `start` on, of window slots (n, W).

    Take the middle first: it reads memory in order, and the triangles are in the cache afterwards.
    """

    window: Tensor
    start: int
    blocks: int
    height: int

    @property
    def stop(self) -> int:
        """The row after the last."""
        return self.start + self.blocks * self.height

    def middle(self) -> Tensor:
        """(blocks, height, W-height+1), t = height-1 … W-1; a view."""
        return self._view(self.height - 1, self.window.shape[1] - self.height + 1)

    def left(self) -> Tensor:
        """(blocks, height, height-1), t = 0 … height-2."""
        return self._view(0, self.height - 1).triu()

    def right(self) -> Tensor:
        """(blocks, height, height-1), t = W … W+height-2."""
        return self._view(self.window.shape[1], self.height - 1).tril(diagonal=-1)

    def _view(self, first: int, columns: int) -> Tensor:
        row_length = self.window.stride(0)
        strides = (self.height * row_length, row_length - 1, 1)
        origin = self.window.storage_offset() + self.start * row_length + first
        return self.window.as_strided((self.blocks, self.height, columns), strides, origin)


def tiles(window: Tensor) -> Iterator[Tiles]:
    """Cut window slots (n, W), a view with unit stride along the slots, into full blocks and a rest of fewer rows."""
    n, width = window.shape
    height = min(BLOCK_ROWS, width, n)
    full = n // height
    yield Tiles(window, 0, full, height)
    if full * height < n:
        yield Tiles(window, full * height, 1, n - full * height)


def window_left(window: Tensor, v: Tensor) -> Tensor:
    """v·A for the window part: out[j] = Σ_i v[i] · window[i, j-i+w]; window (n, W), v (n,), result (n,)."""
    n, width = window.shape
    reach = width // 2
    out = window.new_zeros(n + width - 1)  # indexed by t = j + w
    for tile in tiles(window):
        height = tile.height
        rows = v[tile.start : tile.stop].view(tile.blocks, 1, height)
        span = -(-(width + height - 1) // height)  # blocks of t that one block of rows touches
        parts = window.new_zeros(tile.blocks, 1, span * height)
        parts[..., height - 1 : width] = rows @ tile.middle()
        parts[..., : height - 1] = rows @ tile.left()
        parts[..., width : width + height - 1] = rows @ tile.right()
        # block b starts at t = b·height: add the blocks shifted by their number, all of them at once
        shifted = window.new_zeros(tile.blocks + span - 1, height)
        for k in range(span):
            shifted[k : k + tile.blocks] += parts[:, 0, k * height : (k + 1) * height]
        length = tile.stop - tile.start + width - 1
        out[tile.start : tile.start + length] += shifted.view(-1)[:length]
    return out[reach : reach + n]


def window_right(window: Tensor, v: Tensor) -> Tensor:
    """A·v for the window part: out[i] = Σ_c window[i, c] · v[i-w+c]; window (n, W), v (n, m), result (n, m)."""
    n, width = window.shape
    reach = width // 2
    padded = torch.nn.functional.pad(v, (0, 0, reach, reach))
    out = window.new_empty(n, v.shape[1])
    for tile in tiles(window):
        height = tile.height
        # (blocks, m, W+height-1): what each block of rows may see. Vectors stay rows, (A·v)ᵀ = vᵀ·Aᵀ: the product of
        # a batch of matrices with a *column* misses torch's fast path and takes 25 times as long
        seen = padded[tile.start : tile.stop + width - 1].unfold(0, width + height - 1, height)
        product = seen[..., height - 1 : width] @ tile.middle().mT
        product += seen[..., : height - 1] @ tile.left().mT
        product += seen[..., width:] @ tile.right().mT
        out[tile.start : tile.stop] = product.mT.reshape(-1, v.shape[1])
    return out


def window_dense(window: Tensor) -> Tensor:
    """The window part as a matrix (n, n), zero elsewhere, by one strided copy."""
    n, width = window.shape
    reach = width // 2
    padded = window.new_zeros(n, n + width - 1)
    padded.as_strided((n, width), (n + width, 1)).copy_(window)
    return padded[:, reach : reach + n]


def slots_outside(window: Tensor) -> Tensor:
    """The slots of (heads, n, W) whose key lies before the first or after the last token, (heads, number of them)."""
    n, reach = window.shape[1], window.shape[2] // 2
    edge = min(n, reach)  # only so many rows at each end have such slots
    from_end = torch.arange(edge)[:, None]
    slot = torch.arange(reach)
    before = window[:, :edge, :reach][:, from_end + slot < reach]
    after = window[:, n - edge :, reach + 1 :][:, from_end.flip(0) <= slot]
    return torch.cat((before, after), dim=1)


def slots_of_keys(window: Tensor, keys: Tensor) -> Tensor:
    """The window slots of (heads, n, W) that belong to the given keys (K,), (heads, number of them)."""
    n, width = window.shape[1:]
    slot = torch.arange(width)
    rows = keys[:, None] + width // 2 - slot
    inside = (rows >= 0) & (rows < n)
    return window[:, rows[inside], slot.expand_as(rows)[inside]]
