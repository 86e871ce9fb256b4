"""config.json of a model type that `families` has no entry for: read as data, by the fields of transformers' own class.

Of the listed families every setting is known by name (`config`). Of the hundred other types of the library only the
fields of the configuration class count, and their values may be numbers within bounds, true or false, short plain names
and lists or flat objects of these: nothing that could name a file, an address or code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from transformers import CONFIG_MAPPING

from sightline.errors import ModelError, UnsupportedError
from sightline.files.foreign import quote
from sightline.models.model_inputs import check_inputs_of_type

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
