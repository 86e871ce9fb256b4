"""Looking closer at the attention of a document that was explained: part of one head's map, partners of a token.

Everything is answered from rows and columns of the operator (`sightline.attention`); no n×n matrix is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sightline.analysis.source import AttentionSource, head_number, layer_number
from sightline.attention.arrays import check_position
from sightline.errors import OptionError

Span = tuple[int, int]


def pooled_tile(
    source: AttentionSource, layer: int, head: int, rows: Span | None, columns: Span | None, size: int
) -> NDArray[np.float64]:
    """Return mean weights (r, c) of rows [a, b) and columns [c, d) of one head, r = min(size, b − a), c likewise.

    Pixel p of the rows holds the rows i with ⌊(i − a)·r/(b − a)⌋ = p, and so for the columns; None stands for all
    tokens. O((b − a) · n) time, one row in memory at a time.
    """
    top, bottom = _checked_span(rows, len(source.encoding), "rows")
    left, right = _checked_span(columns, len(source.encoding), "columns")
    one = source.attentions[layer_number(source, layer)].head(head_number(source, head))
    down, across = _edges(bottom - top, size), _edges(right - left, size)
    sums = np.zeros((len(down) - 1, len(across) - 1))
    for pixel, (first, stop) in enumerate(zip(down[:-1].tolist(), down[1:].tolist(), strict=True)):
        for row in range(top + first, top + stop):
            sums[pixel] += np.add.reduceat(one.row(row)[0, left:right], across[:-1], dtype=np.float64)
    means: NDArray[np.float64] = sums / np.outer(np.diff(down), np.diff(across))
    return means


def partners(
    source: AttentionSource,
    tokens: Sequence[int],
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    k: int,
) -> dict[str, list[tuple[int, float]]]:
    """Return the k tokens that `tokens` attend to most, and that attend to them most, as (position, weight).

    Weights are means over the layers and heads (None: all); several tokens stand for one word (Clark et al. 2019):
    attention from it is the mean over its tokens, attention to it the sum. Strongest first, equal ones in document
    order, none without weight.
    """
    n = len(source.encoding)
    positions = sorted({check_position(token, n, "Token") for token in tokens})
    chosen_layers = sorted({layer_number(source, one) for one in (range(source.layers) if layers is None else layers)})
    chosen_heads = sorted({head_number(source, one) for one in (range(source.heads) if heads is None else heads)})
    attended, attending = np.zeros(n), np.zeros(n)
    for layer in chosen_layers:
        attention = source.attentions[layer]
        for token in positions:
            attended += attention.row(token)[chosen_heads].mean(axis=0, dtype=np.float64)
            attending += attention.column(token)[chosen_heads].mean(axis=0, dtype=np.float64)
    attended /= len(chosen_layers) * len(positions)
    attending /= len(chosen_layers)
    return {"attended": _strongest(attended, k), "attending": _strongest(attending, k)}


def _checked_span(given: Span | None, tokens: int, name: str) -> Span:
    start, stop = (0, tokens) if given is None else given
    if not 0 <= start < stop <= tokens:
        raise OptionError(f"{name}={start}:{stop} asked for, the document has {tokens} tokens (0:{tokens}).")
    return start, stop


def _edges(length: int, size: int) -> NDArray[np.int64]:
    """Return where each of s = min(size, length) pixels begins, and the end: ⌈p·length/s⌉, (s + 1,)."""
    pixels = min(size, length)
    return -(-np.arange(pixels + 1, dtype=np.int64) * length // pixels)


def _strongest(weights: NDArray[np.float64], k: int) -> list[tuple[int, float]]:
    order = np.argsort(-weights, kind="stable")[:k]
    return [(int(position), float(weights[position])) for position in order if weights[position] > 0]
