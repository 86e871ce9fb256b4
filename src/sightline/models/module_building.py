"""Builds a module from a checked folder: settings and tensors become a transformers model, or a sentence says why not.

config.json is read as data (`config`), the headers of the weight files are read (`weights`), the model is laid out
without memory and compared with them, and only then is it built. transformers never sees the folder, so that nothing in
it can name code, kernels, adapters or other files. safetensors only unless pickle is allowed; every weight must be
there and fit.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING
from transformers import logging as library_logging

from sightline.errors import ModelError, SightlineError
from sightline.files.foreign import first_line, printable
from sightline.models.config import ConfigFacts, describe_unlisted, read_config
from sightline.models.families import family_of
from sightline.models.observe import OBSERVING
from sightline.models.weights import Checkpoint, check_size, describe_other_weights, find_checkpoint, read_weights

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
        config = _build_config(facts, folder)
        auto = getattr(transformers, auto_class)
        options: dict[str, Any] = {"attn_implementation": _implementation(facts.model_type)}
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


def _build_config(facts: ConfigFacts, folder: Path) -> Any:
    with as_model_error(f"The config of '{folder}' could not be read"):
        return CONFIG_MAPPING[facts.model_type](**facts.settings, architectures=list(facts.architectures))


def _implementation(model_type: str) -> str:
    family = family_of(model_type)
    return "eager" if family.attention_layout != "full" or family.single_attention else OBSERVING


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
