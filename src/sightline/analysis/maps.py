"""Attention maps: every layer and head as a small picture, and data-set averages.

Pictures are pooled straight from the stored weights (`Attention.image`): 144 maps of a 4,096-token document cost
megabytes where its matrices take 9.7 GB. Shapes: L layers, H heads, s pixels to a side, n tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch.nn.functional import pad

from sightline.analysis.source import (
    AttentionSource,
    Floats,
    Progress,
    checked_head_weights,
    tracked,
    weighted_mean,
)
from sightline.attention import Attention, BandedAttention, DenseAttention
from sightline.attention.arrays import check_positive
from sightline.attention.protocol import Pool
from sightline.errors import InputError, OptionError, UnsupportedError

if TYPE_CHECKING:
    import pandas as pd

    from sightline.model import Document, Model

THUMBNAIL = 64
"""Pixels of a side of a small picture."""
FRAME_LIMIT = 2_000_000
"""Rows above which a frame of pixels is refused."""


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

    def layer_means(self, head_weights: npt.ArrayLike | None = None) -> Floats:
        """Return one picture a layer, (L, s, s): the mean of its heads, weighted by `head_weights` (L, H)."""
        weights = checked_head_weights(head_weights, *self.pixels.shape[:2])
        return np.stack([weighted_mean(layer, row) for layer, row in zip(self.pixels, weights, strict=True)])

    def to_frame(self, layer: int | None = None, head: int | None = None) -> pd.DataFrame:
        """Return one row a pixel: layer, head, row, column, first_row, first_column (tokens), value."""
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
    """Return every layer and head as a picture of s×s pixels, s = min(size, n), one layer in memory at a time."""
    return pyramid(source, (size,), pool, progress=progress)[0]


def pyramid(
    source: AttentionSource,
    sizes: Iterable[int] = (16, THUMBNAIL, 256),
    pool: Pool = "mean",
    *,
    progress: Progress | None = None,
) -> tuple[AttentionMaps, ...]:
    """Return the pictures at several sizes, coarse to fine, from one sweep over the layers.

    Sizes above n are the matrices themselves, once. Memory: 4·L·H·s² bytes a size beside one layer of attention.
    """
    n = len(source.encoding)
    chosen = sorted({min(check_positive(size, "size"), n) for size in sizes})
    if not chosen:
        raise OptionError("A pyramid needs at least one size.")
    layers: list[list[Floats]] = [[] for _ in chosen]
    for number in tracked(range(source.layer_count), "attention maps", progress):
        attention = source.attentions[number]
        for pictures, size in zip(layers, chosen, strict=True):
            pictures.append(attention.image(size, pool))
    return tuple(AttentionMaps(np.stack(pictures), n, pool) for pictures in layers)


def average_maps(
    model: Model, documents: Iterable[Document], size: int = THUMBNAIL, *, progress: Progress | None = None
) -> AttentionMaps:
    """Return the mean map of a data set: each position averaged over the documents that reach it.

    Cell (i, j) is Σ_d A_d[i, j] / #{d : n_d > max(i, j)}; a pixel sums numerator and denominator over its cells. The
    grid is that of the longest document, so a size of at least its length gives every cell. One document, one layer in
    memory at a time.
    """
    encodings = [model.encode(document) if isinstance(document, str) else document for document in documents]
    if not encodings:
        raise InputError("An average over a data set needs at least one document; the list is empty.")
    longest = max(len(encoding) for encoding in encodings)
    size = min(check_positive(size, "size"), longest)
    pixels = np.arange(longest) * size // longest
    cells = np.outer(np.bincount(pixels), np.bincount(pixels))
    totals = np.zeros((len(model.network.layers), model.network.heads, size, size))
    reached = np.zeros((size, size))
    for encoding in tracked(encodings, "average attention maps", progress):
        trace = model.trace(encoding)
        for layer in range(trace.layer_count):
            totals[layer] += padded(trace.attentions[layer], longest).image(size) * cells
        lengths = np.bincount(pixels[: len(encoding)], minlength=size)
        reached += np.outer(lengths, lengths)
    mean = np.divide(totals, reached, out=np.zeros_like(totals), where=reached > 0)
    return AttentionMaps(mean, longest, "mean", len(encodings))


def padded(attention: Attention, tokens: int) -> Attention:
    """Return attention of a longer text, `tokens` in all, whose further rows and columns are 0."""
    more = tokens - attention.tokens
    if not more:
        return attention
    if isinstance(attention, BandedAttention):
        local, rows = pad(attention.local, (0, 0, 0, more)), pad(attention.global_rows, (0, more))
        return BandedAttention(local, rows, attention.global_tokens)
    if isinstance(attention, DenseAttention):
        return DenseAttention(pad(attention.weights, (0, more, 0, more)))
    raise UnsupportedError(f"Attention of type {type(attention).__name__} cannot be averaged over documents.")
