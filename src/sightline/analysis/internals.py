"""What one pass recorded inside the model, small enough for a page: relations between tokens, head maps, totals.

Relations are the k strongest partners of every token, in both directions, in three kinds of map: `all` (the mean of all
layers and heads), one per layer (the mean of its heads) and one per head. A budget of bytes limits how many of these
maps are made, because n tokens with k partners take 8·n·k bytes per map (two directions, two bytes each for partner and
weight): after `all` come the layers, then the heads, the most important first.

Cost: one sweep over the stored weights of every layer, O(L·H·n·(G+2w+1)) for a band, one layer in memory at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from sightline.analysis.maps import straighten
from sightline.analysis.source import AttentionSource, Floats, check_head_weights
from sightline.attention import Attention, BandedAttention, DenseAttention
from sightline.attention.protocol import TopK
from sightline.progress import Progress
from sightline.results.inside import Inside, Relations, StraightWindows
from sightline.settings.values import check_count

BUDGET = 1_500_000
"""Bytes of relations that fit in a report."""
HEAD_K = 4
"""Most partners kept for single heads: there are many heads, with few strong partners in each."""
EVERY_CELL = 512
"""Tokens up to which maps show every pair of tokens by default; 12 × 12 heads then take 151 MB."""
IMAGE = 256
"""Pixels along the maps of longer documents, by default."""
WINDOW_ROWS, WINDOW_COLUMNS = 128, 257
"""Pixels down and across the straightened windows: 257 distances are one pixel each where windows reach 128 tokens."""
BYTES_PER_PARTNER = 8
"""Two directions, an uint16 position and a float16 weight in each."""


def inside(
    trace: AttentionSource,
    *,
    k: int = 8,
    thumbnail: int = 48,
    image: int | None = None,
    budget: int = BUDGET,
    importance: npt.ArrayLike | None = None,
    progress: Progress | None = None,
) -> Inside:
    """Collect relations, maps and totals from what a pass recorded, without a further pass.

    k: partners per token. thumbnail, image: edge of the maps in pixels; without `image`, every pair of up to
    `EVERY_CELL` tokens has a pixel, and longer documents have maps of `IMAGE` pixels. budget: bytes for relations.
    importance: (L, H) from `head_importance`, to be shown and to choose heads by.
    """
    if image is None:
        image = max(1, len(trace.encoding)) if len(trace.encoding) <= EVERY_CELL else IMAGE
    for name, value in (("k", k), ("thumbnail", thumbnail), ("image", image), ("budget", budget)):
        check_count(name, value)
    weights = None if importance is None else check_head_weights(importance, trace.layer_count, trace.head_count)
    n = len(trace.encoding)
    plan = _plan(n, trace.layer_count, trace.head_count, min(k, n), budget, weights)
    relations: dict[str, Relations] = {}
    means: list[Attention] = []
    received, thumbnails = [], []
    straight: list[tuple[Floats, Floats, int] | None] = []
    edge = min(image, n)
    # Filled layer by layer: a list that is stacked at the end would hold the largest array twice.
    images = np.empty((trace.layer_count, trace.head_count, edge, edge), dtype=np.float32)
    for layer in range(trace.layer_count):
        if progress is not None:
            progress("looking inside", layer, trace.layer_count)
        attention = trace.attentions[layer]
        means.append(attention.mean())
        if plan.layer_k:
            relations[f"layer-{layer}"] = _strongest(means[-1], plan.layer_k)
        for head in plan.heads[layer]:
            relations[f"head-{layer}-{head}"] = _strongest(attention.head(head), plan.head_k)
        received.append(attention.received().astype(np.float32))
        thumbnails.append(attention.image(thumbnail).astype(np.float32))
        images[layer] = attention.image(image)
        straight.append(_straighten_layer(attention, thumbnail))
    return Inside(
        tokens=n,
        layers=trace.layer_count,
        heads=trace.head_count,
        k=min(k, n),
        relations={"all": _strongest(mean_of_layers(means), min(k, n)), **relations},
        received=np.stack(received),
        thumbnails=np.stack(thumbnails),
        images=images,
        importance=weights,
        windows=_stack_windows(straight),
    )


def _straighten_layer(attention: Attention, thumbnail: int) -> tuple[Floats, Floats, int] | None:
    """Return the straightened windows of a layer, large and small, and how far they reach; None without a window."""
    large, small = straighten(attention, WINDOW_ROWS, WINDOW_COLUMNS), straighten(attention, thumbnail, thumbnail)
    if large is None or small is None or not isinstance(attention, BandedAttention):
        return None
    return large, small, attention.window


def _stack_windows(layers: Sequence[tuple[Floats, Floats, int] | None]) -> StraightWindows | None:
    """Return the windows of all layers; None if a layer has none, or too few distances for the common size."""
    known = [layer for layer in layers if layer is not None]
    if len(known) < len(layers) or len({(large.shape, small.shape) for large, small, _ in known}) > 1:
        return None
    maps, thumbnails, reach = zip(*known, strict=True)
    return StraightWindows(
        np.stack(maps).astype(np.float32), np.stack(thumbnails).astype(np.float32), np.array(reach, dtype=np.int64)
    )


def mean_of_layers(layers: Sequence[Attention]) -> Attention:
    """Return the mean of one-head operators as one operator; bands may have windows of different widths."""
    banded = [operator for operator in layers if isinstance(operator, BandedAttention)]
    if len(banded) < len(layers):
        # Dense layers belong to short inputs; a cell that one layer allows and another does not counts as 0 there.
        total = layers[0].dense()[0]
        for operator in layers[1:]:
            total += operator.dense()[0]
        return DenseAttention(total / len(layers))
    window = max(operator.window for operator in banded)
    globals_ = len(banded[0].global_tokens)
    local = torch.zeros(1, banded[0].tokens, globals_ + 2 * window + 1, dtype=banded[0].local.dtype)
    rows = torch.zeros_like(banded[0].global_rows)
    for operator in banded:
        local[:, :, :globals_] += operator.local[:, :, :globals_]
        side = window - operator.window
        local[:, :, globals_ + side : globals_ + 2 * window + 1 - side] += operator.local[:, :, globals_:]
        rows += operator.global_rows
    return BandedAttention(local / len(banded), rows / len(banded), banded[0].global_tokens)


class _Plan(NamedTuple):
    """What fits in the budget."""

    layer_k: int
    head_k: int
    heads: tuple[tuple[int, ...], ...]
    """The heads of each layer that are kept."""


def _plan(n: int, layers: int, heads: int, k: int, budget: int, importance: Floats | None) -> _Plan:
    left = budget - BYTES_PER_PARTNER * n * k
    layer_k = max(0, min(k, left // (BYTES_PER_PARTNER * n * layers)))
    left -= BYTES_PER_PARTNER * n * layers * layer_k
    head_k = min(HEAD_K, k)
    count = max(0, min(layers * heads, left // (BYTES_PER_PARTNER * n * head_k)))
    # Without importance, the upper layers come first: they are closest to the prediction.
    rank = np.repeat(np.arange(layers), heads) if importance is None else importance.ravel()
    chosen = np.sort(np.argsort(-rank, kind="stable")[:count])
    return _Plan(
        layer_k,
        head_k,
        tuple(tuple((chosen[chosen // heads == layer] % heads).tolist()) for layer in range(layers)),
    )


def _strongest(attention: Attention, k: int) -> Relations:
    """The k strongest partners in a one-head operator."""
    return Relations(_first_head(attention.top_attended(k)), _first_head(attention.top_attending(k)))


def _first_head(lists: TopK) -> TopK:
    return TopK(lists.values[0], lists.indices[0])
