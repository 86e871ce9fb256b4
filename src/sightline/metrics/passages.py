"""What the model would say without the passages that decided: its strongest sentences, deleted.

Sentences are ranked by the sum of their scores. The document is read again without the strongest one, two, three, five
and ten; the smallest number without which the model predicts another class is reported, or that none of them is enough.
As a control, sentences drawn at random from the others, with at least as many words, are deleted: if
the prediction changes there as well, any cut of that size changes it, and the strongest sentences are nothing special.
At most `len(COUNTS) + TRIALS` model calls.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from sightline.explanation import Explanation
from sightline.metrics.inputs import IntArray
from sightline.models import Network, Prediction, Target
from sightline.perturb import Perturbations, removable_units
from sightline.text.units import Units, units_of

COUNTS = (1, 2, 3, 5, 10)
"""Numbers of sentences to delete."""
TRIALS = 3
"""Random draws of other sentences."""
FEWEST_SENTENCES = 4
"""Shorter documents are not cut by sentences: little would be left."""


def passage_checks(network: Network, explanation: Explanation, *, seed: int = 0) -> dict[str, float | int | str]:
    """Return the entries of `Explanation.checks` about deleted sentences; none where there is nothing to measure.

    passages_removed: the smallest number of sentences without which another class is predicted, else the largest number
    tried; passages_share: their share of the words; passages_label and passages_probability: the prediction without
    them; passages_random_changed of passages_trials: draws of other sentences without which the prediction changes as
    well (counted only if the strongest sentences change it).
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

    def read(logits: Tensor, moved: Target) -> Prediction:
        return network.task.prediction(logits.double(), explanation.encoding, moved.position)

    perturbations = Perturbations(network, explanation.encoding, target, read)
    without = perturbations.evaluate([sentences.positions(ranking[:count]) for count in counts], "delete")
    changed = [outcome.index != prediction.index for outcome in without]
    chosen = changed.index(True) if any(changed) else len(counts) - 1
    removed, outcome = ranking[: counts[chosen]], without[chosen]
    words = _count_words(explanation, sentences)
    checks: dict[str, float | int | str] = {
        "passages_removed": counts[chosen],
        "passages_share": float(words[removed].sum() / words.sum()),
        "passages_label": outcome.label,
        "passages_probability": outcome.probability,
    }
    if changed[chosen]:
        generator = np.random.default_rng(seed)
        draws = [_draw(ranking[counts[chosen] :], words, words[removed].sum(), generator) for _ in range(TRIALS)]
        controls = perturbations.evaluate([sentences.positions(draw) for draw in draws], "delete")
        checks["passages_random_changed"] = sum(control.index != prediction.index for control in controls)
        checks["passages_trials"] = TRIALS
    return checks


def _count_words(explanation: Explanation, sentences: Units) -> IntArray:
    """Return the number of words of every sentence, (S,)."""
    owners = sentences.of_token[units_of(explanation.encoding, "word").first_tokens]
    return np.bincount(owners[owners >= 0], minlength=len(sentences))


def _draw(others: IntArray, words: IntArray, wanted: int, generator: np.random.Generator) -> IntArray:
    """Return random sentences out of `others` with at least as many words as `wanted`, or all but one of them."""
    shuffled = generator.permutation(others)
    enough = int(np.searchsorted(np.cumsum(words[shuffled]), wanted)) + 1
    return shuffled[: min(enough, max(1, len(shuffled) - 1))]
