"""The k strongest partners of every token, exactly and in one pass over the stored weights.

Every token has a list of its k best partners so far, best first. A weight is compared with the last of the list and
nearly always rejected; otherwise it is inserted in place. Equal weights are ordered by position, lower first, which
torch.topk does not guarantee. Places without a weight are skipped, so that a negative weight (a gradient) is not
displaced by the zeros around it. Lists start with weight -∞ and position -1; entries left unchanged become 0 and -1.

Cost: one comparison per stored weight, O(heads · n · (G+2w+1)) or O(heads · n²), and O(k) for each of the about
k·log(candidates/k) insertions per token.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from sightline.attention.arrays import Booleans, Floats, Integers
from sightline.attention.compiled import compiled
from sightline.attention.protocol import TopK

Bounds = tuple[Integers, Integers]
"""The first key of every row's window, and the key after the last: both (n,)."""
Chunk = tuple[int, Tensor, Tensor | None]
"""The first row of a chunk, its weights (heads, rows, n), and which of them are allowed (rows, n), None for all."""


def dense_attended(weights: Tensor, allowed: Tensor | None, k: int) -> TopK:
    """Top k columns of every row; weights (heads, n, n), allowed (n, n) or None for all."""
    return streamed_attended([(0, weights, allowed)], weights.shape[2], k)


def streamed_attended(chunks: Iterable[Chunk], n: int, k: int) -> TopK:
    """Top k columns of every one of n rows, which come in chunks."""
    best: TopK | None = None
    for start, weights, allowed in chunks:
        if best is None:
            # For all rows at once: small arrays between two chunks would keep the memory of a chunk from being reused.
            best = _empty(weights[:, :1].expand(-1, n, -1), k)
        _dense_rows(weights.numpy(), _mask(allowed), start, best.values, best.indices)
    assert best is not None
    return _finish(best)


def dense_attending(weights: Tensor, allowed: Tensor | None, k: int) -> TopK:
    """Top k rows of every column; weights (heads, n, n), allowed (n, n) or None for all."""
    best = _empty(weights, k)
    _dense_columns(weights.numpy(), _mask(allowed), 0, best.values, best.indices)
    return _finish(best)


def streamed_attending(chunks: Iterable[Chunk], k: int) -> TopK:
    """Top k rows of every column, from rows that come in chunks, in order."""
    best: TopK | None = None
    for start, weights, allowed in chunks:
        if best is None:
            best = _empty(weights.transpose(1, 2), k)
        _dense_columns(weights.numpy(), _mask(allowed), start, best.values, best.indices)
    assert best is not None
    return _finish(best)


def banded_attended(local: Tensor, global_rows: Tensor, global_tokens: Tensor, bounds: Bounds, k: int) -> TopK:
    """Top k columns of every row; the arrays of a BandedAttention."""
    best = _empty(local, k)
    _banded_rows(local.numpy(), global_rows.numpy(), global_tokens.numpy(), bounds, best.values, best.indices)
    return _finish(best)


def banded_attending(local: Tensor, global_rows: Tensor, global_tokens: Tensor, bounds: Bounds, k: int) -> TopK:
    """Top k rows of every column; the arrays of a BandedAttention."""
    best = _empty(local, k)
    _banded_columns(local.numpy(), global_rows.numpy(), global_tokens.numpy(), bounds, best.values, best.indices)
    return _finish(best)


def _empty(weights: Tensor, k: int) -> TopK:
    shape = (*weights.shape[:2], k)
    return TopK(np.full(shape, -np.inf, dtype=weights.numpy().dtype), np.full(shape, -1, dtype=np.int64))


def _finish(best: TopK) -> TopK:
    best.values[best.indices < 0] = 0
    return best


def _mask(allowed: Tensor | None) -> Booleans:
    """Return `allowed` as an array; an empty one means that every pair is allowed."""
    return np.zeros((0, 0), dtype=np.bool_) if allowed is None else allowed.numpy()


@compiled
def _offer(values: Floats, indices: Integers, value: float, index: int) -> None:
    """Insert a partner into one list (k,), ordered by falling value, then rising position, unless it is too weak."""
    place = len(values) - 1
    if value < values[place] or (value == values[place] and index > indices[place]):
        return
    while place > 0 and (value > values[place - 1] or (value == values[place - 1] and index < indices[place - 1])):
        values[place] = values[place - 1]
        indices[place] = indices[place - 1]
        place -= 1
    values[place] = value
    indices[place] = index


@compiled
def _dense_rows(weights: Floats, allowed: Booleans, start: int, values: Floats, indices: Integers) -> None:
    heads, _, k = values.shape
    everything = allowed.size == 0
    for h in range(heads):
        for i in range(weights.shape[1]):
            best, where = values[h, start + i], indices[h, start + i]
            for j in range(weights.shape[2]):
                if weights[h, i, j] > best[k - 1] and (everything or allowed[i, j]):
                    _offer(best, where, weights[h, i, j], j)


@compiled
def _dense_columns(weights: Floats, allowed: Booleans, start: int, values: Floats, indices: Integers) -> None:
    heads, n, k = values.shape
    everything = allowed.size == 0
    last = np.empty(n, dtype=values.dtype)  # the last weight of every list, side by side for a quick comparison
    for h in range(heads):
        last[:] = values[h, :, k - 1]
        for i in range(weights.shape[1]):  # along the rows, as memory lies; the lists of all columns grow together
            for j in range(n):
                if weights[h, i, j] > last[j] and (everything or allowed[i, j]):
                    _offer(values[h, j], indices[h, j], weights[h, i, j], start + i)
                    last[j] = values[h, j, k - 1]


@compiled
def _global_place(global_tokens: Integers, n: int) -> Integers:
    """The place of every token among the global ones, (n,); -1 for a local token."""
    place = np.full(n, -1, dtype=np.int64)
    for g in range(len(global_tokens)):
        place[global_tokens[g]] = g
    return place


@compiled
def _banded_rows(
    local: Floats, global_rows: Floats, global_tokens: Integers, bounds: Bounds, values: Floats, indices: Integers
) -> None:
    heads, n, k = values.shape
    global_count = len(global_tokens)
    window = (local.shape[2] - global_count) // 2
    place = _global_place(global_tokens, n)
    for h in range(heads):
        for i in range(n):
            best, where = values[h, i], indices[h, i]
            if place[i] >= 0:
                row = global_rows[h, place[i]]
                for j in range(n):
                    if row[j] > best[k - 1]:
                        _offer(best, where, row[j], j)
                continue
            first, stop = bounds[0][i], bounds[1][i]
            first_slot = global_count + first - i + window
            slots = local[h, i, first_slot : first_slot + stop - first]
            for c in range(len(slots)):
                if slots[c] > best[k - 1] and place[first + c] < 0:
                    _offer(best, where, slots[c], first + c)
            for g in range(global_count):  # after the window although they may stand before it: equal weights count
                if local[h, i, g] >= best[k - 1]:
                    _offer(best, where, local[h, i, g], global_tokens[g])


@compiled
def _banded_columns(
    local: Floats, global_rows: Floats, global_tokens: Integers, bounds: Bounds, values: Floats, indices: Integers
) -> None:
    heads, n, k = values.shape
    global_count = len(global_tokens)
    window = (local.shape[2] - global_count) // 2
    place = _global_place(global_tokens, n)
    last = np.empty(n, dtype=values.dtype)  # as for dense columns
    for h in range(heads):
        last[:] = -np.inf
        for i in range(n):
            if place[i] >= 0:
                row = global_rows[h, place[i]]
                for j in range(n):
                    if row[j] > last[j]:
                        _offer(values[h, j], indices[h, j], row[j], i)
                        last[j] = values[h, j, k - 1]
                continue
            for g in range(global_count):
                j = global_tokens[g]
                if local[h, i, g] > last[j]:
                    _offer(values[h, j], indices[h, j], local[h, i, g], i)
                    last[j] = values[h, j, k - 1]
            first, stop = bounds[0][i], bounds[1][i]
            first_slot = global_count + first - i + window
            slots, lasts = local[h, i, first_slot : first_slot + stop - first], last[first:stop]
            for c in range(len(slots)):
                if slots[c] > lasts[c] and place[first + c] < 0:
                    j = first + c
                    _offer(values[h, j], indices[h, j], slots[c], i)
                    lasts[c] = values[h, j, k - 1]
