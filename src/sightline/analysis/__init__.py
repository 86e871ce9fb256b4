"""Inside a document: heads, maps, relations, totals, and attention against attribution.

Every function takes an `AttentionSource` (usually a Trace), an Explanation or plain arrays, and returns a small frozen
result with `.to_frame()`. Nothing here makes an n×n array: attention is read one layer at a time, on its band. Names
are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# ruff: noqa: F403 (type checkers see the names of all modules; `_NAMES` says which are public)

if TYPE_CHECKING:
    from sightline.analysis.attribution_tables import *
    from sightline.analysis.dataset_inspection import *
    from sightline.analysis.filters import *
    from sightline.analysis.importance import *
    from sightline.analysis.inspection import *
    from sightline.analysis.internals import *
    from sightline.analysis.layer_anisotropy import *
    from sightline.analysis.maps import *
    from sightline.analysis.received import *
    from sightline.analysis.relation_table import *
    from sightline.analysis.relations import *
    from sightline.analysis.similarity import *
    from sightline.analysis.source import *

_NAMES = {
    "attribution_tables": "AttributionRow AttributionTable attributions_by_position attributions_by_type "
    "attributions_over_dataset token_ranks",
    "dataset_inspection": "DataSetInspection Predictions TargetWords inspect_dataset predict",
    "filters": "TokenFilter stop_word_languages",
    "importance": "EffectiveHead cancelled_share effective_attention effective_head head_importance head_importance_of "
    "head_importance_per_example normalized_importance",
    "inspection": "Inspection InspectionSettings inspect_document",
    "internals": "Inside Relations inside",
    "layer_anisotropy": "LayerAnisotropy anisotropy_by_layer mean_anisotropy",
    "maps": "AttentionMaps MapAverage attention_graphs average_maps thumbnails window_maps",
    "received": "PositionTotals Sink Totals sinks totals",
    "relation_table": "RelationCounts TokenCounts",
    "relations": "relation_counts",
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
