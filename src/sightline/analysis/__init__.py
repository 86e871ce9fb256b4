"""Inside a document: heads, maps, relations, totals, and attention against attribution.

Every function takes an `AttentionSource` (usually a Trace), an Explanation or plain arrays, and returns a small frozen
result with `.to_frame()`. Nothing here makes an n×n array: attention is read one layer at a time, on its band. Names
are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.analysis.attribution_tables import (
        AttributionRow,
        AttributionTable,
        attributions_by_position,
        attributions_by_type,
        attributions_over_dataset,
        token_ranks,
    )
    from sightline.analysis.dataset_inspection import DataSetInspection, TargetWords, inspect_dataset
    from sightline.analysis.effective import EffectiveHead, cancelled_share, effective_attention, effective_head
    from sightline.analysis.filters import TokenFilter, stop_word_languages
    from sightline.analysis.importance import (
        head_importance,
        head_importance_of,
        head_importance_per_example,
        normalized_importance,
    )
    from sightline.analysis.inspection import (
        HeadMap,
        Inspection,
        InspectionSettings,
        attention_graphs,
        inspect_document,
    )
    from sightline.analysis.internals import Inside, Relations, inside
    from sightline.analysis.layer_anisotropy import LayerAnisotropy, anisotropy_by_layer, mean_anisotropy
    from sightline.analysis.maps import AttentionMaps, MapAverage, average_maps, thumbnails, tile, window_maps
    from sightline.analysis.pickers import Pick, Predictions, predict
    from sightline.analysis.received import PositionTotals, Sink, Totals, sinks, totals
    from sightline.analysis.relation_table import RelationCounts, TokenCounts
    from sightline.analysis.relations import LayerRelations, layer_relations, relation_counts
    from sightline.analysis.similarity import (
        Disagreement,
        Similarity,
        SimilarityCell,
        SimilarityTable,
        attention_scores,
        compare_scores,
        disagreements,
        document_similarity,
        similarity_layout,
        summarise_documents,
    )
    from sightline.analysis.source import AttentionSource

_HOMES = {
    "AttentionMaps": "maps",
    "AttentionSource": "source",
    "AttributionRow": "attribution_tables",
    "AttributionTable": "attribution_tables",
    "DataSetInspection": "dataset_inspection",
    "Disagreement": "similarity",
    "EffectiveHead": "effective",
    "HeadMap": "inspection",
    "Inside": "internals",
    "Inspection": "inspection",
    "InspectionSettings": "inspection",
    "LayerAnisotropy": "layer_anisotropy",
    "LayerRelations": "relations",
    "MapAverage": "maps",
    "Pick": "pickers",
    "PositionTotals": "received",
    "Predictions": "pickers",
    "RelationCounts": "relation_table",
    "Relations": "internals",
    "Similarity": "similarity",
    "SimilarityCell": "similarity",
    "SimilarityTable": "similarity",
    "Sink": "received",
    "TargetWords": "dataset_inspection",
    "TokenCounts": "relation_table",
    "TokenFilter": "filters",
    "Totals": "received",
    "attention_graphs": "inspection",
    "anisotropy_by_layer": "layer_anisotropy",
    "attention_scores": "similarity",
    "attributions_by_position": "attribution_tables",
    "attributions_by_type": "attribution_tables",
    "attributions_over_dataset": "attribution_tables",
    "average_maps": "maps",
    "cancelled_share": "effective",
    "compare_scores": "similarity",
    "disagreements": "similarity",
    "document_similarity": "similarity",
    "effective_attention": "effective",
    "effective_head": "effective",
    "head_importance": "importance",
    "head_importance_of": "importance",
    "head_importance_per_example": "importance",
    "inside": "internals",
    "inspect_dataset": "dataset_inspection",
    "inspect_document": "inspection",
    "layer_relations": "relations",
    "mean_anisotropy": "layer_anisotropy",
    "normalized_importance": "importance",
    "predict": "pickers",
    "relation_counts": "relations",
    "similarity_layout": "similarity",
    "sinks": "received",
    "stop_word_languages": "filters",
    "summarise_documents": "similarity",
    "thumbnails": "maps",
    "tile": "maps",
    "token_ranks": "attribution_tables",
    "totals": "received",
    "window_maps": "maps",
}

__all__ = [
    "AttentionMaps",
    "AttentionSource",
    "AttributionRow",
    "AttributionTable",
    "DataSetInspection",
    "Disagreement",
    "EffectiveHead",
    "HeadMap",
    "Inside",
    "Inspection",
    "InspectionSettings",
    "LayerAnisotropy",
    "LayerRelations",
    "MapAverage",
    "Pick",
    "PositionTotals",
    "Predictions",
    "RelationCounts",
    "Relations",
    "Similarity",
    "SimilarityCell",
    "SimilarityTable",
    "Sink",
    "TargetWords",
    "TokenCounts",
    "TokenFilter",
    "Totals",
    "anisotropy_by_layer",
    "attention_graphs",
    "attention_scores",
    "attributions_by_position",
    "attributions_by_type",
    "attributions_over_dataset",
    "average_maps",
    "cancelled_share",
    "compare_scores",
    "disagreements",
    "document_similarity",
    "effective_attention",
    "effective_head",
    "head_importance",
    "head_importance_of",
    "head_importance_per_example",
    "inside",
    "inspect_dataset",
    "inspect_document",
    "layer_relations",
    "mean_anisotropy",
    "normalized_importance",
    "predict",
    "relation_counts",
    "similarity_layout",
    "sinks",
    "stop_word_languages",
    "summarise_documents",
    "thumbnails",
    "tile",
    "token_ranks",
    "totals",
    "window_maps",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sightline.analysis.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sightline.analysis' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
