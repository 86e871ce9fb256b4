"""Head maps in the form that the page receives.

Maps have one byte per pixel: small ones for all heads, finer ones for a few. A map of s × s pixels puts cell (i, j) of
n × n in pixel (⌊i·s/n⌋, ⌊j·s/n⌋), which is the mean of its cells. If s divides S, or S = n, every pixel of the S × S
map lies inside one of the s × s map: the smaller map is the mean of the larger one's pixels, weighted by their number
of cells, and can be computed from it exactly.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sightline.results.inside import Inside

EDGE = 256
"""Pixels along the maps that all heads get, where there is room."""
FINE_BYTES = 700_000
"""Compressed bytes of the finer maps that the most important heads get beyond that."""


def pool_maps(maps: NDArray[np.floating[Any]], n: int, edge: int) -> NDArray[np.float32]:
    """Return maps (…, S, S) of n × n cells reduced to (…, edge, edge), or unchanged where that is not exact."""
    size = maps.shape[-1]
    if size <= edge or (size < n and size % edge):
        return maps.astype(np.float32, copy=False)
    first = -(-np.arange(size) * n // size)  # the first token of every pixel, ⌈p·n/S⌉
    tokens = np.diff(first, append=n)
    starts = np.searchsorted(first * edge // n, np.arange(edge))
    cells = np.add.reduceat(tokens, starts)
    sums = np.add.reduceat(maps * tokens[:, None].astype(np.float64), starts, axis=-2)
    sums = np.add.reduceat(sums * tokens, starts, axis=-1)
    means: NDArray[np.float32] = (sums / np.outer(cells, cells)).astype(np.float32)
    return means


def encode_maps(maps: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Code maps (…, s, s) as q = 255·√(weight/peak) in one byte per pixel; returns q and the peaks (…).

    The square root keeps the faint parts, which are most of a map.
    """
    peak = maps.max(axis=(-2, -1), keepdims=True)
    share = np.divide(maps, peak, out=np.zeros_like(maps), where=peak > 0)
    return np.rint(255 * np.sqrt(np.maximum(share, 0))).astype(np.uint8), peak[..., 0, 0].astype(np.float32)


def heads_by_importance(inside: Inside) -> list[tuple[int, int]]:
    """Return every (layer, head), the most important first; without importance, upper layers first."""
    places = np.repeat(np.arange(inside.layers), inside.heads)
    rank = places if inside.importance is None else inside.importance.ravel()
    return [divmod(int(head), inside.heads) for head in np.argsort(-rank, kind="stable")]


def fine_maps(inside: Inside) -> Iterator[tuple[int, int, NDArray[np.uint8], NDArray[np.float32]]]:
    """Yield layer, head, coded map (S, S) and peak (1,) of the most important heads, while `FINE_BYTES` last."""
    left = FINE_BYTES
    for layer, head in heads_by_importance(inside):
        coded, peak = encode_maps(inside.images[layer, head])
        left -= len(zlib.compress(coded.tobytes(), 9))
        if left < 0:
            return
        yield layer, head, coded, peak.reshape(1)
