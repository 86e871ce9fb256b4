"""How often is the verdict wrong? Explanations known to be right and known to be wrong, and the level each gets.

Right explanations rank first the words that decide by construction (`rule_model`) or by training on planted words
(`planted`). Wrong ones should not hold up on that document:

    shuffled           the scores of a method, assigned to other words at random
    other class        the scores of a method for another class
    other document     the scores of a method for another document, at the same positions
    randomised model   the scores of a method on the same document for the model with random weights
    random             no method at all

`measure` checks all of them for a document; `choose_threshold` takes the threshold from one half of the models and
documents, and the error is reported on the other half. On real text nobody knows the deciding words. There two measures
that the verdict does not use say whether it is worth anything: the same words masked instead of deleted
(`masking_orders`), and the agreement with human rationales above chance. `python -m tools.calibrate` does all of it and
writes docs/trust.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sightline.api.checking import special_share
from sightline.api.model import Model
from sightline.evaluation.sanity import cascade
from sightline.metrics import METRICS, precision_at_k, spans_of, tokens_in_characters
from sightline.metrics.check import compare_curves, default_calls, faithfulness_checks, plan_counts, scale_counts
from sightline.results.explanation import Explanation, RemovalCurve
from sightline.results.verdict import LARGEST_CHANCE, judge
from sightline.text import Encoding
from sightline.text.examples import Spans

Wrong = Literal["shuffled", "other class", "other document", "randomised model", "random"]
WRONG: tuple[Wrong, ...] = get_args(Wrong)
RIGHT = "truth"
ALLOWED = 0.05
"""Largest share of wrong explanations that may be said to hold up."""
CHOSEN_ERROR = ALLOWED / 2
"""The same on the half on which the threshold is chosen: half as much, since a chosen threshold fits that half best."""
BUDGETS = (64, 48, 32, 24)
"""Numbers of model calls per check that are compared."""
EFFECTS = tuple(round(0.05 * step, 2) for step in range(1, 41))
"""Thresholds to choose from: differences to random orders in stakes."""


@dataclass(frozen=True)
class Case:
    """One explanation of one document, and what the check measured."""

    model: str
    words: int
    kind: str
    """"truth", the name of a method, or one of `WRONG`."""
    precision: float | None
    """Share of the deciding words among the words ranked first; None if no word is known to decide."""
    level: str
    reason: str
    effect: float
    """Difference between its fall and that of random orders, in stakes."""
    chance: float
    """How often a random order does as well."""
    special_share: float
    masked_effect: float | None = None
    """The effect if words are masked instead of deleted, against other random orders; None if that was not measured."""
    token_f1: float | None = None
    """Agreement with a human rationale minus that of random scores, by words; None without a rationale."""
    auprc: float | None = None
    """The same for the area under precision over recall."""
    checks: dict[str, Any] | None = None
    """All entries of the check; None in records of earlier versions."""
    curve: dict[str, Any] | None = None
    """The `RemovalCurve` by its fields, from which `at_budget` derives smaller checks."""

    def holds(self, smallest_effect: float) -> bool:
        """Whether it would hold up with this threshold instead of `verdict.SMALLEST_EFFECT`."""
        return self.effect >= smallest_effect and self.chance <= LARGEST_CHANCE


@dataclass(frozen=True)
class Subject:
    """A document to measure on: the words that are known to decide, by their places, and another document."""

    text: str
    deciding: tuple[int, ...]
    other: str
    rationale: Spans = ()
    """Characters that a person marked as the reason for the label, if anybody did."""
    label: int | None = None
    """The class that the rationale justifies. Where another class is predicted, the rationale is not compared."""


def measure(
    model: Model,
    subjects: Sequence[Subject],
    *,
    name: str,
    method: str = "attnlrp",
    methods: Sequence[str] = (),
    masking_orders: int = 0,
    budgets: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[Case]:
    """Yield the cases of all subjects: the truth where it is known, `methods`, and the wrong explanations.

    method: the one whose scores are damaged for the wrong explanations. masking_orders: random orders with which
    masking is compared; 0 leaves it out. budgets: measure the whole scale, with as many random orders as a check with
    any of these numbers of model calls needs, so that `at_budget` gives the case of each of them.
    """
    *_, (_, randomised) = cascade(model, seed)
    for number, subject in enumerate(subjects):
        generator = np.random.default_rng([seed, number])
        encoding = model.encode(subject.text)
        explanations = dict(model.explain(encoding, methods=list(dict.fromkeys([method, *methods]))))
        base = explanations[method]
        if subject.deciding:
            explanations[RIGHT] = _replace_scores(base, _true_scores(base, subject.deciding, generator))
        explanations |= _break(model, randomised, base, subject, generator)
        if method not in methods:
            del explanations[method]
        listed = list(explanations.values())
        orderings, budget = _cover_budgets(len(base.words()), budgets) if budgets else (None, None)
        checked = faithfulness_checks(model.network, listed, orderings=orderings, budget=budget, seed=number)
        masked = (
            [None] * len(listed)
            if not masking_orders
            else [
                _effect(checks)
                for checks, _ in faithfulness_checks(
                    model.network, listed, orderings=masking_orders, replacement="mask", seed=number + 1
                )
            ]
        )
        for (kind, explanation), (checks, curve), masked_effect in zip(
            explanations.items(), checked, masked, strict=True
        ):
            if curve is None:
                continue
            yield Case(
                model=name,
                words=len(explanation.words()),
                kind=kind,
                precision=_precision(explanation, subject.deciding),
                special_share=special_share(explanation.scores, explanation.encoding),
                masked_effect=masked_effect,
                checks=dict(checks),
                curve=curve.to_dict(),
                **_judge(checks),
                **_agreement(explanation, subject),
            )


def _cover_budgets(words: int, budgets: Sequence[int]) -> tuple[int, int]:
    """Return orderings and budget of a check that contains those with each of `budgets` model calls."""
    orderings = max(plan_counts(words, None, budget)[1] for budget in budgets)
    return orderings, len(scale_counts(words)) * (orderings + 1) + 2


def at_budget(case: Case, budget: int | None = None) -> Case:
    """Return the case as a check with fewer model calls would have measured it; by default as many as a user's check.

    Exact, not an estimate: the counts of a smaller budget are some of those of the scale, and its random orders are the
    first ones drawn with the same seed.
    """
    assert case.checks is not None
    assert case.curve is not None
    curve = RemovalCurve(**case.curve)
    assert curve.counts is not None
    counts, orders = plan_counts(case.words, None, default_calls(case.words) if budget is None else budget)
    columns = np.flatnonzero(np.isin(curve.counts, [0, *counts]))
    if len(columns) != len(counts) + 1 or orders > len(curve.random):
        raise ValueError(f"A check with {len(counts)} counts and {orders} random orders needs more than was measured.")
    thinned = RemovalCurve(
        ratios=curve.ratios[columns],
        probabilities=curve.probabilities[columns],
        random=curve.random[:orders, columns],
        counts=curve.counts[columns],
        replacement=curve.replacement,
        fingerprint=curve.fingerprint,
    )
    checks = {**case.checks, **compare_curves(thinned, case.checks["stake"])}
    checks["check_calls"] = len(counts) * (orders + 1) + 2
    return dataclasses.replace(case, checks=checks, curve=thinned.to_dict(), **_judge(checks))


def _judge(checks: Mapping[str, Any]) -> dict[str, Any]:
    """Return level, reason, effect and chance of a `Case`."""
    verdict = judge(checks)
    beaten, orders = checks["random_beaten"], checks["random_orderings"]
    return {
        "level": verdict.level,
        "reason": verdict.reasons[0],
        "effect": _effect(checks),
        "chance": (orders - beaten + 1) / (orders + 1),
    }


def choose_threshold(cases: Iterable[Case]) -> float:
    """Return the smallest of `EFFECTS` at which at most `CHOSEN_ERROR` of the wrong explanations of each kind hold up.

    How often chance may do as well is not chosen: with the fewest random orders a check makes, nine, one in ten is the
    least that can be asked (`verdict.LARGEST_CHANCE`).
    """
    listed = list(cases)
    for effect in EFFECTS:
        if all(share_held(listed, kind, effect) <= CHOSEN_ERROR for kind in WRONG):
            return effect
    raise ValueError(f"no threshold up to {EFFECTS[-1]} keeps the error of every kind at {CHOSEN_ERROR:.1%}")


def share_held(cases: Iterable[Case], kind: str, smallest_effect: float) -> float:
    """Return the share of the explanations of one kind that would hold up; 0 if there are none."""
    held = [case.holds(smallest_effect) for case in cases if case.kind == kind]
    return float(np.mean(held)) if held else 0.0


def _break(
    model: Model, randomised: Model, base: Explanation, subject: Subject, generator: np.random.Generator
) -> dict[str, Explanation]:
    """Return the wrong explanations of a document, all for the predicted class."""
    content = np.flatnonzero(~base.encoding.special)
    shuffled = base.scores.copy()
    shuffled[content] = shuffled[generator.permutation(content)]
    classes = [index for index in range(len(model.labels)) if index != base.target.index]
    other_class = model.explain(base.encoding, base.method, target=int(generator.choice(classes)))
    other_document = model.explain(subject.other, base.method)
    random_model = randomised.explain(base.encoding, base.method, target=base.target.index)
    scores = {
        "shuffled": shuffled,
        "other class": other_class.scores,
        "other document": _align(other_document, base.encoding),
        "randomised model": random_model.scores,
        "random": generator.random(len(base.scores)),
    }
    return {kind: _replace_scores(base, values) for kind, values in scores.items()}


def _replace_scores(explanation: Explanation, scores: np.ndarray[tuple[int], np.dtype[np.floating]]) -> Explanation:
    return dataclasses.replace(explanation, scores=scores, layers=None, layer_kind=None)


def _true_scores(
    explanation: Explanation, deciding: Sequence[int], generator: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.floating]]:
    """Return 1 for the tokens of the deciding words and random scores below 0.001 for all others."""
    scores = 1e-3 * generator.random(len(explanation.scores))
    words = explanation.words()
    for place in deciding:
        scores[list(words[place].tokens)] = 1.0
    return scores


def _align(explanation: Explanation, encoding: Encoding) -> np.ndarray[tuple[int], np.dtype[np.floating]]:
    """Return the scores of an explanation at the positions of another document, repeated if that one is longer."""
    return np.asarray(np.resize(explanation.scores, len(encoding)))


def _effect(checks: Mapping[str, Any]) -> float:
    """Return the difference between the fall and that of random orders, in stakes."""
    return float((checks["faithfulness"] - checks["random_mean"]) / checks["stake"])


def _agreement(explanation: Explanation, subject: Subject) -> dict[str, Any]:
    """Return how far the words agree with the rationale above chance; nothing if it is not of the explained class."""
    if not subject.rationale or subject.label != explanation.target.index:
        return {}
    marked = tokens_in_characters(explanation.encoding.offsets, subject.rationale)
    words = explanation.words()
    spans = spans_of(np.array([marked[list(word.tokens)].any() for word in words]))
    if not len(spans):
        return {}
    scores = np.array([word.score for word in words])
    agreement = {}
    for name in ("token_f1", "auprc"):
        entry = METRICS.get(name)
        assert entry.chance is not None
        assert entry.chance.level is not None
        agreement[name] = entry.function(scores, spans) - entry.chance.level(scores, spans)
    return agreement


def _precision(explanation: Explanation, deciding: Sequence[int]) -> float | None:
    if not deciding:
        return None
    scores = [word.score for word in explanation.words()]
    return precision_at_k(scores, [(place, place + 1) for place in deciding], k=len(deciding))
