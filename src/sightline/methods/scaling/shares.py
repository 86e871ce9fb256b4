"""Scores as shares that sum to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sum_to_one(scores: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return scores / Σ scores, none below 0; all-zero scores stay zero."""
    total = scores.sum()
    share: NDArray[np.floating[Any]] = scores / total if total else scores
    return share
