"""Inside a document: heads, maps, relations, totals, and attention against attribution.

Every function takes an `AttentionSource` (usually a Trace), an Explanation or plain arrays, and returns a small frozen
result with `.to_frame()`. Nothing here makes an n×n array: attention is read one layer at a time, on its band. Names
are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.analysis.attribution_tables import AttributionRow as AttributionRow
    from sightline.analysis.attribution_tables import AttributionTable as AttributionTable
    from sightline.analysis.attribution_tables import attributions_by_position as attributions_by_position
    from sightline.analysis.attribution_tables import attributions_by_type as attributions_by_type
    from sightline.analysis.attribution_tables import attributions_over_dataset as attributions_over_dataset
    from sightline.analysis.attribution_tables import token_ranks as token_ranks
    from sightline.analysis.dataset_inspection import DataSetInspection as DataSetInspection
    from sightline.analysis.dataset_inspection import Pick as Pick
    from sightline.analysis.dataset_inspection import Predictions as Predictions
    from sightline.analysis.dataset_inspection import TargetWords as TargetWords
    from sightline.analysis.dataset_inspection import inspect_dataset as inspect_dataset
    from sightline.analysis.dataset_inspection import predict as predict
    from sightline.analysis.filters import TokenFilter as TokenFilter
    from sightline.analysis.filters import stop_word_languages as stop_word_languages
    from sightline.analysis.importance import EffectiveHead as EffectiveHead
    from sightline.analysis.importance import cancelled_share as cancelled_share
    from sightline.analysis.importance import effective_head as effective_head
    from sightline.analysis.importance import head_importance as head_importance
    from sightline.analysis.importance import head_importance_of as head_importance_of
    from sightline.analysis.importance import head_importance_per_example as head_importance_per_example
    from sightline.analysis.importance import normalized_importance as normalized_importance
    from sightline.analysis.inspection import Inspection as Inspection
    from sightline.analysis.inspection import InspectionSettings as InspectionSettings
    from sightline.analysis.inspection import inspect_document as inspect_document
    from sightline.analysis.internals import inside as inside
    from sightline.analysis.layer_anisotropy import LayerAnisotropy as LayerAnisotropy
    from sightline.analysis.layer_anisotropy import anisotropy_by_layer as anisotropy_by_layer
    from sightline.analysis.layer_anisotropy import mean_anisotropy as mean_anisotropy
    from sightline.analysis.maps import AttentionMaps as AttentionMaps
    from sightline.analysis.maps import MapAverage as MapAverage
    from sightline.analysis.maps import attention_graphs as attention_graphs
    from sightline.analysis.maps import average_maps as average_maps
    from sightline.analysis.maps import thumbnails as thumbnails
    from sightline.analysis.maps import tile as tile
    from sightline.analysis.maps import window_maps as window_maps
    from sightline.analysis.received import PositionTotals as PositionTotals
    from sightline.analysis.received import Sink as Sink
    from sightline.analysis.received import Totals as Totals
    from sightline.analysis.received import sinks as sinks
    from sightline.analysis.received import totals as totals
    from sightline.analysis.relation_table import RelationCounts as RelationCounts
    from sightline.analysis.relation_table import TokenCounts as TokenCounts
    from sightline.analysis.relations import LayerRelations as LayerRelations
    from sightline.analysis.relations import layer_relations as layer_relations
    from sightline.analysis.relations import relation_counts as relation_counts
    from sightline.analysis.similarity import Disagreement as Disagreement
    from sightline.analysis.similarity import Similarity as Similarity
    from sightline.analysis.similarity import SimilarityCell as SimilarityCell
    from sightline.analysis.similarity import SimilarityTable as SimilarityTable
    from sightline.analysis.similarity import attention_scores as attention_scores
    from sightline.analysis.similarity import compare_scores as compare_scores
    from sightline.analysis.similarity import disagreements as disagreements
    from sightline.analysis.similarity import document_similarity as document_similarity
    from sightline.analysis.similarity import similarity_layout as similarity_layout
    from sightline.analysis.similarity import summarise_documents as summarise_documents
    from sightline.analysis.source import AttentionSource as AttentionSource
    from sightline.methods.effective import effective_attention as effective_attention
    from sightline.results.inside import Inside as Inside
    from sightline.results.inside import Relations as Relations

_NAMES = {
    "attribution_tables": "AttributionRow AttributionTable attributions_by_position attributions_by_type "
    "attributions_over_dataset token_ranks",
    "dataset_inspection": "DataSetInspection Pick Predictions TargetWords inspect_dataset predict",
    "filters": "TokenFilter stop_word_languages",
    "importance": "EffectiveHead cancelled_share effective_attention effective_head head_importance head_importance_of "
    "head_importance_per_example normalized_importance",
    "inspection": "Inspection InspectionSettings inspect_document",
    "internals": "Inside Relations inside",
    "layer_anisotropy": "LayerAnisotropy anisotropy_by_layer mean_anisotropy",
    "maps": "AttentionMaps MapAverage attention_graphs average_maps thumbnails tile window_maps",
    "received": "PositionTotals Sink Totals sinks totals",
    "relation_table": "RelationCounts TokenCounts",
    "relations": "LayerRelations layer_relations relation_counts",
    "similarity": "Disagreement Similarity SimilarityCell SimilarityTable attention_scores compare_scores "
    "disagreements document_similarity similarity_layout summarise_documents",
    "source": "AttentionSource",
}
"""The public names by module."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sightline.analysis.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sightline.analysis' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
