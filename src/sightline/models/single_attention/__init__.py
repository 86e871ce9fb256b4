"""Classifiers with a single attention: an encoder, one row of weights over its outputs, a linear decoder."""

from sightline.models.single_attention.config import (
    BilstmAttentionConfig,
    SingleAttentionConfig,
    TransformerAttentionConfig,
)
from sightline.models.single_attention.modeling import (
    BilstmAttentionForSequenceClassification,
    SingleAttentionForSequenceClassification,
    TransformerAttentionForSequenceClassification,
)

__all__ = [
    "BilstmAttentionConfig",
    "BilstmAttentionForSequenceClassification",
    "SingleAttentionConfig",
    "SingleAttentionForSequenceClassification",
    "TransformerAttentionConfig",
    "TransformerAttentionForSequenceClassification",
]
