"""Types of models: architectures of our own, and which types are explained, by their head and by what they read.

Architectures of our own are made known to transformers' Auto classes, so that their folders load like any other. Here:
an encoder classifier of GPT-2 blocks without the causal mask, the verb-number model of Abnar & Zuidema 2020. Pre-LN
blocks as in GPT-2, every token sees every other one, and a linear decoder reads the first token ([CLS]). transformers
builds its mask from `config.is_causal`, so the blocks themselves run unmodified.

Loading, the table of heads in the documentation and its test use the same rule for heads. Models that read
something besides text or instead of it (pictures, sound, places on a page) are refused by name. A family with an
entry in `families` reads text alone. For every other type the library's class decides: by the name of its main input,
and by the arguments of its forward pass.
"""

from __future__ import annotations

import inspect
from typing import Any

import transformers
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, GPT2Config, GPT2Model, GPT2PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from sightline.errors import UnsupportedError
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


MAPPINGS = {
    "sequence_classification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "token_classification": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING",
    "masked_lm": "MODEL_FOR_MASKED_LM_MAPPING",
    "causal_lm": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "question_answering": "MODEL_FOR_QUESTION_ANSWERING_MAPPING",
}
"""Task -> transformers' table of the models with that head."""


def check_head(model_type: str, task: str) -> None:
    """Raise UnsupportedError if the library has no model of a type with the head of a task."""
    config = transformers.CONFIG_MAPPING[model_type]
    heads = [name for name, mapping in MAPPINGS.items() if config in getattr(transformers, mapping)]
    if task not in heads:
        others = f"; choose another task (task=, --task): {', '.join(heads)}" if heads else ""
        raise UnsupportedError(f"'{model_type}' models have no head for {task}{others}.")


INSTEAD = {
    "pixel_values": "pictures",
    "pixel_values_videos": "films",
    "input_values": "sound",
    "input_features": "sound",
    "past_values": "series of numbers",
}
"""Main input of a model that reads no text -> what it reads."""
BESIDES = {
    "bbox": "the place of every word on its page",
    "xpath_tags_seq": "the place of every word in a web page",
    "input_shape_ids": "the shape and sound of every character",
    "pixel_values": "pictures",
    "visual_feats": "pictures",
    "visual_embeds": "pictures",
}
"""Second input of a model, which would be left empty -> what it holds."""


def check_inputs_of_type(model_type: str) -> None:
    """Raise UnsupportedError if models of a type of the library read something other than text."""
    config = transformers.CONFIG_MAPPING[model_type]
    if config in transformers.MODEL_MAPPING:
        body = transformers.MODEL_MAPPING[config]
        check_inputs(body[0] if isinstance(body, tuple) else body, model_type)


def check_inputs(model_class: Any, model_type: str) -> None:
    """Raise UnsupportedError if models of a class read something other than text."""
    instead = INSTEAD.get(getattr(model_class, "main_input_name", "input_ids"))
    if instead is not None:
        raise UnsupportedError(
            f"Models of type '{model_type}' read {instead}, and Sightline explains models that read text: it scores "
            "words, removes them and shows them on a page."
        )
    accepted = inspect.signature(model_class.forward).parameters
    besides = next((name for name in BESIDES if name in accepted), None)
    if besides is not None:
        raise UnsupportedError(
            f"Models of type '{model_type}' read {BESIDES[besides]} besides the text ({besides}), and Sightline gives "
            "a model nothing but text: it would explain a prediction that the model does not make on your documents."
        )


_LIBRARIES = ("torch.", "transformers.", "sightline.", "peft.")


def has_library_head(model: Any) -> bool:
    """Whether a model and all modules of its head come from libraries, so that the rows the head reads are known."""
    body = getattr(model, "base_model", None)
    head = [part for child in model.children() if child is not body for part in child.modules()]
    return all(type(part).__module__.startswith(_LIBRARIES) for part in (model, *head))
