"""Which methods apply to which models.

A model with a single attention (`models/single_attention/`) has one row of weights and no token that attends. Methods
that follow attention from token to token, through layers or through the parts of an attention block, mean nothing
there. Relevance propagation has rules for softmax only, so it does not apply to heads with a sparse projection either.
What does not apply is refused before anything runs.
"""

from __future__ import annotations

from sightline.attention.projections import SOFTMAX, projection_of
from sightline.defaults import DEFAULT_METHODS, FALLBACK_METHODS
from sightline.errors import UnsupportedError
from sightline.methods.registry import METHODS
from sightline.models import Network
from sightline.models.families import Family

RELEVANCE = frozenset({"lrp", "partial_lrp", "transatt", "attnlrp"})
TOKEN_TO_TOKEN = RELEVANCE | {"received_attention", "rollout", "flow", "alti", "norm_rollout", "globenc"}


def applies(method: str, family: Family, *, sparse_heads: bool = False) -> bool:
    """Whether a method means something for models of a family, with or without sparse projections in their heads."""
    return not (family.single_attention and method in TOKEN_TO_TOKEN) and not (sparse_heads and method in RELEVANCE)


def default_methods(network: Network) -> tuple[str, ...]:
    """Return the methods that explain a document unless others are asked for, for this model.

    `FALLBACK_METHODS` where one of `DEFAULT_METHODS` does not apply (a single attention, sparse projections) or cannot
    run (the library's Longformer attention does not show its operations).
    """
    hidden_operations = network.banded and network.banded_encoder is None
    sparse_heads = projection_of(network.config) != SOFTMAX
    applicable = all(applies(name, network.family, sparse_heads=sparse_heads) for name in DEFAULT_METHODS)
    return DEFAULT_METHODS if applicable and not hidden_operations else FALLBACK_METHODS


def check_applies(method: str, network: Network) -> None:
    """Raise UnsupportedError if a method means nothing for a model, and name methods that do."""
    family, projection = network.family, projection_of(network.config)
    sparse_heads = projection != SOFTMAX
    if applies(method, family, sparse_heads=sparse_heads):
        return
    others = ", ".join(name for name in METHODS.names() if applies(name, family, sparse_heads=sparse_heads))
    if family.single_attention:
        raise UnsupportedError(
            f"The method '{method}' follows attention from token to token, and a '{family.model_type}' model has one "
            f"row of weights only. Use one of: {others}."
        )
    raise UnsupportedError(
        f"The method '{method}' has no rule for the sparse attention of this model ({projection.name}). "
        f"Use one of: {others}."
    )
