"""Numbers along a document: one value per position, with attention sinks marked; one position in all heads.

A document of thousands of tokens has more positions than a figure has pixels. Lines keep every value; heat maps pool
neighbouring positions by their maximum, and the caption says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.view.plots.maps import GAMMA, NAMED_TOKENS, label_cells, root_scale
from sightline.view.plots.style import (
    CATEGORIES,
    QUIET,
    SEQUENTIAL,
    FloatArray,
    in_house_style,
    new_figure,
    position_ticks,
    to_label,
    token_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST = 1024
"""Columns of a heat map along a document."""
NAMED_SINKS = 8
LONG_DOCUMENT = 400
"""Tokens beyond which counts along a document are drawn as a density: single positions are narrower than a pixel."""
STRETCHES = 100
NAMED_STRETCHES = 5
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
    """One panel per line (n,), with aligned positions, sinks marked and named.

    The vertical axes are logarithmic where all values are above zero and the largest is more than thirty times the
    median: one sink would flatten everything else.
    """
    figure = new_figure(WIDTH, 1.2 + 1.45 * len(lines), title, caption)
    panels = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
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
def density_over_positions(
    lines: Mapping[str, FloatArray], labels: Sequence[str], *, unit: str = "", title: str, caption: str = ""
) -> Figure:
    """One panel per line (n,) of a long document: the mean of each of about a hundred stretches, the mean dotted.

    The highest stretches name their token with the largest value.
    """
    figure = new_figure(WIDTH, 1.2 + 1.45 * len(lines), title, caption)
    panels = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(panels, lines.items(), strict=True):
        n = len(values)
        starts = np.unique(np.arange(STRETCHES) * n // STRETCHES)
        ends = np.append(starts[1:], n)
        means = np.add.reduceat(values.astype(np.float64), starts) / (ends - starts)
        axes.stairs(means, np.append(starts, n), fill=True, color=CATEGORIES[0], alpha=0.75)
        axes.axhline(float(values.mean()), color=QUIET, linewidth=0.8, linestyle=(0, (1, 1.2)))
        for stretch in _apart(np.argsort(-means, kind="stable"), NAMED_STRETCHES, len(means) // 20):
            strongest = int(starts[stretch] + np.argmax(values[starts[stretch] : ends[stretch]]))
            axes.annotate(
                token_label(labels[strongest], 12),
                ((starts[stretch] + ends[stretch]) / 2, means[stretch]),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color=QUIET,
            )
        axes.set_title(to_label(name))
        axes.set_ylabel(f"mean {unit}".strip())
        axes.margins(x=0.01, y=0.22)
        axes.set_ylim(bottom=0)
    panels[-1].set_xlabel("position")
    position_ticks(panels[-1], labels, "x", NAMED_TOKENS)
    return figure


@in_house_style
def layers_over_positions(
    values: FloatArray,
    *,
    labels: Sequence[str] = (),
    sinks: Sequence[int] = (),
    unit: str = "",
    title: str,
    caption: str = "",
) -> Figure:
    """Heat map (layers, n), layer 0 at the top; sinks have a mark above. `labels` (n) name some of the positions."""
    from matplotlib.colors import PowerNorm

    layers, n = values.shape
    pooled = pooled_columns(values)
    full_caption = caption
    if n > pooled.shape[1]:
        full_caption = (
            f"{caption} {n:,} positions on {pooled.shape[1]:,} columns: a column shows the largest of its values."
        )
    figure = new_figure(WIDTH, 1.7 + 0.26 * layers, title, full_caption)
    axes = figure.add_subplot()
    full = float(np.quantile(pooled, 0.995) or pooled.max() or 1.0)
    image = axes.imshow(
        pooled,
        cmap=SEQUENTIAL,
        aspect="auto",
        norm=PowerNorm(GAMMA, vmin=min(0.0, float(pooled.min())), vmax=full, clip=True),
        extent=(-0.5, n - 0.5, layers - 0.5, -0.5),
        interpolation="nearest",
    )
    axes.set_yticks(range(layers))
    axes.set(xlabel="position", ylabel="layer")
    axes.locator_params(axis="x", integer=True)
    if labels:
        position_ticks(axes, labels, "x", NAMED_TOKENS)
    if len(sinks):
        axes.plot(sinks, [-0.62] * len(sinks), "v", color=SINK, markersize=5, clip_on=False)
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(layers - 0.5, -0.5)
    root_scale(figure, axes, image, unit)
    return figure


@in_house_style
def position_profile(values: FloatArray, ranks: NDArray[np.integer[Any]], *, title: str, caption: str = "") -> Figure:
    """Heat map (layers, heads) of what one position receives, with its rank among all positions in every cell."""
    layers, heads = values.shape
    figure = new_figure(max(4.6, 1.8 + 0.58 * heads), max(2.4, 1.7 + 0.36 * layers), title, caption)
    axes = figure.add_subplot()
    image = axes.imshow(values, cmap=SEQUENTIAL, aspect="auto", vmin=min(0.0, float(values.min())))
    label_cells(axes, values, image, [[f"#{rank:,}" for rank in row] for row in ranks])
    axes.set_xticks(range(heads))
    axes.set_yticks(range(layers))
    axes.set(xlabel="head", ylabel="layer")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02, label="attention received").outline.set_visible(False)
    return figure


@in_house_style
def instances_of_words(instances: Mapping[str, Sequence[int]], tokens: int, *, title: str, caption: str = "") -> Figure:
    """One row per word, with a tick at every position where the word occurs."""
    figure = new_figure(WIDTH, 1.4 + 0.24 * max(1, len(instances)), title, caption)
    axes = figure.add_subplot()
    for place, positions in enumerate(instances.values()):
        axes.plot(positions, [place] * len(positions), "|", color=CATEGORIES[0], markersize=9, markeredgewidth=1.2)
    axes.set_yticks(
        range(len(instances)), [f"{token_label(word)}  × {len(places)}" for word, places in instances.items()]
    )
    axes.set_xlim(-0.01 * tokens, tokens * 1.01)
    axes.set_ylim(len(instances) - 0.4, -0.6)
    axes.grid(axis="y", color="#eeece6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("position")
    axes.locator_params(axis="x", integer=True)
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


def _apart(order: NDArray[np.integer[Any]], most: int, distance: int) -> list[int]:
    """Return the first places of an order, at most `most`, that are at least `distance` away from each other."""
    chosen: list[int] = []
    for place in order.tolist():
        if len(chosen) == most:
            break
        if all(abs(place - other) >= distance for other in chosen):
            chosen.append(place)
    return chosen


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
