"""Scaling scores to sum 1, with a defined result where there is nothing to scale."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def sum_to_one(scores: NDArray[np.floating[Any]], what: str) -> NDArray[np.floating[Any]]:
    """Return scores / Σ scores; all-zero scores stay zero, with a warning that names `what`."""
    total = scores.sum()
    if total == 0:
        warnings.warn(f"All scores of {what} are zero: the target does not depend on any token.", stacklevel=3)
        return scores
    share: NDArray[np.floating[Any]] = scores / total
    return share
