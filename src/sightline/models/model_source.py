"""Where a model comes from: a folder of this machine, a snapshot of a model on the hub, or a pipeline.

The network is asked only for owner/name and hf://name, so that a mistyped folder is answered at once; a name alone is
looked up in the library's cache on this machine.

A transformers pipeline is its model, its tokenizer and settings: `pipeline(..., truncation=True, max_length=128)` reads
less of a long text than the model could. Settings that Sightline can follow are returned; one warning names those that
it cannot.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from transformers import Pipeline

from sightline.errors import ModelError, NoModelError, OptionError, SightlineError, UsageError
from sightline.files.hub import MODEL_FILES, PICKLED_FILES, fetch_snapshot
from sightline.registry import suggestion

HUB = "hf://"
"""Says that what follows is the name of a model on the hub, whatever folders there are."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.\-]*(/[\w.\-]+)?")


def find_folder(source: str | Path, allow_pickle: bool) -> tuple[Path, str]:
    """Return the folder with the files of a model, and the model's name."""
    if not isinstance(source, str | Path):
        raise OptionError(
            "A model is a folder, a name on the hub, or a model or pipeline object of transformers, not "
            f"{type(source).__name__}."
        )
    files = (*MODEL_FILES, *PICKLED_FILES) if allow_pickle else MODEL_FILES
    if isinstance(source, str) and source.startswith(HUB):
        name = source.removeprefix(HUB)
        if not HUB_ID.fullmatch(name):
            raise UsageError(f"'{source}' does not name a model on the hub; write hf://owner/name.")
        return fetch_snapshot(name, local_only=False, files=files), name
    try:
        path = Path(source).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError, ValueError):  # a name too long, an unknown user's home, a NUL byte
        raise UsageError(f"There is no model folder '{str(source)[:200]}'.") from None
    if is_folder:
        return path, path.name or path.resolve().name
    if is_file:
        original = " of the original model" if path.suffix == ".gguf" else ""
        raise NoModelError(f"'{source}' is a file; give the folder{original} that holds config.json and the weights.")
    # If the first half of owner/name is a folder here, the second half is a mistake in a path.
    if isinstance(source, Path) or not HUB_ID.fullmatch(source) or ("/" in source and path.parent.is_dir()):
        raise UsageError(f"There is no model folder '{source}'.{_similar(path)}")
    try:
        return fetch_snapshot(source, local_only="/" not in source, files=files), source
    except ModelError as error:
        raise _not_fetched(source, error) from error


def _similar(path: Path) -> str:
    """Return a question about a model folder beside `path` that is called almost the same, if there is one."""
    return suggestion(path.name, [config.parent.name for config in path.parent.glob("*/config.json")])


def _not_fetched(source: str, error: ModelError) -> SightlineError:
    """Return what to say about a name that is neither a folder nor a model that could be fetched."""
    if "/" not in source:
        return UsageError(
            f"There is no model folder '{source}'.{_similar(Path(source))} To fetch a model of that name from the hub, "
            f"write hf://{source}."
        )
    reason = str(error).partition(": ")[2]
    return ModelError(
        f"There is no model folder '{source}', and no model of that name could be fetched from the hub: {reason}"
    )


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
