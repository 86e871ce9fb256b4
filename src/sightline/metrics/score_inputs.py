"""Checks of the input of statistics: finite score vectors, sets of tokens; and the warning for conventional results.

Every function of this package takes plain arrays. They are checked here, with the same messages, before any arithmetic:
a NaN, an infinite score or two vectors of different length raises an error and never gives a number.

Sets of tokens are chosen by score, given as spans, or marked by characters. A set is a boolean mask (n,) or an array of
half-open token spans (s, 2), [start, end). Rationales and answers are spans, because some metrics depend on their
borders; `spans_of` makes them from a mask."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, OptionError
from sightline.settings.values import check_count

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


class SightlineWarning(UserWarning):
    """A result that exists only by convention (constant scores, one token, nothing to find); the message says which."""


_REFUSED: ContextVar[bool] = ContextVar("sightline_conventions_refused", default=False)


@contextmanager
def without_conventions() -> Iterator[None]:
    """Raise `SightlineWarning` as an error inside the block, in this thread only.

    A filter of the warnings module would affect the whole process.
    """
    before = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(before)


def warn_convention(sentence: str, *, frames: int = 2) -> None:
    """Warn that a result is a convention; the warning points at the caller of the statistic, `frames` up from here."""
    if _REFUSED.get():
        raise SightlineWarning(sentence)
    warnings.warn(sentence, SightlineWarning, stacklevel=frames + 1)


def score_vector(scores: npt.ArrayLike, name: str = "scores") -> FloatArray:
    """Return `scores` as a float64 vector (n,) with n >= 1 and finite entries."""
    vector = np.asarray(scores, dtype=np.float64)
    if vector.ndim != 1:
        raise InputError(f"{name} has shape {vector.shape}; a statistic takes one score per token, shape (n,).")
    if vector.size == 0:
        raise InputError(f"{name} is empty: there is no token to measure. Check the filter that chose the tokens.")
    if not np.isfinite(vector).all():
        position = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise InputError(
            f"{name}[{position}] is {vector[position]}; scores must be finite. Look at the method that made them."
        )
    return vector


def score_pair(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return two score vectors (n,) over the same n tokens."""
    first, second = score_vector(a, "a"), score_vector(b, "b")
    if first.size != second.size:
        raise InputError(
            f"a has {first.size} scores and b has {second.size}; both must score the same tokens in the same order."
        )
    return first, second


def token_mask(mask: npt.ArrayLike | None, n: int, name: str = "keep") -> BoolArray:
    """Return `mask` as booleans (n,); None keeps every token."""
    if mask is None:
        return np.ones(n, dtype=np.bool_)
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (n,):
        raise InputError(
            f"{name} has shape {array.shape} and type {array.dtype}; it must be one boolean per token, shape ({n},)."
        )
    return array


def is_constant(scores: FloatArray) -> bool:
    """Return whether all scores are equal, so that they rank nothing (true of a single token)."""
    return bool(scores.min() == scores.max())


def descending_order(scores: FloatArray) -> IntArray:
    """Return the token indices (..., n) from the highest to the lowest score; equal scores in token order."""
    return np.argsort(-scores, axis=-1, kind="stable")


def descending_ranks(scores: FloatArray) -> IntArray:
    """Return the rank of every score, (n,): 1 = highest; equal scores in token order."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[descending_order(scores)] = np.arange(1, len(scores) + 1)
    return ranks


def top_order(scores: FloatArray, depth: int) -> IntArray:
    """Return the first `depth` of descending_order(scores (n,)), without sorting the rest: O(n + depth log depth)."""
    n = scores.size
    if depth >= n:
        return descending_order(scores)
    lowest = np.partition(scores, n - depth)[n - depth]
    candidates = np.flatnonzero(scores >= lowest)  # more than depth when scores tie at the border
    return np.asarray(candidates[descending_order(scores[candidates])[:depth]])


def top_count(share: float, n: int) -> int:
    """Return how many tokens the top `share` of n tokens holds: ⌊share · n⌋, at least 1."""
    if not 0.0 < share <= 1.0:
        raise OptionError(f"share={share} is outside its range; it must lie in (0, 1].")
    # The small term undoes binary rounding: 0.29 * 100 is 28.999999999999996, and means 29.
    return max(1, int(share * n + 1e-9))


def top_tokens(scores: npt.ArrayLike, k: int, keep: npt.ArrayLike | None = None) -> BoolArray:
    """Return the mask (n,) of the k highest of `scores` (n,) among the tokens in `keep`; all of them if fewer than k.

    Equal scores at the border are taken in token order.
    """
    vector = score_vector(scores)
    candidates = np.flatnonzero(kept_tokens(keep, vector.size))
    mask = np.zeros(vector.size, dtype=np.bool_)
    mask[candidates[top_order(vector[candidates], check_count("k", k))]] = True
    return mask


@dataclass(frozen=True, eq=False)
class TopTokens:
    """The k highest-scored tokens where scores may tie at the border: certain ones, and `drawn` of the tied ones."""

    certain: BoolArray
    """(n,) tokens that are among the k highest whatever the order of equal scores."""
    tied: BoolArray
    """(n,) tokens with the k-th highest score."""
    drawn: int
    """How many of the tied tokens complete the k."""

    @property
    def count(self) -> int:
        """k, or the number of tokens if there are fewer."""
        return int(self.certain.sum()) + self.drawn

    def expected_hits(self, wanted: BoolArray) -> float:
        """Return how many of the wanted tokens (n,) are chosen on average over random orders of equal scores.

        The number of wanted tokens among those drawn is hypergeometric: its mean is `drawn` · their share of the tied.
        """
        return float(wanted[self.certain].sum() + self.drawn * wanted[self.tied].mean())


def rank_tokens(scores: FloatArray, k: int, is_kept: BoolArray) -> TopTokens:
    """Return the k highest of `scores` (n,) among the tokens in `is_kept`; all of them if there are fewer than k."""
    count = min(check_count("k", k), int(is_kept.sum()))
    border = np.partition(scores[is_kept], -count)[-count]
    certain = is_kept & (scores > border)
    return TopTokens(certain, is_kept & (scores == border), count - int(certain.sum()))


def kept_tokens(keep: npt.ArrayLike | None, n: int) -> BoolArray:
    """Return `keep` as a mask (n,) that keeps at least one token; None keeps all."""
    is_kept = token_mask(keep, n)
    if not is_kept.any():
        raise InputError("The filter leaves no token to choose from: every token is masked. Use a weaker filter.")
    return is_kept


def token_spans(spans: npt.ArrayLike, n: int) -> IntArray:
    """Check half-open token spans (s, 2) against a document of n tokens; return them sorted, without duplicates."""
    array = np.asarray(spans)
    if array.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(
            f"Spans have shape {array.shape} and type {array.dtype}; give whole numbers [start, end) of shape (s, 2)."
        )
    wrong = (array[:, 0] < 0) | (array[:, 1] <= array[:, 0]) | (array[:, 1] > n)
    if wrong.any():
        start, end = array[wrong][0]
        raise InputError(
            f"The span [{start}, {end}) does not fit a document of {n} tokens; spans need 0 <= start < end <= {n}."
        )
    return np.unique(array.astype(np.int64), axis=0)


def mask_of(spans: npt.ArrayLike, n: int) -> BoolArray:
    """Return the mask (n,) of the tokens inside any of the half-open `spans` (s, 2)."""
    checked = token_spans(spans, n)
    # +1 where a span starts, -1 where it ends: the running sum counts the spans that cover a token.
    steps = np.bincount(checked[:, 0], minlength=n + 1) - np.bincount(checked[:, 1], minlength=n + 1)
    return np.asarray(np.cumsum(steps)[:n] > 0)


def spans_of(mask: npt.ArrayLike) -> IntArray:
    """Return the half-open spans (s, 2) of consecutive true tokens in `mask` (n,)."""
    array = np.asarray(mask, dtype=np.bool_)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], array, [False])).astype(np.int8)))
    return edges.reshape(-1, 2).astype(np.int64)


def tokens_in_characters(
    offsets: npt.ArrayLike, spans: npt.ArrayLike, *, segments: npt.ArrayLike | None = None, segment: int = 0
) -> BoolArray:
    """Return the mask (n,) of tokens that share a character with any of the character `spans` (s, 2), [start, end).

    `offsets` (n, 2) are the tokens' characters in their own text; an empty offset (a special token) is in no span.
    With `segments` (n,) only the tokens of `segment` (0 the text, 1 its pair) are considered.
    """
    characters = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    marked = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
    inside = np.zeros(len(characters), dtype=np.bool_)
    for start, end in marked:
        inside |= (characters[:, 0] < end) & (characters[:, 1] > start)
    inside &= characters[:, 1] > characters[:, 0]
    if segments is not None:
        inside &= np.asarray(segments) == segment
    return inside
