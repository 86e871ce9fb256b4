"""Numbers by layer and along a document: heat maps and curves, values per position, the instances of one word.

A document of thousands of tokens has more positions than a figure has pixels. Lines keep every value; heat maps pool
neighbouring positions by their maximum, and the caption says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import SizeError
from sightline.methods.layer_kind import LayerKind
from sightline.view.plots.attention_maps import NAMED_TOKENS, to_unit_scale
from sightline.view.plots.style import (
    CATEGORIES,
    CHANCE,
    GRID,
    INK,
    QUIET,
    SEQUENTIAL,
    FloatArray,
    in_house_style,
    new_figure,
    pooling_sentence,
    position_ticks,
    signed_colours,
    to_label,
    token_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST = 1024
"""Columns of a heat map along a document."""
NAMED_SINKS = 8
NAMED_INSTANCES = 24
"""Instances of a word up to which their counts are written."""
LABELS_ACROSS = 40
"""Labels that fit side by side."""
SINK = CATEGORIES[1]
WIDTH = 9.5


@in_house_style
def lines_over_positions(
    lines: Mapping[str, FloatArray],
    labels: Sequence[str],
    *,
    sinks: Sequence[int] = (),
    unit: str = "",
    title: str,
    caption: str = "",
) -> Figure:
    """One panel per line (n,), with the same axes, sinks marked and named.

    The vertical axes are logarithmic where all values are above zero and the largest is more than thirty times the
    median: one sink would flatten everything else.
    """
    figure = new_figure(WIDTH, 1.2 + 1.45 * len(lines), title, caption)
    panels = figure.subplots(len(lines), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    logarithmic = all(values.min() > 0 for values in lines.values()) and any(
        values.max() > 30 * np.median(values) for values in lines.values()
    )
    for axes, (name, values) in zip(panels, lines.items(), strict=True):
        axes.plot(np.arange(len(values)), values, color=CATEGORIES[0], linewidth=0.8 if len(values) > 300 else 1.2)
        axes.set_title(to_label(name))
        axes.set_ylabel(unit)
        if logarithmic:
            axes.set_yscale("log")
        _mark_sinks(axes, values, labels, sinks)
        axes.margins(x=0.01, y=0.18)
    panels[-1].set_xlabel("position")
    position_ticks(panels[-1], labels, "x", NAMED_TOKENS)
    return figure


@in_house_style
def instance_counts(
    positions: Sequence[int], counts: Mapping[str, Sequence[float]], tokens: int, *, title: str, caption: str = ""
) -> Figure:
    """Draw one panel per kind of count: a line at the position of every instance, as high as its count.

    positions (m,) in a document of `tokens` tokens; each of `counts` (m,).
    """
    figure = new_figure(WIDTH, 1.2 + 1.5 * len(counts), title, caption)
    panels = figure.subplots(len(counts), 1, sharex=True, squeeze=False)[:, 0]
    few = len(positions) <= NAMED_INSTANCES
    for axes, (name, values) in zip(panels, counts.items(), strict=True):
        axes.vlines(positions, 0, values, color=CATEGORIES[0], linewidth=2.0 if few else 1.0)
        axes.plot(positions, values, "o", color=CATEGORIES[0], markersize=4 if few else 2)
        written = -np.inf
        for position, value in zip(positions, values, strict=True) if few else ():
            if position - written < tokens / LABELS_ACROSS:  # it would cover the one before it
                continue
            written = position
            axes.annotate(
                f"{value:,.4g}",
                (position, value),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color=QUIET,
            )
        axes.set_title(to_label(name))
        axes.set_ylabel("count")
        axes.set_ylim(0, 1.25 * max(1.0, *values))
    panels[-1].set_xlim(-0.01 * tokens, tokens * 1.01)
    panels[-1].set_xlabel("position")
    panels[-1].locator_params(axis="x", integer=True)
    return figure


def pooled_columns(values: FloatArray, widest: int = WIDEST) -> FloatArray:
    """Return (rows, n) with at most `widest` columns, each the entry of largest magnitude among the pooled ones."""
    n = values.shape[1]
    if n <= widest:
        return values
    starts = np.unique(np.arange(widest) * n // widest)
    high, low = (f.reduceat(values, starts, axis=1) for f in (np.maximum, np.minimum))
    return np.where(high >= -low, high, low)


def _mark_sinks(axes: Axes, values: FloatArray, labels: Sequence[str], sinks: Sequence[int]) -> None:
    places = np.asarray(sinks, dtype=np.int64)
    axes.plot(places, values[places], "o", color=SINK, markersize=4, zorder=3)
    strongest = places[np.argsort(-values[places], kind="stable")][:NAMED_SINKS]
    for place in strongest:
        axes.annotate(
            f"{token_label(labels[place], 12)} @{place:,}",
            (place, values[place]),
            xytext=(4, 3),
            textcoords="offset points",
            fontsize=7,
            color=QUIET,
            annotation_clip=False,
        )


GRAPH_TOKENS = 40
EDGES_PER_NODE = 5
STYLES = ("-", "--", "-.", ":")


@in_house_style
def layer_heat_map(
    layers: FloatArray,
    labels: Sequence[str],
    *,
    kind: LayerKind,
    signed: bool,
    special: Sequence[int] = (),
    title: str,
    caption: str = "",
) -> Figure:
    """Draw scores (L, n) by layer, layer 0 at the top.

    A row below shows their sum (kind "additive") or mean ("averaged"), which are the scores of the explanation; for the
    other kinds neither has a meaning. Both have one colour scale. Tokens at `special` are drawn grey and do not
    stretch the colour scale. Up to 60 tokens are named; more are pooled into columns by their largest magnitude.
    """
    parts = [("layer", layers)]
    if kind == "additive":
        parts.append(("Sum", layers.sum(axis=0, keepdims=True)))
    elif kind == "averaged":
        parts.append(("Mean", layers.mean(axis=0, keepdims=True)))
    n = layers.shape[1]
    if len(special):
        caption = f"{caption} Special tokens are grey and not part of the colour scale.".strip()
    wide = pooled_columns(layers).shape[1]
    full_caption = caption
    if n > wide:
        full_caption = f"{caption} {n:,} tokens on {wide:,} columns: a column shows the strongest of its tokens."
    named = n <= NAMED_TOKENS
    width = max(4.5, 2.2 + 0.2 * n) if named else WIDTH
    figure = new_figure(
        width, 1.6 + 0.5 * len(parts) + 0.24 * max(2, len(layers)) + (0.6 if named else 0.0), title, full_caption
    )
    heights = [max(2, len(layers)), *[1.5] * (len(parts) - 1)]
    panels = figure.subplots(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
    shown = [_without_special(values, special) for _, values in parts]
    full = max(float(np.quantile(np.abs(values.data), 0.995) or np.abs(values.data).max()) for values in shown) or 1.0
    for axes, (name, _), values in zip(panels, parts, shown, strict=True):
        _strip(axes, values, n, full, signed)
        axes.set_yticks(range(len(values)) if name == "layer" else [0], None if name == "layer" else [name])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    bar = figure.colorbar(
        panels[0].images[0], ax=list(panels), pad=0.01, fraction=0.03, ticks=[-full, 0, full] if signed else [0, full]
    )
    bar.ax.set_yticklabels([f"{value:.2g}" for value in bar.get_ticks()], fontsize=6)
    bar.outline.set_visible(False)
    panels[0].set_ylabel("layer")
    for axes in panels[:-1]:
        axes.set_xticks([])
    position_ticks(panels[-1], labels, "x", NAMED_TOKENS)
    if not named:
        panels[-1].set_xlabel("position")
    return figure


def _without_special(values: FloatArray, special: Sequence[int]) -> np.ma.MaskedArray[Any, Any]:
    """Return rows (·, n) pooled into columns; tokens at `special` are masked, or 0 where columns are pooled."""
    shown = np.array(values, dtype=np.float64)
    shown[:, list(special)] = 0.0
    pooled = pooled_columns(shown)
    is_special = np.zeros(pooled.shape, dtype=np.bool_)
    if pooled.shape == values.shape:
        is_special[:, list(special)] = True
    return np.ma.masked_array(pooled, is_special)


def _strip(axes: Axes, values: np.ma.MaskedArray[Any, Any], tokens: int, full: float, signed: bool) -> None:
    """Draw rows of scores; masked ones are grey, `full` has the deepest colour."""
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    axes.imshow(
        values,
        cmap=(signed_colours() if signed else colormaps[SEQUENTIAL]).with_extremes(bad=GRID),
        norm=Normalize(-full if signed else 0.0, full, clip=True),
        aspect="auto",
        extent=(-0.5, tokens - 0.5, len(values) - 0.5, -0.5),
        interpolation="nearest",
    )


@in_house_style
def relevance_matrices(matrices: FloatArray, labels: Sequence[str], *, title: str, caption: str = "") -> Figure:
    """R^1 … R^L (L, s, s), one panel per layer: how much of token j is in token i after layer l."""
    count, size = len(matrices), matrices.shape[1]
    columns = min(count, 4 if count != 6 else 3)
    rows = -(-count // columns)
    named = len(labels) <= 24
    full_caption = " ".join(
        filter(
            None,
            [
                caption,
                "Row: the token after the layer; column: the input token. All panels share one colour scale.",
                pooling_sentence(len(labels), size),
            ],
        )
    )
    figure = new_figure(1.0 + 2.4 * columns + (0.7 if named else 0), 1.4 + 2.45 * rows, title, full_caption)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    n = len(labels)
    for layer, (axes, matrix) in enumerate(zip(panels, to_unit_scale(matrices), strict=False)):
        axes.imshow(
            matrix,
            cmap=SEQUENTIAL,
            vmin=0.0,
            vmax=1.0,
            extent=(-0.5, n - 0.5, n - 0.5, -0.5),
            interpolation="nearest",
        )
        axes.set_title(f"after layer {layer}")
        if named:
            position_ticks(axes, labels, "x", n)
            position_ticks(axes, labels, "y", n)
    for axes in panels[count:]:
        axes.set_axis_off()
    return figure


@in_house_style
def attention_graphs(
    graphs: Mapping[str, FloatArray],
    labels: Sequence[str],
    *,
    readout: int | None = None,
    title: str,
    caption: str = "",
) -> Figure:
    """Draw several graphs (L, n, n) of the same short input side by side: raw attention, rollout and flow.

    Raw attention is drawn between neighbouring layers. Of rollout and flow, an edge below layer l shows how much of an
    *input* token is in a token after layer l (Abnar & Zuidema 2020, Figure 1). Lines are as wide and dark as they are
    strong beside the strongest of their layer, and the five strongest of every node are drawn, as the caption says.
    """
    scale = (
        f"The {EDGES_PER_NODE} strongest lines of every token are drawn, as wide and dark as they are strong beside "
        "the strongest of their layer."
    )
    caption = f"{caption} {scale}".strip()
    sizes = [_check_graph(weights) for weights in graphs.values()]
    layers, n = max(size[0] for size in sizes), max(size[1] for size in sizes)
    figure = new_figure(0.8 + max(2.6, 0.8 + 0.24 * n) * len(graphs), 2.2 + 0.8 * layers, title, caption)
    for place, (axes, (name, weights)) in enumerate(
        zip(figure.subplots(1, len(graphs), squeeze=False)[0], graphs.items(), strict=True)
    ):
        strongest = weights.max(axis=(1, 2), keepdims=True)
        _draw_graph(axes, weights / np.where(strongest > 0, strongest, 1.0), labels, readout)
        axes.set_title(to_label(name))
        if place:
            axes.set_yticklabels([])
    return figure


def _check_graph(weights: FloatArray) -> tuple[int, int]:
    """Return layers and tokens of a graph; raise SizeError if it has too many tokens to be read."""
    layers, n = weights.shape[:2]
    if n > GRAPH_TOKENS:
        raise SizeError(
            f"A graph of {n:,} tokens cannot be read: it is drawn for up to {GRAPH_TOKENS}. "
            "Look at the attention maps, or give a shorter text."
        )
    return layers, n


def _draw_graph(axes: Axes, weights: FloatArray, labels: Sequence[str], readout: int | None) -> None:
    from matplotlib.collections import LineCollection

    layers, n = weights.shape[:2]
    segments, strengths = graph_edges(weights)
    full = max((float(strength) for strength in strengths), default=1.0) or 1.0
    edges = LineCollection(
        segments,
        linewidths=[0.2 + 3.0 * strength / full for strength in strengths],
        colors=[(0.0, 0.447, 0.698, min(1.0, 0.08 + 0.9 * strength / full)) for strength in strengths],
        capstyle="round",
    )
    edges.set_gid("edges")
    axes.add_collection(edges)
    nodes = np.array([(token, layer) for layer in range(layers + 1) for token in range(n)])
    axes.plot(nodes[:, 0], nodes[:, 1], "o", color=QUIET, markersize=3, linestyle="")
    if readout is not None:
        axes.plot([readout], [layers], "o", color=CATEGORIES[1], markersize=7, linestyle="", zorder=3)
    axes.set_xlim(-0.6, n - 0.4)
    axes.set_ylim(-0.2, layers + 0.2)
    axes.set_xticks(range(n), [token_label(label) for label in labels], rotation=90, fontsize=8, color=INK)
    axes.set_yticks(range(layers + 1), ["input", *(f"layer {layer}" for layer in range(layers))])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def graph_edges(weights: FloatArray) -> tuple[list[NDArray[np.float64]], list[float]]:
    """Return the edges ((i, l + 1), (j, l)) of each node's strongest weights and the weights, weakest first."""
    edges = []
    for layer, matrix in enumerate(weights):
        for token, row in enumerate(matrix):
            strongest = np.argsort(-row, kind="stable")[:EDGES_PER_NODE]
            edges += [(float(row[other]), layer, token, int(other)) for other in strongest if row[other] > 0]
    edges.sort()  # strong edges are drawn last, above the others
    segments = [np.array([[token, layer + 1.0], [other, layer]]) for _, layer, token, other in edges]
    return segments, [weight for weight, *_ in edges]


@in_house_style
def layer_curves(
    curves: Mapping[str, FloatArray],
    *,
    unit: str,
    chance: Mapping[str, FloatArray] | None = None,
    title: str,
    caption: str = "",
) -> Figure:
    """Draw one line (L,) per name over the layers, for example Spearman's rho with a reference, or anisotropy.

    chance: by name, what chance gives at each layer, drawn dotted in grey. A layer without a value (NaN) is a gap.
    """
    figure = new_figure(6.5, 3.4, title, caption)
    axes = figure.add_subplot()
    for name in chance or {}:
        axes.plot((chance or {})[name], ":", color=CHANCE, linewidth=1.0)
    for number, (name, values) in enumerate(curves.items()):
        axes.plot(
            np.arange(len(values)),
            values,
            STYLES[number // len(CATEGORIES) % len(STYLES)],
            marker="o",
            markersize=4,
            color=CATEGORIES[number % len(CATEGORIES)],
            label=to_label(name),
        )
    if chance:
        axes.plot([], [], ":", color=CHANCE, linewidth=1.0, label="chance")
    longest = max((len(values) for values in curves.values()), default=1)
    axes.set_xticks(range(longest))
    axes.set(xlabel="layer", ylabel=unit)
    axes.axhline(0, color=GRID, linewidth=0.8, zorder=0)
    figure.legend(loc="outside right upper")
    return figure
