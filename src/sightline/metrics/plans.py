"""How a faithfulness metric changes documents (`Plan`), and what it reads off the model at each share (`Quantity`).

A plan removes the share k of a document's words with the highest scores, or everything else, for K shares. What the
model then gives the explained class is a *removal curve*: probabilities p_k (K,) beside p, the probability of the whole
document. A quantity turns that curve into what the metric summarises and what its figure shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, OptionError
from sightline.metrics.inputs import FloatArray, score_vector

if TYPE_CHECKING:
    from sightline.passes.perturb import Replacement

Direction = Literal["remove", "keep"]
"""Whether the units with the highest scores are removed, or are the only ones kept."""
Compat = Literal["attcat"]

TENTHS = tuple(k / 10 for k in range(11))
ERASER_BINS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)
NINTHS = tuple(k / 9 for k in range(1, 10))
"""The shares of the published AttCAT program."""
SMALLEST_PROBABILITY = 1e-12
"""Probabilities are clipped here before a logarithm."""


@dataclass(frozen=True)
class Plan:
    """How a metric changes documents."""

    direction: Direction = "remove"
    replacement: Replacement = "delete"
    ratios: tuple[float, ...] = TENTHS
    """Shares of the units, ascending."""
    attcat_ratios: tuple[float, ...] | None = None
    """Shares under compat="attcat"; None if the published program does not compute the metric."""


@dataclass(frozen=True)
class Quantity:
    """What a metric reads at each share of a removal curve."""

    label: str
    """Label of the vertical axis of its figure."""
    of: Callable[[npt.ArrayLike, float], FloatArray]
    """Maps (p_k (K,), p) to the values (K,)."""


def check_ratios(ratios: npt.ArrayLike) -> tuple[float, ...]:
    """Return shares in [0, 1] in ascending order, without duplicates."""
    try:
        values = np.atleast_1d(np.asarray(ratios, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([])
    if values.ndim != 1 or not values.size:
        raise OptionError(f"ratios={ratios!r} is not a list of shares such as [0, 0.1, 0.5].")
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise OptionError(f"ratios={values.tolist()} are outside their range; shares lie in [0, 1], and 10 % is 0.1.")
    return tuple(np.unique(values).tolist())


def check_probabilities(probabilities: npt.ArrayLike, original: float = 0.0) -> FloatArray:
    """Return p_k (K,) after a check that it holds probabilities; `original` is there for the common signature."""
    curve = score_vector(probabilities, "probabilities")
    outside = (curve < 0.0) | (curve > 1.0)
    if outside.any():
        raise InputError(f"A probability of {curve[outside][0]} was given; they lie in [0, 1].")
    return curve


def probability_drop(probabilities: npt.ArrayLike, original: float) -> FloatArray:
    """Return p − p_k, (K,)."""
    return float(original) - check_probabilities(probabilities)


def log_ratio(probabilities: npt.ArrayLike, original: float) -> FloatArray:
    """Return ln(p_k / p), (K,), probabilities clipped at 1e-12."""
    clipped = np.maximum(check_probabilities(probabilities), SMALLEST_PROBABILITY)
    return np.asarray(np.log(clipped) - np.log(max(float(original), SMALLEST_PROBABILITY)))


PROBABILITY = Quantity("probability", check_probabilities)
DROP = Quantity("drop in probability", probability_drop)
LOG_RATIO = Quantity("ln(probability ratio)", log_ratio)
