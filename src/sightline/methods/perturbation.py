"""Occlusion and leave-one-out: what happens to the output when a part of the document is taken away.

s_i = y(x) − y(x without i), y a probability by default (Zeiler & Fergus 2014; Li et al. 2016).
All changed documents of one explanation run in batches of similar length; the same document is never run twice, and
once for all when every class is explained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sightline.errors import OptionError
from sightline.methods.registry import Array, Attribution, checked_layer, method
from sightline.methods.segments import LEVELS, Level, groups_of
from sightline.models.batching import BATCH_TOKENS
from sightline.models.target import Quantity
from sightline.text import Encoding
from sightline.trace import Trace

Replacement = Literal["mask", "unk", "pad", "delete"]


def without(trace: Trace, positions: Sequence[int], replacement: Replacement) -> Encoding:
    """Return the document with the tokens at `positions` replaced or deleted."""
    if not len(positions):
        return trace.encoding
    if replacement == "delete":
        if len(positions) == trace.tokens:
            raise OptionError(
                "Deleting all tokens leaves nothing to run; replace them by a token that the vocabulary has "
                "(replacement='mask', 'unk' or 'pad')."
            )
        if trace.target.position is not None or trace.target.span is not None:
            raise OptionError(
                "This model reads single tokens, and deleting others would move them; "
                "use replacement='mask', 'unk' or 'pad'."
            )
        return trace.encoding.drop(positions)
    ids = trace.encoding.ids.copy()
    ids[list(positions)] = trace.network.token_id(replacement)
    return trace.encoding.replace_ids(ids)


def default_replacement(trace: Trace) -> Replacement:
    """Return the first of mask, unk and pad that the model's vocabulary has."""
    known: tuple[Replacement, ...] = ("mask", "unk", "pad")
    return next((name for name in known if name in trace.network.token_ids), "delete")


class Removals:
    """Documents with parts removed, each different one once."""

    def __init__(self, trace: Trace, removed: Sequence[Sequence[int]], replacement: Replacement) -> None:
        self.trace = trace
        self._keys: list[bytes] = []
        self._changed: dict[bytes, Encoding] = {}
        for positions in removed:
            encoding = without(trace, positions, replacement)
            key = hashlib.blake2b(encoding.ids.tobytes() + encoding.type_ids.tobytes(), digest_size=16).digest()
            self._keys.append(key)
            self._changed.setdefault(key, encoding)

    def __len__(self) -> int:
        """How many documents the model has to read."""
        return len(self._changed)

    def values(self, quantity: Quantity) -> Array:
        """y of every document, in the order of `removed`."""
        logits = self.trace.once(tuple(self._changed), lambda: self.trace.probe(list(self._changed.values())))
        found = {key: self.trace.value_of(one, quantity) for key, one in zip(self._changed, logits, strict=True)}
        return np.array([found[key] for key in self._keys])


def shared_by(groups: Sequence[Sequence[int]], values: Array, tokens: int) -> Array:
    """Scores (n,): the value of each group shared equally among its tokens, 0 for tokens in no group."""
    scores: Array = np.zeros(tokens)
    for group, value in zip(groups, values, strict=True):
        scores[list(group)] = value / len(group)
    return scores


@method(
    "occlusion",
    title="Occlusion",
    kind="perturbation",
    summary="Signed change in the target's probability when each token, word or sentence is masked or deleted.",
    formula="s_i = p(x) − p(x without i)",
    citation="Zeiler & Fergus 2014; Li et al. 2016",
    needs={"probes"},
    signed=True,
    class_specific=True,
    cost="one forward pass per token (word, sentence)",
    use="Use it as a direct measurement of single words, and to check other methods.",
    avoid="Avoid it on long documents where every word is redundant: all effects may be tiny; try sentences.",
)
def occlusion(
    trace: Trace,
    *,
    replacement: Replacement | None = None,
    level: Level = "token",
    quantity: Quantity = "probability",
    budget: int | None = None,
) -> Attribution:
    """y(x) − y(x without the group), shared equally among the tokens of the group; specials score 0.

    `replacement` is the mask token by default (unknown or pad where the vocabulary has none). `budget` is the largest
    number of documents the model may be asked to read; what would need more is refused before anything runs.
    """
    chosen = replacement or default_replacement(trace)
    groups = groups_of(trace.encoding, level)
    removals = Removals(trace, [[], *groups], chosen)
    if budget is not None and len(removals) > budget:
        raise OptionError(_over_budget(trace.encoding, level, len(removals), budget))
    whole, *others = removals.values(quantity)
    scores = shared_by(groups, whole - np.array(others), trace.tokens)
    return Attribution(scores, checks={"model_calls": len(removals), "replacement": chosen})


def _over_budget(encoding: Encoding, level: Level, needed: int, budget: int) -> str:
    coarser = LEVELS[LEVELS.index(level) + 1 :]
    counts = {other: len(groups_of(encoding, other)) + 1 for other in coarser}
    fitting = [f"level='{other}' needs {count:,} at most" for other, count in counts.items() if count <= budget]
    advice = f"; {fitting[0]}" if fitting else ""
    return f"Occlusion at {level} level needs {needed:,} calls of the model, the budget is {budget:,}{advice}."


@method(
    "leave_one_out",
    title="Leave-one-out",
    kind="perturbation",
    summary="Signed change in the target's probability when one token's representation is erased in one layer.",
    formula="s_i = p(x) − p(x^l_i ← 0)",
    citation="Li et al. 2016; Jain & Wallace 2019",
    needs={"inputs", "probes"},
    signed=True,
    class_specific=True,
    cost="one forward pass per token",
    use="Use it to measure what the model still needs from a token in the middle of its computation.",
    avoid="Avoid reading upper layers as scores of words: representations have been mixed there.",
)
def leave_one_out(
    trace: Trace,
    *,
    layer: int = 0,
    replacement: Literal["zero", "mean"] = "zero",
    quantity: Quantity = "probability",
) -> Attribution:
    """y(x) − y(x^l_i replaced by zeros, or by the mean of x^l over the tokens); specials are tokens like all others."""
    number = checked_layer(layer, trace.layers)
    logits = trace.once(
        ("leave_one_out", number, replacement), lambda: _logits_without_each(trace, number, replacement)
    )
    values = [trace.value_of(one, quantity) for one in logits]
    return Attribution(values[-1] - np.array(values[:-1]), checks={"model_calls": len(values)})


def _logits_without_each(trace: Trace, layer: int, replacement: Literal["zero", "mean"]) -> list[Tensor]:
    """Logits with every token in turn replaced in x^l, n of them; then those with none replaced, measured alike."""
    states = torch.from_numpy(trace.inputs[layer]).to(trace.network.device, trace.network.dtype)
    substitute = torch.zeros_like(states[0]) if replacement == "zero" else states.mean(dim=0)
    places = torch.arange(trace.tokens + 1)  # the last one is out of range
    logits: list[Tensor] = []
    for chunk in torch.split(places, max(1, BATCH_TOKENS // trace.tokens)):
        points = _replaced(states, chunk.to(states.device), substitute)
        logits += trace.network.run([trace.encoding] * len(chunk), given={layer: points})
        if trace.progress is not None:
            trace.progress(len(logits), len(places))
    return logits


def _replaced(states: Tensor, places: Tensor, substitute: Tensor) -> Tensor:
    """(n, d) -> (B, n, d): in copy b, the row places[b] is the substitute."""
    here = torch.arange(len(states), device=states.device)[None, :] == places[:, None]
    return torch.where(here[:, :, None], substitute, states[None])
