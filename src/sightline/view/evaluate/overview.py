"""The overview of an evaluation as one picture: methods down, metrics across, beside floor and reference.

Every metric has a panel with its own scale, and all panels share the order of the methods, so that a method is read
along its row and a metric down its column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.view.plots.style import CATEGORIES, CHANCE, GRID, in_house_style, new_figure, to_label

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Panels per row of panels."""
METHOD, REFERENCE = CATEGORIES[0], CATEGORIES[2]


@dataclass(frozen=True)
class Dot:
    """The mean of one method by one metric, with its bootstrap interval."""

    mean: float
    low: float
    high: float
    floor: float | None = None
    """The floor of this method, where methods have floors of their own."""
    beats_chance: bool | None = None
    """None where a metric has no floor."""


@dataclass(frozen=True)
class Panel:
    """One metric: its heading with the direction that is better, the methods, floor and reference."""

    heading: str
    dots: Mapping[str, Dot]
    """By method; methods without a value are left out."""
    floor: float | None = None
    reference: float | None = None


@in_house_style
def overview_chart(panels: Sequence[Panel], methods: Sequence[str], *, title: str, caption: str = "") -> Figure:
    """Dots with intervals, one panel per metric and one row per method, first method at the top.

    A filled dot is clearly better than chance, a hollow one is not.
    """
    columns = min(COLUMNS, max(1, len(panels)))
    rows = -(-max(1, len(panels)) // columns)
    figure = new_figure(1.9 + 2.0 * columns, 1.3 + rows * (0.75 + 0.22 * len(methods)), title, caption)
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for axes, panel in zip(grid.ravel(), panels, strict=False):
        _draw_panel(axes, panel, methods)
    for axes in grid.ravel()[len(panels) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(methods)), [to_label(method) for method in methods])
        axes.set_ylim(len(methods) - 0.4, -0.6)
    handles: dict[str, Artist] = {}
    for axes in grid.ravel():
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside upper right", ncols=4)
    return figure


def _draw_panel(axes: Axes, panel: Panel, methods: Sequence[str]) -> None:
    if panel.floor is not None:
        axes.axvline(
            panel.floor, color=CHANCE, linestyle=(0, (1, 1.2)), linewidth=1.2, label="chance (floor)", zorder=2
        )
    if panel.reference is not None:
        axes.axvline(
            panel.reference, color=REFERENCE, linestyle=(0, (4, 2)), label="one at a time (reference)", zorder=2
        )
    for place, method in enumerate(methods):
        axes.axhline(place, color=GRID, linewidth=0.5, zorder=0)
        dot = panel.dots.get(method)
        if dot is None:
            continue
        weak = dot.beats_chance is False
        if dot.floor is not None:
            axes.plot([dot.floor], [place], "|", color=CHANCE, markersize=9, label="chance (floor)", zorder=2)
        axes.plot([dot.low, dot.high], [place, place], color=METHOD, linewidth=1.4, alpha=0.6, zorder=3)
        axes.plot(
            [dot.mean],
            [place],
            "o",
            color=METHOD,
            markerfacecolor="white" if weak else METHOD,
            markersize=4.5,
            label="not clearly better than chance" if weak else "mean with 95 % interval",
            zorder=4,
        )
    axes.set_title(to_label(panel.heading), fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=4)
    axes.margins(x=0.08)
