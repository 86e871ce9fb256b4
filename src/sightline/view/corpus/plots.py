"""Plots of a corpus: confidence against faithfulness, and the words that tell two slices apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sightline.corpus.slices import SliceComparison
from sightline.view.plots.bars import empty_panel
from sightline.view.plots.style import AGAINST, FOR, INK, QUIET, in_house_style, new_figure, to_label, token_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGNIFICANT = 0.05
ROW_INCHES = 0.24


@in_house_style
def confidence_scatter(
    confidence: Sequence[float], faithfulness: Sequence[float], correct: Sequence[bool | None], *, title: str
) -> Figure:
    """Draw one dot per document: probability of the prediction against faithfulness of the explanation."""
    figure = new_figure(6.4, 4.0, title, "Right predictions are blue, wrong ones orange, those without a label grey.")
    axes = figure.add_subplot()
    if not len(confidence):
        empty_panel(axes, "No explanation was checked: run with --check.")
        return figure
    colours = [QUIET if right is None else FOR if right else AGAINST for right in correct]
    axes.scatter(confidence, faithfulness, s=14, c=colours, alpha=0.7, linewidths=0)
    axes.set_xlabel("probability of the predicted class")
    axes.set_ylabel("faithfulness")
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
