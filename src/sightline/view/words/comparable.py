"""Verdicts of several explanations in sentences that can be compared: all name the same number of removed words.

A check names the count at which its explanation differs most from random words, which is another one for each
explanation: "its 100 strongest words" beside "its 50 strongest words" of another method. Where several explanations of
a document were measured at the same counts, all sentences name one of them, and those that lose by it add their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightline.results.verdict import TELLING
from sightline.view.words.sentences import CLOSE, VerdictText, describe_verdict

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation, RemovalCurve


def describe_verdicts(explanations: Sequence[Explanation]) -> list[VerdictText]:
    """Return the verdicts of explanations of one document in sentences."""
    common = common_count([explanation.removal for explanation in explanations])
    return [describe_verdict(explanation.verdict, _numbers_at(explanation, common)) for explanation in explanations]


def common_count(removals: Sequence[RemovalCurve | None]) -> int | None:
    """Return the number of removed words that tells most about several curves; None without two comparable ones.

    With d_e(k) the difference between random words and those of explanation e at count k, it is the smallest k with
    at least `CLOSE` of the largest sum over e of d_e(k) / max d_e; explanations that never beat random words say
    nothing about k.
    """
    curves = [removal for removal in removals if removal is not None and removal.counts is not None]
    if len(curves) < 2:
        return None
    shared = sorted(set.intersection(*(set(_counts(curve)) for curve in curves)) - {0})
    leads = [np.array([_lead(curve)[_counts(curve).index(count)] for count in shared]) for curve in curves]
    worth = np.array([lead / lead.max() for lead in leads if lead.max(initial=0.0) > 0]).sum(axis=0)
    return shared[int(np.argmax(worth >= CLOSE * worth.max()))] if np.any(worth) else None


def _numbers_at(explanation: Explanation, count: int | None) -> dict[str, float | int] | None:
    """Return the `TELLING` numbers of an explanation at a count; None where its own are to be used alone."""
    removal = explanation.removal
    if count is None or removal is None or removal.counts is None or "removed_words" not in explanation.verdict.numbers:
        return None
    at = _counts(removal).index(count)
    values = (removal.ratios[at], removal.probabilities[0], removal.probabilities[at], removal.random[:, at].mean())
    return dict(zip(TELLING, (count, *map(float, values)), strict=True))


def _counts(removal: RemovalCurve) -> list[int]:
    return [] if removal.counts is None else removal.counts.tolist()


def _lead(removal: RemovalCurve) -> NDArray[np.float64]:
    """(K,) how far the probability is below that without random words."""
    return np.asarray(removal.random.mean(axis=0) - removal.probabilities)
