"""config.json beyond our tables: model types that `families` has no entry for, and settings that no table lists.

Of the listed families every setting is known by name (`config`). The hundred other types of the library are read as
data by the fields of transformers' own class: only the fields of the configuration class count, and their values may be
numbers within bounds, true or false, short plain names and lists or flat objects of these: nothing that could name a
file, an address or code.

A setting of config.json that no table of ours lists is named in a warning, or refused if it changes the computation. A
setting that transformers' own configuration class has, and that we would drop, makes another model of the weights
unless it has the value that the class assumes anyway; it is refused. All others are unknown to transformers as well:
they belong to another program, or are mistakes, and a warning names them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from transformers import CONFIG_MAPPING, GenerationConfig

from sightline.errors import ModelError, UnsupportedError
from sightline.files.foreign import quote
from sightline.models.model_types import check_inputs_of_type

WITHOUT_EFFECT = frozenset(
    {
        # What transformers notes down about a model, or reads elsewhere.
        *("model_type", "torch_dtype", "name_or_path", "_name_or_path", "_commit_hash", "_num_labels"),
        *("finetuning_task", "task_specific_params", "tokenizer_class", "custom_pipelines", "prefix"),
        *("attn_implementation", "_attn_implementation", "_attn_implementation_autoset"),
        *("use_return_dict", "output_past", "torchscript", "use_bfloat16", "tf_legacy_loss", "gradient_checkpointing"),
        *("cross_attention_hidden_size", "tie_encoder_decoder", "auto_map", "quantization_config", "per_layer_config"),
        # Computed from other settings, and saved with them.
        *("dense_act_fn", "is_gated_act", "scale_decoder_outputs"),
        # What well-known models carry along, and no release of transformers reads any more.
        *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
        *("pooler_size_per_head", "pooler_type", "n_ctx", "predict_special_tokens", "tie_weights_", "padding_idx"),
        *("attention_mode", "ignore_attention_mask", "down_scale_factor", "gap_size", "net_structure_type"),
        *("num_memory_blocks", "reference_compile", "repad_logits_with_grad", "is_llama_config"),
    }
)
"""Settings that are dropped without a word, besides those of generation."""
MOST_NAMES = 20
"""Names in one warning."""


def unlisted_settings(
    model_type: str, content: Mapping[str, Any], listed: Collection[str], place: str
) -> tuple[str, ...]:
    """Return the names of settings that are neither listed nor known to be without effect, in alphabetical order.

    Raises UnsupportedError for one that the configuration class of the type has, and that differs from its default.
    """
    of_class = {field.name: field for field in fields(CONFIG_MAPPING[model_type])}
    unlisted = sorted(set(content) - set(listed) - WITHOUT_EFFECT - set(GenerationConfig().to_dict()))
    for name in unlisted:
        if name in of_class and content[name] != _field_default(of_class[name]):
            raise UnsupportedError(
                f"'{name}' in {place} is {quote(content[name])}, which changes what the model computes, and Sightline "
                f"does not know this setting of '{quote(model_type)}' models: update Sightline, or use a model without "
                "it."
            )
    # Nothing, or an empty list, asks for nothing.
    return tuple(name for name in unlisted if name not in of_class and content[name] not in (None, [], {}))


def describe_unlisted(names: Collection[str], place: str) -> str:
    """Return the sentence that names dropped settings."""
    shown = ", ".join(quote(name) for name in list(names)[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return (
        f"Sightline and transformers do not know these settings in {place}, and leave them out: {shown}{more}. If the "
        "model was trained by a program that follows them, its predictions may differ here."
    )


def _field_default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


MAX_NUMBER = 16_777_216
"""Largest whole number: rows of a table. What a model needs is compared with its weights as well."""
MAX_LAYERS = 512
"""Largest number of anything that is called a layer."""
MAX_ENTRIES = 512
"""Longest list or object."""
PLAIN_NAME = re.compile(r"[\w.|\- ]{1,64}")
OURS = frozenset(
    {
        *("output_hidden_states", "output_attentions", "return_dict", "dtype", "transformers_version", "use_cache"),
        *("chunk_size_feed_forward", "architectures", "id2label", "label2id", "num_labels", "is_encoder_decoder"),
    }
)
"""Settings that say how the library answers, or that are read elsewhere."""


def read_open_settings(model_type: str, content: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the settings of a config that the type's configuration class has; raise ModelError for any other value."""
    kind = CONFIG_MAPPING[model_type]
    if kind.sub_configs:
        raise UnsupportedError(
            f"Models of type '{model_type}' are made of several models ({', '.join(sorted(kind.sub_configs))}), which "
            "Sightline cannot explain."
        )
    check_inputs_of_type(model_type)
    refuse_encoder_decoder(model_type, content.get("is_encoder_decoder", _default(kind, "is_encoder_decoder")))
    names = {field.name for field in fields(kind)} - OURS
    settings = {name: value for name, value in content.items() if name in names}
    for name, value in settings.items():
        problem = _problem(name, value)
        if problem is not None:
            raise ModelError(f"'{name}' in {place} is {quote(value)}; it must be {problem}.")
    return settings


def refuse_encoder_decoder(model_type: str, is_encoder_decoder: Any) -> None:
    """Raise UnsupportedError if a model reads a text twice."""
    if is_encoder_decoder:
        raise UnsupportedError(
            f"Models of type '{model_type}' read a text twice, in an encoder and in a decoder, and transformers has no "
            "head on the encoder alone that Sightline could explain: use a model that reads the text once, for example "
            "RoBERTa, or Longformer for long texts."
        )


def _default(kind: Any, name: str) -> Any:
    return next((field.default for field in fields(kind) if field.name == name), None)


def _problem(name: str, value: Any) -> str | None:
    """Return what a setting must be, if it is something else."""
    if isinstance(value, list | dict):
        if len(value) > MAX_ENTRIES:
            return f"a list or an object of at most {MAX_ENTRIES} entries"
        parts = value if isinstance(value, list) else [*value.keys(), *value.values()]
        return next((problem for part in parts if (problem := _scalar_problem(name, part)) is not None), None)
    return _scalar_problem(name, value)


def _scalar_problem(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        largest = MAX_LAYERS if "layer" in name else MAX_NUMBER
        return None if -MAX_NUMBER <= value <= largest else f"a whole number of at most {largest:,}"
    if isinstance(value, float):
        return None if math.isfinite(value) else "a finite number"
    if isinstance(value, str):
        return None if PLAIN_NAME.fullmatch(value) else "a plain name"
    return "a number, a plain name, or a list of these"
