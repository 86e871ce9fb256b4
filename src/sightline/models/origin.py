"""Whether a document or an explanation belongs to a model, by the fingerprints that it carries.

An `Encoding` carries a digest of the vocabulary that its ids are from, so that models which share a vocabulary share
encodings. An explanation carries the hash of the weights in its provenance. What carries neither was made by hand, and
is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.files.foreign import quote
from sightline.text import Encoding, fingerprint_vocabulary

if TYPE_CHECKING:
    from sightline.models.network import Network


def check_vocabulary(encoding: Encoding, network: Network) -> None:
    """Raise InputError if the ids of a document are from another vocabulary than the one of the model's tokenizer."""
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
