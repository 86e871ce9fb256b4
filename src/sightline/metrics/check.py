"""Is this very explanation better than chance? Its order of the words against random orders, on the model itself.

The measure is the AOPC of `faithfulness`: the words it ranks highest are deleted share by share, and the mean fall of
the probability is compared with that of random orders of the same words. It costs one run of the model for every order
and share (0 and 100 % are left out: all orders have them in common); long documents get fewer shares. What was measured
is kept as a `RemovalCurve`, to be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.explanation import Explanation, RemovalCurve
from sightline.metrics.faithfulness import aopc
from sightline.metrics.removal_order import random_order, removed_positions, score_order, unit_counts
from sightline.models import Network
from sightline.perturb import Perturbations, perturb_probability, removable_units

ORDERINGS = 20
TOKENS = 100_000
"""Tokens the model may read for one check unless a budget is given: a few seconds for a small model."""
GRIDS: tuple[tuple[float, ...], ...] = (
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    (0.1, 0.2, 0.3, 0.5, 0.7),
    (0.1, 0.2, 0.5),
    (0.2, 0.5, 0.8),
    (0.3, 0.7),
    (0.2,),
)
"""Shares to measure at, the first that the budget allows; the larger a share, the less is left to read."""

Checks = dict[str, float | int | str]


class Checked(NamedTuple):
    """What the check found: entries of `Explanation.checks`, and the curves unless there was nothing to compare."""

    checks: Checks
    curve: RemovalCurve | None = None


def faithfulness_check(
    network: Network,
    explanation: Explanation,
    *,
    orderings: int = ORDERINGS,
    budget: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Checks:
    """Return what goes into `explanation.checks`.

    faithfulness: mean fall of the probability; random_mean: the same for the random orders; random_beaten of
    random_orderings: how many of them fall short of it; faithfulness_percentile: the share of them in percent, ties
    counted half; check_calls: documents the model read. Where there is nothing to compare (fewer than two words, a
    model with one output) the single entry faithfulness_check says so in a sentence. `budget` bounds check_calls; by
    default the tokens that are read are bounded instead, so that long documents get fewer shares.
    """
    (found,) = faithfulness_checks(
        network, [explanation], orderings=orderings, budget=budget, seed=seed, progress=progress
    )
    return found.checks


def faithfulness_checks(
    network: Network,
    explanations: Sequence[Explanation],
    *,
    orderings: int = ORDERINGS,
    budget: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Checked]:
    """Check several explanations; those of one document and class share the random orders. `budget` is for each."""
    if orderings < 1:
        raise OptionError(f"orderings={orderings} is not possible; compare with at least one random ordering.")
    shared: dict[tuple[object, ...], Perturbations[float]] = {}
    found: list[Checked] = []
    for explanation in explanations:
        encoding, target = explanation.encoding, explanation.target
        key = (id(encoding), target.index, target.position, target.span)
        try:
            if key not in shared:
                shared[key] = perturb_probability(network, encoding, target)
            units = removable_units(encoding, target, "word")
        except (InputError, UnsupportedError) as error:
            found.append(Checked({"faithfulness_check": str(error)}))
            continue
        if len(units) < 2:
            found.append(Checked({"faithfulness_check": "The document has fewer than two words to put in order."}))
            continue
        shares = _shares(len(encoding), orderings, budget)
        counts = unit_counts(shares, len(units))
        generator = np.random.default_rng(seed)
        orders = [score_order(explanation.scores, units)]
        orders += [random_order(units, generator) for _ in range(orderings)]
        removals = [removed_positions(one, units, counts, "remove") for one in orders]
        found.append(_compared(shared[key], shares, removals, progress))
    return found


def _compared(
    perturbations: Perturbations[float],
    shares: Sequence[float],
    removals: Sequence[Sequence[Sequence[int]]],
    progress: Callable[[int, int], None] | None,
) -> Checked:
    """Compare the first order with the others, each given as what it removes at every share."""
    whole = perturbations.request([], "delete")
    asked = [[perturbations.request(removed, "delete") for removed in order] for order in removals]
    perturbations.run(progress)
    original = perturbations.result(whole)
    curves = np.array([perturbations.results(keys) for keys in asked])
    own, *random = (aopc(curve, original) for curve in curves)
    beaten, tied = sum(one < own for one in random), sum(one == own for one in random)
    checks: Checks = {
        "faithfulness": own,
        "random_mean": float(np.mean(random)),
        "random_beaten": beaten,
        "random_orderings": len(random),
        "faithfulness_percentile": 100.0 * (beaten + tied / 2) / len(random),
        "check_calls": len({whole, *(key for keys in asked for key in keys)}),
    }
    with_whole = np.column_stack([np.full(len(curves), original), curves])
    return Checked(checks, RemovalCurve(np.array([0.0, *shares]), with_whole[0], with_whole[1:]))


def _shares(tokens: int, orderings: int, budget: int | None) -> tuple[float, ...]:
    """Return the finest shares the budget allows, counting one run for every order and share and one for the whole.

    Without a budget of runs it is `TOKENS` tokens: a document without the share r of its words has about (1 − r)·n.
    """
    if budget is None:
        documents = TOKENS / tokens - 1
        affordable = (one for one in GRIDS if sum(1 - share for share in one) * (orderings + 1) <= documents)
        return next(affordable, GRIDS[-1])
    for shares in GRIDS:
        if len(shares) * (orderings + 1) + 1 <= budget:
            return shares
    raise OptionError(
        f"Comparing with {orderings} random orderings needs {orderings + 2} calls of the model at least, "
        f"the budget is {budget}. Raise check_budget."
    )
