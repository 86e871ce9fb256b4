"""Loading: a folder, a hub id or a model object becomes a Network with its tokenizer, or a sentence says why not.

The road of a folder: config.json is read as data (`config`), the headers of the weight files are read (`weights`), the
model is laid out without memory and compared with them, and only then is it built. transformers never sees the folder:
it gets checked settings and tensors, so that nothing in the folder can name code, kernels, adapters or other files.
safetensors only unless pickle is allowed; every weight must be there and fit.

The network is asked only for owner/name and hf://name, so that a mistyped folder is answered at once; a name alone is
looked up in the library's cache on this machine.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedModel
from transformers import logging as library_logging

from sightline.errors import InputError, ModelError, OptionError, SightlineError, UnsupportedError, UsageError
from sightline.foreign import first_line, printable
from sightline.hub import MODEL_FILES, PICKLED_FILES, fetch_snapshot
from sightline.models.architectures import register_architectures
from sightline.models.config import ConfigFacts, read_config
from sightline.models.families import Family, family_of, unseen_family
from sightline.models.longformer.encoder import use_banded, use_library
from sightline.models.network import Network
from sightline.models.observe import OBSERVING, register
from sightline.models.pooled import PooledClassifier
from sightline.models.precision import HALF_TYPES, convert_to_half
from sightline.models.recording import Recorder
from sightline.models.returned import observe_returned
from sightline.models.sentence_folder import SentenceFolder, read_sentence_folder
from sightline.models.tasks import MaskedLanguageModel, Task, TaskFacts, task_class
from sightline.models.weights import Checkpoint, check_size, find_checkpoint, read_weights
from sightline.registry import suggestion
from sightline.text import check_fit, encode_ids, encode_text, load_tokenizer

AttentionKind = Literal["banded", "library"]

NUMBER_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
HUB = "hf://"
"""Says that what follows is the name of a model on the hub, whatever folders there are."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.\-]*(/[\w.\-]+)?")
BODIES = ("AutoModel", "AutoModelForTextEncoding")
"""Classes of models without a head."""
HARMLESS_LEFTOVERS = re.compile(
    r"position_ids$"  # a constant that older releases stored
    r"|\.attn\.(masked_)?bias$"  # the causal mask, which older releases stored in every layer of GPT-2
    r"|(^|\.)pooler\."  # a pooling layer that this head does not read (if it did, it would not be left over)
    r"|^cls\.seq_relationship\."  # next-sentence head beside a masked-language head
    r"|decoder\.(weight|bias)$"  # a copy of tied embeddings
)
_TRIED_TOKENS = 16
"""Length of the document on which a model of an unknown family is tried out."""


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
    similar_to: str | None = None,
) -> tuple[Network, Any]:
    """Return the network and its tokenizer (None when the source has none)."""
    if attention not in get_args(AttentionKind):
        raise OptionError(f"There is no attention implementation '{attention}'. Choose banded or library.")
    register()
    register_architectures()
    chosen = _dtype(dtype)
    folder: Path | None = None
    sentence: SentenceFolder | None = None
    if isinstance(source, PreTrainedModel):
        module, name, untrained = source, _name_of(source), False
        if chosen is not None and chosen not in HALF_TYPES:
            module = module.to(chosen)
    else:
        folder, name = _find_folder(source, allow_pickle)
        # Half types are reached from single precision, which the result is compared with.
        loaded = torch.float32 if chosen is None or chosen in HALF_TYPES else chosen
        load = partial(_load_module, name=name, dtype=loaded, allow_pickle=allow_pickle, allow_random=allow_random)
        sentence = read_sentence_folder(folder)
        if sentence is None:
            module, untrained = load(
                folder, auto_class=task_class(task, list(read_config(folder).architectures)).auto_class
            )
        else:
            module, untrained = _load_sentence_model(sentence, folder, load, similar_to)
    family = _choose_family(module)
    if device is not None:
        _move(module, device)
    _choose_attention(module, family, attention)
    reader = _load_tokenizer(tokenizer, folder if sentence is None else sentence.body)
    if reader is not None:
        check_fit(reader, int(module.config.vocab_size))
    pooled = isinstance(module, PooledClassifier)
    head = task_class("sequence_classification" if pooled else task, _architectures(module))
    _check_direction(module.config, family)
    network = Network(
        module,
        family,
        _bind_task(head, module, family, reader),
        name=name,
        token_ids=_token_ids(module, family, reader),
        untrained=untrained,
        limit=None if sentence is None else sentence.max_tokens,
    )
    if network.max_tokens < 1:
        raise ModelError(f"The model '{name}' has no position for a token: max_position_embeddings is too small.")
    if folder is not None:
        _try_out(network, folder)
    if similar_to is not None:
        _set_reference(network, reader, similar_to)
    if chosen is not None and chosen in HALF_TYPES and network.dtype != chosen:
        network.rounding_error = convert_to_half(network, chosen)
    return network, reader


def _try_out(network: Network, folder: Path) -> None:
    """Run the model on a few tokens, so that one that cannot be run is refused at the door."""
    with _as_model_error(f"The model in '{folder}' cannot be run"):
        # One token is enough for a family that is known; of others, some pool tokens and need several.
        count = 1 if network.sees_inside else min(_TRIED_TOKENS, network.max_tokens)
        document = encode_ids([0] * count, vocab_size=int(network.config.vocab_size))
        network.run([document])
        if not network.sees_inside:
            recorder = Recorder(attention=False)
            (logits,) = network.run([document], recorder, gradient=True)
            if recorder.embeddings is None or not logits.requires_grad:
                raise UnsupportedError(
                    f"The output of this '{network.config.model_type}' model does not depend on its table of word "
                    "embeddings, so Sightline cannot explain it."
                )
    network.forward_passes = 0


def _find_folder(source: str | Path, allow_pickle: bool) -> tuple[Path, str]:
    """Return the folder with the files of a model, and the model's name."""
    if not isinstance(source, str | Path):
        raise OptionError(
            f"A model is a folder, a name on the hub or a transformers model object, not {type(source).__name__}."
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
        raise ModelError(f"'{source}' is a file; give the folder that holds config.json and the weights.")
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


def _architectures(module: Any) -> list[str]:
    return list(module.config.architectures or [type(module).__name__])


def _load_sentence_model(
    facts: SentenceFolder, folder: Path, load: Callable[..., tuple[Any, bool]], similar_to: str | None
) -> tuple[PooledClassifier, bool]:
    """Return the modules of a sentence-transformers folder as one classifier, and whether some weights are random."""
    config = read_config(facts.body)
    auto_class = "AutoModelForTextEncoding" if family_of(config.model_type).encoder_only else "AutoModel"
    body, untrained = load(facts.body, auto_class=auto_class)
    width = len(facts.poolings) * int(body.config.hidden_size)
    for dense in facts.dense:
        if dense.weight.shape[1] != width:
            raise ModelError(
                f"The modules of '{folder}' do not fit together: a Dense module reads {dense.weight.shape[1]:,} "
                f"numbers and gets {width:,}."
            )
        width = dense.weight.shape[0]
    classifies = bool(facts.dense) and not facts.normalises and width == len(config.settings["id2label"])
    if similar_to is not None:
        body.config.id2label, body.config.problem_type = {0: "similarity"}, "regression"
    elif not classifies:
        raise ModelError(
            f"The folder '{folder}' holds a sentence-transformers model without a classifier, which turns a text into "
            "a vector. Give a second text to explain how similar they are: sl.load(folder, similar_to='...')."
        )
    return PooledClassifier(body, facts), untrained


def _set_reference(network: Network, tokenizer: Any, text: str) -> None:
    """Make the logit the cosine of the document's vector and that of a reference text."""
    module = network.module
    if not isinstance(module, PooledClassifier):
        raise OptionError(
            "similar_to= goes with a sentence-transformers folder, whose model turns a text into a vector."
        )
    if tokenizer is None:
        raise ModelError("The model has no tokenizer to read the text of similar_to=; give one with tokenizer=.")
    reference = encode_text(tokenizer, text, max_tokens=network.max_tokens)
    if reference.dropped:
        raise InputError(
            f"The text of similar_to= has {len(reference) + reference.dropped} tokens, the model reads "
            f"{network.max_tokens} at most: shorten it."
        )
    (vector,) = network.run([reference])
    module.reference = torch.nn.functional.normalize(vector, dim=-1)
    network.forward_passes = 0


def _load_module(
    folder: Path, *, auto_class: str, name: str, dtype: torch.dtype, allow_pickle: bool, allow_random: bool
) -> tuple[Any, bool]:
    """Return the module and whether some of its weights are random."""
    facts = read_config(folder)
    checkpoint = find_checkpoint(folder, allow_pickle=allow_pickle)
    if checkpoint is None and not allow_random:
        raise ModelError(f"The folder '{folder}' has no weights (model.safetensors). --allow-random makes random ones.")
    _check_layers(facts, checkpoint, folder)
    with _quiet_library():
        config = _build_config(facts, folder)
        auto = getattr(transformers, auto_class)
        options: dict[str, Any] = {"attn_implementation": _implementation(facts.model_type)}
        with _as_model_error(f"The config of '{folder}' describes no model that can be built"), torch.device("meta"):
            blueprint = auto.from_config(config, trust_remote_code=False, **options)
        check_size(blueprint, checkpoint, str(folder))
        if checkpoint is None:
            with _as_model_error(f"The config of '{folder}' describes no model that can be built"):
                return auto.from_config(config, trust_remote_code=False, **options).to(dtype), True
        with _as_model_error(f"The weights of '{folder}' could not be loaded"):
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
    _check_finite(folder, module)
    return module, untrained


def _check_finite(folder: Path, module: Any) -> None:
    for key, parameter in module.named_parameters():
        if not torch.isfinite(parameter).all():
            raise ModelError(
                f"The weights of '{folder}' are damaged: '{key}' holds NaN or infinity, or numbers too large for "
                f"{str(parameter.dtype).removeprefix('torch.')}."
            )


def _build_config(facts: ConfigFacts, folder: Path) -> Any:
    with _as_model_error(f"The config of '{folder}' could not be read"):
        return CONFIG_MAPPING[facts.model_type](**facts.settings, architectures=list(facts.architectures))


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


@contextmanager
def _as_model_error(what: str) -> Iterator[None]:
    """Turn whatever the library raises about foreign files into a sentence that starts with `what`."""
    try:
        yield
    except SightlineError:
        raise
    except Exception as error:
        raise ModelError(f"{what}: {first_line(error)}") from error


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


def _choose_family(module: Any) -> Family:
    """Return the facts of a model's family; none where tokens are also mixed outside the attention."""
    family = family_of(module.config.model_type)
    if family.encoder_only and hasattr(module.base_model, "decoder"):
        raise UnsupportedError(
            f"This '{family.model_type}' model reads a text twice, in an encoder and in a decoder. Sightline explains "
            "heads on its encoder alone, for example token classification."
        )
    return unseen_family(family.model_type) if family.mixes_outside(module.config) else family


def _choose_attention(module: Any, family: Family, attention: AttentionKind) -> None:
    if family.attention_layout == "band":
        # It announces its padding to the window size at every first run; nothing we show depends on it.
        logging.getLogger("transformers.models.longformer.modeling_longformer").setLevel(logging.ERROR)
        (use_banded if attention == "banded" else use_library)(module)
    elif family.attention_layout == "returned":
        if hasattr(module.base_model, "set_attention_type"):
            # BigBird reads short texts with full attention; `Network.max_tokens` says how long they may be.
            module.base_model.set_attention_type("original_full")
        observe_returned(family.layers(module.base_model, module.config), family)
    elif (
        family.attention_layout == "full"
        and not family.single_attention
        and module.config._attn_implementation != OBSERVING
    ):
        module.set_attn_implementation(OBSERVING)


def _implementation(model_type: str) -> str:
    family = family_of(model_type)
    return "eager" if family.attention_layout != "full" or family.single_attention else OBSERVING


def _load_tokenizer(given: Any, folder: Path | None) -> Any:
    """Return the tokenizer that was given, or the one of a folder or hub id, or the model folder's own."""
    if given is not None and not isinstance(given, str | Path):
        return given
    with _quiet_library():
        if given is not None:
            return load_tokenizer(given, local_only=False)
        return None if folder is None else load_tokenizer(folder, local_only=True)


def _check_direction(config: Any, family: Family) -> None:
    """Refuse a bidirectional family run as a decoder."""
    if family.attention_layout == "unseen":
        return
    if not family.causal and getattr(config, "is_decoder", False):
        raise UnsupportedError(
            f"This '{config.model_type}' model is set up as a decoder (is_decoder), where a token sees only those "
            "before it and the first one, which classifiers read, sees nothing. Set is_decoder to false in its config, "
            "or use a causal family such as gpt2."
        )


def _bind_task(head: type[Task], module: Any, family: Family, tokenizer: Any) -> Task:
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


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None:
        return None
    number_type = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(number_type, torch.dtype) or number_type not in NUMBER_TYPES:
        known = ", ".join(str(known_type).removeprefix("torch.") for known_type in NUMBER_TYPES)
        raise OptionError(f"There is no number type '{dtype}' to run a model in. Use one of: {known}.")
    return number_type


def _move(module: PreTrainedModel, device: str | torch.device) -> None:
    try:
        module.to(device)
    except (RuntimeError, AssertionError) as error:  # torch raises either, by what is missing
        raise OptionError(
            f"The device '{device}' cannot be used here: {str(error).splitlines()[0].rstrip('.')}. Try 'cpu'."
        ) from error


def _name_of(module: Any) -> str:
    return str(module.config.name_or_path or type(module).__name__)


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
