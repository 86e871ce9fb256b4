"""What config, family and tokenizer say about a task: labels, pooling, and the ids of pad, mask and unknown token."""

from __future__ import annotations

from typing import Any

from sightline.errors import ModelError, UnsupportedError
from sightline.models.answers import QuestionAnswering
from sightline.models.families import Family
from sightline.models.tasks import MaskedLanguageModel, Task, TaskFacts

ENDS = 2


def bind_task(head: type[Task], module: Any, family: Family, tokenizer: Any) -> Task:
    """Bind the task to what the config and tokenizer say about labels, pooling and the mask."""
    config = module.config
    outside = None
    if issubclass(head, MaskedLanguageModel):
        labels = _vocabulary(tokenizer, int(config.vocab_size))
    else:
        labels = _distinct([str(config.id2label[i]) for i in range(config.num_labels)])
        if len(labels) > 1 and config.problem_type == "regression" and head.name == "sequence_classification":
            raise UnsupportedError(
                f"This model predicts {len(labels)} numbers at once (problem_type 'regression'), which have no "
                "probabilities; Sightline explains classes, or one number."
            )
        if issubclass(head, QuestionAnswering) and len(labels) != ENDS:
            raise ModelError(
                f"The model has {len(labels)} outputs per token; one that answers questions has {ENDS}, the scores of "
                "the answer's start and end. Give the task that it was trained for (task=, --task)."
            )
        outside = next((i for i, label in enumerate(labels) if label.upper() == "O"), None)
    return head(
        TaskFacts(
            labels=labels,
            multi_label=config.problem_type == "multi_label_classification",
            mean_pooling=getattr(config, "classifier_pooling", "cls") == "mean",
            reads_last=family.causal,
            pad_id=config.pad_token_id,
            mask_id=special_token_ids(module, family, tokenizer).get("mask"),
            outside_label=outside,
        )
    )


def _distinct(labels: list[str]) -> tuple[str, ...]:
    """Return the labels, with the number of the class where several have the same name or one has none."""
    return tuple(
        f"LABEL_{i}" if not label.strip() else f"{label} ({i})" if labels.count(label) > 1 else label
        for i, label in enumerate(labels)
    )


def special_token_ids(module: Any, family: Family, tokenizer: Any) -> dict[str, int]:
    """Ids of pad, mask and unknown token, as far as tokenizer and config say them and the vocabulary holds them.

    Causal models are often made without a pad token; whoever pads then takes the one that ends a text, and so do we.
    """
    ids = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("pad", "mask", "unk")}
    if ids["pad"] is None:
        ids["pad"] = module.config.pad_token_id
    maybe_causal = family.causal or family.attention_layout == "unseen"
    if ids["pad"] is None and maybe_causal and isinstance(getattr(module.config, "eos_token_id", None), int):
        ids["pad"] = module.config.eos_token_id
    if tokenizer is None:
        ids = {name: dict(family.token_ids).get(name) if index is None else index for name, index in ids.items()}
    return {name: int(i) for name, i in ids.items() if i is not None and 0 <= i < module.config.vocab_size}


def _vocabulary(tokenizer: Any, size: int) -> tuple[str, ...]:
    if tokenizer is None:
        return tuple(str(i) for i in range(size))
    words = {index: word for word, index in tokenizer.get_vocab().items()}
    return tuple(
        tokenizer.convert_tokens_to_string([words[i]]).removeprefix("##").strip() if i in words else str(i)
        for i in range(size)
    )
