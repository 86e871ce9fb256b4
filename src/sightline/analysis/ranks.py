"""Where special tokens and punctuation stand in an explanation's ranking, each token by itself.

The rank of a token is its place by magnitude in ascending order divided by n: 1 for the strongest token of a document,
(n + 1)/2n on average for a token like any other. Ferrando et al. 2022 report [CLS], [SEP], "," and "." separately:
methods that put these first rank attention sinks, not words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sightline.metrics.dispersion import normalised_rank
from sightline.metrics.statistics import mean_interval
from sightline.results.explanation import Explanation
from sightline.text import Encoding

if TYPE_CHECKING:
    import pandas as pd

PUNCTUATION = (",", ".")
COLUMNS = ("token", "rank", "low", "high", "chance", "documents", "instances")


def token_ranks(
    explanations: Iterable[Explanation], tokens: Sequence[str] = PUNCTUATION, *, seed: int = 0
) -> pd.DataFrame:
    """Return the mean rank of every special token, and of `tokens` by their text, over documents.

    Columns: token, rank with its 95 % interval, chance, documents that hold the token, instances. A document
    with several instances counts once, with their mean. Special tokens come first, in order of appearance.
    """
    import pandas as pd

    ranks: dict[str, list[float]] = {}
    chances: dict[str, list[float]] = {}
    instances: dict[str, int] = {}
    for explanation in explanations:
        rank = normalised_rank(np.abs(explanation.scores))
        for name, positions in _positions(explanation.encoding, tokens).items():
            ranks.setdefault(name, []).append(float(rank[positions].mean()))
            chances.setdefault(name, []).append((rank.size + 1) / (2 * rank.size))
            instances[name] = instances.get(name, 0) + len(positions)
    rows = []
    for name in sorted(ranks, key=lambda token: token in tokens):  # a stable sort: special tokens first
        interval = mean_interval(ranks[name], seed=seed)
        rows.append((name, *interval, np.mean(chances[name]), len(ranks[name]), instances[name]))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _positions(encoding: Encoding, tokens: Sequence[str]) -> dict[str, list[int]]:
    """Return where each special token and each of `tokens` stands in a document."""
    places: dict[str, list[int]] = {}
    for position, token in enumerate(encoding.tokens):
        name = token if encoding.special[position] else token.strip()
        if encoding.special[position] or name in tokens:
            places.setdefault(name, []).append(position)
    return places
