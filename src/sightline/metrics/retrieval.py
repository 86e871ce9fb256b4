"""Are the tokens that matter among the first k?

For questions: of the k highest-scored tokens, how many belong to the answer (Qiang et al. 2022, "AttCAT", whose tables
show the count, `count_at_k`). The same functions measure whether planted tokens are found. `scores` (n,) are read
highest first; `answer` is given as half-open token spans (s, 2); tokens outside `keep` are neither chosen nor asked
for. Equal scores say nothing about their order, so each value is the mean over all orders of equal scores, in closed
form. An answer without tokens has no value (NaN, with a warning). O(n).

k is 20 unless the name says otherwise: "precision_at_5" is precision_at_k with k = 5. With m of n tokens in the answer,
equal scores have m/n precision, min(k, n)·m/n tokens and min(k, n)/n recall (hypergeometric distribution).
"""

from __future__ import annotations

import math

import numpy.typing as npt

from sightline.metrics.inputs import score_vector, warn_convention
from sightline.metrics.registry import equal_scores, metric
from sightline.metrics.token_sets import kept_tokens, mask_of, rank_tokens


def _expected_counts(
    scores: npt.ArrayLike, answer: npt.ArrayLike, k: int, keep: npt.ArrayLike | None
) -> tuple[float, int, int]:
    """Return the expected number of answer tokens among the first k, the tokens chosen, and those of the answer."""
    vector = score_vector(scores)
    is_kept = kept_tokens(keep, vector.size)
    wanted = mask_of(answer, vector.size) & is_kept
    top = rank_tokens(vector, k, is_kept)
    if not wanted.any():
        warn_convention("The answer has no token to find, so that the metric has no value (NaN).", frames=3)
        return math.nan, top.count, 0
    return top.expected_hits(wanted), top.count, int(wanted.sum())


@metric(
    name="count_at_k",
    kind="retrieval",
    needs={"scores", "answer"},
    range=(0, math.inf),
    chance=equal_scores("count_at_k", "min(k, n) times the share of answer tokens"),
    higher_is_better=True,
    summary="Number of the k highest-scored tokens that lie in the answer (what the AttCAT paper calls Precision@K).",
    citation="Qiang et al. 2022",
    options={"k": 20},
)
def count_at_k(scores: npt.ArrayLike, answer: npt.ArrayLike, *, k: int, keep: npt.ArrayLike | None = None) -> float:
    """Return how many of the k highest-scored tokens lie in the answer: what AttCAT's tables call precision@20."""
    hits, _, _ = _expected_counts(scores, answer, k, keep)
    return hits


@metric(
    name="precision_at_k",
    kind="retrieval",
    needs={"scores", "answer"},
    range=(0, 1),
    chance=equal_scores("precision_at_k", "the share of answer tokens"),
    higher_is_better=True,
    summary="Share of the k highest-scored tokens that lie in the answer.",
    citation="Qiang et al. 2022",
    options={"k": 20},
)
def precision_at_k(scores: npt.ArrayLike, answer: npt.ArrayLike, *, k: int, keep: npt.ArrayLike | None = None) -> float:
    """Return count_at_k / k, in [0, 1]; in a document with fewer than k tokens, the share of all of them."""
    hits, chosen, _ = _expected_counts(scores, answer, k, keep)
    return hits / chosen


@metric(
    name="recall_at_k",
    kind="retrieval",
    needs={"scores", "answer"},
    range=(0, 1),
    chance=equal_scores("recall_at_k", "k / n, at most 1"),
    higher_is_better=True,
    summary="Share of the answer's tokens that are among the k highest-scored.",
    citation="Qiang et al. 2022",
    options={"k": 20},
)
def recall_at_k(scores: npt.ArrayLike, answer: npt.ArrayLike, *, k: int, keep: npt.ArrayLike | None = None) -> float:
    """Return count_at_k / number of answer tokens, in [0, 1]."""
    hits, _, wanted = _expected_counts(scores, answer, k, keep)
    return hits / wanted if wanted else hits
