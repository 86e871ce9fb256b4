"""Are the tokens that matter among the first k?

For questions: of the k highest-scored tokens, how many belong to the answer (Qiang et al. 2022, "AttCAT", whose tables
show the count, `count_at_k`). The same functions measure whether planted tokens are found. `scores` (n,) are read
highest first, ties in token order; `answer` is given as half-open token spans (s, 2); tokens outside `keep` are neither
chosen nor asked for. O(n log n).

k is 20 unless the name says otherwise: "precision_at_5" is precision_at_k with k = 5. With m of n tokens in the answer,
a random order has m/n precision, min(k, n)·m/n tokens and min(k, n)/n recall on average (hypergeometric distribution).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sightline.arguments import check_count
from sightline.metrics.inputs import BoolArray, score_vector, warn_convention
from sightline.metrics.registry import Chance, metric
from sightline.metrics.token_sets import kept_tokens, mask_of, top_tokens


def _choose_and_want(
    scores: npt.ArrayLike, answer: npt.ArrayLike, k: int, keep: npt.ArrayLike | None
) -> tuple[BoolArray, BoolArray]:
    vector = score_vector(scores)
    is_kept = kept_tokens(keep, vector.size)
    return top_tokens(vector, check_count("k", k), is_kept), mask_of(answer, vector.size) & is_kept


def _expected_count(scores: npt.ArrayLike, answer: npt.ArrayLike, *, k: int) -> float:
    n = np.size(scores)
    return float(min(k, n) * mask_of(answer, n).mean())


@metric(
    name="count_at_k",
    kind="retrieval",
    needs={"scores", "answer"},
    range=(0, math.inf),
    chance=Chance("random scores", "min(k, n) times the share of answer tokens", _expected_count),
    higher_is_better=True,
    summary="Number of the k highest-scored tokens that lie in the answer (what the AttCAT paper calls Precision@K).",
    citation="Qiang et al. 2022",
    options={"k": 20},
)
def count_at_k(scores: npt.ArrayLike, answer: npt.ArrayLike, *, k: int, keep: npt.ArrayLike | None = None) -> int:
    """Return how many of the k highest-scored tokens lie in the answer: what AttCAT's tables call precision@20."""
    chosen, wanted = _choose_and_want(scores, answer, k, keep)
    return int((chosen & wanted).sum())


@metric(
    name="precision_at_k",
    kind="retrieval",
    needs={"scores", "answer"},
    range=(0, 1),
    chance=Chance(
        "random scores",
        "the share of answer tokens",
        lambda scores, answer, **options: float(mask_of(answer, np.size(scores)).mean()),
    ),
    higher_is_better=True,
    summary="Share of the k highest-scored tokens that lie in the answer.",
    citation="Qiang et al. 2022",
    options={"k": 20},
)
def precision_at_k(scores: npt.ArrayLike, answer: npt.ArrayLike, *, k: int, keep: npt.ArrayLike | None = None) -> float:
    """Return count_at_k / k, in [0, 1]; in a document with fewer than k tokens, the share of all of them."""
    chosen, wanted = _choose_and_want(scores, answer, k, keep)
    return float((chosen & wanted).sum() / chosen.sum())


@metric(
    name="recall_at_k",
    kind="retrieval",
    needs={"scores", "answer"},
    range=(0, 1),
    chance=Chance("random scores", "k / n, at most 1", lambda scores, answer, *, k: min(1.0, k / np.size(scores))),
    higher_is_better=True,
    summary="Share of the answer's tokens that are among the k highest-scored.",
    citation="Qiang et al. 2022",
    options={"k": 20},
)
def recall_at_k(scores: npt.ArrayLike, answer: npt.ArrayLike, *, k: int, keep: npt.ArrayLike | None = None) -> float:
    """Return count_at_k / number of answer tokens, in [0, 1]; an answer without tokens gives 0, with a warning."""
    chosen, wanted = _choose_and_want(scores, answer, k, keep)
    if not wanted.any():
        warn_convention("The answer has no token to find; recall is reported as 0.")
        return 0.0
    return float((chosen & wanted).sum() / wanted.sum())
