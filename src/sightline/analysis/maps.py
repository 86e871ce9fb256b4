"""Attention maps: every layer and head as a small picture, data-set averages, and parts of one map.

Pictures are pooled straight from the stored weights (`Attention.image`): 144 maps of a 4,096-token document cost
megabytes where its matrices take 9.7 GB. Shapes: L layers, H heads, s pixels to a side, n tokens.

A part of one head's map (`pooled_tile`) and the strongest relations of some tokens are read from single rows and
columns of the attention operator and never build an n×n matrix, so they are found quickly in long documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch.nn.functional import pad

from sightline.analysis.source import (
    AttentionSource,
    Floats,
    track,
)
from sightline.attention import Attention, BandedAttention, DenseAttention, StreamedAttention
from sightline.attention.protocol import Pool
from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.methods.decomposition.matrices import relevance_matrices
from sightline.passes.trace import Trace
from sightline.progress import Progress
from sightline.settings.values import check_count, check_head, check_layer, check_position

if TYPE_CHECKING:
    import pandas as pd

    from sightline.api.loaded import Document
    from sightline.api.model import Model

THUMBNAIL = 64
"""Pixels of a side of a small picture."""
COMPARED_GRAPH_TOKENS = 24
"""Tokens up to which attention, rollout and flow can be read as graphs side by side."""
FRAME_LIMIT = 2_000_000
"""Most rows of a frame of pixels."""


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The attention of all layers and heads as pictures."""

    pixels: Floats
    """(L, H, s, s): pixel (r, c) pools the cells (i, j) with ⌊i·s/n⌋ = r and ⌊j·s/n⌋ = c. Rows attend to columns."""
    tokens: int
    """n; of the longest document for an average."""
    pool: Pool
    documents: int = 1
    """How many documents were averaged."""

    @property
    def size(self) -> int:
        """s."""
        return int(self.pixels.shape[-1])

    def to_frame(self, layer: int | None = None, head: int | None = None) -> pd.DataFrame:
        """Return one row per pixel: layer, head, row, column, first_row, first_column (tokens), value."""
        import pandas as pd

        layers, heads, size = self.pixels.shape[:3]
        chosen = (range(layers) if layer is None else [layer], range(heads) if head is None else [head])
        if len(chosen[0]) * len(chosen[1]) * size**2 > FRAME_LIMIT:
            raise OptionError(f"A frame of all pixels would have over {FRAME_LIMIT:,} rows; choose a layer and a head.")
        grid = np.meshgrid(*chosen, np.arange(size), np.arange(size), indexing="ij")
        flat = [axis.ravel() for axis in grid]
        starts = -(-np.arange(size) * self.tokens // size)  # the first token of a pixel: ⌈r·n/s⌉
        return pd.DataFrame(
            {
                "layer": flat[0],
                "head": flat[1],
                "row": flat[2],
                "column": flat[3],
                "first_row": starts[flat[2]],
                "first_column": starts[flat[3]],
                "value": self.pixels[tuple(flat)],
            }
        )


def thumbnails(
    source: AttentionSource, size: int = THUMBNAIL, pool: Pool = "mean", *, progress: Progress | None = None
) -> AttentionMaps:
    """Return every layer and head as a picture of s×s pixels, s = min(size, n), with one layer in memory at a time."""
    n = len(source.encoding)
    size = min(check_count("size", size), n)
    pictures = [
        source.attentions[layer].image(size, pool)
        for layer in track(range(source.layer_count), "attention maps", progress)
    ]
    return AttentionMaps(np.stack(pictures), n, pool)


class MapAverage:
    """The mean map of several documents, added one by one: each position averaged over the documents that reach it.

    Cell (i, j) is Σ_d A_d[i, j] / #{d : n_d > max(i, j)}; a pixel sums numerator and denominator over its cells. The
    grid is that of the longest document, so a size of at least its length gives every cell.
    """

    def __init__(self, layers: int, heads: int, longest: int, size: int = THUMBNAIL) -> None:
        size = min(check_count("size", size), longest)
        self._longest = longest
        self._pixels = np.arange(longest) * size // longest
        self._cells = np.outer(np.bincount(self._pixels), np.bincount(self._pixels))
        self._totals = np.zeros((layers, heads, size, size))
        self._reached = np.zeros((size, size))
        self._documents = 0

    def add(self, source: AttentionSource) -> None:
        """Add the attention of one document, one layer in memory at a time."""
        size = len(self._reached)
        for layer in range(source.layer_count):
            self._totals[layer] += padded(source.attentions[layer], self._longest).image(size) * self._cells
        lengths = np.bincount(self._pixels[: len(source.encoding)], minlength=size)
        self._reached += np.outer(lengths, lengths)
        self._documents += 1

    def mean(self) -> AttentionMaps:
        """Return the maps of the documents added so far."""
        mean = np.divide(self._totals, self._reached, out=np.zeros_like(self._totals), where=self._reached > 0)
        return AttentionMaps(mean, self._longest, "mean", self._documents)


def average_maps(
    model: Model, documents: Iterable[Document], size: int = THUMBNAIL, *, progress: Progress | None = None
) -> AttentionMaps:
    """Return the mean map of a data set, see `MapAverage`; one forward per document."""
    encodings = [
        model.encode(document, truncate=True) if isinstance(document, str) else document for document in documents
    ]
    if not encodings:
        raise InputError("An average over a data set needs at least one document; the list is empty.")
    longest = max(len(encoding) for encoding in encodings)
    average = MapAverage(len(model.network.layers), model.network.heads, longest, size)
    for encoding in track(encodings, "average attention maps", progress):
        average.add(model.trace(encoding))
    return average.mean()


def window_maps(source: AttentionSource, size: int = THUMBNAIL) -> Floats | None:
    """Return the weight that each head gives to distances -w … w along the document, (L, H, s, s), or None.

    A window of a long document is a thin diagonal of its map; here every row is shifted so that the token itself is in
    the middle. Pixel (r, c) is the mean weight of its tokens and distances; rows of global tokens, which have no
    window, count as 0. None for models without a window, where it is more than a quarter of the document, and where
    windows narrower than the picture differ between layers.
    """
    layers = []
    for attention in source.attentions:
        layer = straighten(attention, size, size)
        if layer is None:
            return None
        layers.append(layer)
    return np.stack(layers) if len({layer.shape for layer in layers}) == 1 else None


def straighten(attention: Attention, rows: int, columns: int) -> Floats | None:
    """Return the window of one layer with the distance across and the document down, (H, r, c), or None.

    Pixel (p, q) is the mean weight of the tokens from ⌊p·n/r⌋ on at the distances from ⌊q·(2w+1)/c⌋ - w on; r and c
    are at most `rows` and `columns`, and never more than the 2w+1 distances. None for attention without a window, and
    where the window covers more than a quarter of the document: a map of all pairs is as clear then.
    """
    if not isinstance(attention, BandedAttention) or 4 * (2 * attention.window + 1) > attention.tokens:
        return None
    slots = attention.local[:, :, len(attention.global_tokens) :].numpy()
    lengths = slots.shape[1:]
    starts = [
        np.arange(edge) * length // edge
        for edge, length in zip((min(rows, lengths[1]), min(columns, lengths[1])), lengths, strict=True)
    ]
    sums = np.add.reduceat(np.add.reduceat(slots, starts[0], axis=1), starts[1], axis=2)
    tokens, distances = (np.diff(first, append=length) for first, length in zip(starts, lengths, strict=True))
    return np.asarray(sums / np.outer(tokens, distances))


def padded(attention: Attention, tokens: int) -> Attention:
    """Return attention of a longer text, `tokens` in all, whose further rows and columns are 0."""
    more = tokens - attention.tokens
    if not more:
        return attention
    if isinstance(attention, BandedAttention):
        local, rows = pad(attention.local, (0, 0, 0, more)), pad(attention.global_rows, (0, more))
        return BandedAttention(local, rows, attention.global_tokens, attention.block_size)
    if isinstance(attention, StreamedAttention):
        attention = DenseAttention(attention.dense())
    if isinstance(attention, DenseAttention):
        return DenseAttention(pad(attention.weights, (0, more, 0, more)))
    raise UnsupportedError(f"Attention of type {type(attention).__name__} cannot be averaged over documents.")


def attention_graphs(trace: Trace) -> dict[str, Floats]:
    """Return raw attention with its residual connection, rollout and flow of a short input, each (L, n, n)."""
    mixed = np.stack([mean.dense()[0] for mean in trace.mean_attentions]) + np.eye(trace.token_count)
    return {
        "raw attention": mixed / mixed.sum(axis=-1, keepdims=True),
        "rollout": relevance_matrices(trace, "rollout"),
        "flow": relevance_matrices(trace, "flow"),
    }


TileSpan = tuple[int, int]


def pooled_tile(
    source: AttentionSource, layer: int, head: int, rows: TileSpan | None, columns: TileSpan | None, size: int
) -> NDArray[np.float64]:
    """Return a part of the map of one head as at most `size` pixels per side, (r, c), each the mean of its cells.

    With rows [a, b), r = min(size, b − a) and row i belongs to pixel ⌊(i − a)·r/(b − a)⌋; likewise for columns. None
    stands for all tokens. Spans beyond the text are refused. O((b − a)·n) time, one row in memory at a time.
    """
    attention = source.attentions[check_layer(layer, source.layer_count)].head(check_head(head, source.head_count))
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
        {check_layer(layer, source.layer_count) for layer in (range(source.layer_count) if layers is None else layers)}
    )
    head_numbers = sorted(
        {check_head(head, source.head_count) for head in (range(source.head_count) if heads is None else heads)}
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


def _check_span(span: TileSpan | None, n: int, name: str) -> TileSpan:
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
