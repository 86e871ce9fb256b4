"""Faithfulness of explanations of one document, measured on the model, each beside its floor and its reference.

All explanations and all metrics of a document share their perturbed documents (`passes.perturb`). Everything known
in advance runs in one batch, followed by what the reference needs.

- *floor*: the same metric for random scores of the tokens, mean of several seeded draws;
- *reference*: the same metric for the order of the exact one-at-a-time effects, p(x) − p(x without the unit), units
  removed as the metric removes them. It ignores joint effects of several words, so a method may exceed it: it is a
  reference, not a bound.

compat="attcat" is the published AttCAT program's variant, for comparison with its tables: tokens, not words; shares
1/9 … 9/9 of *all* tokens, specials counted but not removed; |p − p_k| in AOPC; the token ranked last, special or not,
is never removed; documents of fewer than ten tokens are left out. (The program also explains the given label, not the
prediction: the caller chooses the target.)

Cost: at most K changed documents for each explanation, metric and random order, and U + K for a reference, with U units
and K shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, SizeError
from sightline.metrics.faithfulness import plan_of
from sightline.metrics.plans import (
    PROBABILITY,
    Bounds,
    Plan,
    extremes,
    random_score_order,
    removed_positions,
    score_order,
    shuffled_ties,
    unit_counts,
)
from sightline.metrics.registry import METRICS
from sightline.metrics.score_inputs import FloatArray, IntArray, descending_order, score_vector
from sightline.models import Network, Target
from sightline.models.inputs import check_origin
from sightline.passes.perturb import Key, Replacement, perturb_probability, removable_units
from sightline.progress import StepProgress
from sightline.settings.evaluation import Compat
from sightline.text import Encoding
from sightline.text.units import Level

if TYPE_CHECKING:
    from sightline.api.model import Model
    from sightline.results.explanation import Explanation

RANDOM_ORDERINGS = 5
ATTCAT_SHORTEST = 10
"""Documents with fewer tokens are left out by the published AttCAT program."""


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """One explanation by one metric."""

    metric: str
    value: float
    ratios: FloatArray
    """(K,) shares of the units."""
    curve: FloatArray
    """(K,) what the metric measures at each share."""
    floor: float | None = None
    reference: float | None = None
    floor_curve: FloatArray | None = None
    reference_curve: FloatArray | None = None
    calls: int = 0
    """Changed documents that the explanation's own curve requested."""
    bounds: Bounds | None = None
    """The extremes over all orders, for metrics that are scaled by them."""


@dataclass(frozen=True)
class FaithfulnessSettings:
    """How faithfulness is measured; None means the value in each metric's plan."""

    level: Level = "word"
    replacement: Replacement | None = None
    ratios: tuple[float, ...] | None = None
    mask_pads: bool = False
    """Whether pads put in place of words are masked out of attention."""
    random_orderings: int = RANDOM_ORDERINGS
    """Random orders of the floor; 0 for no floor."""
    reference_order: bool = True
    budget: int | None = None
    """Most changed documents the model may read per document; the reference is left out if it does not fit."""
    compat: Compat | None = None

    def plan(self, metric: str) -> Plan:
        """Return how a metric changes documents under these settings."""
        return plan_of(metric, replacement=self.replacement, ratios=self.ratios, compat=self.compat)


@dataclass(frozen=True)
class Measured:
    """Everything measured on one document."""

    by: Mapping[tuple[str, str], Faithfulness]
    """By name of the explanation and metric."""
    calls_requested: int
    calls_made: int


def measure_faithfulness(
    model: Model | Network,
    explanation: Explanation,
    metric: str = "aopc",
    *,
    seed: int = 0,
    progress: StepProgress | None = None,
    **settings: Any,
) -> Faithfulness:
    """Measure one explanation by one faithfulness metric: value, curve, floor and reference.

    The probability is that of the explained class. Units are ordered by score, most supporting first, ties at random
    (seeded). settings: the fields of `FaithfulnessSettings`.
    """
    network = model if isinstance(model, Network) else model.network
    check_origin(explanation.encoding, explanation.provenance, network)
    measured = measure_scores(
        network,
        explanation.encoding,
        explanation.target,
        {explanation.method: explanation.scores},
        [metric],
        FaithfulnessSettings(**settings),
        seed=seed,
        progress=progress,
    )
    return measured.by[explanation.method, metric]


def measure_scores(
    network: Network,
    encoding: Encoding,
    target: Target,
    scores: Mapping[str, npt.ArrayLike],
    metrics: Sequence[str],
    settings: FaithfulnessSettings | None = None,
    *,
    seed: int = 0,
    progress: StepProgress | None = None,
) -> Measured:
    """Measure several explanations of one document, scores (n,) by name, by several metrics, sharing all runs."""
    chosen = settings or FaithfulnessSettings()
    return _Measurement(network, encoding, target, metrics, chosen).run(scores, seed, progress)


Asked = dict[str, list[Key]]
"""The requested curves of one order, by metric."""


class _Measurement:
    """The measurement of one document: requested curves first, then their values."""

    def __init__(
        self,
        network: Network,
        encoding: Encoding,
        target: Target,
        metrics: Sequence[str],
        settings: FaithfulnessSettings,
    ) -> None:
        self.settings = settings
        self.plans = {metric: settings.plan(metric) for metric in metrics}
        self.perturbations = perturb_probability(
            network, encoding, target, mask_pads=settings.mask_pads, budget=settings.budget
        )
        if settings.compat is not None and len(encoding) < ATTCAT_SHORTEST:
            raise InputError(
                f"The document has {len(encoding)} tokens; compat='attcat' leaves out those with fewer than "
                f"{ATTCAT_SHORTEST}."
            )
        level: Level = "token" if settings.compat is not None else settings.level
        self.units = removable_units(encoding, target, level)
        self._bounds: dict[str, Bounds] = {}

    def run(self, scores: Mapping[str, npt.ArrayLike], seed: int, progress: StepProgress | None) -> Measured:
        whole = self.perturbations.request([], "delete")
        requested = {name: self._ask(self._order(vector)) for name, vector in scores.items()}
        generator = np.random.default_rng(seed)
        orders = [random_score_order(self.units, generator) for _ in range(self.settings.random_orderings)]
        draws = [self._ask(order) for order in orders]
        self._check_budget()
        effects = self._ask_effects() if self._affords_reference() else {}
        self.perturbations.run(progress)
        original = self.perturbations.result(whole)
        reference = self._ask_reference(original, effects)
        self.perturbations.run(progress)
        self._find_bounds(original)

        by = {}
        for name, by_metric in requested.items():
            for metric, keys in by_metric.items():
                ratios = np.array(self.plans[metric].ratios)
                floors = [self._curve(draw[metric]) for draw in draws]
                top = self._curve(reference[metric]) if metric in reference else None
                by[name, metric] = Faithfulness(
                    metric=metric,
                    value=self._value(metric, self._curve(keys), original),
                    ratios=ratios,
                    curve=self._read(metric, self._curve(keys), original),
                    floor=_mean([self._value(metric, curve, original) for curve in floors]),
                    reference=None if top is None else self._value(metric, top, original),
                    floor_curve=_mean_curve([self._read(metric, curve, original) for curve in floors]),
                    reference_curve=None if top is None else self._read(metric, top, original),
                    calls=len(keys),
                    bounds=self._bounds.get(metric),
                )
        return Measured(by, self.perturbations.calls_requested, self.perturbations.calls_made)

    def _order(self, scores: npt.ArrayLike) -> IntArray:
        if self.settings.compat is None:
            return score_order(scores, self.units)
        ranked = self.units.of_token[descending_order(score_vector(scores))[:-1]]  # units are tokens here
        return np.asarray(ranked[ranked >= 0])

    def _ask(self, order: IntArray, only: Replacement | None = None) -> Asked:
        asked = {}
        for metric, plan in self.plans.items():
            if only is None or plan.replacement == only:
                removed = removed_positions(order, self.units, self._counts(plan, len(order)), plan.direction)
                asked[metric] = [self.perturbations.request(positions, plan.replacement) for positions in removed]
        return asked

    def _counts(self, plan: Plan, ordered: int) -> IntArray:
        if self.settings.compat is None:
            return unit_counts(plan.ratios, ordered)
        return np.minimum(unit_counts(plan.ratios, len(self.perturbations.encoding)), ordered)

    def _ask_effects(self) -> dict[Replacement, list[Key]]:
        replacements = dict.fromkeys(plan.replacement for plan in self.plans.values())
        return {
            how: [self.perturbations.request(unit.tolist(), how) for unit in self.units.tokens] for how in replacements
        }

    def _ask_reference(self, original: float, effects: Mapping[Replacement, Sequence[Key]]) -> Asked:
        asked: Asked = {}
        for how, keys in effects.items():
            asked |= self._ask(shuffled_ties(original - self._curve(keys)), only=how)
        return asked

    def _find_bounds(self, original: float) -> None:
        """Find the extremes over all orders for the metrics that are scaled by them."""
        for metric, plan in self.plans.items():
            if "bounds" not in METRICS.get(metric).arguments:
                continue

            def falls(sets: Sequence[Sequence[int]], plan: Plan = plan) -> FloatArray:
                removed = [self.units.positions(np.array(chosen, dtype=np.int64)) for chosen in sets]
                keys = [self.perturbations.request(positions, plan.replacement) for positions in removed]
                self.perturbations.run()
                return original - self._curve(keys)

            self._bounds[metric] = extremes(falls, len(self.units), plan.ratios)

    def _check_budget(self) -> None:
        if not self.perturbations.affords():
            raise SizeError(
                f"Faithfulness of this document needs {self.perturbations.calls_made:,} model calls, the budget "
                f"is {self.settings.budget:,}. "
                "Take fewer ratios, metrics, methods or random orderings, or raise the budget."
            )

    def _affords_reference(self) -> bool:
        replacements = {plan.replacement for plan in self.plans.values()}
        further = len(self.units) * len(replacements) + sum(len(plan.ratios) for plan in self.plans.values())
        return self.settings.reference_order and self.perturbations.affords(further)

    def _curve(self, keys: Sequence[Key]) -> FloatArray:
        return np.array(self.perturbations.results(keys))

    def _read(self, metric: str, probabilities: FloatArray, original: float) -> FloatArray:
        return (METRICS.get(metric).curve or PROBABILITY).of(probabilities, original)

    def _value(self, metric: str, probabilities: FloatArray, original: float) -> float:
        supplied = {
            "probabilities": probabilities,
            "original": original,
            "ratios": np.array(self.plans[metric].ratios),
            "compat": self.settings.compat,
            "bounds": self._bounds.get(metric),
        }
        return METRICS.get(metric).compute(supplied.__getitem__)


def _mean_curve(curves: Sequence[FloatArray]) -> FloatArray | None:
    return np.mean(curves, axis=0) if curves else None


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
