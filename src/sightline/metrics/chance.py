"""What score would an unrelated explanation get?

`chance_level` is the agreement statistic after the scores of one vector are shuffled among the compared tokens. Where
words are compared whose scores are sums over tokens, the tokens are shuffled and summed again (`TokenScores`): a word
of many tokens has a large sum in every explanation, so shuffled sums would make unrelated explanations look related.

The same seed gives the same numbers. A chance level of m permutations costs m statistics, computed on rows of shape
(m, n) in blocks of bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import OptionError
from sightline.metrics.registry import METRICS
from sightline.metrics.score_inputs import (
    FloatArray,
    score_pair,
)
from sightline.metrics.statistics import LEVEL, TAIL, Interval, block_sizes
from sightline.settings.values import check_count
from sightline.text.units import Units


@dataclass(frozen=True, eq=False)
class TokenScores:
    """Token scores (n,) and the units over which they are summed."""

    scores: FloatArray
    units: Units

    def sums(self) -> FloatArray:
        """Return the scores of the units, (U,)."""
        return self.units.fold(self.scores)

    def select(self, units: Sequence[int] | npt.NDArray[np.int64]) -> TokenScores:
        """Return the same token scores over some of the units, renumbered in the order given."""
        return TokenScores(self.scores, self.units.select(units))

    def shuffle(self, rows: int, generator: np.random.Generator, is_kept: npt.NDArray[np.bool_]) -> FloatArray:
        """Return sums (rows, U) after shuffling scores among the tokens of the units in `is_kept` (U,)."""
        unit = self.units.of_token
        moving = np.flatnonzero((unit >= 0) & np.append(is_kept, False)[unit])
        moving = moving[np.argsort(unit[moving], kind="stable")]
        values = generator.permuted(np.tile(self.scores[moving], (rows, 1)), axis=1)
        owners, first = np.unique(unit[moving], return_index=True)
        sums = np.tile(self.sums(), (rows, 1))
        if len(moving):
            sums[:, owners] = np.add.reduceat(values, first, axis=1)
        return sums


def shuffled_blocks(
    scores: FloatArray, is_kept: npt.NDArray[np.bool_], permutations: int, seed: int, tokens: TokenScores | None = None
) -> Iterator[FloatArray]:
    """Yield blocks of rows (m, n), together `permutations`: `scores` (n,) shuffled among the entries in `kept` (n,).

    Given the `tokens` whose sums the scores are, the tokens are shuffled instead.
    """
    generator = np.random.default_rng(seed)
    for size in block_sizes(
        check_count("permutations", permutations), scores.size if tokens is None else tokens.scores.size
    ):
        if tokens is not None:
            yield tokens.shuffle(size, generator, is_kept)
        else:
            rows = np.tile(scores, (size, 1))
            rows[:, is_kept] = generator.permuted(rows[:, is_kept], axis=1)
            yield rows


def central_interval(draws: FloatArray) -> Interval:
    """Return mean and central 95 % of draws (m,)."""
    low, high = np.quantile(draws, [TAIL, 1.0 - TAIL])
    return Interval(float(draws.mean()), float(low), float(high), LEVEL, draws.size)


def chance_level(
    statistic: str,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    permutations: int = 200,
    seed: int = 0,
    tokens: TokenScores | None = None,
    **options: Any,
) -> Interval:
    """Return mean and central 95 % of statistic(a, shuffled b, **options) for a, b (n,).

    `statistic` is the name of an agreement metric, with its registered options. tokens: the token scores of which b are
    sums, if they are; then the token scores are shuffled.
    """
    entry = METRICS.get(statistic)
    if entry.kind != "agreement" or not entry.needs <= {"scores", "other_scores"}:
        raise OptionError(
            f"Metric '{statistic}' measures {entry.kind} and needs {', '.join(sorted(entry.needs))}; a chance level "
            "needs an agreement metric of two explanations."
        )
    first, second = score_pair(a, b)
    draws = []
    for rows in shuffled_blocks(second, np.ones(first.size, dtype=np.bool_), permutations, seed, tokens):
        if entry.rows is not None:
            draws.append(entry.rows(first, rows, **{**entry.options, **options}))
        else:
            pairs = ({"scores": first, "other_scores": row} for row in rows)
            draws.append(np.array([entry.compute(pair.__getitem__, **options) for pair in pairs]))
    return central_interval(np.concatenate(draws))
