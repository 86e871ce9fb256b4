"""Rows side by side: ranked bars, similarity beside chance, words on which two slices differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from sightline.view.plots.style import (
    AGAINST,
    CATEGORIES,
    CHANCE,
    FOR,
    GRID,
    INK,
    PLAIN,
    QUIET,
    in_house_style,
    new_figure,
    to_label,
    token_label,
)
from sightline.view.words.sentences import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sightline.corpus.aggregation import SliceComparison

NOTHING = "nothing to rank"
SIGNIFICANT = 0.05
ROW_INCHES = 0.24


@dataclass(frozen=True)
class Ranking:
    """One panel: horizontal bars, the first label at the top."""

    title: str
    labels: Sequence[str]
    values: Sequence[float]
    unit: str = ""
    """What the numbers count; the label of the axis."""
    colour: str = PLAIN
    references: Sequence[float] = ()
    """What each value is compared with, drawn as a tick across its bar."""
    intervals: Sequence[tuple[float, float]] = ()
    """The ends of an interval around each value, drawn as a line along its bar."""


@in_house_style
def ranked_bars(panels: Sequence[Ranking], *, title: str, caption: str = "") -> Figure:
    """Draw the rankings side by side, one panel per ranking, on scales of one length.

    Bars of negative values point to the left. An empty ranking shows a message instead of an axis.
    """
    longest = max((len(panel.labels) for panel in panels), default=0)
    figure = new_figure(max(5.5, 3.6 * len(panels)), max(2.2, 1.35 + 0.21 * longest), title, caption)
    reaches = [_reach(panel) for panel in panels]
    ahead, behind = (max(reach) for reach in zip(*reaches, strict=True)) if reaches else (0.0, 0.0)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set_title(to_label(panel.title))
        _draw(axes, panel, longest, ahead or 1.0, behind)
    return figure


def _points_left(panel: Ranking) -> bool:
    return bool(panel.values) and max(panel.values) < 0


def _ends(panel: Ranking) -> list[tuple[float, float]]:
    """Return the interval of each value; words in few documents have none, only the value."""
    intervals = panel.intervals or [(nan, nan)] * len(panel.values)
    return [
        (value, value) if low != low else (low, high)
        for value, (low, high) in zip(panel.values, intervals, strict=True)
    ]


def _reach(panel: Ranking) -> tuple[float, float]:
    """Return how far a panel extends in the direction of its bars, and in the other one."""
    shown = [0.0, *panel.values, *panel.references, *(end for pair in _ends(panel) for end in pair)]
    left, right = -min(shown), max(shown)
    return (left, right) if _points_left(panel) else (right, left)


def _draw(axes: Axes, panel: Ranking, rows: int, ahead: float, behind: float) -> None:
    if not panel.labels:
        empty_panel(axes)
        return
    places = range(len(panel.labels))
    axes.barh(places, panel.values, color=panel.colour, height=0.72)
    axes.set_yticks(places, [token_label(label) for label in panel.labels])
    axes.set_ylim(max(rows, 1) - 0.4, -0.6)
    axes.axvline(0, color=QUIET, linewidth=0.6)
    if panel.references:
        axes.plot(panel.references, places, "|", color=INK, markersize=11, markeredgewidth=1.6, zorder=3)
    if panel.intervals:
        lows, highs = zip(*panel.intervals, strict=True)
        axes.hlines(places, lows, highs, color=INK, linewidth=1.0, zorder=3)
    ends = _ends(panel)
    limit = ahead + 0.32 * (ahead + behind)  # with room for the number at the end of the longest bar
    back = 1.05 * behind
    axes.set_xlim((-limit, back) if _points_left(panel) else (-back, limit))
    references = panel.references or panel.values
    for place, value, reference, (left, right) in zip(places, panel.values, references, ends, strict=True):
        written = f"{value:,}" if isinstance(value, int) else number(value).removeprefix("+")
        axes.annotate(
            written,
            # Behind the tick of the reference, or the interval, where it lies beyond the bar.
            (max(value, reference, right) if value >= 0 else min(value, left), place),
            xytext=(3 if value >= 0 else -3, 0),
            textcoords="offset points",
            ha="left" if value >= 0 else "right",
            va="center",
            fontsize=7,
            color=QUIET,
        )
    axes.set_xlabel(panel.unit)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=4)


def empty_panel(axes: Axes, sentence: str = NOTHING) -> None:
    """Write into an empty panel why there is nothing to show."""
    axes.set_axis_off()
    axes.text(0.0, 0.9, sentence, transform=axes.transAxes, color=QUIET, va="top")


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
    """One panel per measure on one scale, one line per group: a dot with its interval, chance as a grey band."""
    groups = max((len(measured) for measured in measures.values()), default=0)
    columns = min(4, max(1, len(measures)))
    rows = -(-max(1, len(measures)) // columns)
    longest = max((len(row.group) for measured in measures.values() for row in measured), default=0)
    width = 0.7 + 0.06 * longest + 2.1 * columns
    figure = new_figure(width, 1.3 + rows * (0.55 + 0.24 * groups), title, caption)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
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


@in_house_style
def confidence_scatter(
    confidence: Sequence[float], fall: Sequence[float], correct: Sequence[bool | None], *, title: str
) -> Figure:
    """Draw one dot per document: probability of the prediction, and the fall of the log-odds in its check."""
    figure = new_figure(6.4, 4.0, title, "Right predictions are blue, wrong ones orange, those without a label grey.")
    axes = figure.add_subplot()
    if not len(confidence):
        empty_panel(axes, "No explanation was checked: run with --check.")
        return figure
    colours = [QUIET if right is None else FOR if right else AGAINST for right in correct]
    axes.scatter(confidence, fall, s=14, c=colours, alpha=0.7, linewidths=0)
    axes.set_xlabel("probability of the predicted class")
    axes.set_ylabel("fall of the log-odds")
    return figure


@in_house_style
def slice_differences(comparison: SliceComparison, *, title: str) -> Figure:
    """Draw the difference of each word between two slices with its interval; bold dots are significant."""
    rows = comparison.rows.sort_values("difference")
    caption = (
        f"Mean score where {to_label(comparison.first)} ({comparison.documents[0]} documents) minus where "
        f"{to_label(comparison.second)} ({comparison.documents[1]}), 95 % bootstrap intervals; filled dots: "
        f"corrected p below {SIGNIFICANT}; {comparison.tested} words tested."
    )
    figure = new_figure(6.4, 1.6 + ROW_INCHES * max(4, len(rows)), title, caption)
    axes = figure.add_subplot()
    if rows.empty:
        empty_panel(axes, "No word occurs in enough documents.")
        return figure
    places = np.arange(len(rows))
    difference = rows["difference"].to_numpy()
    axes.hlines(places, rows["low"], rows["high"], color=QUIET, linewidth=1.2)
    colours = [FOR if value > 0 else AGAINST for value in difference]
    significant = rows["p_corrected"].to_numpy() < SIGNIFICANT
    faces = [colour if filled else "white" for colour, filled in zip(colours, significant, strict=True)]
    axes.scatter(difference, places, s=22, c=faces, edgecolors=colours, zorder=3)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.set_yticks(places, [token_label(str(word)) for word in rows[comparison.by]])
    axes.set_xlabel("difference of the mean score")
    return figure
