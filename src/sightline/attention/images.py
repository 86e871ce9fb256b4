"""The matrices of a layer as small pictures, straight from the stored weights.

A picture of s×s pixels, s = min(size, n), puts cell (i, j) in pixel (⌊i·s/n⌋, ⌊j·s/n⌋). A pixel is the mean or the
maximum of its block of the *full* matrix: cells that a band does not store count as the zeros they are. Sums over a
band are kept in float64. Cost O(heads · (stored weights + s²)).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sightline.attention.arrays import Floats, Integers
from sightline.attention.compiled import compiled
from sightline.attention.protocol import Pool

Picture = npt.NDArray[np.float64]
POOLS: tuple[Pool, ...] = get_args(Pool)


def dense_image(weights: Tensor, size: int, pool: Pool) -> Floats:
    """Pictures (heads, s, s) of weights (heads, n, n)."""
    pixels = _pixels(weights.shape[1], size)
    starts = np.searchsorted(pixels, np.arange(pixels[-1] + 1))
    reduce = np.add if pool == "mean" else np.maximum
    heads = [reduce.reduceat(reduce.reduceat(head, starts, axis=0), starts, axis=1) for head in weights.numpy()]
    picture: Floats = np.stack(heads)
    return (picture / _cells(pixels)).astype(picture.dtype) if pool == "mean" else picture


def banded_image(
    local: Tensor, global_rows: Tensor, global_tokens: Tensor, window_places: Tensor, size: int, pool: Pool
) -> Floats:
    """Pictures (heads, s, s) of the arrays of a BandedAttention; window_places (1, n, 2w+1): slots that hold a key."""
    slots, rows, positions = local.numpy(), global_rows.numpy(), global_tokens.numpy()
    pixels = _pixels(slots.shape[1], size)
    runs = _runs(pixels, positions)
    shape = (pixels[-1] + 1, pixels[-1] + 1)
    if pool == "mean":
        picture = np.zeros((slots.shape[0], *shape))
        _paint(slots, rows, positions, pixels, runs, False, picture)
        return (picture / _cells(pixels)).astype(slots.dtype)
    stored = np.zeros((1, *shape))  # a band of ones, summed, counts the cells that are stored
    ones = np.ones_like(slots[:1])
    ones[:, :, len(positions) :] = window_places.numpy()
    _paint(ones, np.ones_like(rows[:1]), positions, pixels, runs, False, stored)
    blank = np.where(stored < _cells(pixels), 0.0, -np.inf)
    picture = np.repeat(blank, slots.shape[0], axis=0)
    _paint(slots, rows, positions, pixels, runs, True, picture)
    return picture.astype(slots.dtype)


def streamed_image(chunks: Iterable[tuple[int, Tensor]], heads: int, n: int, size: int, pool: Pool) -> Floats:
    """Pictures (heads, s, s) of rows that come in chunks: (first row, weights (heads, rows, n))."""
    pixels = _pixels(n, size)
    starts = np.searchsorted(pixels, np.arange(pixels[-1] + 1))
    reduce = np.add if pool == "mean" else np.maximum
    picture = np.full((heads, len(starts), len(starts)), 0.0 if pool == "mean" else -np.inf)
    dtype = np.dtype(np.float64)
    for start, rows in chunks:
        values = rows.numpy()
        dtype = values.dtype
        lines = pixels[start : start + values.shape[1]]
        by_column = reduce.reduceat(values, starts, axis=2)
        cuts = np.flatnonzero(np.diff(lines, prepend=-1))
        touched = lines[cuts]
        picture[:, touched] = reduce(picture[:, touched], reduce.reduceat(by_column, cuts, axis=1))
    return (picture / _cells(pixels) if pool == "mean" else picture).astype(dtype)


def _pixels(n: int, size: int) -> Integers:
    """The pixel of every position, (n,)."""
    return np.arange(n, dtype=np.int64) * min(size, n) // n


def _cells(pixels: Integers) -> Integers:
    """Cells of the full matrix in every pixel, (s, s)."""
    lengths = np.bincount(pixels)
    return np.outer(lengths, lengths)


class _Runs(NamedTuple):
    """Runs of adjacent local (not global) keys that fall into the same pixel."""

    start: Integers
    stop: Integers
    pixel: Integers


def _runs(pixels: Integers, global_tokens: Integers) -> _Runs:
    """Cut the positions wherever the pixel changes or a global token stands."""
    keys = np.delete(np.arange(len(pixels)), global_tokens)
    cuts = np.flatnonzero((np.diff(keys) > 1) | (np.diff(pixels[keys]) > 0)) + 1
    start = keys[np.concatenate(([0], cuts))[: len(keys)]]
    stop = keys[np.concatenate((cuts, [len(keys)]))[: len(keys)] - 1] + 1
    return _Runs(start, stop, pixels[start])


@compiled
def _add(row: Picture, pixel: int, values: Floats, largest: bool) -> None:
    """Add adjacent weights to their pixel, or take their maximum."""
    if largest:
        for value in values:
            row[pixel] = max(row[pixel], value)
    else:
        total = 0.0
        for value in values:
            total += value
        row[pixel] += total


@compiled
def _paint(
    local: Floats,
    global_rows: Floats,
    global_tokens: Integers,
    pixels: Integers,
    runs: _Runs,
    largest: bool,
    picture: Picture,
) -> None:
    heads, n, slots = local.shape
    global_count = len(global_tokens)
    window = (slots - global_count) // 2
    is_global = np.zeros(n, dtype=np.bool_)
    is_global[global_tokens] = True
    for h in range(heads):
        first_run = 0
        for i in range(n):
            if is_global[i]:
                continue
            row = picture[h, pixels[i]]
            for g in range(global_count):
                _add(row, pixels[global_tokens[g]], local[h, i, g : g + 1], largest)
            first_key, stop_key = i - window, i + window + 1
            first_slot = global_count - first_key  # slot of key 0
            while first_run < len(runs.start) and runs.stop[first_run] <= first_key:
                first_run += 1
            for run in range(first_run, len(runs.start)):
                if runs.start[run] >= stop_key:
                    break
                start = first_slot + max(first_key, runs.start[run])
                stop = first_slot + min(stop_key, runs.stop[run])
                _add(row, runs.pixel[run], local[h, i, start:stop], largest)
        for g in range(global_count):
            row = picture[h, pixels[global_tokens[g]]]
            for j in range(n):
                _add(row, pixels[j], global_rows[h, g, j : j + 1], largest)
