"""Ranked lists as horizontal bars: which words are attended to or attend most, which support or oppose a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from sightline.view.plots.style import INK, PLAIN, QUIET, in_house_style, new_figure, to_label, token_label
from sightline.view.words.sentences import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOTHING = "nothing to rank"


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
    """Draw the rankings side by side, one panel per ranking; an empty ranking shows a message instead of an axis."""
    longest = max((len(panel.labels) for panel in panels), default=0)
    figure = new_figure(max(5.5, 3.6 * len(panels)), max(2.2, 1.35 + 0.21 * longest), title, caption)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set_title(to_label(panel.title))
        _draw(axes, panel, longest)
    return figure


def _draw(axes: Axes, panel: Ranking, rows: int) -> None:
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
    # Words in few documents have no interval.
    intervals = panel.intervals or [(nan, nan)] * len(panel.values)
    ends = [
        (value, value) if low != low else (low, high)
        for value, (low, high) in zip(panel.values, intervals, strict=True)
    ]
    shown = [*panel.values, *panel.references, *(end for pair in ends for end in pair)]
    low, high = min(0.0, *shown), max(0.0, *shown)
    room = 0.32 * ((high - low) or 1.0)  # for the number at the end of the longest bar
    axes.set_xlim(low - (room if low < 0 else 0.0), high + (room if high > 0 or low == 0 else 0.0))
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
