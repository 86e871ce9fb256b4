"""Loading: a folder, a hub id or a model object becomes a Network with its tokenizer, or a sentence says why not.

The road of a source: `module_building` finds the folder and builds a module from checked settings and tensors, and here
the module gets its family, attention, tokenizer and task, and is tried out on a few tokens.

Half precision takes half the memory. float16 has 11 significant bits and bfloat16 has 8. How far rounding moves the
output depends on the model, so it is measured when the model is loaded: the logits of one document before and after the
conversion.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Pipeline, PreTrainedModel

from sightline.errors import ModelError, OptionError, UnsupportedError
from sightline.files.foreign import quote
from sightline.models.block_sparse import use_blocks
from sightline.models.config import read_config, refuse_encoder_decoder
from sightline.models.families import Family, family_of, unseen_family
from sightline.models.longformer.encoder import use_banded, use_library
from sightline.models.model_types import check_head, check_inputs, register_architectures
from sightline.models.module_building import (
    PipelineSettings,
    as_model_error,
    find_folder,
    load_module,
    quiet_library,
    read_settings,
)
from sightline.models.network import Network
from sightline.models.observe import OBSERVING, observe_returned
from sightline.models.recording import Recorder
from sightline.models.sentence_models import (
    PooledClassifier,
    SentenceFolder,
    find_classes,
    read_sentence_folder,
    set_reference,
)
from sightline.models.shared_weights import merge_adapters, share_weights
from sightline.models.tasks import bind_task, special_token_ids, task_class, task_of_architecture
from sightline.models.torch_context import own_torch_context
from sightline.models.user_modules import ModuleClassifier, unwrap
from sightline.text import Encoding, check_fit, encode_ids, load_tokenizer

AttentionKind = Literal["banded", "library"]

NUMBER_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_TRIED_TOKENS = 16
"""Length of the document on which a model of an unknown family is tried out."""
_CAUSALITY_TOLERANCE = 1e-3
"""Largest change of earlier scores by a later token, as a share of the largest score: far above rounding errors."""
_WRITERS = ("ForConditionalGeneration", "WithLMHeadModel")
"""Suffixes of architectures that read a text in an encoder and generate another one."""


@own_torch_context()
def load_network(
    source: str | Path | nn.Module | Pipeline,
    *,
    task: str | None = None,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    attention: AttentionKind = "banded",
    allow_pickle: bool = False,
    allow_random: bool = False,
    similar_to: str | None = None,
    transformer_only: bool = False,
    labels: Sequence[str] | None = None,
    embeddings: str | None = None,
    multi_label: bool = False,
    regression: bool = False,
) -> tuple[Network, Any]:
    """Return the network and its tokenizer (None when the source has none).

    labels: of a module that is not of transformers (`user_modules`), or of a sentence-transformers folder.
    embeddings, multi_label, regression: of such a module.
    transformer_only: of a sentence-transformers folder load the Transformer under the head of `task`, as training does.
    """
    if attention not in get_args(AttentionKind):
        raise OptionError(f"There is no attention implementation '{attention}'. Choose banded or library.")
    register_architectures()
    chosen = _dtype(dtype)
    folder: Path | None = None
    sentence: SentenceFolder | None = None
    settings = PipelineSettings()
    if isinstance(source, Pipeline):
        tokenizer = source.tokenizer if tokenizer is None else tokenizer
        settings = read_settings(source)
        source = source.model
    source, tokenizer = unwrap(source, tokenizer)
    if isinstance(source, nn.Module):
        module, name, untrained = share_weights(source), type(source).__name__, False
        merge_adapters(module)
        if isinstance(source, PreTrainedModel):
            name = str(module.config.name_or_path or name)
            if family_of(module.config.model_type).attention_layout == "unseen":
                check_inputs(type(module), module.config.model_type)
            _fits_task(task, _architectures(module), f"The model '{name}'", allow_other=False)
            if chosen is None and module.dtype in HALF_TYPES:
                name_of_type = str(module.dtype).removeprefix("torch.")
                warnings.warn(
                    f"This model object computes in {name_of_type}, with rounding errors in every score. "
                    "dtype='float32' explains a copy of it in single precision.",
                    stacklevel=3,
                )
        else:
            names = [] if labels is None else list(labels)
            module = ModuleClassifier(module, names, embeddings, multi_label=multi_label, regression=regression)
            task = task or "sequence_classification"
        if chosen is not None and chosen not in HALF_TYPES:
            module = module.to(chosen)
    else:
        folder, name = find_folder(source, allow_pickle)
        # Half types are reached from single precision, which the result is compared with.
        loaded = torch.float32 if chosen is None or chosen in HALF_TYPES else chosen
        load = partial(load_module, name=name, dtype=loaded, allow_pickle=allow_pickle, allow_random=allow_random)
        sentence = read_sentence_folder(folder)
        if sentence is not None and transformer_only:
            folder, sentence = sentence.body, None
        if sentence is None and labels is not None:
            raise OptionError("labels is what this model says itself: leave it out.")
        if sentence is None:
            config = read_config(folder)
            writes = any(name.endswith(_WRITERS) for name in config.architectures)
            if writes and family_of(config.model_type).encoder_only and task != "token_classification":
                raise _reads_twice(config.model_type)
            kind = task_class(task, list(config.architectures))
            check_head(config.model_type, kind.name)
            fits = _fits_task(task, list(config.architectures), f"The model in '{folder}'", allow_other=allow_random)
            module, untrained = load(folder, auto_class=kind.auto_class)
            untrained |= not fits
        else:
            if task not in (None, "sequence_classification"):
                raise OptionError(
                    f"The folder '{folder}' holds a sentence-transformers model, which reads a document as a whole and "
                    f"has no head for {task}: leave out task= (--task)."
                )
            module, untrained = _load_sentence_model(sentence, folder, load, similar_to, labels)
    family = _choose_family(module)
    if device is not None:
        _move(module, device)
    _choose_attention(module, family, attention)
    reader = _load_tokenizer(tokenizer, folder if sentence is None else sentence.body)
    if reader is not None:
        check_fit(reader, int(module.config.vocab_size))
    pooled = isinstance(module, PooledClassifier)
    head = task_class("sequence_classification" if pooled else task, _architectures(module))
    _check_direction(module.config, family, head.name)
    network = Network(
        module,
        family,
        bind_task(head, module, family, reader),
        name=name,
        token_ids=special_token_ids(module, family, reader),
        untrained=untrained,
        limit=settings.limit if sentence is None else sentence.max_tokens,
        truncates=settings.truncates,
    )
    network.tokenizer = reader
    if network.max_tokens < 1:
        raise ModelError(f"The model '{name}' has no position for a token: max_position_embeddings is too small.")
    if similar_to is not None:
        set_reference(network, reader, similar_to)
    _try_out(network)
    if chosen is not None and chosen in HALF_TYPES and network.dtype != chosen:
        network.rounding_error = convert_to_half(network, chosen)
    return network, reader


def _try_out(network: Network) -> None:
    """Run the model on a few tokens, so that one that cannot be run is refused at the door."""
    with as_model_error(f"The model '{network.name}' cannot be run"):
        if not network.sees_inside:
            _check_word_table(network)
        # One token is enough for a family that is known; of others, some pool tokens and need several.
        count = 1 if network.sees_inside else min(_TRIED_TOKENS, network.max_tokens)
        document = encode_ids([0] * count, vocab_size=int(network.config.vocab_size))
        (logits,) = network.run([document])
        expected = network.task.logits_shape(count)
        if logits.shape != expected:
            scores = f"{expected[-1]:,} scores per {'document' if len(expected) == 1 else 'token'}"
            raise ModelError(
                f"The model '{network.name}' does not return {scores}, as a model for {network.task.name} with these "
                "labels does: give the task that it was trained for (task=, --task), or correct its labels."
            )
        if not network.sees_inside and network.task.name == "causal_lm":
            _check_causality(network, document, logits)
        if not network.sees_inside:
            recorder = Recorder(attention=False)
            (logits,) = network.run([document], recorder, gradient=True)
            if recorder.embeddings is None or not logits.requires_grad:
                raise UnsupportedError(
                    f"The output of this '{network.config.model_type}' model does not depend on its table of word "
                    "embeddings, so Sightline cannot explain it."
                )
    network.forward_passes = 0


def _check_causality(network: Network, document: Encoding, logits: Tensor) -> None:
    """Raise UnsupportedError if the scores behind a token of a language model depend on what follows it."""
    ids = document.ids.copy()
    ids[-1] = 1
    (changed,) = network.run([encode_ids(ids, vocab_size=int(network.config.vocab_size))])
    before, after = logits[:-1], changed[:-1]
    if len(before) and float((after - before).abs().max()) > _CAUSALITY_TOLERANCE * float(before.abs().max()):
        raise UnsupportedError(
            f"This '{network.config.model_type}' model sees the tokens that follow, so its scores are not those of the "
            "next token, which Sightline would explain."
        )


def _check_word_table(network: Network) -> None:
    """Raise UnsupportedError if a model of an unknown family has no table of word embeddings (CANINE, Perceiver)."""
    try:
        table = network.tables["word"]
    except (NotImplementedError, AttributeError):
        table = None
    if not isinstance(table, nn.Module):
        raise UnsupportedError(
            f"This '{network.config.model_type}' model has no table of word embeddings, so there is no vector per word "
            "that Sightline could explain."
        )


def _architectures(module: Any) -> list[str]:
    """Return the class of a model, or what its config says if the name of the class says nothing about its head.

    The config of a model that was made from another one with a new head still names the architecture of that other.
    """
    own = type(module).__name__
    return [own] if task_of_architecture(own) is not None else list(module.config.architectures or [own])


def _fits_task(task: str | None, architectures: list[str], what: str, *, allow_other: bool) -> bool:
    """Return whether a model has the head of a task, as far as its architectures say; raise ModelError if it must.

    Heads of different tasks may have weights of the same names and shapes (those of BERT's classes and tags do).
    """
    heads = {name: head for name in architectures if (head := task_of_architecture(name)) is not None}
    if task is None or not heads or task in {head.name for head in heads.values()}:
        return True
    if task in ("masked_lm", "causal_lm") and any(name.endswith("LMHeadModel") for name in heads):
        return True  # the name says nothing about the direction (XLMWithLMHeadModel)
    if allow_other:
        return False
    name, head = next(iter(heads.items()))
    raise ModelError(
        f"{what} was trained for {head.name} ({quote(name)}) and has no head for {task}: leave out task= (--task), or "
        f"give a model that was trained for {task}."
    )


def _load_sentence_model(
    facts: SentenceFolder,
    folder: Path,
    load: Callable[..., tuple[Any, bool]],
    similar_to: str | None,
    labels: Sequence[str] | None,
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
    if similar_to is not None:
        body.config.id2label, body.config.problem_type = {0: "similarity"}, "regression"
        return PooledClassifier(body, facts), untrained
    classifier = find_classes(facts, body.config, labels)
    if classifier is None:
        raise ModelError(
            f"The folder '{folder}' holds a sentence-transformers model without a classifier, which turns a text into "
            "a vector. Give a second text to explain how similar they are: sl.load(folder, similar_to='...') or "
            "sightline explain --similar-to TEXT. If its outputs are classes, name them: labels=[...]."
        )
    return PooledClassifier(body, classifier), untrained


def _choose_family(module: Any) -> Family:
    """Return the facts of a model's family; none where tokens are also mixed outside the attention."""
    if isinstance(module, ModuleClassifier) and not module.has_body:
        return module.family
    family = family_of(module.config.model_type)
    if family.encoder_only and hasattr(module.base_model, "decoder"):
        raise _reads_twice(family.model_type)
    if family.attention_layout == "unseen" and hasattr(module.base_model, "encoder"):
        refuse_encoder_decoder(family.model_type, getattr(module.config, "is_encoder_decoder", False))
    return unseen_family(family.model_type) if family.mixes_outside(module.config) else family


def _reads_twice(model_type: str) -> UnsupportedError:
    return UnsupportedError(
        f"This '{model_type}' model reads a text twice, in an encoder and in a decoder. Sightline explains heads on "
        "its encoder alone: a token classifier, or a sentence-transformers folder."
    )


def _choose_attention(module: Any, family: Family, attention: AttentionKind) -> None:
    if family.attention_layout == "band":
        # It announces its padding to the window size at every first run; nothing we show depends on it.
        logging.getLogger("transformers.models.longformer.modeling_longformer").setLevel(logging.ERROR)
        (use_banded if attention == "banded" else use_library)(module)
    elif family.attention_layout == "returned":
        observe_returned(family.layers(module.base_model, module.config), family)
    elif family.attention_layout == "blocks":
        use_blocks(module)
    elif (
        family.attention_layout == "full"
        and not family.single_attention
        and module.config._attn_implementation != OBSERVING
    ):
        module.set_attn_implementation(OBSERVING)


def _load_tokenizer(given: Any, folder: Path | None) -> Any:
    """Return the given tokenizer, or the one loaded from a given folder or hub id, else from the model folder."""
    if given is not None and not isinstance(given, str | Path):
        return given
    with quiet_library():
        if given is not None:
            return load_tokenizer(given, local_only=False)
        return None if folder is None else load_tokenizer(folder, local_only=True)


def _check_direction(config: Any, family: Family, task: str) -> None:
    """Refuse a bidirectional family run as a decoder, and a decoder run in both directions."""
    if family.attention_layout == "unseen":
        return
    bidirectional = getattr(config, "use_bidirectional_attention", None) or not getattr(config, "is_causal", True)
    if family.causal and bidirectional:
        raise UnsupportedError(
            f"This '{config.model_type}' model is a decoder whose tokens see each other in both directions "
            "(use_bidirectional_attention, or is_causal set to false), and Sightline knows these models as causal ones "
            "only."
        )
    if not family.causal and (getattr(config, "is_decoder", False) or getattr(config, "is_causal", False)):
        raise UnsupportedError(
            f"This '{config.model_type}' model is set up as a decoder (is_decoder or is_causal), where a token sees "
            "only those before it and the first one, which classifiers read, sees nothing. Set both to false in its "
            "config, or use a causal family such as gpt2."
        )
    if not family.causal and task == "causal_lm":
        raise UnsupportedError(
            f"This '{config.model_type}' model predicts the next token, but its tokens also see those after them. If "
            "it was trained to fill in masked words, load it with task='masked_lm' (--task masked_lm)."
        )


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None:
        return None
    number_type = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(number_type, torch.dtype) or number_type not in NUMBER_TYPES:
        known = ", ".join(str(known_type).removeprefix("torch.") for known_type in NUMBER_TYPES)
        raise OptionError(f"There is no number type '{dtype}' to run a model in. Use one of: {known}.")
    return number_type


def move_network(network: Network, device: str | torch.device) -> None:
    """Move the weights of a network to another device; a model object that they were shared with stays where it is."""
    if network.answers_only:
        raise OptionError("A function runs where it runs: it has no device to be moved to.")
    with network.alone():
        _move(network.module, device)
        vars(network).pop("worthwhile_tokens", None)  # depends on the device


def _move(module: PreTrainedModel, device: str | torch.device) -> None:
    try:
        module.to(device)
    except (RuntimeError, AssertionError) as error:  # torch raises either, by what is missing
        raise OptionError(
            f"The device '{device}' cannot be used here: {str(error).splitlines()[0].rstrip('.')}. Try 'cpu'."
        ) from error


HALF_TYPES = (torch.float16, torch.bfloat16)
PROBE_TOKENS = 128
LARGEST_ERROR = 0.05
"""Relative error of the logits above which a warning is issued."""


def convert_to_half(network: Network, dtype: torch.dtype) -> float:
    """Convert the weights to a half type in place and return the relative error of the logits.

    The error is max |ŷ − y| / max |y| over the logits y (float32 or better) and ŷ (half type) of one document of random
    tokens. Cost: two forwards of 128 tokens.
    """
    before = _probe(network)
    network.module.to(dtype)
    error = float(
        (_probe(network) - before).abs().max() / before.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
    )
    if error > LARGEST_ERROR:
        name = str(dtype).removeprefix("torch.")
        warnings.warn(
            f"In {name} the logits of this model are off by {error:.1%} of the largest one; use dtype='float32' where "
            "the memory allows it.",
            stacklevel=2,
        )
    return error


def _probe(network: Network) -> Tensor:
    """Return the logits of one document of random tokens, in double precision."""
    size = int(network.config.vocab_size)
    ids = np.random.default_rng(0).integers(size, size=min(PROBE_TOKENS, network.max_tokens))
    passes = network.forward_passes
    (logits,) = network.run([encode_ids(ids.tolist(), vocab_size=size)])
    network.forward_passes = passes
    return logits.cpu().double()
