"""The figures of a study: each kind of data drawn by the plot that fits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sightline.view.plots import (
    Measured,
    attention_graphs,
    attention_grid,
    head_importance_map,
    instance_counts,
    layer_heat_map,
    relevance_matrices,
    similarity_dots,
    text_overlay,
    text_overlays,
)
from sightline.view.plots.style import CATEGORIES, GRID, in_house_style, new_figure, to_label
from sightline_studies.study import (
    Curves,
    Dots,
    Drawing,
    Figure,
    Graphs,
    HeadMap,
    HeadMaps,
    InstanceCounts,
    LayerMap,
    MatrixMaps,
    Overlays,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn


LONGEST_LABEL = 24
"""Characters of the label of a token."""
MOST_TICKS = 12
"""Labels on the horizontal axis; of more places, every second or third is labelled."""


def draw_figure(figure: Figure) -> Drawn:
    """Return the drawn figure of a study."""
    return _draw(figure.drawing, figure.title, figure.sentence)


def _draw(drawing: Drawing, title: str, caption: str) -> Drawn:
    if isinstance(drawing, Curves):
        return setting_curves(drawing, title=title, caption=caption)
    if isinstance(drawing, Dots):
        return similarity_dots(
            {
                panel: [
                    Measured(group, mean.value, mean.low, mean.high, chance, chance, chance)
                    for group, mean, chance in rows
                ]
                for panel, rows in drawing.panels.items()
            },
            title=title,
            caption=caption,
        )
    if isinstance(drawing, LayerMap):
        return layer_heat_map(
            drawing.layers,
            _short(drawing.labels),
            kind=drawing.kind,
            signed=drawing.signed,
            title=title,
            caption=caption,
        )
    if isinstance(drawing, MatrixMaps):
        return relevance_matrices(drawing.matrices, _short(drawing.labels), title=title, caption=caption)
    if isinstance(drawing, Graphs):
        return attention_graphs(
            drawing.graphs, _short(drawing.labels), readout=drawing.readout, title=title, caption=caption
        )
    if isinstance(drawing, HeadMap):
        return head_importance_map(drawing.values, title=title, caption=caption)
    if isinstance(drawing, HeadMaps):
        return attention_grid(
            drawing.maps, tokens=drawing.tokens, importance=drawing.importance, title=title, caption=caption
        )
    if isinstance(drawing, InstanceCounts):
        return instance_counts(drawing.positions, drawing.counts, drawing.tokens, title=title, caption=caption)
    if isinstance(drawing, Overlays):
        return text_overlays(drawing.explanations, title=title, caption=caption)
    return text_overlay(
        drawing.explanation, true_label=drawing.true_label, total=drawing.total, title=title, caption=caption
    )


def _short(labels: Sequence[str]) -> list[str]:
    """Return the labels of tokens, shortened: a text from a file may have words of thousands of characters."""
    return [label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…" for label in labels]


@in_house_style
def setting_curves(drawing: Curves, *, title: str, caption: str = "") -> Drawn:
    """Lines over layers or settings, with their intervals as bands; dashed where they are published or a control.

    A dashed line "raw, published" has the colour of the line "raw".
    """
    figure = new_figure(7.0, 3.9, title, caption)
    axes = figure.add_subplot()
    places = np.arange(len(drawing.places))
    colours: dict[str, str] = {}
    for curve in drawing.curves:
        shared = colours.get(curve.name.partition(",")[0]) if curve.dashed else None
        colour = colours[curve.name] = shared or CATEGORIES[len(colours) % len(CATEGORIES)]
        style = "--" if curve.dashed else "-"
        axes.plot(places, curve.values, style, color=colour, marker="o", markersize=3.5, label=to_label(curve.name))
        if len(curve.low):
            axes.fill_between(places, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
    every = -(-len(places) // MOST_TICKS)
    axes.set_xticks(places[::every], [to_label(place) for place in drawing.places[::every]])
    axes.set_xlabel(to_label(drawing.horizontal))
    axes.set_ylabel(to_label(drawing.vertical))
    axes.axhline(0, color=GRID, linewidth=0.8, zorder=0)
    axes.grid(axis="y", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    figure.legend(loc="outside right center")  # long titles reach the corner above it
    return figure
