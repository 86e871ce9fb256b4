"""Loading: a folder, a hub id or a model object becomes a Network with its tokenizer, or a sentence says why not.

safetensors only unless pickle is allowed; no code from the folder is ever run; every weight must be there and fit. The
network is asked only for owner/name and hf://name, so that a mistyped folder is answered at once; a name alone is
looked up in the library's cache on this machine.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import transformers
from transformers import AutoConfig, PreTrainedModel
from transformers import logging as library_logging

from sightline.errors import ModelError, OptionError, SightlineError, UnsupportedError, UsageError
from sightline.models.families import Family, family_of
from sightline.models.longformer.encoder import use_banded, use_library
from sightline.models.network import Network
from sightline.models.observe import OBSERVING, register
from sightline.models.tasks import MaskedLanguageModel, Task, TaskFacts, task_class
from sightline.registry import suggestion
from sightline.text import check_fit, load_tokenizer

AttentionKind = Literal["banded", "library"]

NUMBER_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
HUB = "hf://"
"""Says that what follows is the name of a model on the hub, whatever folders there are."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.\-]*(/[\w.\-]+)?")
HARMLESS_LEFTOVERS = re.compile(
    r"position_ids$"  # a constant that older releases stored
    r"|\.attn\.(masked_)?bias$"  # the causal mask, which older releases stored in every layer of GPT-2
    r"|(^|\.)pooler\."  # a pooling layer that this head does not read (if it did, it would not be left over)
    r"|^cls\.seq_relationship\."  # next-sentence head beside a masked-language head
    r"|decoder\.(weight|bias)$"  # a copy of tied embeddings
)


def load_network(
    source: str | Path | PreTrainedModel,
    *,
    task: str | None = None,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    attention: AttentionKind = "banded",
    allow_pickle: bool = False,
    allow_random: bool = False,
) -> tuple[Network, Any]:
    """Return the network and its tokenizer (None when the source has none)."""
    if attention not in get_args(AttentionKind):
        raise OptionError(f"There is no attention implementation '{attention}'. Choose banded or library.")
    register()
    chosen = _dtype(dtype)
    if isinstance(source, PreTrainedModel):
        module, name, place, local, missing = source, _name_of(source), None, True, False
        if chosen is not None:
            module = module.to(chosen)
    else:
        place, local = _locate(source)
        name = place.name if isinstance(place, Path) else place
        module, missing = _load_module(place, local, task, chosen or torch.float32, allow_pickle, allow_random)
    family = family_of(module.config.model_type)
    if device is not None:
        _move(module, device)
    _choose_attention(module, attention)
    found = _tokenizer(tokenizer, place, local)
    if found is not None:
        check_fit(found, int(module.config.vocab_size))
    head = task_class(task, module.config.architectures or [type(module).__name__])
    _check_direction(module.config, family)
    network = Network(
        module,
        family,
        _task(head, module, family, found),
        name=name,
        token_ids=_token_ids(module, family, found),
        untrained=missing,
    )
    return network, found


def _locate(source: str | Path) -> tuple[Path | str, bool]:
    """Return a folder with a config, or the name of a model on the hub; and whether to keep to this machine's files."""
    if isinstance(source, str) and source.startswith(HUB):
        name = source.removeprefix(HUB)
        if not HUB_ID.fullmatch(name):
            raise UsageError(f"'{source}' does not name a model on the hub; write hf://owner/name.")
        return name, False
    if not isinstance(source, str | Path):
        raise OptionError(
            f"A model is a folder, a name on the hub or a transformers model object, not {type(source).__name__}."
        )
    path = Path(source).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"The folder '{source}' has no config.json, so it is not a model folder.")
        return path, True
    if path.is_file():
        raise ModelError(f"'{source}' is a file; give the folder that holds config.json and the weights.")
    # With the first half of owner/name a folder here, the second half is a mistake in a path.
    if isinstance(source, Path) or not HUB_ID.fullmatch(source) or ("/" in source and path.parent.is_dir()):
        raise UsageError(f"There is no model folder '{source}'.{_similar(path)}")
    return source, "/" not in source


def _similar(path: Path) -> str:
    """Return a question about a model folder beside `path` that is called almost the same, if there is one."""
    return suggestion(path.name, [config.parent.name for config in path.parent.glob("*/config.json")])


def _load_module(
    place: Path | str, local: bool, task: str | None, dtype: torch.dtype, allow_pickle: bool, allow_random: bool
) -> tuple[Any, bool]:
    """Return the module and whether some of its weights are random."""
    with _quiet_library():
        try:
            config = AutoConfig.from_pretrained(place, local_files_only=local)
        except (OSError, ValueError, KeyError) as error:
            raise _config_problem(place, local, error) from error
        family_of(config.model_type)
        head = task_class(task, config.architectures)
        auto = getattr(transformers, head.auto_class)
        options: dict[str, Any] = {"attn_implementation": _implementation(config.model_type)}
        if isinstance(place, Path) and not _weight_files(place, allow_pickle, allow_random):
            return auto.from_config(config, **options).to(dtype), True
        try:
            module, report = auto.from_pretrained(
                place,
                config=config,
                dtype=dtype,
                local_files_only=local,
                use_safetensors=None if allow_pickle else True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are reported then, and refused below in a sentence of ours
                **options,
            )
        except Exception as error:  # the library raises many kinds for damaged or mismatched files
            raise ModelError(f"The weights of '{place}' could not be loaded: {_first_sentence(error)}") from error
    return module, _check_weights(place, report, allow_random)


def _weight_files(folder: Path, allow_pickle: bool, allow_random: bool) -> bool:
    """Whether the folder has weights that may be read; explain what to do if not."""
    if any(folder.glob("*.safetensors")):
        return True
    pickled = sorted(folder.glob("pytorch_model*.bin"))
    if pickled and allow_pickle:
        return True
    if pickled:
        raise ModelError(
            f"The weights of '{folder}' are a pickle ({pickled[0].name}), which can run code when it is read. "
            "Convert them to safetensors, or allow it with --allow-pickle (allow_pickle=True) if you trust the source."
        )
    if allow_random:
        return False
    raise ModelError(f"The folder '{folder}' has no weights (model.safetensors). --allow-random makes random ones.")


def _check_weights(place: Path | str, report: dict[str, Any], allow_random: bool) -> bool:
    """Refuse missing, left-over or misshapen weights; return True if some are random by permission."""
    missing = sorted(report["missing_keys"])
    unexpected = sorted(key for key in report["unexpected_keys"] if not HARMLESS_LEFTOVERS.search(key))
    misshapen = sorted(str(entry[0]) for entry in report.get("mismatched_keys", []))
    if not (missing or unexpected or misshapen):
        return False
    if allow_random:
        return True
    problems = [
        f"{len(keys)} {what} (for example {keys[0]})"
        for what, keys in (("missing", missing), ("unexpected", unexpected), ("of another shape", misshapen))
        if keys
    ]
    raise ModelError(
        f"The weights of '{place}' do not fit its config: {'; '.join(problems)}. Explaining a partly random model "
        "would be misleading; --allow-random (allow_random=True) does it all the same and marks every result."
    )


def _choose_attention(module: Any, attention: AttentionKind) -> None:
    if module.config.model_type == "longformer":
        # It announces its padding to the window size at every first run; nothing we show depends on it.
        logging.getLogger("transformers.models.longformer.modeling_longformer").setLevel(logging.ERROR)
        (use_banded if attention == "banded" else use_library)(module)
    elif module.config._attn_implementation != OBSERVING:
        module.set_attn_implementation(OBSERVING)


def _implementation(model_type: str) -> str:
    return "eager" if model_type == "longformer" else OBSERVING


def _tokenizer(given: Any, place: Path | str | None, local: bool) -> Any:
    if given is not None and not isinstance(given, str | Path):
        return given
    where = given if given is not None else place
    if where is None:
        return None
    with _quiet_library():
        return load_tokenizer(where, local_only=local if given is None else Path(where).is_dir())


def _check_direction(config: Any, family: Family) -> None:
    """Refuse a bidirectional family run as a decoder."""
    if not family.causal and getattr(config, "is_decoder", False):
        raise UnsupportedError(
            f"This '{config.model_type}' model is set up as a decoder (is_decoder), where a token sees only those "
            "before it and the first one, which classifiers read, sees nothing. Set is_decoder to false in its config, "
            "or use a causal family such as gpt2."
        )


def _task(head: type[Task], module: Any, family: Family, tokenizer: Any) -> Task:
    """Bind the task to what the config and tokenizer say about labels, pooling and the mask."""
    config = module.config
    outside = None
    if issubclass(head, MaskedLanguageModel):
        labels = _vocabulary(tokenizer, int(config.vocab_size))
    else:
        labels = tuple(str(config.id2label[i]) for i in range(config.num_labels))
        outside = next((i for i, label in enumerate(labels) if label.upper() == "O"), None)
    return head(
        TaskFacts(
            labels=labels,
            multi_label=config.problem_type == "multi_label_classification",
            mean_pooling=getattr(config, "classifier_pooling", "cls") == "mean",
            reads_last=family.causal,
            pad_id=config.pad_token_id,
            mask_id=_token_ids(module, family, tokenizer).get("mask"),
            outside_label=outside,
        )
    )


def _token_ids(module: Any, family: Family, tokenizer: Any) -> dict[str, int]:
    """Ids of pad, mask and unknown token, as far as tokenizer and config say them and the vocabulary holds them.

    Causal models are often made without a pad token; whoever pads then takes the one that ends a text, and so do we.
    """
    found = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("pad", "mask", "unk")}
    if found["pad"] is None:
        found["pad"] = module.config.pad_token_id
    if found["pad"] is None and family.causal and isinstance(module.config.eos_token_id, int):
        found["pad"] = module.config.eos_token_id
    if tokenizer is None:
        found = {name: dict(family.token_ids).get(name) if index is None else index for name, index in found.items()}
    return {name: int(i) for name, i in found.items() if i is not None and 0 <= i < module.config.vocab_size}


def _vocabulary(tokenizer: Any, size: int) -> tuple[str, ...]:
    if tokenizer is None:
        return tuple(str(i) for i in range(size))
    words = {index: word for word, index in tokenizer.get_vocab().items()}
    return tuple(
        tokenizer.convert_tokens_to_string([words[i]]).removeprefix("##").strip() if i in words else str(i)
        for i in range(size)
    )


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None:
        return None
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or found not in NUMBER_TYPES:
        known = ", ".join(str(one).removeprefix("torch.") for one in NUMBER_TYPES)
        raise OptionError(f"There is no number type '{dtype}' to run a model in. Use one of: {known}.")
    return found


def _move(module: PreTrainedModel, device: str | torch.device) -> None:
    try:
        module.to(device)
    except (RuntimeError, AssertionError) as error:  # torch raises either, by what is missing
        raise OptionError(
            f"The device '{device}' cannot be used here: {str(error).splitlines()[0].rstrip('.')}. Try 'cpu'."
        ) from error


def _name_of(module: Any) -> str:
    return str(module.config.name_or_path or type(module).__name__)


def _config_problem(place: Path | str, local: bool, error: Exception) -> SightlineError:
    if isinstance(place, Path):
        return ModelError(f"The config of '{place}' could not be read: {_first_sentence(error)}")
    if local:
        return UsageError(
            f"There is no model folder '{place}'.{_similar(Path(place))} To fetch a model of that name from the hub, "
            f"write hf://{place}."
        )
    return ModelError(
        f"There is no model folder '{place}', and no model of that name could be fetched from the hub: "
        f"{_first_sentence(error)}"
    )


def _first_sentence(error: Exception) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return line if line.endswith((".", "!", "?")) else f"{line}."


@contextmanager
def _quiet_library() -> Iterator[None]:
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
