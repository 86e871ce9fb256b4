"""What training starts from: a checkpoint with a fitting or a new head, or a new model with its own vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import transformers

from sightline.attention.projections import Projection
from sightline.errors import ModelError, OptionError, UnsupportedError
from sightline.lab.training_data import TrainingData
from sightline.models import Network, load_network
from sightline.models.families import family_of
from sightline.models.model_types import BidirectionalGPT2Config, BidirectionalGPT2ForSequenceClassification, check_head
from sightline.models.module_building import find_folder
from sightline.models.sentence_models import read_sentence_folder
from sightline.models.single_attention import (
    BilstmAttentionConfig,
    BilstmAttentionForSequenceClassification,
    TransformerAttentionConfig,
    TransformerAttentionForSequenceClassification,
)
from sightline.models.weights import find_checkpoint
from sightline.settings.training import StartingSettings
from sightline.settings.values import refuse_unused
from sightline.text.new_tokenizers import learn_subword_tokenizer, learn_word_tokenizer

VOCABULARY = 20_000
"""Default size of the vocabulary of a new model, in words or subwords."""


@dataclass(frozen=True)
class NewModel:
    """A model that is trained from scratch."""

    config_class: Any
    model_class: Any
    dropouts: tuple[str, ...]
    """Config settings that are dropout probabilities."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Training settings of new models where they differ from those for a checkpoint, which needs less training."""


NEW_MODELS: dict[str, NewModel] = {
    "new-bilstm": NewModel(
        BilstmAttentionConfig,
        BilstmAttentionForSequenceClassification,
        ("dropout",),
        {"learning_rate": 1e-3, "epochs": 10.0, "batch": 32},
    ),
    "new-transformer": NewModel(
        TransformerAttentionConfig,
        TransformerAttentionForSequenceClassification,
        ("dropout",),
        {"learning_rate": 1e-3, "epochs": 10.0, "batch": 32},
    ),
    "new-encoder": NewModel(
        BidirectionalGPT2Config,
        BidirectionalGPT2ForSequenceClassification,
        ("embd_pdrop", "attn_pdrop", "resid_pdrop"),
        {"learning_rate": 5e-4, "epochs": 20.0, "batch": 32, "patience": 5},
    ),
}
"""Models trained from scratch: the two with a single attention, and six GPT-2 blocks without causal mask."""


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """A model that is ready to be trained, and its tokenizer."""

    module: Any
    tokenizer: Any
    new_head: bool = False
    """Whether a checkpoint's body got a head with new weights."""


def default_settings(model: str | Path | Any) -> Mapping[str, Any]:
    """Return the training settings of a starting point that differ from those of a checkpoint."""
    return NEW_MODELS[model].settings if isinstance(model, str) and model in NEW_MODELS else {}


def starting_point(
    model: str | Path | Any, data: TrainingData, new: StartingSettings, sizes: Mapping[str, Any]
) -> StartingPoint:
    """Return a model that can be trained on `data`, with its tokenizer; `new` and `sizes` are for new models."""
    if isinstance(model, str) and model in NEW_MODELS:
        if data.task != "sequence_classification":
            raise OptionError(
                f"'{model}' classifies documents. Give a checkpoint (model=, --model) to train for the task "
                f"'{data.task}'."
            )
        return StartingPoint(*_new_model(model, data, new, sizes))
    if isinstance(model, str) and model.startswith("new"):
        raise OptionError(f"Unknown new model '{model}'. Use one of: {', '.join(NEW_MODELS)}.")
    if new.projection is not None:
        Projection.named(new.projection)
        raise OptionError("projection= is for new models; give a checkpoint sparse attention with convert() first.")
    of_new_models = {"dropout": new.dropout, "units": new.units, "vocabulary": new.vocabulary}
    refuse_unused(of_new_models, "is for new models; a checkpoint has its own dropout and tokenizer.")
    if sizes:
        raise OptionError(f"Sizes are for new models, and a checkpoint has its own ({', '.join(sizes)} was given).")
    # Training would change the weights and the pad token of the user's object.
    return _checkpoint(model if isinstance(model, str | Path) else copy.deepcopy(model), data)


def _new_model(name: str, data: TrainingData, new: StartingSettings, sizes: Mapping[str, Any]) -> tuple[Any, Any]:
    kind = NEW_MODELS[name]
    config_class, model_class = kind.config_class, kind.model_class
    if new.dropout is not None:
        sizes = {**dict.fromkeys(kind.dropouts, new.dropout), **sizes}
    texts = [text for row in data.train for text in (str(row.text), row.pair) if text]
    learn = learn_subword_tokenizer if new.units == "subwords" else learn_word_tokenizer
    tokenizer = learn(texts, size=new.vocabulary or VOCABULARY)
    facts = {**sizes, **_label_facts(data.labels), "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if name == "new-encoder":
        if new.projection is not None:
            raise OptionError("projection= is for models with a single attention (new-bilstm, new-transformer).")
    else:
        facts["unattended_ids"] = [tokenizer.cls_token_id, tokenizer.sep_token_id]
        facts["projection"] = new.projection or "softmax"
    known = {name for kind in config_class.__mro__ for name in getattr(kind, "__annotations__", {})}
    unknown = next((name for name in sizes if name not in known), None)
    if unknown is not None:
        raise OptionError(f"A '{config_class.model_type}' model has no size '{unknown}'.")
    module = model_class(config_class(**facts))
    tokenizer.model_max_length = int(module.config.max_position_embeddings)
    return module, tokenizer


def _checkpoint(source: str | Path | Any, data: TrainingData) -> StartingPoint:
    """Load a checkpoint; a classifier keeps its head if the labels are the same, and gets a new one otherwise."""
    labels, task = data.labels, data.task
    if task == "question_answering":
        return _question_answerer(source)
    try:
        network, tokenizer = load_network(source, task=task, transformer_only=True)
    except ModelError:
        network, tokenizer = _load_encoder(source, task)
    module = _trainable(network, tokenizer)
    if task == "masked_lm":
        if tokenizer.mask_token is None:
            raise OptionError("The tokenizer has no mask token, so no masked language model can be trained with it.")
        if network.untrained:
            _check_tied(source, module)
        return StartingPoint(module, tokenizer, new_head=network.untrained)
    current = tuple(str(module.config.id2label[number]) for number in range(module.config.num_labels))
    if current == tuple(labels) and not network.untrained:
        return StartingPoint(module, tokenizer)
    config = _copy_config(module)
    for name, value in _label_facts(labels).items():
        setattr(config, name, value)
    # Labels that are numbers are the model's class numbers, whatever their names; other labels need a new head.
    same = len(current) == len(labels) and tuple(labels) == tuple(map(str, range(len(labels))))
    fresh = _with_weights(type(module)(config), module, with_head=same)
    return StartingPoint(fresh, tokenizer, new_head=network.untrained or not same)


def _question_answerer(source: Any) -> StartingPoint:
    """Return a model that answers questions: the one in the folder, or its encoder under a new head."""
    try:
        network, tokenizer = load_network(source, task="question_answering", transformer_only=True)
        return StartingPoint(_trainable(network, tokenizer), tokenizer)
    except ModelError:
        # A token head may have any number of outputs; an answer head has two.
        network, tokenizer = _load_encoder(source, "token_classification")
    module = _trainable(network, tokenizer)
    check_head(module.config.model_type, "question_answering")
    config = _copy_config(module)
    config.num_labels, config.problem_type = 2, None
    kind: Any = transformers.MODEL_FOR_QUESTION_ANSWERING_MAPPING
    fresh = _with_weights(kind[type(config)](config), module, with_head=False)
    return StartingPoint(fresh, tokenizer, new_head=True)


def _check_tied(source: Any, module: Any) -> None:
    """Raise ModelError if a new head for words does not share the body's word embeddings.

    An untied head would have to learn a vector for every word of the vocabulary from the training texts.
    """
    output, words = module.get_output_embeddings(), module.get_input_embeddings()
    if output is None or output.weight is not words.weight:
        raise ModelError(
            f"'{source}' has no head for masked_lm, and a new one would know no word, because its output embeddings "
            "are not tied to the word embeddings (tie_word_embeddings). Start from a masked language model."
        )


def _copy_config(module: Any) -> Any:
    """Return a copy of the config from which a new model can be made."""
    config = copy.deepcopy(module.config)
    if family_of(config.model_type).attention_layout == "blocks":
        config._attn_implementation = "eager"  # the library checks the name before ours is registered
    return config


def _load_encoder(source: Any, task: str) -> tuple[Network, Any]:
    """Load an encoder whose head may be missing; raise an error if anything else is missing."""
    network, tokenizer = load_network(source, task=task, allow_random=True, transformer_only=True)
    if network.untrained:
        _check_encoder(source, network.module)
    return network, tokenizer


def _trainable(network: Network, tokenizer: Any) -> Any:
    if tokenizer is None:
        raise ModelError("The model folder has no tokenizer, so texts cannot be read. Add tokenizer.json.")
    if tokenizer.pad_token_id is None:
        # Causal models often have no pad token; it is common to pad with the end-of-text token.
        if "pad" not in network.token_ids:
            raise ModelError(
                "The tokenizer has neither a pad token nor one that ends a text, so texts cannot be padded."
            )
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(network.token_ids["pad"])
    if network.config.pad_token_id is None:
        network.config.pad_token_id = tokenizer.pad_token_id
    return network.module.requires_grad_(True)


def _with_weights(fresh: Any, module: Any, *, with_head: bool) -> Any:
    """Return a new model with the matching weights of another; those of the head only if `with_head`."""
    fresh = fresh.to(module.dtype)
    shapes = {name: value.shape for name, value in fresh.state_dict().items()}
    body = f"{module.base_model_prefix}."
    fitting = {
        name: value
        for name, value in module.state_dict().items()
        if shapes.get(name) == value.shape and (with_head or name.startswith(body))
    }
    fresh.load_state_dict(fitting, strict=False)
    return fresh


def _check_encoder(source: Any, module: Any) -> None:
    """Raise an error if weights of the encoder itself are missing."""
    folder, _ = find_folder(source, allow_pickle=False)
    sentence = read_sentence_folder(folder)
    checkpoint = find_checkpoint(folder if sentence is None else sentence.body, allow_pickle=False)
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
