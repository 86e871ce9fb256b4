"""Queries about one document's attention: a part of one head's map, and the strongest relations of some tokens.

Both read single rows and columns of the attention operator and never build an n×n matrix, so they answer quickly on
long documents. Shapes: n tokens, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sightline.analysis.source import AttentionSource, Floats, head_number, layer_number
from sightline.errors import OptionError
from sightline.settings.arguments import check_position

Span = tuple[int, int]


def tile(source: AttentionSource, layer: int, head: int, rows: Span, columns: Span) -> Floats:
    """Return the weights A[rows[0]:rows[1], columns[0]:columns[1]] of one head, (r, c), cut at the end of the text.

    O(r·n) time and O(r·c) memory.
    """
    attention = source.attentions[layer_number(source, layer)].head(head_number(source, head))
    n = len(source.encoding)
    (first, stop), (left, right) = (_clip_span(span, n, name) for span, name in ((rows, "rows"), (columns, "columns")))
    return np.stack([attention.row(i)[0, left:right] for i in range(first, stop)])


def pooled_tile(
    source: AttentionSource, layer: int, head: int, rows: Span | None, columns: Span | None, size: int
) -> NDArray[np.float64]:
    """Return `tile` reduced to at most `size` pixels per side, (r, c), each pixel the mean of its cells.

    With rows [a, b), r = min(size, b − a) and row i belongs to pixel ⌊(i − a)·r/(b − a)⌋; likewise for columns. None
    stands for all tokens. Spans beyond the text are refused. O((b − a)·n) time, one row in memory at a time.
    """
    attention = source.attentions[layer_number(source, layer)].head(head_number(source, head))
    n = len(source.encoding)
    (top, bottom), (left, right) = (_check_span(span, n, name) for span, name in ((rows, "rows"), (columns, "columns")))
    row_edges, column_edges = _pixel_edges(bottom - top, size), _pixel_edges(right - left, size)
    sums = np.zeros((len(row_edges) - 1, len(column_edges) - 1))
    for pixel, (first, stop) in enumerate(zip(row_edges[:-1].tolist(), row_edges[1:].tolist(), strict=True)):
        for row in range(top + first, top + stop):
            weights = attention.row(row)[0, left:right]
            sums[pixel] += np.add.reduceat(weights, column_edges[:-1], dtype=np.float64)
    means: NDArray[np.float64] = sums / np.outer(np.diff(row_edges), np.diff(column_edges))
    return means


def strongest_relations(
    source: AttentionSource,
    tokens: Sequence[int],
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    k: int,
) -> dict[str, list[tuple[int, float]]]:
    """Return the k tokens that `tokens` attend to most, and the k that attend to them most, as (position, weight).

    Weights are means over the chosen layers and heads (None: all). Several tokens are treated as one word (Clark et al.
    2019): attention from it is the mean over its tokens, attention to it the sum. Strongest first, ties in document
    order, zero weights omitted. O(layers · tokens · n).
    """
    n = len(source.encoding)
    positions = sorted({check_position(token, n) for token in tokens})
    layer_numbers = sorted(
        {layer_number(source, layer) for layer in (range(source.layer_count) if layers is None else layers)}
    )
    head_numbers = sorted(
        {head_number(source, head) for head in (range(source.head_count) if heads is None else heads)}
    )
    attended, attending = np.zeros(n), np.zeros(n)
    for layer in layer_numbers:
        attention = source.attentions[layer]
        for token in positions:
            attended += attention.row(token)[head_numbers].mean(axis=0, dtype=np.float64)
            attending += attention.column(token)[head_numbers].mean(axis=0, dtype=np.float64)
    attended /= len(layer_numbers) * len(positions)
    attending /= len(layer_numbers)
    return {"attended": _strongest(attended, k), "attending": _strongest(attending, k)}


def _clip_span(span: Span, n: int, name: str) -> Span:
    first, stop = span
    if not 0 <= first < min(stop, n):
        raise OptionError(f"{name} {first}-{stop} hold no token of the document, which has {n} (0-{n - 1}).")
    return first, min(stop, n)


def _check_span(span: Span | None, n: int, name: str) -> Span:
    first, stop = (0, n) if span is None else span
    if not 0 <= first < stop <= n:
        raise OptionError(f"{name}={first}:{stop} asked for, the document has {n} tokens (0:{n}).")
    return first, stop


def _pixel_edges(length: int, size: int) -> NDArray[np.int64]:
    """Return the first cell of each of s = min(size, length) pixels, and the end: ⌈p·length/s⌉, (s + 1,)."""
    pixels = min(size, length)
    return -(-np.arange(pixels + 1, dtype=np.int64) * length // pixels)


def _strongest(weights: NDArray[np.float64], k: int) -> list[tuple[int, float]]:
    order = np.argsort(-weights, kind="stable")[:k]
    return [(int(position), float(weights[position])) for position in order if weights[position] > 0]
