"""Numbers about explanations: agreement, plausibility, dispersion, confidence, retrieval, and what chance would give.

Every metric is a function on plain arrays, registered by name (`list_metrics`); the package needs numpy and
scipy only.
"""

from sightline.metrics.agreement import (
    average_overlap,
    cosine,
    jaccard,
    kendall,
    masked_pair,
    minmax_magnitude,
    rbo,
    spearman,
)
from sightline.metrics.chance import Interval, bootstrap_interval, chance_level
from sightline.metrics.confidence import confidence
from sightline.metrics.dispersion import anisotropy, normalised_entropy, normalised_rank, special_rank, special_share
from sightline.metrics.inputs import SightlineWarning
from sightline.metrics.plausibility import auprc, iou_f1, token_f1
from sightline.metrics.registry import METRICS, MetricEntry, list_metrics, metric
from sightline.metrics.retrieval import count_at_k, precision_at_k, recall_at_k
from sightline.metrics.token_sets import mask_of, spans_of, tokens_in_characters, top_tokens

__all__ = [
    "METRICS",
    "Interval",
    "MetricEntry",
    "SightlineWarning",
    "anisotropy",
    "auprc",
    "average_overlap",
    "bootstrap_interval",
    "chance_level",
    "confidence",
    "cosine",
    "count_at_k",
    "iou_f1",
    "jaccard",
    "kendall",
    "list_metrics",
    "mask_of",
    "masked_pair",
    "metric",
    "minmax_magnitude",
    "normalised_entropy",
    "normalised_rank",
    "precision_at_k",
    "rbo",
    "recall_at_k",
    "spans_of",
    "spearman",
    "special_rank",
    "special_share",
    "token_f1",
    "tokens_in_characters",
    "top_tokens",
]
