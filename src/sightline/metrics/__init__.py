"""Numbers about explanations: faithfulness, confidence, agreement, plausibility, dispersion; and what chance would be.

Every metric is a function on plain arrays, registered by name (`list_metrics`), which needs numpy and scipy only. What
runs the model to fill these arrays (`measure_faithfulness` and what it is made of) is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sightline.metrics.agreement import (
    average_overlap,
    confidence,
    confidence_published,
    cosine,
    jaccard,
    kendall,
    masked_pair,
    minmax_magnitude,
    rbo,
    spearman,
)
from sightline.metrics.chance import chance_level
from sightline.metrics.dispersion import anisotropy, normalised_entropy, normalised_rank, special_rank, special_share
from sightline.metrics.faithfulness import (
    aopc,
    area,
    comprehensiveness,
    deletion,
    insertion,
    log_odds,
    normalized_aopc,
    sufficiency,
)
from sightline.metrics.plans import Plan, Quantity
from sightline.metrics.plausibility import auprc, count_at_k, iou_f1, precision_at_k, recall_at_k, token_f1
from sightline.metrics.registry import METRICS, Chance, MetricEntry, list_metrics, metric
from sightline.metrics.score_inputs import SightlineWarning, mask_of, spans_of, tokens_in_characters, top_tokens
from sightline.metrics.statistics import Interval, bootstrap_interval

if TYPE_CHECKING:
    from sightline.metrics.measurement import Faithfulness, measure_faithfulness, measure_scores

entropy = normalised_entropy
"""The name under which the metric is registered."""

__all__ = [
    "METRICS",
    "Chance",
    "Faithfulness",
    "Interval",
    "MetricEntry",
    "Plan",
    "Quantity",
    "SightlineWarning",
    "anisotropy",
    "aopc",
    "area",
    "auprc",
    "average_overlap",
    "bootstrap_interval",
    "chance_level",
    "comprehensiveness",
    "confidence",
    "confidence_published",
    "cosine",
    "count_at_k",
    "deletion",
    "entropy",
    "insertion",
    "iou_f1",
    "jaccard",
    "kendall",
    "list_metrics",
    "log_odds",
    "mask_of",
    "masked_pair",
    "measure_faithfulness",
    "measure_scores",
    "metric",
    "minmax_magnitude",
    "normalised_entropy",
    "normalised_rank",
    "normalized_aopc",
    "precision_at_k",
    "rbo",
    "recall_at_k",
    "spans_of",
    "spearman",
    "special_rank",
    "special_share",
    "sufficiency",
    "token_f1",
    "tokens_in_characters",
    "top_tokens",
]

_ON_THE_MODEL = ("Faithfulness", "measure_faithfulness", "measure_scores")


def __getattr__(name: str) -> Any:
    if name in _ON_THE_MODEL:
        return getattr(import_module("sightline.metrics.measurement"), name)
    raise AttributeError(f"module 'sightline.metrics' has no attribute '{name}'")
