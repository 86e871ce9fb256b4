"""Numbers about explanations: faithfulness, confidence, agreement, plausibility, dispersion; and what chance would be.

Every metric is a function on plain arrays, registered by name (`list_metrics`), which needs numpy and scipy only. Names
are imported when first used; only `measure_faithfulness` and its parts also run the model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.metrics.agreement import average_overlap as average_overlap
    from sightline.metrics.agreement import confidence as confidence
    from sightline.metrics.agreement import confidence_published as confidence_published
    from sightline.metrics.agreement import cosine as cosine
    from sightline.metrics.agreement import jaccard as jaccard
    from sightline.metrics.agreement import kendall as kendall
    from sightline.metrics.agreement import masked_pair as masked_pair
    from sightline.metrics.agreement import minmax_magnitude as minmax_magnitude
    from sightline.metrics.agreement import rbo as rbo
    from sightline.metrics.agreement import spearman as spearman
    from sightline.metrics.chance import chance_level as chance_level
    from sightline.metrics.dispersion import anisotropy as anisotropy
    from sightline.metrics.dispersion import normalised_entropy as entropy  # noqa: F401
    from sightline.metrics.dispersion import normalised_entropy as normalised_entropy
    from sightline.metrics.dispersion import normalised_rank as normalised_rank
    from sightline.metrics.dispersion import special_rank as special_rank
    from sightline.metrics.dispersion import special_share as special_share
    from sightline.metrics.faithfulness import aopc as aopc
    from sightline.metrics.faithfulness import area as area
    from sightline.metrics.faithfulness import comprehensiveness as comprehensiveness
    from sightline.metrics.faithfulness import deletion as deletion
    from sightline.metrics.faithfulness import insertion as insertion
    from sightline.metrics.faithfulness import log_odds as log_odds
    from sightline.metrics.faithfulness import normalized_aopc as normalized_aopc
    from sightline.metrics.faithfulness import sufficiency as sufficiency
    from sightline.metrics.measurement import Faithfulness as Faithfulness
    from sightline.metrics.measurement import measure_faithfulness as measure_faithfulness
    from sightline.metrics.measurement import measure_scores as measure_scores
    from sightline.metrics.plans import Plan as Plan
    from sightline.metrics.plans import Quantity as Quantity
    from sightline.metrics.plausibility import auprc as auprc
    from sightline.metrics.plausibility import count_at_k as count_at_k
    from sightline.metrics.plausibility import iou_f1 as iou_f1
    from sightline.metrics.plausibility import precision_at_k as precision_at_k
    from sightline.metrics.plausibility import recall_at_k as recall_at_k
    from sightline.metrics.plausibility import token_f1 as token_f1
    from sightline.metrics.registry import METRICS as METRICS
    from sightline.metrics.registry import Chance as Chance
    from sightline.metrics.registry import MetricEntry as MetricEntry
    from sightline.metrics.registry import list_metrics as list_metrics
    from sightline.metrics.registry import metric as metric
    from sightline.metrics.score_inputs import SightlineWarning as SightlineWarning
    from sightline.metrics.score_inputs import mask_of as mask_of
    from sightline.metrics.score_inputs import spans_of as spans_of
    from sightline.metrics.score_inputs import tokens_in_characters as tokens_in_characters
    from sightline.metrics.score_inputs import top_tokens as top_tokens
    from sightline.metrics.statistics import Interval as Interval
    from sightline.metrics.statistics import bootstrap_interval as bootstrap_interval

_NAMES = {
    "agreement": "average_overlap confidence confidence_published cosine jaccard kendall masked_pair "
    "minmax_magnitude rbo spearman",
    "chance": "chance_level",
    "dispersion": "anisotropy normalised_entropy normalised_rank special_rank special_share",
    "faithfulness": "aopc area comprehensiveness deletion insertion log_odds normalized_aopc sufficiency",
    "measurement": "Faithfulness measure_faithfulness measure_scores",
    "plans": "Plan Quantity",
    "plausibility": "auprc count_at_k iou_f1 precision_at_k recall_at_k token_f1",
    "registry": "Chance METRICS MetricEntry list_metrics metric",
    "score_inputs": "SightlineWarning mask_of spans_of tokens_in_characters top_tokens",
    "statistics": "Interval bootstrap_interval",
}
"""The public names by module."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_HOMES, "entropy"])


def __getattr__(name: str) -> Any:
    if name == "entropy":  # the name under which the metric is registered
        name = "normalised_entropy"
    if name in _HOMES:
        return getattr(import_module(f"sightline.metrics.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sightline.metrics' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
