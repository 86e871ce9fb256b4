"""Occlusion: what happens to the output when a token or a word is taken away.

s_i = y(x) − y(x without i), y a probability by default (Zeiler & Fergus 2014; Li et al. 2016).
All changed documents of one explanation run in batches of similar length; the same document is never run twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sightline.errors import OptionError
from sightline.methods.registry import Array, Attribution, method
from sightline.models.target import Quantity
from sightline.text import Encoding
from sightline.trace import Trace

Replacement = Literal["mask", "unk", "pad", "delete"]


def without(trace: Trace, positions: Sequence[int], replacement: Replacement) -> Encoding:
    """Return the document with the tokens at `positions` replaced or deleted."""
    if replacement == "delete":
        return trace.encoding.drop(positions)
    ids = trace.encoding.ids.copy()
    ids[list(positions)] = trace.network.token_id(replacement)
    return trace.encoding.replace_ids(ids)


def default_replacement(trace: Trace) -> Replacement:
    """Return the first of mask, unk and pad that the model's vocabulary has."""
    known: tuple[Replacement, ...] = ("mask", "unk", "pad")
    return next((name for name in known if name in trace.network.token_ids), "delete")


def groups_of(encoding: Encoding, level: Literal["token", "word"]) -> list[list[int]]:
    """Token positions that are taken away together: each token, or all tokens of each word; specials never."""
    if level == "token":
        return [[int(i)] for i in np.flatnonzero(~encoding.special)]
    words = encoding.word_ids
    return [[int(i) for i in np.flatnonzero(words == word)] for word in np.unique(words[~encoding.special])]


@method(
    "occlusion",
    summary="Change of the target's probability when each token (or word) is masked or deleted, signed.",
    formula="s_i = p(x) − p(x without i)",
    citation="Zeiler & Fergus 2014; Li et al. 2016",
    needs={"probes"},
    signed=True,
    class_specific=True,
    cost="one forward a token (or word)",
    use="As a direct measurement of single words, and to check other methods.",
    avoid="On long documents where any one word is redundant: all effects may be tiny.",
)
def occlusion(
    trace: Trace,
    *,
    replacement: Replacement | None = None,
    level: Literal["token", "word"] = "token",
    quantity: Quantity = "probability",
) -> Attribution:
    """y(x) − y(x without the group), shared equally among the tokens of the group; specials score 0.

    `replacement` is the mask token by default (unknown or pad where the vocabulary has none).
    """
    chosen = replacement or default_replacement(trace)
    groups = groups_of(trace.encoding, level)
    changed: dict[bytes, Encoding] = {}
    keys = []
    for group in groups:
        if chosen == "delete" and len(group) == trace.tokens:
            raise OptionError("Deleting the only token leaves nothing to run; use replacement='mask' or 'pad'.")
        encoding = without(trace, group, chosen)
        key = encoding.ids.tobytes()
        keys.append(key)
        changed.setdefault(key, encoding)
    own, *others = trace.probe([trace.encoding, *changed.values()])
    whole = trace.value_of(own, quantity)
    values = {key: trace.value_of(logits, quantity) for key, logits in zip(changed, others, strict=True)}
    scores: Array = np.zeros(trace.tokens)
    for group, key in zip(groups, keys, strict=True):
        scores[group] = (whole - values[key]) / len(group)
    return Attribution(scores, checks={"model_calls": len(changed) + 1, "replacement": chosen})
