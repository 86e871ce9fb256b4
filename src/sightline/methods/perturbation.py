"""Occlusion and leave-one-out: what happens to the output when a part of the document is taken away.

s_i = y(x) − y(x without i), y a probability by default (Zeiler & Fergus 2014; Li et al. 2016).
All changed documents of one explanation run in batches of similar length; the same document is never run twice, and
once for all when every class is explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sightline.arguments import check_layer
from sightline.errors import OptionError
from sightline.methods.registry import Array, Attribution, method
from sightline.models.batching import BATCH_TOKENS
from sightline.models.target import Quantity, Target
from sightline.perturb import Key, Perturbations, Replacement, default_replacement
from sightline.text import Encoding
from sightline.text.units import LEVELS, Level, units_of
from sightline.trace import Trace

_WHOLE_OUTPUT = Target(index=None, label="")
"""All logits are kept, for the classes to come. Asking for the target would run the model before the budget check."""


def request_removals(
    trace: Trace, removed: Iterable[Sequence[int]], replacement: Replacement
) -> tuple[Perturbations[Tensor], list[Key]]:
    """Request the document without each of the sets of tokens; return the engine and one key per set."""
    if replacement == "delete" and trace.target.read_positions:
        raise OptionError(
            "This model reads single tokens, and deleting others would move them; "
            "use replacement='mask', 'unk' or 'pad'."
        )
    removals = Perturbations(trace.network, trace.encoding, _WHOLE_OUTPUT, lambda logits, _target: logits)
    return removals, [removals.request(positions, replacement) for positions in removed]


def evaluate_removals(trace: Trace, removals: Perturbations[Tensor], keys: Sequence[Key], quantity: Quantity) -> Array:
    """Return y of every requested document, in the order of `keys`; classes explained together share the runs."""

    def run() -> dict[Key, Tensor]:
        removals.run(trace.progress)
        return {key: removals.result(key) for key in keys}

    logits = trace.once(tuple(dict.fromkeys(keys)), run)
    values = {key: trace.value_of(document_logits, quantity) for key, document_logits in logits.items()}
    return np.array([values[key] for key in keys])


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
    chosen = replacement or default_replacement(trace.network)
    units = units_of(trace.encoding, level)
    removals, keys = request_removals(trace, [[], *(positions.tolist() for positions in units.tokens)], chosen)
    calls = removals.calls_made
    if budget is not None and calls > budget:
        raise OptionError(_over_budget(trace.encoding, level, calls, budget))
    whole, *others = evaluate_removals(trace, removals, keys, quantity)
    scores = units.spread(whole - np.array(others))
    return Attribution(scores, checks={"model_calls": calls, "replacement": chosen})


def _over_budget(encoding: Encoding, level: Level, needed: int, budget: int) -> str:
    coarser = LEVELS[LEVELS.index(level) + 1 :]
    counts = {other: len(units_of(encoding, other)) + 1 for other in coarser}
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
    number = check_layer(layer, trace.layer_count)
    logits = trace.once(
        ("leave_one_out", number, replacement), lambda: _logits_without_each(trace, number, replacement)
    )
    values = [trace.value_of(one, quantity) for one in logits]
    return Attribution(values[-1] - np.array(values[:-1]), checks={"model_calls": len(values)})


def _logits_without_each(trace: Trace, layer: int, replacement: Literal["zero", "mean"]) -> list[Tensor]:
    """Logits with every token in turn replaced in x^l, n of them; then those with none replaced, measured alike."""
    states = trace.layer_input(layer)
    substitute = torch.zeros_like(states[0]) if replacement == "zero" else states.mean(dim=0)
    places = torch.arange(trace.token_count + 1)  # the last one is out of range
    logits: list[Tensor] = []
    for chunk in torch.split(places, max(1, BATCH_TOKENS // trace.token_count)):
        points = _replace_rows(states, chunk.to(states.device), substitute)
        logits += trace.logits_with(layer, points)
        if trace.progress is not None:
            trace.progress(len(logits), len(places))
    return logits


def _replace_rows(states: Tensor, places: Tensor, substitute: Tensor) -> Tensor:
    """(n, d) -> (B, n, d): in copy b, the row places[b] is the substitute."""
    here = torch.arange(len(states), device=states.device)[None, :] == places[:, None]
    return torch.where(here[:, :, None], substitute, states[None])
