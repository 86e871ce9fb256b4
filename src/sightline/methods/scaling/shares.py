"""Scores as shares that sum to 1, with a warning if all of them are zero."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def warn_if_all_zero(scores: NDArray[np.floating[Any]], what: str, why: str) -> None:
    """Warn when all scores of `what` are zero, which is a result but ranks nothing."""
    if not scores.any():
        warnings.warn(f"All scores of {what} are zero: {why}.", stacklevel=4)


def sum_to_one(scores: NDArray[np.floating[Any]], what: str) -> NDArray[np.floating[Any]]:
    """Return scores / Σ scores, none below 0; all-zero scores stay zero, with a warning that names `what`."""
    warn_if_all_zero(scores, what, "the target does not depend on any token")
    total = scores.sum()
    share: NDArray[np.floating[Any]] = scores / total if total else scores
    return share
