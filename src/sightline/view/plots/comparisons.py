"""Compare two scores of the same tokens: similarity beside chance, and the words on which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.view.plots.bars import empty_panel
from sightline.view.plots.style import (
    CATEGORIES,
    CHANCE,
    GRID,
    in_house_style,
    new_figure,
    to_label,
    token_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Measured:
    """A value with its interval and the interval of its chance level; `low` = `high` = `value` without an interval."""

    group: str
    value: float
    low: float
    high: float
    chance: float
    chance_low: float
    chance_high: float


@in_house_style
def similarity_dots(measures: Mapping[str, Sequence[Measured]], *, title: str, caption: str = "") -> Figure:
    """One panel per measure, one line per group: a dot with its interval, the range of chance as a grey band."""
    groups = max((len(measured) for measured in measures.values()), default=0)
    columns = min(4, max(1, len(measures)))
    rows = -(-max(1, len(measures)) // columns)
    longest = max((len(row.group) for measured in measures.values() for row in measured), default=0)
    width = 0.7 + 0.06 * longest + 2.1 * columns
    figure = new_figure(width, 1.3 + rows * (0.55 + 0.24 * groups), title, caption)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes, (name, measured) in zip(panels, measures.items(), strict=False):
        axes.set_title(to_label(name))
        _dots(axes, measured)
    for axes in panels[len(measures) :]:
        axes.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper right", ncols=2)
    return figure


def _dots(axes: Axes, measured: Sequence[Measured]) -> None:
    for place, row in enumerate(measured):
        first = place == 0
        axes.plot(
            [row.chance_low, row.chance_high],
            [place, place],
            color=CHANCE,
            linewidth=7,
            alpha=0.45,
            solid_capstyle="butt",
            label="chance" if first else None,
        )
        axes.plot([row.chance], [place], "|", color=CHANCE, markersize=9, markeredgewidth=1.6)
        axes.plot([row.low, row.high], [place, place], color=CATEGORIES[0], linewidth=1.6)
        axes.plot(
            [row.value],
            [place],
            "o",
            color=CATEGORIES[0],
            markersize=5,
            label="measured" if first else None,
        )
    axes.set_yticks(range(len(measured)), [to_label(row.group) for row in measured])
    axes.set_ylim(len(measured) - 0.4, -0.6)
    axes.axvline(0, color=GRID, linewidth=0.8, zorder=0)
    axes.grid(axis="x", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=4)
    axes.margins(x=0.1)


@dataclass(frozen=True)
class Gap:
    """A word and the share of all words that it outranks (0 to 1) by attention and by attribution."""

    label: str
    attention: float
    attribution: float


@in_house_style
def rank_gaps(panels: Mapping[str, Sequence[Gap]], *, title: str, caption: str = "") -> Figure:
    """Words that two scores rank differently: one line per word, from its rank by attribution to that by attention."""
    longest = max((len(measured) for measured in panels.values()), default=0)
    figure = new_figure(max(6.0, 4.4 * len(panels)), 1.7 + 0.23 * longest, title, caption)
    drawn = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
    for axes, (name, measured) in zip(drawn, panels.items(), strict=False):
        axes.set_title(to_label(name))
        if not measured:
            empty_panel(axes)
            continue
        places = range(len(measured))
        attention, attribution = [row.attention for row in measured], [row.attribution for row in measured]
        axes.hlines(places, attribution, attention, color=GRID, linewidth=3, zorder=1)
        axes.plot(attention, places, "o", color=CATEGORIES[1], label="attention", markersize=6)
        axes.plot(attribution, places, "s", color=CATEGORIES[0], label="attribution", markersize=5)
        axes.set_yticks(places, [token_label(row.label) for row in measured])
        axes.set_ylim(longest - 0.4, -0.6)
        axes.set_xlim(-0.03, 1.03)
        axes.set_xlabel("share of the words it outranks")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    handles, labels = next((axes.get_legend_handles_labels() for axes in drawn if axes.lines), ([], []))
    if handles:
        figure.legend(handles, labels, loc="outside upper right", ncols=2)
    return figure
