"""Which methods apply to which models.

A model with a single attention (`models/single_attention/`) has one row of weights and no token that attends. Methods
that follow attention from token to token, through layers or through the parts of an attention block, mean nothing
there, and so does relevance propagation, which has no rules for recurrent encoders. They are refused before anything
runs.
"""

from __future__ import annotations

from sightline.errors import UnsupportedError
from sightline.methods.registry import METHODS
from sightline.models.families import Family

TOKEN_TO_TOKEN = frozenset(
    {
        *("received_attention", "rollout", "flow"),
        *("alti", "norm_rollout", "globenc"),
        *("lrp", "partial_lrp", "transatt", "attnlrp"),
    }
)


def applies(method: str, family: Family) -> bool:
    """Whether a method means something for models of a family."""
    return not (family.single_attention and method in TOKEN_TO_TOKEN)


def check_applies(method: str, family: Family) -> None:
    """Raise UnsupportedError if a method means nothing for models of a family, and name methods that do."""
    if not applies(method, family):
        others = ", ".join(name for name in METHODS.names() if applies(name, family))
        raise UnsupportedError(
            f"The method '{method}' follows attention from token to token, and a '{family.model_type}' model has one "
            f"row of weights only. Use one of: {others}."
        )
