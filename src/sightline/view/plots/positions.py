"""Numbers along a document: one value per position, with attention sinks marked; the instances of one word.

A document of thousands of tokens has more positions than a figure has pixels. Lines keep every value; heat maps pool
neighbouring positions by their maximum, and the caption says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sightline.view.plots.attention_maps import NAMED_TOKENS
from sightline.view.plots.style import (
    CATEGORIES,
    QUIET,
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
