"""Figures in matplotlib. Each function takes finished numbers and returns a Figure; none computes a result."""

from sightline.view.plots.attention_maps import attention_grid, attention_map, head_importance_map, window_map
from sightline.view.plots.highlighted_text import report_overlay, text_overlay, text_overlays
from sightline.view.plots.layers import (
    attention_graphs,
    instance_counts,
    layer_curves,
    layer_heat_map,
    lines_over_positions,
    relevance_matrices,
)
from sightline.view.plots.rankings import Measured, Ranking, ranked_bars, similarity_dots
from sightline.view.plots.style import save_figure

__all__ = [
    "Measured",
    "Ranking",
    "attention_graphs",
    "attention_grid",
    "attention_map",
    "head_importance_map",
    "instance_counts",
    "layer_curves",
    "layer_heat_map",
    "lines_over_positions",
    "ranked_bars",
    "relevance_matrices",
    "report_overlay",
    "save_figure",
    "similarity_dots",
    "text_overlay",
    "text_overlays",
    "window_map",
]
