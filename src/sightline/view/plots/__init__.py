"""Figures in matplotlib. Each function takes finished numbers and returns a Figure; none computes a result."""

from sightline.view.plots.layers import (
    attention_graph,
    attention_graphs,
    layer_curves,
    layer_heat_map,
    layer_panels,
    relevance_matrices,
)
from sightline.view.plots.maps import attention_grid, attention_map, head_importance_map, signed_maps, window_map
from sightline.view.plots.positions import (
    LONG_DOCUMENT,
    density_over_positions,
    instance_counts,
    instances_of_words,
    layers_over_positions,
    lines_over_positions,
    position_profile,
)
from sightline.view.plots.rankings import Gap, Measured, Ranking, rank_gaps, ranked_bars, similarity_dots
from sightline.view.plots.style import save_figure
from sightline.view.plots.text import report_overlay, text_overlay, text_overlays

__all__ = [
    "LONG_DOCUMENT",
    "Gap",
    "Measured",
    "Ranking",
    "attention_graph",
    "attention_graphs",
    "attention_grid",
    "attention_map",
    "density_over_positions",
    "head_importance_map",
    "instance_counts",
    "instances_of_words",
    "layer_curves",
    "layer_heat_map",
    "layer_panels",
    "layers_over_positions",
    "lines_over_positions",
    "position_profile",
    "rank_gaps",
    "ranked_bars",
    "relevance_matrices",
    "report_overlay",
    "save_figure",
    "signed_maps",
    "similarity_dots",
    "text_overlay",
    "text_overlays",
    "window_map",
]
