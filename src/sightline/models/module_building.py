"""From what a user names to a module: the folder is found, and its settings and tensors become a transformers model.

A source is a folder of this machine, a snapshot of a model on the hub, or a pipeline. The network is asked only for
owner/name and hf://name, so that a mistyped folder is answered at once; a name alone is looked up in the library's
cache on this machine. A transformers pipeline is its model, its tokenizer and settings: `pipeline(..., truncation=True,
max_length=128)` reads less of a long text than the model could. Settings that Sightline can follow are returned; one
warning names those that it cannot.

config.json is read as data (`config`), the headers of the weight files are read (`weights`), the model is laid out
without memory and compared with them, and only then is it built. transformers never sees the folder, so that nothing in
it can name code, kernels, adapters or other files. safetensors only unless pickle is allowed; every weight must be
there and fit.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, Pipeline
from transformers import logging as library_logging

from sightline.errors import ModelError, NoModelError, OptionError, SightlineError, UsageError
from sightline.files.foreign import first_line, printable
from sightline.files.hub import MODEL_FILES, PICKLED_FILES, fetch_snapshot
from sightline.models.config import ConfigFacts, describe_unlisted, read_config
from sightline.models.families import family_of
from sightline.models.observe import OBSERVING
from sightline.models.weights import Checkpoint, check_size, describe_other_weights, find_checkpoint, read_weights
from sightline.registry import suggestion

HUB = "hf://"
"""Prefix of the name of a model on the hub, which is then never taken for a folder."""
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
"""Attributes with the settings of a pipeline, as its `_sanitize_parameters` returned them."""
_WITHOUT_EFFECT = frozenset({"top_k", "_legacy", "padding", "return_tensors", "return_token_type_ids"})
"""Settings that change how many classes are listed, or the form of the tokenizer's output."""
_CUT = (True, "longest_first")
_UNCUT = (False, "do_not_truncate")


class PipelineSettings(NamedTuple):
    """The settings of a pipeline for the length of texts."""

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


BODIES = ("AutoModel", "AutoModelForTextEncoding")
"""Classes of models without a head."""
HARMLESS_LEFTOVERS = re.compile(
    r"position_ids$"  # a constant that older releases stored
    r"|\.attn\.(masked_)?bias$"  # the causal mask, which older releases stored in every layer of GPT-2
    r"|(^|\.)pooler\."  # a pooling layer that this head does not read (if it did, it would not be left over)
    r"|^cls\.seq_relationship\."  # next-sentence head beside a masked-language head
    r"|decoder\.(weight|bias)$"  # a copy of tied embeddings
)
_LAYERS = (nn.Linear, nn.LayerNorm)
"""Modules whose missing biases the library fills."""


def load_module(
    folder: Path, *, auto_class: str, name: str, dtype: torch.dtype, allow_pickle: bool, allow_random: bool
) -> tuple[Any, bool]:
    """Return the module and whether some of its weights are random."""
    facts = read_config(folder)
    if facts.unlisted:
        warnings.warn(describe_unlisted(facts.unlisted, f"the config of '{folder}'"), stacklevel=2)
    checkpoint = find_checkpoint(folder, allow_pickle=allow_pickle)
    if checkpoint is None and not allow_random:
        raise ModelError(
            f"The folder '{folder}' has no weights (model.safetensors).{describe_other_weights(folder)} --allow-random "
            "makes random ones."
        )
    _check_layers(facts, checkpoint, folder)
    with quiet_library():
        with as_model_error(f"The config of '{folder}' could not be read"):
            config = CONFIG_MAPPING[facts.model_type](**facts.settings, architectures=list(facts.architectures))
        family = family_of(facts.model_type)
        observed = family.attention_layout == "full" and not family.single_attention
        auto = getattr(transformers, auto_class)
        options: dict[str, Any] = {"attn_implementation": OBSERVING if observed else "eager"}
        with as_model_error(f"The config of '{folder}' describes no model that can be built"), torch.device("meta"):
            blueprint = auto.from_config(config, trust_remote_code=False, **options)
        check_size(blueprint, checkpoint, str(folder))
        if checkpoint is None:
            with as_model_error(f"The config of '{folder}' describes no model that can be built"):
                return auto.from_config(config, trust_remote_code=False, **options).to(dtype), True
        with as_model_error(f"The weights of '{folder}' could not be loaded"):
            module, report = type(blueprint).from_pretrained(
                None,
                config=config,
                state_dict=read_weights(checkpoint),
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are reported then, and refused below in a sentence of ours
                **options,
            )
    module.config.name_or_path = name
    if auto_class in BODIES:  # whose own pooling layer is not used
        report["missing_keys"] = {key for key in report["missing_keys"] if not key.startswith("pooler.")}
    untrained = _check_weights(folder, report, allow_random)
    _zero_new_biases(module, report["missing_keys"])
    _check_finite(folder, module)
    return module, untrained


def _check_layers(facts: ConfigFacts, checkpoint: Checkpoint | None, folder: Path) -> None:
    """Refuse more layers than there are tensors, before every layer is laid out; ALBERT's layers share theirs."""
    layers = facts.number("num_hidden_layers", "n_layers", "n_layer")
    if checkpoint is None or checkpoint.pickled or layers is None or facts.model_type == "albert":
        return
    if layers > len(checkpoint.shapes):
        raise ModelError(
            f"The weights of '{folder}' do not fit its config: {layers:,} layers are described, and there are only "
            f"{len(checkpoint.shapes):,} tensors."
        )


def _check_weights(folder: Path, report: dict[str, Any], allow_random: bool) -> bool:
    """Refuse missing, left-over or misshapen weights; return True if some are random by permission."""
    missing = sorted(report["missing_keys"])
    unexpected = sorted(key for key in report["unexpected_keys"] if not HARMLESS_LEFTOVERS.search(key))
    misshapen = sorted(str(entry[0]) for entry in report.get("mismatched_keys", []))
    if not (missing or unexpected or misshapen):
        return False
    if allow_random:
        return True
    problems = [
        f"{len(keys)} {what} (for example {printable(keys[0])})"
        for what, keys in (("missing", missing), ("unexpected", unexpected), ("of another shape", misshapen))
        if keys
    ]
    raise ModelError(
        f"The weights of '{folder}' do not fit its config: {'; '.join(problems)}. Explaining a partly random model "
        "would be misleading; --allow-random (allow_random=True) does it all the same and marks every result."
    )


def _zero_new_biases(module: Any, missing: Collection[str]) -> None:
    """Set missing biases that belong to no layer to zero.

    The library fills the missing weights of its layers, but leaves the bias of some heads (Longformer's `lm_head.bias`)
    with whatever was in memory.
    """
    for name, owner in module.named_modules():
        bias = getattr(owner, "bias", None)
        if isinstance(bias, nn.Parameter) and f"{name}.bias" in missing and not isinstance(owner, _LAYERS):
            nn.init.zeros_(bias)


def _check_finite(folder: Path, module: Any) -> None:
    for key, parameter in module.named_parameters():
        if not torch.isfinite(parameter).all():
            raise ModelError(
                f"The weights of '{folder}' are damaged: '{key}' holds NaN or infinity, or numbers too large for "
                f"{str(parameter.dtype).removeprefix('torch.')}."
            )


@contextmanager
def as_model_error(what: str) -> Iterator[None]:
    """Turn whatever the library raises about foreign files into a sentence that starts with `what`."""
    try:
        yield
    except SightlineError:
        raise
    except Exception as error:
        raise ModelError(f"{what}: {first_line(error)}") from error


@contextmanager
def quiet_library() -> Iterator[None]:
    """Keep the library's progress bars and load reports off the screen: our own check says it in one sentence."""
    level = library_logging.get_verbosity()
    bars = library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity(logging.CRITICAL)
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        library_logging.set_verbosity(level)
        if bars:
            library_logging.enable_progress_bar()
