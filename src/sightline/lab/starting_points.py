"""What training starts from: a checkpoint with a fitting or a new head, or a new model with its own vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightline.attention.projections import Projection
from sightline.errors import ModelError, OptionError, UnsupportedError
from sightline.lab.training_data import TrainingData
from sightline.models import load_network
from sightline.models.bidirectional_gpt2 import BidirectionalGPT2Config, BidirectionalGPT2ForSequenceClassification
from sightline.models.single_attention import (
    BilstmAttentionConfig,
    BilstmAttentionForSequenceClassification,
    TransformerAttentionConfig,
    TransformerAttentionForSequenceClassification,
)
from sightline.text.word_level import learn_word_tokenizer

NEW_MODELS: dict[str, tuple[Any, Any]] = {
    "new-bilstm": (BilstmAttentionConfig, BilstmAttentionForSequenceClassification),
    "new-transformer": (TransformerAttentionConfig, TransformerAttentionForSequenceClassification),
    "new-encoder": (BidirectionalGPT2Config, BidirectionalGPT2ForSequenceClassification),
}
"""Models trained from scratch: the two with a single attention, and six GPT-2 blocks without causal mask."""


def starting_point(
    model: str | Path | Any, data: TrainingData, *, projection: str | None, sizes: dict[str, Any], vocabulary: int
) -> tuple[Any, Any]:
    """Return module and tokenizer, ready to be trained on the classes of `data`."""
    if isinstance(model, str) and model in NEW_MODELS:
        if data.task != "sequence_classification":
            raise OptionError(f"'{model}' classifies documents. Give a checkpoint to train for the task '{data.task}'.")
        return _new_model(model, data, projection, sizes, vocabulary)
    if isinstance(model, str) and model.startswith("new"):
        raise OptionError(f"Unknown new model '{model}'. Use one of: {', '.join(NEW_MODELS)}.")
    if projection is not None:
        Projection.named(projection)
        raise OptionError("projection= is for new models; give a checkpoint sparse attention with convert() first.")
    if sizes:
        raise OptionError(f"Sizes are for new models, and a checkpoint has its own ({', '.join(sizes)} was given).")
    return _checkpoint(model, data)


def _new_model(
    name: str, data: TrainingData, projection: str | None, sizes: dict[str, Any], vocabulary: int
) -> tuple[Any, Any]:
    config_class, model_class = NEW_MODELS[name]
    texts = [text for row in data.train for text in (str(row.text), row.pair) if text]
    tokenizer = learn_word_tokenizer(texts, size=vocabulary)
    facts = {**sizes, **_label_facts(data.labels), "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if name == "new-encoder":
        if projection is not None:
            raise OptionError("projection= is for models with a single attention (new-bilstm, new-transformer).")
    else:
        facts["unattended_ids"] = [tokenizer.cls_token_id, tokenizer.sep_token_id]
        facts["projection"] = projection or "softmax"
    known = {name for kind in config_class.__mro__ for name in getattr(kind, "__annotations__", {})}
    unknown = next((name for name in sizes if name not in known), None)
    if unknown is not None:
        raise OptionError(f"A '{config_class.model_type}' model has no size '{unknown}'.")
    module = model_class(config_class(**facts))
    tokenizer.model_max_length = int(module.config.max_position_embeddings)
    return module, tokenizer


def _checkpoint(source: str | Path | Any, data: TrainingData) -> tuple[Any, Any]:
    """Load a checkpoint; a classifier's head stays if it has the same labels, and is made new otherwise.

    A masked language model needs its head: one made new would know no word.
    """
    labels, task = data.labels, data.task
    try:
        network, tokenizer = load_network(source, task=task)
    except ModelError:
        if task == "masked_lm":
            raise
        # A pre-trained encoder has no classifier yet; anything else that is missing is refused below.
        network, tokenizer = load_network(source, task=task, allow_random=True)
        if network.untrained:
            _check_encoder(source, network.module)
    if tokenizer is None:
        raise ModelError("The model folder has no tokenizer, so texts cannot be read. Add tokenizer.json.")
    module = network.module.requires_grad_(True)
    if task == "masked_lm":
        return module, tokenizer
    current = tuple(str(module.config.id2label[number]) for number in range(module.config.num_labels))
    if current == tuple(labels) and not network.untrained:
        return module, tokenizer
    config = copy.deepcopy(module.config)
    for name, value in _label_facts(labels).items():
        setattr(config, name, value)
    fresh = type(module)(config).to(module.dtype)
    weights, shapes = module.state_dict(), {name: value.shape for name, value in fresh.state_dict().items()}
    kept = {name: value for name, value in weights.items() if shapes.get(name) == value.shape}
    fresh.load_state_dict(kept, strict=False)
    return fresh, tokenizer


def _check_encoder(source: Any, module: Any) -> None:
    """Refuse a folder in which weights of the encoder itself are missing."""
    from sightline.models.weights import find_checkpoint

    checkpoint = find_checkpoint(Path(source), allow_pickle=False) if Path(str(source)).is_dir() else None
    if checkpoint is None:
        raise UnsupportedError(f"'{source}' has no weights to start from. Give a folder with model.safetensors.")
    stored = {name.removeprefix(f"{module.base_model_prefix}.") for name in checkpoint.shapes}
    wanted = [name for name, _ in module.base_model.named_parameters() if not name.startswith("pooler.")]
    missing = [name for name in wanted if name not in stored]
    if missing:
        raise ModelError(f"The weights of '{source}' lack {len(missing)} of the encoder (for example {missing[0]}).")


def _label_facts(labels: Sequence[str]) -> dict[str, Any]:
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": "single_label_classification",
    }
