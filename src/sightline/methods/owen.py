"""Owen values of the units of a hierarchy: exact by enumeration, or sampled and refined where it matters.

The Owen value generalises the Shapley value to players that belong together (Owen 1977), on several levels to the
value of Winter (1989). Let an *ordering* bring in the units of a document such that no unit starts before another one
is complete, on every level. With all such orderings equally likely,

    φ_u = E[v(everything before u, and u) − v(everything before u)].

The values of a unit's children sum to the value of the unit, and those of the paragraphs to v(all) − v(none). With a
flat hierarchy φ is the Shapley value.

`sample_owen_values` draws R orderings, each followed by its reverse, and looks into a unit only if it is refined:
refining a unit with k children evaluates the k − 1 documents inside it, in each of the R orderings. The sample means
add up exactly at every level. An ordering and its reverse together are exact if no more than two units interact.

The method `owen` divides the output fairly among paragraphs, their sentences and their words. The coalition game
v(present units) = y(document without the others) is divided along the document's own structure. With few units all
coalitions are evaluated and the values are exact. With many, units are sampled from coarse to fine, and the budget goes
where the values are large or uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from sightline.errors import OptionError
from sightline.methods.integration import completeness_gap
from sightline.methods.registry import Attribution, method
from sightline.models.target import Quantity
from sightline.passes.perturb import DocumentGame, Mask, Replacement, Value, default_replacement
from sightline.passes.trace import Trace
from sightline.settings.values import check_count, check_seed
from sightline.text.hierarchy import BRANCHING, ROOT, Hierarchy, HierarchyScores, build_hierarchy
from sightline.text.units import Level

LEAST_PAIRS = 2
"""Orderings with their reverse; a standard error needs two."""


@dataclass(frozen=True)
class OwenValues:
    """Values and standard errors of the nodes that were measured, by node, and v(none), v(all)."""

    values: dict[int, float]
    errors: dict[int, float]
    ends: tuple[float, float]
    orderings: int
    """How many orderings were sampled; 0 if the values are exact."""


def count_exact_coalitions(tree: Hierarchy, limit: int) -> int:
    """Return how many evaluations `exact_owen_values` asks for, at most; counting stops above `limit`."""
    total = 0
    waiting = [(ROOT, 1)]
    while waiting and total <= limit:
        node, contexts = waiting.pop()
        size = len(tree.children[node])
        if size:
            total += contexts * 2 ** min(size, 60)
            waiting += [(child, contexts * 2 ** min(size - 1, 60)) for child in tree.children[node]]
    return total


def exact_owen_values(tree: Hierarchy, value: Value) -> OwenValues:
    """Return the values of all nodes from every coalition that an ordering can pass through.

    For a child c of a unit with k children, in a context S that precedes the unit with probability p(S),

        φ_c = Σ_S p(S) Σ_{X ⊆ siblings} |X|! (k − 1 − |X|)! / k! · (v(S ∪ X ∪ c) − v(S ∪ X)).

    O(Σ_units contexts · 2^k) evaluations.
    """
    absent = _all_absent(tree)
    empty, whole = value([absent, _enter(absent, tree.tokens[ROOT])])
    values = {ROOT: float(whole - empty)}
    waiting: list[tuple[int, list[tuple[Mask, float]]]] = [(ROOT, [(absent, 1.0)])]
    while waiting:
        node, contexts = waiting.pop()
        children = tree.children[node]
        weights = [1 / (len(children) * math.comb(len(children) - 1, size)) for size in range(len(children))]
        for child in children:
            siblings = [sibling for sibling in children if sibling != child]
            inner: list[tuple[Mask, float]] = []
            for context, probability in contexts:
                for before in _subsets(siblings):
                    joined = context
                    for sibling in before:
                        joined = _enter(joined, tree.tokens[sibling])
                    inner.append((joined, probability * weights[len(before)]))
            without = value([context for context, _ in inner])
            with_child = value([_enter(context, tree.tokens[child]) for context, _ in inner])
            values[child] = float(np.array([weight for _, weight in inner]) @ (with_child - without))
            if tree.children[child]:
                waiting.append((child, inner))
    return OwenValues(values, dict.fromkeys(values, 0.0), (float(empty), float(whole)), 0)


class _Samples:
    """R orderings, drawn node by node as nodes are refined, and the marginal contributions seen so far."""

    def __init__(self, tree: Hierarchy, value: Value, seed: int) -> None:
        self.tree = tree
        self.value = value
        self.seed = seed
        absent = _all_absent(tree)
        empty, whole = value([absent, _enter(absent, tree.tokens[ROOT])])
        self.ends = (float(empty), float(whole))
        self.marginals: dict[int, list[float]] = {ROOT: []}
        """By measured node: v(before, and node) − v(before), one per ordering."""
        self.refined: list[int] = []
        self._contexts: dict[int, list[Mask]] = {ROOT: []}
        self._start = absent

    @property
    def orderings(self) -> int:
        return len(self.marginals[ROOT])

    def add_pair(self) -> None:
        """Draw one more ordering and its reverse through everything refined so far."""
        first = self.orderings
        self.marginals[ROOT] += [self.ends[1] - self.ends[0]] * 2
        self._contexts[ROOT] += [self._start] * 2
        for node in self.refined:
            self._walk(node, range(first, first + 2))

    def refine(self, node: int) -> None:
        """Measure the children of a node in every ordering."""
        for child in self.tree.children[node]:
            self.marginals[child], self._contexts[child] = [], []
        self.refined.append(node)
        self._walk(node, range(self.orderings))

    def _walk(self, node: int, samples: Iterable[int]) -> None:
        children = np.array(self.tree.children[node])
        orders, coalitions = [], []
        for sample in samples:
            # Drawn from the node's own stream: what else is refined, and when, changes nothing.
            generator = np.random.default_rng([self.seed, sample // 2, node])
            order = generator.permutation(children)
            order = (order if sample % 2 == 0 else order[::-1]).tolist()
            absent = self._contexts[node][sample]
            orders.append(order)
            coalitions.append(absent)
            for child in order:
                self._contexts[child].append(absent)
                absent = _enter(absent, self.tree.tokens[child])
                coalitions.append(absent)
        values = self.value(coalitions).reshape(-1, len(children) + 1)
        for order, steps in zip(orders, np.diff(values, axis=1), strict=True):
            for child, step in zip(order, steps.tolist(), strict=True):
                self.marginals[child].append(step)

    def result(self) -> OwenValues:
        values = {node: float(np.mean(marginals)) for node, marginals in self.marginals.items()}
        errors = {node: _standard_error(marginals) for node, marginals in self.marginals.items()}
        return OwenValues(values, errors, self.ends, self.orderings)

    def priority(self, node: int) -> float:
        """Root mean square of the node's marginals: large if its value or the uncertainty about it is."""
        return math.sqrt(float(np.mean(np.square(self.marginals[node]))))


def sample_owen_values(
    tree: Hierarchy, value: Value, remaining: Callable[[], float], *, pairs: int = LEAST_PAIRS, seed: int = 0
) -> OwenValues:
    """Return the values of the nodes that the budget allows to measure, refined best-first.

    `remaining()` says how many evaluations are left. The document is refined first; then, again and again, the unit
    whose contributions have the largest root mean square among those that can be afforded. When nothing is left to
    refine, further pairs of orderings are drawn while they fit.
    """
    samples = _Samples(tree, value, seed)
    for _ in range(pairs):
        samples.add_pair()
    open_nodes = [ROOT] if tree.children[ROOT] else []
    while True:
        affordable = [node for node in open_nodes if _refinement_cost(tree, node, samples.orderings) <= remaining()]
        if not affordable:
            break
        node = max(affordable, key=samples.priority)
        samples.refine(node)
        open_nodes.remove(node)
        open_nodes += [child for child in tree.children[node] if tree.children[child]]
    if not open_nodes:
        pair_cost = sum(_refinement_cost(tree, node, 2) for node in samples.refined)
        before = math.inf
        # In a small game every coalition is known at some point, and further pairs would cost nothing for ever.
        while 0 < pair_cost <= remaining() < before:
            before = remaining()
            samples.add_pair()
    return samples.result()


def least_sampled_calls(tree: Hierarchy) -> int:
    """Return the smallest budget with which the children of the document can be measured."""
    return 2 + _refinement_cost(tree, ROOT, 2 * LEAST_PAIRS)


def _refinement_cost(tree: Hierarchy, node: int, orderings: int) -> int:
    return orderings * (len(tree.children[node]) - 1)


def _all_absent(tree: Hierarchy) -> Mask:
    size = int(tree.tokens[ROOT].max(initial=-1)) + 1
    absent = np.zeros(size, dtype=np.bool_)
    absent[tree.tokens[ROOT]] = True
    return absent


def _enter(absent: Mask, tokens: NDArray[np.int64]) -> Mask:
    """Return the coalition after a unit has come in."""
    after = absent.copy()
    after[tokens] = False
    return after


def _subsets(members: list[int]) -> Iterable[tuple[int, ...]]:
    for size in range(len(members) + 1):
        yield from combinations(members, size)


def _standard_error(marginals: list[float]) -> float:
    """Return the standard error of the mean; an ordering and its reverse are one observation."""
    observations = np.array(marginals).reshape(-1, 2).mean(axis=1)
    return float(observations.std(ddof=1) / math.sqrt(len(observations))) if len(observations) > 1 else 0.0


BUDGET = 200
"""Calls of the model by default. Looking inside a unit costs at most 4 · (branching − 1) of them, 28 by default."""


@method(
    "owen",
    title="Owen values",
    kind="perturbation",
    summary="Signed fair shares of paragraphs, sentences and words in the target's log-odds; they add up.",
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
    quantity: Quantity | None = None,
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
