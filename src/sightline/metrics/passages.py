"""What the model would say without the passages that decided: its strongest sentences, deleted.

Sentences are ranked by the sum of their scores. The document is read again without the strongest one, two, three, five
and ten, until the model predicts another class; that number is reported, or that none of them is enough. As a control,
sentences drawn at random from the others, with at least as many words, are deleted: if the prediction changes there as
well, any cut of that size changes it, and the strongest sentences are nothing special. Sentences that were drawn like
the nine controls would be the only ones of the ten to change it with a probability of at most one in ten
(`verdict.LARGEST_CHANCE`). At most `len(COUNTS) + TRIALS` model calls; explanations of one document share theirs if
they are given the same `passage_engine`.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from sightline.metrics.inputs import IntArray
from sightline.models import Network, Prediction, Target
from sightline.passes.perturb import Perturbations, removable_units
from sightline.results.explanation import Explanation
from sightline.text.units import Units, units_of

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
