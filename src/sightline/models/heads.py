"""Which heads of which families are explained: loading, the table in the documentation and its test use this."""

from __future__ import annotations

from typing import Any

import transformers

from sightline.errors import UnsupportedError
from sightline.models.architectures import register_architectures
from sightline.models.families import Family

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


def reason_against_head(family: Family, task: str) -> str | None:
    """Return why a head of a family is not explained: "no such head", or why it is refused; None if it is explained."""
    register_architectures()
    models: Any = getattr(transformers, MAPPINGS[task])
    if transformers.CONFIG_MAPPING[family.model_type] not in models:
        return "no such head"
    if task == "causal_lm" and not family.causal:
        return "refused: run as a decoder"
    if family.encoder_only and task != "token_classification":
        return "refused: has a decoder"
    return None
