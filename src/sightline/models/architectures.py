"""Architectures of our own, made known to transformers' Auto classes, so that their folders load like any other.

Here: an encoder classifier of GPT-2 blocks without the causal mask, the verb-number model of Abnar & Zuidema 2020.
Pre-LN blocks as in GPT-2, every token sees every other one, and a linear decoder reads the first token ([CLS]).
transformers builds its mask from `config.is_causal`, so the blocks themselves run unmodified.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, GPT2Config, GPT2Model, GPT2PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from sightline.models.single_attention import (
    BilstmAttentionConfig,
    BilstmAttentionForSequenceClassification,
    TransformerAttentionConfig,
    TransformerAttentionForSequenceClassification,
)


class BidirectionalGPT2Config(GPT2Config):  # type: ignore[misc]
    """GPT-2's config with the mask switched off; 6 layers, 8 heads, 128 wide, as in the paper, by default."""

    model_type = "bidirectional-gpt2"
    n_embd: int = 128
    n_layer: int = 6
    n_head: int = 8
    n_positions: int = 512
    is_causal: bool = False
    use_cache: bool = False
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None


class BidirectionalGPT2ForSequenceClassification(GPT2PreTrainedModel):  # type: ignore[misc]
    """GPT-2 blocks without mask under a linear decoder of the first token."""

    config_class: Any = BidirectionalGPT2Config

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = GPT2Model(config)
        self.classifier = nn.Linear(config.n_embd, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Logits (B, C), and the loss where labels are given."""
        outputs = self.transformer(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            use_cache=False,
            **kwargs,
        )
        logits = self.classifier(outputs.last_hidden_state[:, 0])
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
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
