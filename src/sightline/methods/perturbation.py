"""Occlusion and leave-one-out: what happens to the output when a part of the document is taken away.

s_i = y(x) − y(x without i), y what is explained, by default log-odds (Zeiler & Fergus 2014; Li et al. 2016).
All changed documents of one explanation run in batches of similar length. The same document is never run twice, and
classes explained together share the runs.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.errors import OptionError
from sightline.methods.registry import Array, Attribution, method
from sightline.models.batching import BATCH_TOKENS
from sightline.models.target import Quantity
from sightline.models.task import place_of
from sightline.passes.perturb import DocumentGame, Replacement, default_replacement, evaluate_removals, request_removals
from sightline.passes.trace import Trace
from sightline.settings.values import check_layer
from sightline.text.hierarchy import BRANCHING, ROOT, Hierarchy, HierarchyScores, build_hierarchy
from sightline.text.units import Level, units_of


@method(
    "occlusion",
    title="Occlusion",
    kind="perturbation",
    summary="Signed change in the target's log-odds when each token, word or sentence is masked or deleted.",
    formula="s_i = y(x) − y(x without i)",
    citation="Zeiler & Fergus 2014; Li et al. 2016",
    needs={"probes"},
    signed=True,
    class_specific=True,
    cost="one forward pass per token (word, sentence), at most 200 by default",
    use="Use it as a direct measurement of single words, and to check other methods.",
    avoid="Avoid it where words are redundant: each effect is then tiny; owen divides what several words share.",
)
def occlusion(
    trace: Trace,
    *,
    replacement: Replacement | None = None,
    level: Level = "token",
    quantity: Quantity | None = None,
    budget: int | None = 200,
    special: bool = False,
) -> Attribution:
    """y(x) − y(x without the unit), shared equally among the tokens of the unit; specials score 0.

    special=True replaces special tokens in turn as well, as Abnar & Zuidema 2020 ("blank-out") do, among tokens only.

    `replacement` is the mask token by default (unknown or pad where the vocabulary has none). `budget` is the largest
    number of model calls, None for no limit. Where it does not allow every unit of `level` to be removed in
    turn, paragraphs are removed first, then the sentences of the paragraph with the largest effect, and so on down to
    `level`, always looking next into the unit with the largest effect. Extras then hold what was measured
    (`text.hierarchy.HierarchyScores`), and check measured_share is the share of the tokens whose unit of `level` was.
    """
    chosen = replacement or default_replacement(trace.network)
    units = units_of(trace.encoding, level, special=special)
    if special and chosen == "delete":
        raise OptionError("Special tokens are replaced, not deleted: use replacement='mask', 'unk' or 'pad'.")
    if budget is not None and len(units) + 1 > budget:
        if special:
            raise OptionError(
                f"Occlusion of all {len(units)} tokens, special ones included, needs {len(units) + 1} model calls, the "
                f"budget is {budget}; raise the budget."
            )
        tree = build_hierarchy(trace.encoding, level, branching=BRANCHING)
        return _occlude_best_first(trace, tree, chosen, quantity, budget)
    removals, keys = request_removals(trace, [[], *(positions.tolist() for positions in units.tokens)], chosen)
    calls = removals.calls_made
    whole, *others = evaluate_removals(trace, removals, keys, quantity)
    scores = units.spread(whole - np.array(others))
    return Attribution(scores, checks={"model_calls": calls, "replacement": chosen})


def _occlude_best_first(
    trace: Trace, tree: Hierarchy, replacement: Replacement, quantity: Quantity | None, budget: int
) -> Attribution:
    """Measure the children of the unit with the largest effect, again and again while the budget allows it."""
    least = 2 + len(tree.children[ROOT])
    if budget < least:
        raise OptionError(
            f"Occlusion of this document needs at least {least} model calls, the budget is {budget}; raise the budget."
        )
    game = DocumentGame(trace, replacement, quantity, budget)

    def absent(node: int) -> NDArray[np.bool_]:
        mask = np.zeros(trace.token_count, dtype=np.bool_)
        mask[tree.tokens[node]] = True
        return mask

    whole, empty = game([np.zeros(trace.token_count, dtype=np.bool_), absent(ROOT)])
    effects = {ROOT: float(whole - empty)}
    open_nodes = [ROOT]
    while affordable := [node for node in open_nodes if len(tree.children[node]) <= budget - game.calls]:
        node = max(affordable, key=lambda candidate: abs(effects[candidate]))
        children = tree.children[node]
        values = game([absent(child) for child in children])
        effects |= dict(zip(children, (whole - values).tolist(), strict=True))
        open_nodes.remove(node)
        open_nodes += [child for child in children if tree.children[child]]
    return Attribution(
        tree.spread(effects, trace.token_count),
        checks={
            "model_calls": game.calls,
            "replacement": replacement,
            "measured_share": tree.measured_share(effects),
        },
        extras=HierarchyScores.of(tree, effects, {}).extras(),
    )


@method(
    "leave_one_out",
    title="Leave-one-out",
    kind="perturbation",
    summary="Signed change in the target's log-odds when one token's representation is erased in one layer.",
    formula="s_i = y(x) − y(x^l_i ← 0)",
    citation="Li et al. 2016; Jain & Wallace 2019",
    needs={"inputs", "probes"},
    signed=True,
    class_specific=True,
    reads_windows=True,
    cost="one forward pass per token",
    use="Use it to measure what the model still needs from a token in the middle of its computation.",
    avoid="Avoid reading upper layers as scores of words: representations have been mixed there.",
)
def leave_one_out(
    trace: Trace,
    *,
    layer: int = 0,
    replacement: Literal["zero", "mean"] = "zero",
    quantity: Quantity | None = None,
) -> Attribution:
    """y(x) − y(x^l_i replaced by zeros, or by the mean of x^l over the tokens); specials are tokens like all others.

    In a document that is read in windows, a token is replaced in every window that holds it.
    """
    number = check_layer(layer, trace.layer_count)
    parts = trace.once(
        ("leave_one_out", number, replacement),
        lambda: [(at, _logits_without_each(part, number, replacement)) for part, at in trace.parts()],
    )

    def value_without(token: int | None) -> float:
        places = [None if token is None else place_of(token, positions) for positions, _ in parts]
        chosen = [logits[-1 if place is None else place] for place, (_, logits) in zip(places, parts, strict=True)]
        return trace.value_of(trace.combine(chosen), quantity)

    values = np.array([value_without(token) for token in range(trace.token_count)])
    calls = sum(len(logits) for _, logits in parts)
    return Attribution(value_without(None) - values, checks={"model_calls": calls})


def leave_one_word_out(trace: Trace, *, quantity: Quantity | None = None) -> Array | Attribution:
    """y(x) − y(x without word i), however many words there are: leave-one-out of a function, which has no layers."""
    return occlusion(trace, replacement="delete", level="word", quantity=quantity, budget=None)


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
