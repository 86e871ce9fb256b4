"""Figures of an evaluation: faithfulness curves beside floor and reference, faithfulness against cost, the cascade.

With many methods, each is drawn in its own panel with the others in grey: readers cannot distinguish more than eight
colours.

The overview is one picture: methods down, metrics across. Every metric has a panel with its own scale, and all panels
share the order of the methods, so that a method is read along its row and a metric down its column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sightline.view.plots.style import CATEGORIES, CHANCE, GRID, INK, QUIET, in_house_style, new_figure, to_label

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Panels per row of panels."""
METHOD, REFERENCE = CATEGORIES[0], CATEGORIES[2]


@dataclass(frozen=True)
class Priced:
    """One method: its cost, and its value by a metric with the interval."""

    method: str
    seconds: float
    mean: float
    low: float
    high: float


@in_house_style
def perturbation_curves(
    curves: Mapping[str, pd.DataFrame], *, share: str, quantity: str, title: str, caption: str = ""
) -> Figure:
    """One panel per method: its mean curve with interval, beside random orders and the one-at-a-time order.

    Frames as `Evaluation.curves` returns them. `share` names the horizontal axis, `quantity` the vertical one.
    """
    columns = min(COLUMNS, max(1, len(curves)))
    rows = -(-max(1, len(curves)) // columns)
    figure = new_figure(1.2 + 2.1 * columns, 1.5 + 1.65 * rows, title, caption)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (method, frame) in zip(panels.ravel(), curves.items(), strict=False):
        for other in curves.values():
            axes.plot(100 * other["ratio"], other["mean"], color=GRID, linewidth=0.7, zorder=1)
        _curve(axes, frame)
        axes.set_title(to_label(method))
    for axes in panels.ravel()[len(curves) :]:
        axes.set_axis_off()
    for place in range(columns):
        lowest = max(row for row in range(rows) if row * columns + place < len(curves))
        panels[lowest, place].set_xlabel(to_label(share))
        panels[lowest, place].tick_params(labelbottom=True)
    for row in panels[:, 0]:
        row.set_ylabel(to_label(quantity), fontsize=8)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4)
    return figure


def _curve(axes: Axes, frame: pd.DataFrame) -> None:
    share = 100 * frame["ratio"]
    if frame["reference"].notna().any():
        axes.plot(
            share,
            frame["reference"],
            color=REFERENCE,
            linestyle=(0, (4, 2)),
            label="one at a time (reference)",
            zorder=3,
        )
    if frame["floor"].notna().any():
        axes.plot(share, frame["floor"], color=CHANCE, linestyle=(0, (1, 1.2)), label="random orders", zorder=3)
    axes.fill_between(share, frame["low"], frame["high"], color=METHOD, alpha=0.18, linewidth=0, zorder=2)
    axes.plot(share, frame["mean"], color=METHOD, linewidth=1.5, label="the method", zorder=4)
    axes.axhline(0, color=QUIET, linewidth=0.4, zorder=0)


@in_house_style
def worth_against_cost(
    methods: Sequence[Priced], *, floor: float | None, metric: str, better: str, title: str, caption: str = ""
) -> Figure:
    """One dot per method: seconds per explanation (logarithmic) against a metric, with its interval and its name."""
    figure = new_figure(7.2, 4.6, title, caption)
    axes = figure.add_subplot()
    # Shorter times cannot be measured, and a logarithmic axis has no zero.
    seconds = np.maximum([method.seconds for method in methods], 1e-5)
    means = np.array([method.mean for method in methods])
    spread = np.array([[method.mean - method.low, method.high - method.mean] for method in methods]).T
    axes.errorbar(
        seconds,
        means,
        yerr=np.nan_to_num(np.maximum(spread, 0)),
        fmt="o",
        color=METHOD,
        ecolor=METHOD,
        elinewidth=0.8,
        ms=4,
    )
    if floor is not None:
        axes.axhline(floor, color=CHANCE, linestyle=(0, (1, 1.2)), linewidth=1.0)
        axes.annotate(
            "random orders",
            (1.0, floor),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 3),
            textcoords="offset points",
            ha="right",
            fontsize=7,
            color=QUIET,
        )
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.12)
    axes.set_xlabel("seconds to explain a document (logarithmic)")
    axes.set_ylabel(to_label(f"{metric} ({better} is better)"))
    axes.grid(color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    _name_dots(axes, [method.method for method in methods], seconds, means)
    return figure


def _name_dots(axes: Axes, names: Sequence[str], x: np.ndarray, y: np.ndarray) -> None:
    """Write the names right of their dots, moved up or down where they would overlap."""
    figure = axes.figure
    figure.canvas.draw()  # the positions of the axes must be known
    taken: list[tuple[float, float]] = []
    line = 9.0 * figure.dpi / 72
    width = 78.0 * figure.dpi / 72
    for index in np.argsort(-y):
        left, dot = axes.transData.transform((x[index], y[index]))
        height = dot
        while any(abs(left - other) < width and abs(height - used) < line for other, used in taken):
            height -= line / 3
        taken.append((left, height))
        moved = (height - dot) * 72 / figure.dpi
        axes.annotate(
            to_label(names[index]),
            (x[index], y[index]),
            xytext=(8, moved - 2.5),
            textcoords="offset points",
            fontsize=7,
            color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.6},
            arrowprops={"arrowstyle": "-", "color": GRID, "linewidth": 0.6} if abs(moved) > 4 else None,
        )


@in_house_style
def cascade_lines(summary: pd.DataFrame, stages: Sequence[str], *, title: str, caption: str = "") -> Figure:
    """One panel per method: similarity to the original explanation as more and more parts are random, beside chance.

    The frame is `SanityResult.summary()`.
    """
    methods = list(dict.fromkeys(summary["method"]))
    columns = min(COLUMNS, max(1, len(methods)))
    rows = -(-max(1, len(methods)) // columns)
    figure = new_figure(1.2 + 2.1 * columns, 2.0 + 1.55 * rows, title, caption)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    places = np.arange(len(stages))
    for axes, method in zip(panels.ravel(), methods, strict=False):
        by_stage = summary[summary["method"] == method].set_index("stage").reindex(stages)
        axes.fill_between(
            places, by_stage["chance_low"], by_stage["chance_high"], color=CHANCE, alpha=0.25, lw=0, label="chance"
        )
        axes.fill_between(places, by_stage["low"], by_stage["high"], color=METHOD, alpha=0.18, linewidth=0)
        axes.plot(places, by_stage["similarity"], "o-", color=METHOD, ms=3, label="similarity")
        axes.set_title(to_label(method))
        axes.set_ylim(-1.05, 1.05)
        axes.axhline(0, color=QUIET, linewidth=0.4)
    for axes in panels.ravel()[len(methods) :]:
        axes.set_axis_off()
    for place in range(columns):
        lowest = max(row for row in range(rows) if row * columns + place < len(methods))
        panels[lowest, place].set_xticks(places, [to_label(stage) for stage in stages], rotation=90)
        panels[lowest, place].tick_params(labelbottom=True)
    for row in panels[:, 0]:
        row.set_ylabel("Spearman's ρ")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2)
    return figure


@dataclass(frozen=True)
class Dot:
    """The mean of one method by one metric, with its bootstrap interval."""

    mean: float
    low: float
    high: float
    floor: float | None = None
    """The floor of this method, if floors differ between methods."""
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
