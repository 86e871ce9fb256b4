"""What a statistic accepts: finite score vectors over the same tokens; and the warning for results fixed by convention.

Every function of this package takes plain arrays. Here they are checked once, in the same words, before any arithmetic:
a NaN, an infinite score or two vectors of different length is an error, never a silent number.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


class SightlineWarning(UserWarning):
    """A result that exists only by convention (constant scores, one token, nothing to find); the message says which."""


_REFUSED: ContextVar[bool] = ContextVar("sightline_conventions_refused", default=False)


@contextmanager
def without_conventions() -> Iterator[None]:
    """While open, raise `SightlineWarning` where a result exists only by convention, in this thread and no other.

    A filter of the warnings module would be a setting of the whole process.
    """
    before = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(before)


def warn_convention(sentence: str, *, frames: int = 2) -> None:
    """Warn that a result is a convention; `frames` up from here is the caller of the statistic, where it points."""
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
    """Say whether all scores are equal, so that they rank nothing (true of a single token)."""
    return bool(scores.min() == scores.max())
