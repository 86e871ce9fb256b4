"""The input tensors of a network: padded ids, masks, positions, token types and global attention of a batch.

Shapes: B documents, N tokens of the longest.

Whether a document or an explanation belongs to a model follows from the fingerprints that it carries. An `Encoding`
carries a digest of the vocabulary that its ids are from, so that models which share a vocabulary share encodings. An
explanation carries the hash of the weights in its provenance. What carries neither was made by hand, and is accepted.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.files.foreign import quote
from sightline.models.recording import with_attribute
from sightline.text import Encoding, fingerprint_vocabulary

if TYPE_CHECKING:
    from sightline.models.network import Network

UNBOUNDED_TOKENS = 512
"""Longest document of a model without a table of positions (T5, XLNet): the length such models were trained with."""
MAX_RESERVED = 4
"""Rows of a position table that models which count from behind the pad token leave unused, at most."""


def pad_inputs(
    network: Network, encodings: Sequence[Encoding], hidden: Sequence[Sequence[int]] | None = None
) -> dict[str, Tensor]:
    """Return the padded input tensors (B, N) of a network, by the names that its module accepts.

    `hidden` holds, per document, the token positions that the attention mask excludes; the others keep their
    positions.
    """
    for encoding in encodings:
        check_vocabulary(encoding, network)
        if len(encoding) > network.max_tokens:
            raise InputError(f"The document has {len(encoding)} tokens, the model reads {network.max_tokens} at most.")
    longest = max(len(encoding) for encoding in encodings)
    if not network.pads and any(len(encoding) < longest for encoding in encodings):
        raise RuntimeError("a model that is not known to read its attention mask got documents to pad")
    if hidden is not None and any(hidden) and "attention_mask" not in network.accepted:
        raise UnsupportedError(
            f"A '{network.config.model_type}' model has no attention mask, so tokens cannot be hidden from it; "
            "replace or delete them instead."
        )
    pad = int(network.config.pad_token_id or 0)
    shape = (len(encodings), longest)
    ids = torch.full(shape, pad)
    mask, types, global_mask = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    # Explicit, so that pad tokens inside a text (baselines, perturbations) do not shift the words after them.
    first = _first_position(network) if network.family.positions_after_padding else 0
    positions = torch.full(shape, pad if network.family.positions_after_padding else 0)
    for row, encoding in enumerate(encodings):
        n = len(encoding)
        ids[row, :n] = torch.tensor(encoding.ids)
        mask[row, :n] = 1
        if hidden is not None:
            mask[row, list(hidden[row])] = 0
        positions[row, :n] = torch.arange(first, first + n)
        types[row, :n] = torch.tensor(_check_types(network, encoding))
        if network.banded:
            global_mask[row, list(find_global_tokens(network, encoding))] = 1
    tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "token_type_ids": types}
    if network.family.type_table is None:
        del tensors["token_type_ids"]
    if not network.sees_inside:  # it counts by a rule of its own
        del tensors["position_ids"]
    if network.banded:
        tensors["global_attention_mask"] = global_mask
    return {key: tensor.to(network.device) for key, tensor in tensors.items() if key in network.accepted}


def _check_types(network: Network, encoding: Encoding) -> NDArray[np.int64]:
    """Return the token types of a document, or zeros for a model with one type."""
    known = int(getattr(network.config, "type_vocab_size", 0) or 0)
    if known <= 1:
        return np.zeros_like(encoding.type_ids)
    if len(encoding) and not 0 <= encoding.type_ids.min() <= encoding.type_ids.max() < known:
        raise InputError(
            f"The tokenizer does not fit the model: it gives a token the type {encoding.type_ids.max()}, and the "
            f"model knows {known} types (0-{known - 1})."
        )
    return encoding.type_ids


def count_positions(network: Network) -> int:
    """Return the length of the longest document that the position embeddings cover."""
    positions = getattr(network.config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:  # positions are relative
        return UNBOUNDED_TOKENS
    first = _first_position(network)
    # Where an unseen model counts from is unknown: from behind the pad token, to be on the safe side.
    counts_later = network.family.positions_after_padding or (not network.sees_inside and first <= MAX_RESERVED)
    return positions - first if counts_later else positions


def _first_position(network: Network) -> int:
    fixed = network.family.first_position
    return int(network.config.pad_token_id or 0) + 1 if fixed is None else fixed


@contextmanager
def declare_pad_token(network: Network, encodings: Sequence[Encoding]) -> Iterator[None]:
    """Declare a pad token for this pass if a causal classifier has none.

    Such a classifier reads the last token that is not padding; without a pad token it accepts only one document at a
    time and reads its last token. Any id with which no document of the batch ends serves as the pad token.
    """
    facts, config = network.task.facts, network.config
    if not (facts.reads_last or not network.sees_inside) or facts.pad_id is not None:
        yield
        return
    ends = {int(encoding.ids[-1]) for encoding in encodings}
    unused = next((index for index in range(int(config.vocab_size)) if index not in ends), None)
    with with_attribute(config, "pad_token_id", unused):
        yield


def check_left_padding(network: Network, encoding: Encoding) -> None:
    """Raise InputError if ids for a causal model begin with padding, which its tokens would attend to.

    A single pad token that also begins texts (GPT-2's end of text) is no padding.
    """
    pad = network.config.pad_token_id
    words = np.flatnonzero(encoding.ids != pad)
    if not network.family.causal or pad is None or not len(words) or words[0] == 0:
        return
    if words[0] > 1 or pad != network.config.bos_token_id:
        raise InputError(
            f"The ids begin with {words[0]} pad token{'s' if words[0] > 1 else ''} (padding on the left): leave "
            "padding out, documents of different lengths are padded here."
        )


def check_global_tokens(network: Network, positions: Iterable[int]) -> tuple[int, ...]:
    """Return requested global positions, sorted and distinct; raise InputError if they are not a list."""
    if not network.banded:
        raise OptionError(
            f"Global tokens exist only in Longformer models; this one is of type '{network.config.model_type}'."
        )
    refusal = InputError(f"Global tokens are a list of positions such as [0, 5], not {positions!r}.")
    try:
        listed = list(positions)
        unique = {operator.index(position) for position in listed}
    except TypeError:
        raise refusal from None
    if any(isinstance(position, bool) for position in listed):
        raise refusal
    return tuple(sorted(unique))


def find_global_tokens(network: Network, encoding: Encoding) -> tuple[int, ...]:
    """Return the positions with global attention: those of the encoding, else those the task is trained with."""
    if encoding.global_tokens is not None:
        return encoding.global_tokens
    if network.task.name == "sequence_classification":
        return (0,)
    if network.task.name == "question_answering":
        return _question(network, encoding)
    return ()


def _question(network: Network, encoding: Encoding) -> tuple[int, ...]:
    """Return the positions up to the end of the question."""
    if encoding.pair is not None:
        question = np.flatnonzero(encoding.segments == 0)
        return tuple(range(int(question[-1]) + 1)) if len(question) else (0,)
    # Without a pair, separators mark the end of the question: <s> question </s></s> text </s>.
    separators = np.flatnonzero(encoding.ids == network.config.sep_token_id)
    return tuple(range(int(separators[0]))) if len(separators) == 3 else ()


def special_names(network: Network) -> dict[int, str]:
    """Return ids and names of the special tokens for encodings made without a tokenizer."""
    size = int(network.config.vocab_size)
    names = {index: name for index, name in network.family.special_ids if index < size}
    for role in ("pad", "bos", "eos", "cls", "sep"):
        index = getattr(network.config, f"{role}_token_id", None)
        if isinstance(index, int) and 0 <= index < size:
            names.setdefault(index, f"[{role.upper()}]")
    return names


def check_vocabulary(encoding: Encoding, network: Network) -> None:
    """Raise InputError if the ids of a document come from a vocabulary other than that of the model's tokenizer."""
    if encoding.vocabulary is None or network.tokenizer is None:
        return
    if encoding.vocabulary != fingerprint_vocabulary(network.tokenizer):
        raise InputError(
            f"The encoding was made for another model: its ids are not from the vocabulary of '{network.name}'. Give "
            "the text itself, or encode it with encode() of this model."
        )


def check_origin(encoding: Encoding, provenance: Mapping[str, Any], network: Network) -> None:
    """Raise InputError if the explanation of a document was made with other weights or ids than those of the model."""
    if provenance.get("weights") not in (None, network.weights_hash):
        this = {"model": network.name, "dtype": str(network.dtype).removeprefix("torch.")}
        raise InputError(
            f"The explanation was made with other weights ({_describe(provenance)}) than those of this model "
            f"({_describe(this)}): explain the document with this model first."
        )
    check_vocabulary(encoding, network)


def _describe(provenance: Mapping[str, Any]) -> str:
    return f"'{quote(provenance.get('model'))}' in {quote(provenance.get('dtype'))}"
