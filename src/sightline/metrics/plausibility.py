"""Does an explanation point at what a person would point at?

`scores` (n,) are compared with a human rationale, given as half-open token spans (s, 2). Higher scores mean "more
important"; pass magnitudes or the positive part of signed scores. Tokens outside `keep` (specials, stop words) can
neither be chosen nor count as missed.

token_f1 and iou_f1 need a hard choice: the k highest-scored tokens, or a `share` of the tokens (ERASER uses the mean
share of rationales in the data set). By default k is the number of rationale tokens, so that a perfect ranking
has a token F1 of 1.

Ties have no order, so each metric is its mean over all orders of equal scores: in closed form for
token_f1 and auprc, over all choices or 10,000 random ones for iou_f1. The chance level is the same metric for scores
that are all equal. A rationale without tokens has no value (NaN, with a warning).

A rationale justifies the label that a person gave. Where the model predicts another class, an explanation of the
prediction has no reason to match it: evaluate with target="label" to explain the given label.

DeYoung et al. 2020, "ERASER: A Benchmark to Evaluate Rationalized NLP Models". Cost: O(n log n); iou_f1 also compares
each chosen span with each rationale span, where scores tie at the border for every order drawn.

Retrieval metrics ask whether the tokens that matter are among the first k. For questions: of the k highest-scored
tokens, how many belong to the answer (Qiang et al. 2022, "AttCAT", whose tables show the count, `count_at_k`). The same
functions measure whether planted tokens are found. `scores` (n,) are read highest first; `answer` is given as half-open
token spans (s, 2); tokens outside `keep` are neither chosen nor counted. Each value is the mean over all orders of
equal scores, in closed form. An answer without tokens has no value (NaN, with a warning). O(n).

k is 20 unless the name says otherwise: "precision_at_5" is precision_at_k with k = 5. With m of n tokens in the answer,
equal scores have m/n precision, min(k, n)·m/n tokens and min(k, n)/n recall (hypergeometric distribution).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline.errors import OptionError
from sightline.metrics.registry import equal_scores, metric
from sightline.metrics.score_inputs import (
    BoolArray,
    FloatArray,
    IntArray,
    TopTokens,
    kept_tokens,
    mask_of,
    rank_tokens,
    score_vector,
    spans_of,
    token_spans,
    top_count,
    warn_convention,
)
from sightline.metrics.statistics import block_sizes
from sightline.settings.values import check_one_of

RANDOM_CHOICES = 10_000
"""Most orders of equal scores over which a mean without closed form is taken: all if there are fewer, else random."""


def _rank(scores: FloatArray, is_kept: BoolArray, k: int | None, share: float | None, default: int) -> TopTokens:
    if k is not None and share is not None:
        raise OptionError("k and share both say how many tokens to choose; give one of them.")
    if share is not None:
        k = top_count(share, int(is_kept.sum()))
    return rank_tokens(scores, default if k is None else k, is_kept)


@metric(
    kind="plausibility",
    needs={"scores", "rationale"},
    range=(0, 1),
    chance=equal_scores("token_f1", "the share of rationale tokens"),
    higher_is_better=True,
    summary="F1 of the highest-scored tokens against the tokens of a human rationale.",
    citation="DeYoung et al. 2020",
)
def token_f1(
    scores: npt.ArrayLike,
    rationale: npt.ArrayLike,
    *,
    k: int | None = None,
    share: float | None = None,
    keep: npt.ArrayLike | None = None,
) -> float:
    """Return the harmonic mean of precision and recall of the chosen tokens, in [0, 1].

    `scores` (n,), `rationale` (s, 2). F1 = 2 · hits / (chosen + rationale tokens) is linear in the hits, so its mean
    over orders of equal scores is that of the expected hits. At the default k precision, recall and F1 are the same
    number.
    """
    vector = score_vector(scores)
    is_kept = kept_tokens(keep, vector.size)
    wanted = mask_of(rationale, vector.size) & is_kept
    if not wanted.any():
        return _no_value("token F1")
    top = _rank(vector, is_kept, k, share, default=int(wanted.sum()))
    return 2.0 * top.expected_hits(wanted) / (top.count + int(wanted.sum()))


@metric(
    kind="plausibility",
    needs={"scores", "rationale"},
    range=(0, 1),
    chance=equal_scores("auprc", "the expected precision of a random order, near the share of rationale tokens"),
    higher_is_better=True,
    summary="Area under the precision-recall curve of the scores for the tokens of a human rationale.",
    citation="DeYoung et al. 2020",
)
def auprc(
    scores: npt.ArrayLike,
    rationale: npt.ArrayLike,
    *,
    interpolation: Literal["step", "linear"] = "step",
    keep: npt.ArrayLike | None = None,
) -> float:
    """Return the area under precision over recall as the threshold falls through the scores, in [0, 1].

    `scores` (n,), `rationale` (s, 2). "step" is average precision, the mean of the precision P_r over the ranks r of
    the m rationale tokens; "linear" joins the points by the trapezoid rule, as ERASER's program does: the mean of
    (P_{r−1} + P_r) / 2, with P_0 = 1.

    Where t tokens with p rationale tokens tie, after N tokens with H, the token at rank r = N + j is one of the p with
    probability p/t, and h_r = H + (j − 1)(p − 1) / (t − 1) rationale tokens are expected above it. So, over all orders,

        AUPRC = (1/m) Σ_r p/t · (h_r + 1) / r,   "linear": (1/m) Σ_r p/t · ((h_r + 1) / r + h_r / (r − 1)) / 2.
    """
    vector = score_vector(scores)
    is_kept = kept_tokens(keep, vector.size)
    wanted = mask_of(rationale, vector.size)[is_kept]
    check_one_of("interpolation", interpolation, ("step", "linear"))
    if not wanted.any():
        return _no_value("AUPRC")
    _, group, sizes = np.unique(-vector[is_kept], return_inverse=True, return_counts=True)
    hits = np.bincount(group, weights=wanted)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)  # N, for every rank
    ranks = np.arange(1.0, len(group) + 1)
    others = np.repeat((hits - 1.0) / np.maximum(sizes - 1, 1), sizes)
    above = np.repeat(np.cumsum(hits) - hits, sizes) + (ranks - 1 - first) * others
    precision = (above + 1.0) / ranks
    if interpolation == "linear":
        precision = (precision + np.append(1.0, above[1:] / ranks[:-1])) / 2.0
    return float(np.repeat(hits / sizes, sizes) @ precision / wanted.sum())


@metric(
    kind="plausibility",
    needs={"scores", "rationale"},
    range=(0, 1),
    chance=equal_scores("iou_f1", f"mean over all choices of as many tokens, or {RANDOM_CHOICES:,} random ones"),
    higher_is_better=True,
    summary="F1 of spans: runs of chosen tokens that cover a rationale span with an intersection over union of 0.5.",
    citation="DeYoung et al. 2020",
    options={"threshold": 0.5},
)
def iou_f1(
    scores: npt.ArrayLike,
    rationale: npt.ArrayLike,
    *,
    k: int | None = None,
    share: float | None = None,
    threshold: float = 0.5,
    keep: npt.ArrayLike | None = None,
) -> float:
    """Return the F1 of matched spans, in [0, 1].

    Chosen spans are runs of consecutive chosen tokens. A chosen and a rationale span match when they share at least
    `threshold` of their union. Precision is the share of chosen spans with a match, recall the share of rationale
    spans with a match (counted on each side, so that neither passes 1 when two halves match one span).
    `scores` (n,), `rationale` (s, 2).
    """
    vector = score_vector(scores)
    is_kept = kept_tokens(keep, vector.size)
    if not 0.0 < threshold <= 1.0:
        raise OptionError(f"threshold={threshold} is outside its range; it must lie in (0, 1].")
    wanted = token_spans(rationale, vector.size)
    size = int((mask_of(wanted, vector.size) & is_kept).sum())
    if not size:
        return _no_value("IOU-F1")
    top = _rank(vector, is_kept, k, share, default=size)
    spans = tuple(map(tuple, wanted.tolist()))
    return _mean_span_f1(top.certain.tobytes(), top.tied.tobytes(), top.drawn, spans, float(threshold))


@lru_cache(maxsize=256)  # the chance level is the same for all methods of a document
def _mean_span_f1(
    certain: bytes, tied: bytes, drawn: int, spans: tuple[tuple[int, ...], ...], threshold: float
) -> float:
    """Return the mean F1 of spans over the choices of `drawn` of the tied tokens; the masks as bytes."""
    chosen, candidates = np.frombuffer(certain, dtype=np.bool_), np.flatnonzero(np.frombuffer(tied, dtype=np.bool_))
    values = []
    for places in _choices(len(candidates), drawn):
        rows = np.tile(chosen, (len(places), 1))
        np.put_along_axis(rows, candidates[places], values=True, axis=1)
        values.append(_span_f1(rows, spans, threshold))
    return float(np.concatenate(values).mean())


def _choices(n: int, k: int) -> Iterator[IntArray]:
    """Yield blocks (c, k) of choices of k of n: all of them where these are few, else random ones, seeded."""
    if math.comb(n, k) <= RANDOM_CHOICES:
        yield np.array(list(combinations(range(n), k)))
        return
    generator = np.random.default_rng(0)
    for size in block_sizes(RANDOM_CHOICES, n):
        yield np.argpartition(generator.random((size, n)), k - 1, axis=1)[:, :k]


def _span_f1(chosen: BoolArray, spans: tuple[tuple[int, ...], ...], threshold: float) -> FloatArray:
    """Return the F1 (c,) of the runs of chosen tokens, one choice per row (c, n), against the spans."""
    rows, width = len(chosen), chosen.shape[1] + 1
    runs = spans_of(np.pad(chosen, ((0, 0), (0, 1))).ravel())  # no run crosses the border of two rows
    row = runs[:, 0] // width
    starts, ends = (runs - row[:, None] * width).T
    is_matched, found = np.zeros(len(runs), dtype=np.bool_), np.zeros(rows)
    for start, end in spans:
        common = np.maximum(np.minimum(ends, end) - np.maximum(starts, start), 0)
        matches = common >= threshold * (ends - starts + end - start - common)
        is_matched |= matches
        found += np.bincount(row[matches], minlength=rows) > 0
    precision = np.bincount(row, weights=is_matched, minlength=rows) / np.bincount(row, minlength=rows)
    recall = found / len(spans)
    return np.asarray(2.0 * precision * recall / np.where(found > 0.0, precision + recall, 1.0))


def _no_value(name: str) -> float:
    warn_convention(f"The rationale has no token to find, so that {name} has no value (NaN).", frames=3)
    return math.nan


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
