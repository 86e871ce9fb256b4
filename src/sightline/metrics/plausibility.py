"""Does an explanation point at what a person would point at?

`scores` (n,) are compared with a human rationale, given as half-open token spans (s, 2). Higher scores mean "more
important"; pass magnitudes or the positive part of signed scores. Tokens outside `keep` (specials, stop words) cannot
be chosen and are not asked for.

token_f1 and iou_f1 need a hard choice: the k highest-scored tokens, or a `share` of the tokens (ERASER uses the mean
share of rationales in the data set). By default k is the number of rationale tokens, so that a perfect ranking
has a token F1 of 1.

A rationale justifies the label that a person gave. Where the model predicts another class, an explanation of the
prediction has no reason to match it: evaluate with target="label" to explain the given label.

DeYoung et al. 2020, "ERASER: A Benchmark to Evaluate Rationalized NLP Models". Cost: O(n log n); iou_f1 also compares
each chosen span with each rationale span.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline.arguments import check_count, check_one_of
from sightline.errors import OptionError
from sightline.metrics.inputs import BoolArray, FloatArray, IntArray, score_vector, warn_convention
from sightline.metrics.registry import Chance, metric
from sightline.metrics.token_sets import (
    descending_order,
    kept_tokens,
    mask_of,
    spans_of,
    token_spans,
    top_count,
    top_tokens,
)

RANDOM_CHOICES = 500
"""Random choices of tokens behind a chance level that has no closed form."""


def _rationale_share(scores: npt.ArrayLike, rationale: npt.ArrayLike) -> float:
    return float(mask_of(rationale, np.size(scores)).mean())


def _expected_average_precision(scores: npt.ArrayLike, rationale: npt.ArrayLike) -> float:
    """Return (H_n + (m − 1)(n − H_n) / (n − 1)) / n, H_n = Σ_{k ≤ n} 1/k, for m of n tokens in random order.

    The token at rank k is one of the m with probability m/n, and then the other m − 1 fill the k − 1 ranks above it in
    proportion: E[AP] = (1/n) Σ_k (1 + (k − 1)(m − 1) / (n − 1)) / k.
    """
    n = np.size(scores)
    if n == 1:
        return _rationale_share(scores, rationale)
    harmonic = float((1.0 / np.arange(1.0, n + 1)).sum())
    inside = int(mask_of(rationale, n).sum())
    return (harmonic + (inside - 1) * (n - harmonic) / (n - 1)) / n


def _random_iou_f1(
    scores: npt.ArrayLike,
    rationale: npt.ArrayLike,
    *,
    k: int | None = None,
    share: float | None = None,
    threshold: float = 0.5,
) -> float:
    """Return the mean IOU-F1 of random choices of k of the n tokens; it has no closed form."""
    n = np.size(scores)
    spans = token_spans(rationale, n)
    k = top_count(share, n) if share is not None else k
    k = max(1, int(mask_of(spans, n).sum())) if k is None else min(k, n)
    return _mean_random_iou(n, tuple(map(tuple, spans.tolist())), k, float(threshold))


@lru_cache(maxsize=256)  # the same for all methods of a document
def _mean_random_iou(n: int, spans: tuple[tuple[int, int], ...], k: int, threshold: float) -> float:
    wanted = np.array(spans, dtype=np.int64).reshape(-1, 2)
    generator = np.random.default_rng(0)
    values = []
    for _ in range(RANDOM_CHOICES if len(wanted) else 0):
        chosen = np.zeros(n, dtype=np.bool_)
        chosen[generator.choice(n, size=k, replace=False)] = True
        values.append(_span_f1(spans_of(chosen), wanted, threshold))
    return float(np.mean(values)) if values else 0.0


def _harmonic_mean(precision: float, recall: float) -> float:
    return 2.0 * precision * recall / (precision + recall) if precision + recall > 0.0 else 0.0


def _choose_tokens(
    scores: FloatArray, is_kept: BoolArray, k: int | None, share: float | None, default: int
) -> BoolArray:
    if k is not None and share is not None:
        raise OptionError("k and share both say how many tokens to choose; give one of them.")
    if share is not None:
        k = top_count(share, int(is_kept.sum()))
    return top_tokens(scores, default if k is None else check_count("k", k), is_kept)


@metric(
    name="token_f1",
    kind="plausibility",
    needs={"scores", "rationale"},
    range=(0, 1),
    chance=Chance("random scores", "the share of rationale tokens", _rationale_share),
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

    `scores` (n,), `rationale` (s, 2). At the default k precision, recall and F1 are the same number. A rationale
    without tokens gives 0, with a warning.
    """
    vector = score_vector(scores)
    is_kept = kept_tokens(keep, vector.size)
    wanted = mask_of(rationale, vector.size) & is_kept
    if not wanted.any():
        warn_convention("The rationale has no token to find; token F1 is reported as 0.")
        return 0.0
    chosen = _choose_tokens(vector, is_kept, k, share, default=int(wanted.sum()))
    hits = float((chosen & wanted).sum())
    return _harmonic_mean(hits / chosen.sum(), hits / wanted.sum())


@metric(
    name="auprc",
    kind="plausibility",
    needs={"scores", "rationale"},
    range=(0, 1),
    chance=Chance(
        "random scores",
        "the expected precision of a random order, near the share of rationale tokens",
        _expected_average_precision,
    ),
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

    `scores` (n,), `rationale` (s, 2). "step" is average precision, Σ_t (R_t - R_{t-1}) P_t; "linear" joins the points
    by the trapezoid rule, as ERASER's program does, which flatters few thresholds. Equal scores share one threshold.
    Chance is near the share of rationale tokens. A rationale without tokens gives 0, with a warning.
    """
    vector = score_vector(scores)
    is_kept = kept_tokens(keep, vector.size)
    wanted = mask_of(rationale, vector.size)[is_kept]
    vector = vector[is_kept]
    if not wanted.any():
        warn_convention("The rationale has no token to find; AUPRC is reported as 0.")
        return 0.0
    order = descending_order(vector)
    last_of_tie = np.flatnonzero(np.append(np.diff(vector[order]) != 0.0, True))
    hits = np.cumsum(wanted[order])[last_of_tie]
    precision, recall = hits / (last_of_tie + 1.0), hits / wanted.sum()
    widths = np.diff(recall, prepend=0.0)
    if check_one_of("interpolation", interpolation, ("step", "linear")) == "step":
        return float(widths @ precision)
    # The curve starts at recall 0 with precision 1, where nothing is chosen yet.
    return float(widths @ (precision + np.append(1.0, precision[:-1])) / 2.0)


@metric(
    name="iou_f1",
    kind="plausibility",
    needs={"scores", "rationale"},
    range=(0, 1),
    chance=Chance("random scores", f"mean of {RANDOM_CHOICES} random choices of as many tokens", _random_iou_f1),
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
    `scores` (n,), `rationale` (s, 2). No rationale span gives 0, with a warning.
    """
    vector = score_vector(scores)
    is_kept = kept_tokens(keep, vector.size)
    if not 0.0 < threshold <= 1.0:
        raise OptionError(f"threshold={threshold} is outside its range; it must lie in (0, 1].")
    wanted = token_spans(rationale, vector.size)
    if not len(wanted):
        warn_convention("The rationale has no span to find; IOU-F1 is reported as 0.")
        return 0.0
    default = max(1, int((mask_of(wanted, vector.size) & is_kept).sum()))
    return _span_f1(spans_of(_choose_tokens(vector, is_kept, k, share, default)), wanted, threshold)


def _span_f1(chosen_spans: IntArray, wanted: IntArray, threshold: float) -> float:
    starts = np.maximum(chosen_spans[:, None, 0], wanted[None, :, 0])
    ends = np.minimum(chosen_spans[:, None, 1], wanted[None, :, 1])
    common = np.maximum(ends - starts, 0)
    union = np.diff(chosen_spans, axis=1) + np.diff(wanted, axis=1).T - common
    matches = common >= threshold * union
    return _harmonic_mean(float(matches.any(axis=1).mean()), float(matches.any(axis=0).mean()))
