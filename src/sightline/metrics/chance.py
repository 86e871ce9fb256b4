"""What would an unrelated explanation have scored, and how sure is a mean over documents?

- `chance_level`: the agreement statistic after the scores of one vector are shuffled among the compared tokens.
- `bootstrap_interval`: an interval for the mean over documents, by drawing documents with replacement (Efron 1979).

Both are seeded: the same seed gives the same numbers. A chance level of m permutations costs m statistics, computed on
rows of shape (m, n) in blocks of bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import OptionError
from sightline.metrics.agreement import ROW_FORMS, MaskMode, masked_pair
from sightline.metrics.inputs import (
    FloatArray,
    fraction,
    positive_count,
    score_pair,
    score_vector,
    token_mask,
    warn_convention,
)
from sightline.metrics.registry import METRICS

BLOCK_ENTRIES = 2**22  # entries of one block of rows: 32 MB of float64


@dataclass(frozen=True)
class Interval:
    """A mean with the central `level` of the distribution it was drawn from, `samples` draws."""

    mean: float
    low: float
    high: float
    level: float
    samples: int

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def _central(draws: FloatArray, level: float) -> tuple[float, float]:
    tail = (1.0 - fraction(level, "level")) / 2.0
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return float(low), float(high)


def _blocks(samples: int, width: int) -> list[int]:
    # Sizes of the blocks of rows that together make `samples` rows of `width` entries.
    size = max(1, BLOCK_ENTRIES // width)
    return [min(size, samples - start) for start in range(0, samples, size)]


def _statistic(statistic: str | Callable[..., float], options: dict[str, Any]) -> tuple[Callable[..., float], Any]:
    if not isinstance(statistic, str):
        return statistic, options
    entry = METRICS.get(statistic)
    if entry.kind != "agreement":
        raise OptionError(f"Metric '{statistic}' measures {entry.kind}; a chance level needs an agreement metric.")
    return entry.function, {**entry.options, **options}


def chance_level(
    statistic: str | Callable[..., float],
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    keep: npt.ArrayLike | None = None,
    mask_mode: MaskMode = "drop",
    permutations: int = 200,
    seed: int = 0,
    level: float = 0.95,
    **options: Any,
) -> Interval:
    """Return mean and central interval of statistic(a, shuffled b, **options) for a, b (n,).

    `statistic` is the name of an agreement metric (with its registered options) or a function of two vectors. The
    scores of b change places among the tokens in `keep` only, and the masked tokens are then treated by `mask_mode`
    as in `masked_pair`: so the level shows how much agreement the masking itself creates.
    """
    function, chosen = _statistic(statistic, options)
    first, second = score_pair(a, b)
    kept = token_mask(keep, first.size)
    first, second = masked_pair(first, second, kept, mask_mode)
    movable = kept if mask_mode == "zero" else np.ones(first.size, dtype=np.bool_)
    rows_form = ROW_FORMS.get(function)
    generator = np.random.default_rng(seed)
    draws = []
    for size in _blocks(positive_count(permutations, "permutations"), first.size):
        rows = np.tile(second, (size, 1))
        rows[:, movable] = generator.permuted(rows[:, movable], axis=1)
        if rows_form is not None:
            draws.append(rows_form(first, rows, **chosen))
        else:
            draws.append(np.array([function(first, row, **chosen) for row in rows]))
    values = np.concatenate(draws)
    low, high = _central(values, level)
    return Interval(float(values.mean()), low, high, level, permutations)


def bootstrap_interval(values: npt.ArrayLike, *, resamples: int = 2000, seed: int = 0, level: float = 0.95) -> Interval:
    """Return the mean of `values` (D,), one per document, with its percentile bootstrap interval.

    For a paired comparison of two methods on the same documents pass their differences. One document says nothing
    about others: its interval is its value, with a warning. O(resamples · D).
    """
    documents = score_vector(values, "values")
    if documents.size == 1:
        warn_convention("There is one document only; its interval is the value itself and says nothing about others.")
    generator = np.random.default_rng(seed)
    draws = []
    for size in _blocks(positive_count(resamples, "resamples"), documents.size):
        drawn = generator.integers(documents.size, size=(size, documents.size))
        draws.append(documents[drawn].mean(axis=1))
    low, high = _central(np.concatenate(draws), level)
    return Interval(float(documents.mean()), low, high, level, resamples)
