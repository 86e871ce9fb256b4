"""Compare one explanation with chance: remove its strongest words from the document, and random sets of the same size.

Explanations differ in their first few words, and on a long document even random orders lose every decision once half
of the words are gone. So words are counted on a logarithmic scale, k = 1, 2, 5, 10, 20, 50 … up to a fifth of the
words. With p the probability of the explained class for the whole document and p_k without the k strongest words, the
summary is the area under the fall over the logarithm of k, divided by its width (trapezoidal rule over K counts):

    faithfulness = Σ_j w_j (p − p_kj),    Σ_j w_j = 1,    w_j = (ln k_{j+1} − ln k_{j−1}) / (2 ln(k_K / k_1))

with k_0 = k_1 and k_{K+1} = k_K at the ends. The same number is computed for R random orders of the words. Cost: one
model call per order and count, one for the whole document and one without any word: at most `default_calls` unless a
budget is given. Everything measured is stored in a `RemovalCurve`.

The second check asks what the model would say without the passages that decided (`check_passages`). Sentences are
ranked by the sum of their scores. The document is read again without the strongest one, two, three, five and ten, until
the model predicts another class; that number is reported, or that none of them is enough. As a control, sentences drawn
at random from the others, with at least as many words, are deleted: if the prediction changes there as well, any cut of
that size changes it, and the strongest sentences are nothing special. Sentences that were drawn like the nine controls
would be the only ones of the ten to change it with a probability of at most one in ten (`verdict.LARGEST_CHANCE`). At
most `len(COUNTS) + TRIALS` model calls; explanations of one document share theirs if they are given the same
`passage_engine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor

from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.metrics.inputs import FloatArray, IntArray
from sightline.metrics.plans import random_order, removed_positions, score_order
from sightline.models import Network, Prediction, Target
from sightline.models.origin import check_origin
from sightline.passes.perturb import Key, Perturbations, perturb_probability, removable_units
from sightline.progress import StepProgress
from sightline.results.explanation import Explanation, RemovalCurve, fingerprint_scores
from sightline.results.verdict import TIE, find_stake, judge
from sightline.settings.explain import CheckReplacement as CheckReplacement
from sightline.text import Encoding
from sightline.text.units import Units, units_of

CALLS = 64
"""Most model calls of one check unless a budget is given."""
LONG_DOCUMENT = 1_000
"""Number of words from which a check makes `LONG_CALLS`: there a call takes long, and most of the wait is the check."""
LONG_CALLS = 32
"""Most model calls of a check of a long document unless a budget is given: three counts, nine random orders. Chosen on
one half of the calibration set as the smallest of 64, 48, 32 and 24 that keeps the error with the same
`verdict.SMALLEST_EFFECT` (docs/trust.md, `python -m tools.calibrate`)."""
FEWEST_ORDERS = 9
"""Random orders to compare with at least; counts are left out of the scale before orders are."""
MOST_ORDERS = 20
LARGEST_SHARE = 0.2
"""Share of the words up to which words are removed; beyond it all orders look alike."""
SHORTEST_SCALE = 5
"""In a short document up to this many words are removed, but not more than half of them."""
TELLING_SHARE = 0.9
"""The count that a sentence names is the smallest one with this share of the largest difference to random words."""

Checks = dict[str, float | int | str | bool]


class Answer(NamedTuple):
    """What the model says about one document: the probability of the explained class, and which class it predicts."""

    probability: float
    says: int | None
    """Class with the highest logit; 1 or 0 where labels are independent (`multi_label`); None for spans."""


class Checked(NamedTuple):
    """Result of a check: entries of `Explanation.checks`, and the curve unless there was nothing to compare."""

    checks: Checks
    curve: RemovalCurve | None = None


def faithfulness_check(
    network: Network,
    explanation: Explanation,
    *,
    orderings: int | None = None,
    budget: int | None = None,
    replacement: CheckReplacement = "delete",
    seed: int = 0,
    progress: StepProgress | None = None,
) -> Checks:
    """Return what a check adds to `explanation.checks`.

    faithfulness: mean fall of the probability over ln k; random_mean: the same for random orders; random_beaten of
    random_orderings: how many of them it exceeds by more than a tie; faithfulness_percentile: the share of them in
    percent, ties counted half; stake: the fall that would change the prediction (`verdict.find_stake`); removed_words
    and removed_share: the count that tells most, with probability, probability_without and
    probability_without_random; probability_empty: without any word; empty_says_same: whether the model then still
    predicts the same class; check_calls: documents the model read. Where there is nothing to compare (fewer than two
    words, a model with one output) the single entry faithfulness_check gives the reason in a sentence.

    replacement: "delete" words, put the "mask" token in their place, or "both"; then the check runs twice, the numbers
    are those of deleting, and mask_level and replacements_agree say whether masking leads to the same level.
    orderings: number of random orders, by default as many as the budget allows (9 to 20). budget: bound of model calls,
    by default 64, and 32 for a document of 1,000 words or more (64 again if orderings are given).
    """
    (checked,) = faithfulness_checks(
        network,
        [explanation],
        orderings=orderings,
        budget=budget,
        replacement=replacement,
        seed=seed,
        progress=progress,
    )
    return checked.checks


def faithfulness_checks(
    network: Network,
    explanations: Sequence[Explanation],
    *,
    orderings: int | None = None,
    budget: int | None = None,
    replacement: CheckReplacement = "delete",
    seed: int = 0,
    progress: StepProgress | None = None,
) -> list[Checked]:
    """Check several explanations; those of one document and class share the random orders. `budget` is for each."""
    if orderings is not None and orderings < 1:
        raise OptionError(f"orderings={orderings} is not possible; compare with at least one random ordering.")
    if replacement not in ("delete", "mask", "both"):
        raise OptionError(f"replacement='{replacement}' is not known. Known: delete, mask, both.")
    shared: dict[tuple[object, ...], Perturbations[Answer]] = {}
    results: list[Checked] = []
    for explanation in explanations:
        check_origin(explanation.encoding, explanation.provenance, network)
        encoding, target = explanation.encoding, explanation.target
        key = (id(encoding), target.index, target.position, target.span, target.ends, target.window)
        try:
            if key not in shared:
                shared[key] = _perturb_answers(network, encoding, target)
            units = removable_units(encoding, target, "word")
        except (InputError, UnsupportedError) as error:
            results.append(Checked({"faithfulness_check": str(error)}))
            continue
        if len(units) < 2:
            results.append(Checked({"faithfulness_check": "The document has fewer than two words to put in order."}))
            continue
        default = default_calls(len(units)) if orderings is None else CALLS
        counts, random_orders = plan_counts(len(units), orderings, default if budget is None else budget)
        generator = np.random.default_rng(seed)
        orders = [score_order(explanation.scores, units)]
        orders += [random_order(units, generator) for _ in range(random_orders)]
        comparison = _Comparison(shared[key], explanation, units, counts, orders, progress)
        checked = comparison.run("mask" if replacement == "mask" else "delete")
        if replacement == "both":
            checked = _compare_replacements(checked, comparison.run("mask"))
        results.append(checked)
    return results


def _perturb_answers(network: Network, encoding: Encoding, target: Target) -> Perturbations[Answer]:
    probabilities = perturb_probability(network, encoding, target)

    def read(logits: Tensor, moved: Target) -> Answer:
        probability = probabilities.read(logits, moved)
        if network.task.facts.multi_label:
            return Answer(probability, int(probability > 0.5))
        if target.span is not None:
            return Answer(probability, None)
        return Answer(probability, int(network.task.class_logits(logits, moved.position).argmax()))

    return Perturbations(network, encoding, target, read)


def default_calls(words: int) -> int:
    """Return the most model calls of a check without a budget, for a document with this many words."""
    return LONG_CALLS if words >= LONG_DOCUMENT else CALLS


def scale_counts(words: int) -> IntArray:
    """Return the counts 1, 2, 5, 10, 20, 50 … up to a fifth of the words."""
    most = max(int(LARGEST_SHARE * words), min(SHORTEST_SCALE, words // 2), 1)
    steps = [digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5)]
    return np.array([count for count in steps if count <= most])


def plan_counts(words: int, orderings: int | None, budget: int) -> tuple[IntArray, int]:
    """Return the counts (K,) and the number of random orders R with K · (R + 1) + 2 ≤ budget.

    Where the budget does not allow the whole scale, counts are left out evenly; the first and the last stay.
    """
    scale, available = scale_counts(words), budget - 2
    fewest = orderings if orderings is not None else max(1, min(FEWEST_ORDERS, available - 1))
    affordable = available // (fewest + 1)
    if affordable < 1:
        raise OptionError(
            f"A comparison with {fewest} random ordering{'s' if fewest > 1 else ''} needs at least {fewest + 3} model "
            f"calls; the budget is {budget}. Raise check_budget."
        )
    if affordable < len(scale):
        scale = scale[np.linspace(len(scale) - 1, 0, affordable).round().astype(np.int64)[::-1]]
    return scale, orderings if orderings is not None else min(MOST_ORDERS, available // len(scale) - 1)


def log_weights(counts: IntArray) -> FloatArray:
    """Return the weights (K,), summing to 1, of the trapezoidal rule over ln k."""
    if len(counts) == 1:
        return np.ones(1)
    positions = np.log(counts)
    padded = np.concatenate([positions[:1], positions, positions[-1:]])
    return np.asarray((padded[2:] - padded[:-2]) / (2 * (positions[-1] - positions[0])))


def compare_curves(curve: RemovalCurve, stake: float) -> Checks:
    """Return the entries of `Explanation.checks` that follow from a curve with counts alone."""
    assert curve.counts is not None
    counts, original = curve.counts[1:], float(curve.probabilities[0])
    curves = np.vstack([curve.probabilities, curve.random])[:, 1:]
    falls = ((original - curves) * log_weights(counts)).sum(axis=1)
    fall, random_falls = float(falls[0]), falls[1:]
    beaten = int((random_falls < fall - TIE * stake).sum())
    tied = int((np.abs(random_falls - fall) <= TIE * stake).sum())
    telling = _telling_count(curves)
    return {
        "faithfulness": fall,
        "random_mean": float(random_falls.mean()),
        "random_beaten": beaten,
        "random_orderings": len(random_falls),
        "faithfulness_percentile": 100.0 * (beaten + tied / 2) / len(random_falls),
        "stake": stake,
        "removed_words": int(counts[telling]),
        "removed_share": float(curve.ratios[1:][telling]),
        "probability": original,
        "probability_without": float(curves[0, telling]),
        "probability_without_random": float(curves[1:, telling].mean()),
    }


def _telling_count(curves: FloatArray) -> int:
    """Return the index of the smallest count with `TELLING_SHARE` of the largest difference to random words."""
    differences = curves[1:].mean(axis=0) - curves[0]
    return int(np.argmax(differences >= TELLING_SHARE * differences.max()))


class _Comparison:
    """One explanation and R random orders of the same document, at K counts."""

    def __init__(
        self,
        perturbations: Perturbations[Answer],
        explanation: Explanation,
        units: Units,
        counts: IntArray,
        orders: Sequence[IntArray],
        progress: StepProgress | None,
    ) -> None:
        self.perturbations = perturbations
        self.explanation = explanation
        self.units = units
        self.counts = counts
        self.progress = progress
        self.removals = [removed_positions(order, units, counts, "remove") for order in orders]

    def run(self, replacement: Literal["delete", "mask"]) -> Checked:
        """Measure all orders with one kind of replacement."""
        request = self.perturbations.request
        whole, empty = request([], replacement), self._request_empty(replacement)
        keys = [[request(removed, replacement) for removed in order] for order in self.removals]
        self.perturbations.run(self.progress)
        answer = self.perturbations.result(whole)
        original = answer.probability
        points = np.array(
            [[original, *(other.probability for other in self.perturbations.results(order))] for order in keys]
        )
        counts = np.array([0, *self.counts])
        curve = RemovalCurve(
            ratios=counts / len(self.units),
            probabilities=points[0],
            random=points[1:],
            counts=counts,
            replacement=replacement,
            fingerprint=fingerprint_scores(self.explanation.scores),
        )
        stake = find_stake(original, self._runner_up(), multi_label=self._is_multi_label())
        checks = compare_curves(curve, stake)
        checks["check_calls"] = len({whole, *(key for order in keys for key in order)} | ({empty} - {None}))
        if empty is not None:
            of_nothing = self.perturbations.result(empty)
            checks["probability_empty"] = of_nothing.probability
            checks["empty_says_same"] = of_nothing.says == answer.says
        if replacement != "delete":
            checks["check_replacement"] = replacement
        return Checked(checks, curve)

    def _request_empty(self, replacement: Literal["delete", "mask"]) -> Key | None:
        """Request the document without any word; None if nothing would be left to read."""
        positions = self.units.positions(np.arange(len(self.units)))
        if replacement == "delete" and len(positions) == len(self.explanation.encoding):
            return None
        return self.perturbations.request(positions, replacement)

    def _runner_up(self) -> float | None:
        """Return the largest probability of another class if the explained class is the predicted one."""
        prediction, index = self.explanation.prediction, self.explanation.target.index
        if prediction.index != index or len(prediction.probabilities) < 2:
            return None
        return float(np.sort(prediction.probabilities)[-2])

    def _is_multi_label(self) -> bool:
        return self.perturbations.network.task.facts.multi_label


def _compare_replacements(deleted: Checked, masked: Checked) -> Checked:
    """Add to the check by deleting whether the check by masking leads to the same level."""
    level = judge(masked.checks).level
    return Checked(
        {
            **deleted.checks,
            "mask_faithfulness": masked.checks["faithfulness"],
            "mask_random_mean": masked.checks["random_mean"],
            "mask_level": level,
            "replacements_agree": level == judge(deleted.checks).level,
            "check_calls": int(deleted.checks["check_calls"]) + int(masked.checks["check_calls"]) - 1,
        },
        deleted.curve,
    )


COUNTS = (1, 2, 3, 5, 10)
"""Numbers of sentences to delete."""
TRIALS = 9
"""Random draws of other sentences, all different; short documents may not have as many."""
ATTEMPTS = 4 * TRIALS
"""Draws made to find different ones."""
FEWEST_SENTENCES = 4
"""Shorter documents are not cut by sentences: little would be left."""


def passage_engine(network: Network, explanation: Explanation) -> Perturbations[Prediction]:
    """Return the engine that reads the document of an explanation without some of its sentences."""
    encoding = explanation.encoding

    def read(logits: Tensor, moved: Target) -> Prediction:
        return network.task.prediction(logits.double(), encoding, moved.position)

    return Perturbations(network, encoding, explanation.target, read)


def passage_checks(
    network: Network,
    explanation: Explanation,
    *,
    seed: int = 0,
    engine: Perturbations[Prediction] | None = None,
) -> dict[str, float | int | str]:
    """Return the entries of `Explanation.checks` about deleted sentences; none where there is nothing to measure.

    passages_removed: the smallest number of sentences without which another class is predicted, else the largest number
    tried; passages_share: their share of the words; passages_label and passages_probability: the prediction without
    them; passages_random_changed of passages_trials: different draws of other sentences without which the prediction
    changes as well (counted only if the strongest sentences change it).
    """
    target, prediction = explanation.target, explanation.prediction
    facts = network.task.facts
    is_class = target.position is None and target.span is None and target.index == prediction.index
    if not is_class or facts.multi_label or len(facts.labels) < 2 or not explanation.encoding.words:
        return {}
    sentences = removable_units(explanation.encoding, target, "sentence")
    totals = sentences.fold(explanation.scores)
    ranking = np.argsort(-totals, kind="stable")
    counts = [count for count in COUNTS if 2 * count <= len(sentences) and totals[ranking[count - 1]] > 0]
    if len(sentences) < FEWEST_SENTENCES or not counts:
        return {}
    perturbations = passage_engine(network, explanation) if engine is None else engine
    for count in counts:
        (outcome,) = perturbations.evaluate([sentences.positions(ranking[:count])], "delete")
        if outcome.index != prediction.index:
            break
    removed = ranking[:count]
    others = np.sort(ranking[count:])  # so that explanations which agree on the strongest sentences share the draws
    words = _count_words(explanation, sentences)
    checks: dict[str, float | int | str] = {
        "passages_removed": count,
        "passages_share": float(words[removed].sum() / words.sum()),
        "passages_label": outcome.label,
        "passages_probability": outcome.probability,
    }
    if outcome.index != prediction.index:
        draws = _draw_different(others, words, int(words[removed].sum()), np.random.default_rng(seed))
        controls = perturbations.evaluate([sentences.positions(draw) for draw in draws], "delete")
        checks["passages_random_changed"] = sum(control.index != prediction.index for control in controls)
        checks["passages_trials"] = len(draws)
    return checks


def _count_words(explanation: Explanation, sentences: Units) -> IntArray:
    """Return the number of words of every sentence, (S,)."""
    owners = sentences.of_token[units_of(explanation.encoding, "word").first_tokens]
    return np.bincount(owners[owners >= 0], minlength=len(sentences))


def _draw_different(others: IntArray, words: IntArray, wanted: int, generator: np.random.Generator) -> list[IntArray]:
    """Return up to `TRIALS` different sets of sentences (`_draw`)."""
    different: dict[frozenset[int], IntArray] = {}
    for _ in range(ATTEMPTS):
        draw = _draw(others, words, wanted, generator)
        different.setdefault(frozenset(draw.tolist()), draw)
        if len(different) == TRIALS:
            break
    return list(different.values())


def _draw(others: IntArray, words: IntArray, wanted: int, generator: np.random.Generator) -> IntArray:
    """Return random sentences out of `others` with at least as many words as `wanted`, or all but one of them."""
    shuffled = generator.permutation(others)
    enough = int(np.searchsorted(np.cumsum(words[shuffled]), wanted)) + 1
    return shuffled[: min(enough, max(1, len(shuffled) - 1))]
