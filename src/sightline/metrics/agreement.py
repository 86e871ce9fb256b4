"""Do two explanations of the same tokens agree: of two methods, or of two classes (`confidence`)?

Every statistic takes two score vectors a, b of shape (n,) and returns one float. Scores are compared by value, as
given: pass `np.abs(scores)` to compare by magnitude. The overlap statistics (rbo, average_overlap, jaccard) read a
vector as a ranking, highest score first; equal scores keep the order of the tokens, so that the same input always
gives the same result. kendall and spearman treat equal scores as tied.

A number alone says little: two *unrelated* rankings have an average overlap of about one half. Read each statistic
beside its chance level (`sightline.metrics.chance`).

Cost: O(n log n) for the sort, O(n) after it. The overlap statistics all follow from one observation: a token is in
both lists cut at depth d exactly when d >= t_i = max(rank in a, rank in b), its *meeting depth*. With X_d the size of
the intersection at depth d,

    Σ_d w_d X_d / d  =  Σ_i W(t_i),     W(t) = Σ_{d >= t} w_d / d,

so that no prefix is ever built, and tokens below the largest depth are never sorted. Each statistic also has a form for
many second vectors at once, `<name>_rows(a (n,), rows (m, n)) -> (m,)`, which the chance level uses.

Conventions, each with a SightlineWarning: cosine with a zero vector is 0; kendall and spearman with a constant vector
(or one token) are 0; the overlaps of a constant vector follow the order of the tokens.

`confidence`: does an explanation depend on the class it explains? One that ranks the tokens alike for every class says
nothing about the decision: its confidence statistic is 1. Qiang et al. 2022 ("AttCAT") report Kendall's correlation
between classes; lower is better. There are two numbers:

    confidence            tau-b between the two vectors of scores: what the paper's text defines. Explanations of two
                          classes that are exactly opposite have −1.
    confidence_published  tau-b between the two lists of token positions, highest score first: what the published
                          program computes, and so what the paper's tables show. It compares the positions listed at
                          each rank, not the ranks of each token: exactly opposite rankings can have any value, and
                          have about 0 on average.

On the same six sentences AttCAT has −.976 by the first and near 0 (.018 in the paper's table) by the second.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, OptionError, TargetError
from sightline.metrics.registry import Chance, metric
from sightline.metrics.score_inputs import (
    FloatArray,
    IntArray,
    descending_order,
    is_constant,
    score_pair,
    token_mask,
    top_count,
    top_order,
    warn_convention,
)
from sightline.settings.values import check_count, check_fraction, check_one_of

MaskMode = Literal["drop", "zero"]
CosineForm = Literal["raw", "normalised", "thresholded"]


def masked_pair(
    a: npt.ArrayLike, b: npt.ArrayLike, keep: npt.ArrayLike, mode: MaskMode = "drop"
) -> tuple[FloatArray, FloatArray]:
    """Restrict two score vectors (n,) to the tokens in `keep` (n,) before they are ranked.

    "drop" removes the other tokens. "zero" keeps them with score 0 in both vectors, as once published: the zeros then
    agree with each other and with everything above them, so that unrelated scores with half of the tokens masked show
    a tau of 2/3 (ties counted) to 3/4 (ties in token order). Use it only to replicate published tables.
    """
    first, second = score_pair(a, b)
    is_kept = token_mask(keep, first.size)
    if not is_kept.any():
        raise InputError("The filter leaves no token to compare: every token is masked. Use a weaker filter.")
    if check_one_of("mask_mode", mode, get_args(MaskMode)) == "drop":
        return first[is_kept], second[is_kept]
    return np.where(is_kept, first, 0.0), np.where(is_kept, second, 0.0)


def minmax_magnitude(scores: FloatArray) -> FloatArray:
    """Map |scores| (..., n) linearly onto [0, 1] along the last axis; constant magnitudes become 0."""
    if not np.isfinite(scores).all():
        raise InputError("The scores hold NaN or infinite values, which have no magnitude to map onto [0, 1].")
    magnitude = np.abs(scores)
    lowest = magnitude.min(axis=-1, keepdims=True)
    spread = magnitude.max(axis=-1, keepdims=True) - lowest
    return np.asarray(np.divide(magnitude - lowest, spread, out=np.zeros_like(magnitude), where=spread > 0.0))


# Cosine ---------------------------------------------------------------------------------------------------------------


def _unit(vectors: FloatArray) -> FloatArray:
    # Dividing by the largest entry first keeps squares of very large or very small scores in range.
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    scaled = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0.0)
    norm = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.asarray(np.divide(scaled, norm, out=np.zeros_like(vectors), where=norm > 0.0))


def _cosine_form(vectors: FloatArray, form: CosineForm, quantile: float) -> FloatArray:
    if check_one_of("form", form, get_args(CosineForm)) == "raw":
        return vectors
    magnitude = minmax_magnitude(vectors)
    if form == "normalised":
        return magnitude
    threshold = np.quantile(magnitude, check_fraction("quantile", quantile), axis=-1, keepdims=True)
    return np.where(magnitude > threshold, magnitude, 0.0)


def cosine_rows(a: FloatArray, rows: FloatArray, *, form: CosineForm = "raw", quantile: float = 0.95) -> FloatArray:
    """Cosine of a (n,) with each row of rows (m, n), shape (m,)."""
    similarity = _unit(_cosine_form(rows, form, quantile)) @ _unit(_cosine_form(a, form, quantile))
    return np.clip(similarity, -1.0, 1.0)


@metric(
    kind="agreement",
    needs={"scores", "other_scores"},
    range=(-1, 1),
    rows=cosine_rows,
    higher_is_better=True,
    summary="Cosine of the angle between two score vectors (raw, normalised or thresholded).",
    citation="Salton & McGill 1983",
)
def cosine(a: npt.ArrayLike, b: npt.ArrayLike, *, form: CosineForm = "raw", quantile: float = 0.95) -> float:
    """Return a·b / (‖a‖ ‖b‖) for a, b (n,), in [-1, 1].

    form="normalised" compares magnitudes mapped onto [0, 1]; "thresholded" also sets those not above their `quantile`
    to 0. A zero vector has no direction: the result is 0, with a warning.
    """
    first, second = score_pair(a, b)
    if not _cosine_form(first, form, quantile).any() or not _cosine_form(second, form, quantile).any():
        warn_convention("A score vector has norm 0 and so no direction; its cosine is reported as 0.")
        return 0.0
    return float(cosine_rows(first, second[None], form=form, quantile=quantile)[0])


# Rank correlation -----------------------------------------------------------------------------------------------------


# Up to this many tokens, comparing all pairs is faster than scipy, where each call takes a third of a millisecond.
SHORT = 100


def kendall_rows(a: FloatArray, rows: FloatArray) -> FloatArray:
    """Kendall's tau of a (n,) with each row of rows (m, n), shape (m,); 0 where a vector is constant."""
    return _tau_b_by_pairs(a, rows) if a.size <= SHORT else _tau_b_by_sorting(a, rows)


def _tau_b_by_sorting(a: FloatArray, rows: FloatArray) -> FloatArray:
    from scipy.stats import kendalltau

    if is_constant(a):
        return np.zeros(len(rows))
    return np.array([0.0 if is_constant(row) else kendalltau(a, row).statistic for row in rows])


def _tau_b_by_pairs(a: FloatArray, rows: FloatArray) -> FloatArray:
    first, second = np.triu_indices(a.size, 1)

    def signs(vectors: FloatArray) -> FloatArray:
        left, right = vectors[..., first], vectors[..., second]
        return (left > right).astype(np.float64) - (left < right)

    signs_a = signs(a)
    tau = np.zeros(len(rows))
    step = max(1, 2**20 // max(1, first.size))  # rows at a time: a few MB
    for start in range(0, len(rows), step):
        block = signs(rows[start : start + step])
        untied = np.count_nonzero(signs_a) * np.count_nonzero(block, axis=1).astype(np.float64)
        np.divide(block @ signs_a, np.sqrt(untied), out=tau[start : start + step], where=untied > 0.0)
    return tau


def _warn_if_constant(a: FloatArray, b: FloatArray, consequence: str) -> None:
    if is_constant(a) or is_constant(b):
        cause = "There is one token only" if a.size == 1 else "All scores of a vector are equal"
        warn_convention(f"{cause}, so it ranks nothing; {consequence}.", frames=3)


@metric(
    kind="agreement",
    needs={"scores", "other_scores"},
    range=(-1, 1),
    rows=kendall_rows,
    higher_is_better=True,
    summary="Kendall's tau-b: concordant minus discordant pairs of tokens, corrected for ties.",
    citation="Kendall 1945",
)
def kendall(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return tau-b = (P - Q) / √((N - T_a)(N - T_b)) for a, b (n,), in [-1, 1].

    P, Q: concordant and discordant pairs among N = n(n-1)/2; T: pairs tied in a vector. A constant vector
    gives 0, with a warning. O(n log n) by scipy, all pairs for short vectors.
    """
    first, second = score_pair(a, b)
    _warn_if_constant(first, second, "Kendall's tau is reported as 0")
    return float(kendall_rows(first, second[None])[0])


def spearman_rows(a: FloatArray, rows: FloatArray) -> FloatArray:
    """Spearman's rho of a (n,) with each row of rows (m, n), shape (m,); 0 where a vector is constant."""
    from scipy.stats import rankdata

    # Ranks with ties averaged have mean (n + 1) / 2 exactly, so the correlation is a cosine of centred ranks.
    middle = (a.size + 1) / 2
    return cosine_rows(rankdata(a) - middle, rankdata(rows, axis=-1) - middle)


@metric(
    kind="agreement",
    needs={"scores", "other_scores"},
    range=(-1, 1),
    rows=spearman_rows,
    higher_is_better=True,
    summary="Spearman's rho: correlation of the ranks, ties averaged.",
    citation="Spearman 1904",
)
def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return the Pearson correlation of the ranks of a, b (n,), in [-1, 1].

    A constant vector gives 0, with a warning. O(n log n).
    """
    first, second = score_pair(a, b)
    _warn_if_constant(first, second, "Spearman's rho is reported as 0")
    return float(spearman_rows(first, second[None])[0])


# Overlap of rankings --------------------------------------------------------------------------------------------------


def _meeting_depths(a: FloatArray, rows: FloatArray, depth: int) -> IntArray:
    # t - 1 for the first `depth` tokens of each row, shape (m, depth); `depth` for those that a does not reach.
    places = np.arange(depth)
    place_in_a = np.full(a.size, depth)
    place_in_a[top_order(a, depth)] = places
    return np.maximum([place_in_a[top_order(row, depth)] for row in rows], places)


def _token_weights(depth_weights: FloatArray) -> FloatArray:
    # W(t) of the module docstring for t = 1..depth, and 0 for tokens that do not meet.
    shares = depth_weights / np.arange(1.0, depth_weights.size + 1)
    weights = np.append(np.cumsum(shares[::-1])[::-1], 0.0)
    weights.flags.writeable = False  # cached below
    return weights


def _depth(depth: int | None, n: int) -> int:
    return n if depth is None else min(check_count("depth", depth), n)


@lru_cache(maxsize=64)
def _rbo_weights(depth: int, p: float) -> FloatArray:
    depth_weights: FloatArray = (1.0 - p) * np.power(p, np.arange(depth, dtype=np.float64))
    depth_weights[-1] += p**depth  # the agreement at the last depth is extrapolated to infinity
    return _token_weights(depth_weights)


@lru_cache(maxsize=64)
def _average_overlap_weights(depth: int) -> FloatArray:
    return _token_weights(np.full(depth, 1.0 / depth))


def rbo_rows(a: FloatArray, rows: FloatArray, *, p: float, depth: int | None = None) -> FloatArray:
    """Extrapolated rank-biased overlap of a (n,) with each row of rows (m, n), shape (m,)."""
    if not 0.0 < p < 1.0:
        raise OptionError(f"p={p} is outside its range; rbo needs 0 < p < 1 (p = 1 is average_overlap).")
    # Ranks beyond depth d change the result by less than p^d: stop where that is below rounding.
    visible = math.ceil(math.log(1e-16) / math.log(p))
    depth = min(_depth(depth, a.size), visible)
    overlap = _rbo_weights(depth, float(p))[_meeting_depths(a, rows, depth)].sum(axis=-1)
    return np.asarray(np.minimum(overlap, 1.0))


@metric(
    kind="agreement",
    needs={"scores", "other_scores"},
    range=(0, 1),
    rows=rbo_rows,
    higher_is_better=True,
    summary="Rank-biased overlap, extrapolated: overlap of the top d tokens, weighted by p^(d-1).",
    citation="Webber, Moffat & Zobel 2010",
    options={"p": 0.9},
)
def rbo(a: npt.ArrayLike, b: npt.ArrayLike, *, p: float, depth: int | None = None) -> float:
    """Return RBO_ext (Webber et al. 2010, Eq. 23) of the rankings of a, b (n,), in [0, 1].

    RBO_ext = (X_k / k) p^k + (1 - p) Σ_{d=1..k} p^(d-1) X_d / d, with X_d the overlap of the two top-d lists and
    k = `depth` (all n tokens by default). p has no default because it decides the result: the first 10 ranks carry
    86 % of the weight at p = 0.9, the first 50 at p = 0.98. At chance it is near the mean of d/n under these weights,
    not 0. Equal scores are ranked in token order. O(n + k log k), where depths too deep to change the result (p^d below
    1e-16: 350 tokens at p = 0.9) are left out of k.
    """
    first, second = score_pair(a, b)
    _warn_if_constant(first, second, "the overlap follows the order of the tokens")
    return float(rbo_rows(first, second[None], p=p, depth=depth)[0])


def average_overlap_rows(a: FloatArray, rows: FloatArray, *, depth: int | None = None) -> FloatArray:
    """Average overlap of a (n,) with each row of rows (m, n), shape (m,)."""
    depth = _depth(depth, a.size)
    overlap = _average_overlap_weights(depth)[_meeting_depths(a, rows, depth)].sum(axis=-1)
    return np.asarray(np.minimum(overlap, 1.0))


@metric(
    kind="agreement",
    needs={"scores", "other_scores"},
    range=(0, 1),
    rows=average_overlap_rows,
    higher_is_better=True,
    summary="Average overlap: mean over depths d of the share of tokens that two top-d lists have in common.",
    citation="Fagin, Kumar & Sivakumar 2003",
)
def average_overlap(a: npt.ArrayLike, b: npt.ArrayLike, *, depth: int | None = None) -> float:
    """Return (1/k) Σ_{d=1..k} X_d / d for the rankings of a, b (n,), in [0, 1], with k = `depth` (default n).

    X_d is the overlap of the two top-d lists. Unrelated rankings reach (k + 1) / 2n: about one half at full depth.
    Equal scores are ranked in token order. O(n log n).
    """
    first, second = score_pair(a, b)
    _warn_if_constant(first, second, "the overlap follows the order of the tokens")
    return float(average_overlap_rows(first, second[None], depth=depth)[0])


def jaccard_rows(a: FloatArray, rows: FloatArray, *, share: float = 0.05) -> FloatArray:
    """Jaccard index of the top tokens of a (n,) with those of each row of rows (m, n), shape (m,)."""
    k = top_count(share, a.size)
    common = np.count_nonzero(_meeting_depths(a, rows, k) < k, axis=-1)
    return np.asarray(common / (2.0 * k - common))


@metric(
    kind="agreement",
    needs={"scores", "other_scores"},
    range=(0, 1),
    rows=jaccard_rows,
    higher_is_better=True,
    summary="Jaccard index of the two sets of highest-scored tokens (top 5 %).",
    citation="Jaccard 1901",
    options={"share": 0.05},
)
def jaccard(a: npt.ArrayLike, b: npt.ArrayLike, *, share: float = 0.05) -> float:
    """Return |A ∩ B| / |A ∪ B| of the top `share` of the tokens of a, b (n,), at least one token, in [0, 1].

    Equal scores are ranked in token order, so both sets have ⌊share · n⌋ tokens even at a tie.
    """
    first, second = score_pair(a, b)
    _warn_if_constant(first, second, "the overlap follows the order of the tokens")
    return float(jaccard_rows(first, second[None], share=share)[0])


@metric(
    kind="confidence",
    needs={"class_scores", "target"},
    range=(-1, 1),
    chance=Chance("unrelated rankings", "0", lambda class_scores, target, **options: 0.0),
    higher_is_better=False,
    summary="Kendall's tau-b between the scores for the target class and for each other class, averaged (the "
    "definition in the text of the AttCAT paper; not the number in its tables).",
    citation="Qiang et al. 2022",
)
def confidence(class_scores: npt.ArrayLike, target: int, *, compat: Literal["attcat"] | None = None) -> float:
    """Return the mean over classes c ≠ `target` of tau-b(scores of target, scores of c), in [-1, 1].

    `class_scores` (C, n): row c explains class c over the same tokens. Constant rows count 0, with a warning.
    compat="attcat" correlates the lists of token indices in descending order, as the published program does; that
    number depends on the positions of the tokens. Use it only to replicate published tables. O(C n log n).
    """
    rows = np.asarray(class_scores, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        raise InputError(
            f"class_scores has shape {rows.shape}; confidence compares two classes or more, shape (C, n) with C >= 2."
        )
    if not 0 <= target < len(rows):
        raise TargetError(f"Class {target} asked for, there are scores of {len(rows)} classes (0-{len(rows) - 1}).")
    if compat is not None:
        check_one_of("compat", compat, ("attcat",))
        rows = descending_order(rows).astype(np.float64)
    return float(np.mean([kendall(rows[target], row) for c, row in enumerate(rows) if c != target]))


@metric(
    kind="confidence",
    needs={"class_scores", "target"},
    range=(-1, 1),
    chance=Chance("unrelated rankings", "0", lambda class_scores, target, **options: 0.0),
    level="tokens",
    higher_is_better=False,
    summary="Kendall's tau-b between the lists of token positions in order of score, target class against each other "
    "class, averaged (as the published AttCAT program computes it; the number in its tables).",
    citation="Qiang et al. 2022, program",
)
def confidence_published(class_scores: npt.ArrayLike, target: int) -> float:
    """Return the mean over classes c ≠ `target` of tau-b(order of target, order of c), in [-1, 1].

    `class_scores` (C, n), special tokens included as in the published program; the order of a row is its token
    positions from the highest to the lowest score, equal scores in token order. Use it only beside published tables: it
    is 0 on average for unrelated rankings, but not −1 for opposite ones. O(C n log n).
    """
    return confidence(class_scores, target, compat="attcat")
