"""Architectures of our own, made known to transformers' Auto classes, so that their folders load like any other."""

from __future__ import annotations

from transformers import AutoConfig, AutoModelForSequenceClassification

from sightline.models.bidirectional_gpt2 import BidirectionalGPT2Config, BidirectionalGPT2ForSequenceClassification
from sightline.models.single_attention import (
    BilstmAttentionConfig,
    BilstmAttentionForSequenceClassification,
    TransformerAttentionConfig,
    TransformerAttentionForSequenceClassification,
)

_CLASSIFIERS = (
    (BidirectionalGPT2Config, BidirectionalGPT2ForSequenceClassification),
    (BilstmAttentionConfig, BilstmAttentionForSequenceClassification),
    (TransformerAttentionConfig, TransformerAttentionForSequenceClassification),
)


def register_architectures() -> None:
    """Register config and classifier of each architecture (idempotent)."""
    for config, classifier in _CLASSIFIERS:
        AutoConfig.register(config.model_type, config, exist_ok=True)
        AutoModelForSequenceClassification.register(config, classifier, exist_ok=True)
