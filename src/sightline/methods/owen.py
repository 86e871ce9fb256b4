"""Owen values: a fair division of the output among paragraphs, their sentences and their words.

The coalition game v(present units) = y(document without the others) is divided along the document's own structure
(`structure.owen_values`). With few units all coalitions are evaluated and the values are exact. With many, units are
sampled from coarse to fine, and the budget goes where the values are large or uncertain.
"""

from __future__ import annotations

import numpy as np
import torch

from sightline.errors import OptionError
from sightline.methods.integration.quadrature import completeness_gap
from sightline.methods.registry import Attribution, method
from sightline.methods.structure.owen_values import (
    LEAST_PAIRS,
    count_exact_coalitions,
    exact_owen_values,
    least_sampled_calls,
    sample_owen_values,
)
from sightline.methods.structure.removals import DocumentGame
from sightline.models.target import Quantity
from sightline.passes.perturb import Replacement, default_replacement
from sightline.passes.trace import Trace
from sightline.settings.arguments import check_count, check_seed
from sightline.text.hierarchy import BRANCHING, ROOT, HierarchyScores, build_hierarchy
from sightline.text.units import Level

BUDGET = 200
"""Calls of the model by default. Looking inside a unit costs at most 4 · (branching − 1) of them, 28 by default."""


@method(
    "owen",
    title="Owen values",
    kind="perturbation",
    summary="Signed fair shares of paragraphs, sentences and words in the target's probability; they add up.",
    formula="s_u = E[v(before u, and u) − v(before u)] over orderings that keep sentences and paragraphs together",
    citation="Owen 1977; Winter 1989; Lundberg & Lee 2017",
    needs={"probes"},
    signed=True,
    class_specific=True,
    cost="as many forward passes as the budget allows, 200 by default",
    use="Use it on long documents: it measures all paragraphs, and the words where they matter.",
    avoid="Avoid reading single words of a unit that was not refined: they share its value equally.",
)
def owen(
    trace: Trace,
    *,
    budget: int = BUDGET,
    level: Level = "word",
    replacement: Replacement | None = None,
    quantity: Quantity = "probability",
    branching: int = BRANCHING,
    seed: int = 0,
) -> Attribution:
    """Measure coarse units first and look into those that matter, with at most `budget` model calls.

    `level` is the finest level. The value of a unit that was not refined is shared equally among its tokens. Extras
    hold the hierarchy that was measured (`text.hierarchy.HierarchyScores`) and standard_errors (n,), on the scale of
    the scores. Check completeness_gap is what rounding leaves of |Σ s − (y(x) − y(all units removed))|; measured_share
    is the share of the tokens whose unit of the finest level was measured.
    """
    check_count("branching", branching, 2)
    tree = build_hierarchy(trace.encoding, level)
    chosen = replacement or default_replacement(trace.network)
    if not len(tree.tokens[ROOT]):
        return Attribution(
            np.zeros(trace.token_count), checks={"model_calls": 0, "completeness_gap": 0.0, "exact": True}
        )
    game = DocumentGame(trace, chosen, quantity, budget)
    exact = count_exact_coalitions(tree, budget) <= budget
    if exact:
        result = exact_owen_values(tree, game)
    else:
        tree = build_hierarchy(trace.encoding, level, branching=branching)
        needed = least_sampled_calls(tree)
        if needed > budget:
            raise OptionError(
                f"Owen values of this document need at least {needed} model calls, the budget is {budget}; "
                "raise the budget or lower branching."
            )
        result = sample_owen_values(tree, game, lambda: budget - game.calls, pairs=LEAST_PAIRS, seed=check_seed(seed))
    leaf_values = torch.tensor([result.values[node] for node in tree.finest(result.values)], dtype=torch.float64)
    return Attribution(
        tree.spread(result.values, trace.token_count),
        checks={
            "completeness_gap": completeness_gap(leaf_values, np.array(result.ends)),
            "model_calls": game.calls,
            "replacement": chosen,
            "exact": exact,
            "orderings": result.orderings,
            "measured_share": tree.measured_share(result.values),
            "largest_standard_error": max(result.errors.values()),
        },
        extras={
            **HierarchyScores.of(tree, result.values, result.errors).extras(),
            "standard_errors": tree.spread(result.errors, trace.token_count),
        },
    )
