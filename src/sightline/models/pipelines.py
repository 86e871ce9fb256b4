"""Settings of a transformers pipeline that change what its model reads or answers.

A pipeline is its model, its tokenizer and settings: `pipeline(..., truncation=True, max_length=128)` reads less of a
long text than the model could. Settings that Sightline can follow are returned; one warning names those that it cannot.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from transformers import Pipeline

_SETTINGS = ("_preprocess_params", "_forward_params", "_postprocess_params")
"""What `_sanitize_parameters`, which every pipeline defines, returned for the settings given to it."""
_WITHOUT_EFFECT = frozenset({"top_k", "_legacy", "padding", "return_tensors", "return_token_type_ids"})
"""How many classes are listed, and in which form the tokenizer returns the same tokens."""
_CUT = (True, "longest_first")
_UNCUT = (False, "do_not_truncate")


class PipelineSettings(NamedTuple):
    """What a pipeline says about the length of texts."""

    limit: int | None = None
    """The most tokens of a text."""
    truncates: bool = False
    """Whether the end of a longer text is cut off."""


def read_settings(pipeline: Pipeline) -> PipelineSettings:
    """Return the settings that Sightline follows, and warn about the others."""
    settings = _changed_settings(pipeline)
    truncation = settings.get("truncation")
    limit = settings.get("max_length")
    followed = set(_WITHOUT_EFFECT)
    if pipeline.model.can_generate():
        truncates, limit = False, None  # max_length is that of what the model writes
    else:
        # Tokenizers also cut a text off if only max_length is given.
        truncates = truncation in _CUT or (truncation is None and limit is not None)
        followed |= {"truncation"} if truncation in (*_CUT, *_UNCUT) else set()
        followed |= (
            {"max_length"} if isinstance(limit, int) and limit > 0 and (truncates or truncation in _UNCUT) else set()
        )
    unknown = [f"{name}={_shorten(value)}" for name, value in settings.items() if name not in followed]
    if not type(pipeline).preprocess.__module__.startswith("transformers."):
        unknown.append(f"{type(pipeline).__name__}.preprocess")
    if unknown:
        warnings.warn(
            f"Sightline does not follow these settings of the pipeline: {', '.join(unknown)}. What it explains may "
            "differ from what the pipeline predicts.",
            stacklevel=4,
        )
    return PipelineSettings(limit if truncates and "max_length" in followed else None, truncates)


def _changed_settings(pipeline: Pipeline) -> dict[str, Any]:
    """Return the settings that are not the defaults of this kind of pipeline."""
    defaults = pipeline._sanitize_parameters()
    changed: dict[str, Any] = {}
    for name, default in zip(_SETTINGS, defaults, strict=True):
        for key, value in getattr(pipeline, name, {}).items():
            if key not in default or default[key] != value:
                nested = key == "tokenizer_kwargs" and isinstance(value, Mapping)
                changed |= value if nested else {key: value}
    return changed


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
