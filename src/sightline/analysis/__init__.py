"""Inside a document: heads, maps, relations, totals, and attention against attribution.

Every function takes an `AttentionSource` (a Trace, or what `StoredAttention` read from a file), an Explanation or plain
arrays, and returns a small frozen result with `.to_frame()`. Nothing here makes an n×n array: one layer of attention
is asked at a time, on its band. Names load when first used.
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
    )
    from sightline.analysis.filters import TokenFilter, stop_word_languages
    from sightline.analysis.importance import (
        head_importance,
        head_importance_of,
        head_importance_per_example,
        normalized_importance,
    )
    from sightline.analysis.internals import Inside, Relations, inside
    from sightline.analysis.maps import AttentionMaps, average_maps, pyramid, thumbnails
    from sightline.analysis.overview import FirstView, first_view
    from sightline.analysis.pickers import Pick, Predictions, predict
    from sightline.analysis.received import PositionTotals, Sink, Totals, sinks, totals
    from sightline.analysis.relation_table import RelationCounts
    from sightline.analysis.relations import LayerRelations, layer_relations, relation_counts
    from sightline.analysis.similarity import (
        Disagreement,
        Similarity,
        attention_scores,
        compare_scores,
        disagreements,
        document_similarity,
    )
    from sightline.analysis.similarity_tables import (
        SimilarityCell,
        SimilarityTable,
        dataset_similarity,
        similarity_layout,
    )
    from sightline.analysis.source import AttentionSource
    from sightline.analysis.stored import StoredAttention, store_attention
    from sightline.analysis.tiles import tile

_HOMES = {
    "AttentionMaps": "maps",
    "AttentionSource": "source",
    "AttributionRow": "attribution_tables",
    "AttributionTable": "attribution_tables",
    "Disagreement": "similarity",
    "FirstView": "overview",
    "Inside": "internals",
    "LayerRelations": "relations",
    "Pick": "pickers",
    "PositionTotals": "received",
    "Predictions": "pickers",
    "RelationCounts": "relation_table",
    "Relations": "internals",
    "Similarity": "similarity",
    "SimilarityCell": "similarity_tables",
    "SimilarityTable": "similarity_tables",
    "Sink": "received",
    "StoredAttention": "stored",
    "TokenFilter": "filters",
    "Totals": "received",
    "attention_scores": "similarity",
    "attributions_by_position": "attribution_tables",
    "attributions_by_type": "attribution_tables",
    "attributions_over_dataset": "attribution_tables",
    "average_maps": "maps",
    "compare_scores": "similarity",
    "dataset_similarity": "similarity_tables",
    "disagreements": "similarity",
    "document_similarity": "similarity",
    "first_view": "overview",
    "head_importance": "importance",
    "head_importance_of": "importance",
    "head_importance_per_example": "importance",
    "inside": "internals",
    "layer_relations": "relations",
    "normalized_importance": "importance",
    "predict": "pickers",
    "pyramid": "maps",
    "relation_counts": "relations",
    "similarity_layout": "similarity_tables",
    "sinks": "received",
    "stop_word_languages": "filters",
    "store_attention": "stored",
    "thumbnails": "maps",
    "tile": "tiles",
    "totals": "received",
}

__all__ = [
    "AttentionMaps",
    "AttentionSource",
    "AttributionRow",
    "AttributionTable",
    "Disagreement",
    "FirstView",
    "Inside",
    "LayerRelations",
    "Pick",
    "PositionTotals",
    "Predictions",
    "RelationCounts",
    "Relations",
    "Similarity",
    "SimilarityCell",
    "SimilarityTable",
    "Sink",
    "StoredAttention",
    "TokenFilter",
    "Totals",
    "attention_scores",
    "attributions_by_position",
    "attributions_by_type",
    "attributions_over_dataset",
    "average_maps",
    "compare_scores",
    "dataset_similarity",
    "disagreements",
    "document_similarity",
    "first_view",
    "head_importance",
    "head_importance_of",
    "head_importance_per_example",
    "inside",
    "layer_relations",
    "normalized_importance",
    "predict",
    "pyramid",
    "relation_counts",
    "similarity_layout",
    "sinks",
    "stop_word_languages",
    "store_attention",
    "thumbnails",
    "tile",
    "totals",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sightline.analysis.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sightline.analysis' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
