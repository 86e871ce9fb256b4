"""Words or tokens of a document as rows of a table, and scores of tokens folded onto them.

A word's score is the sum of its tokens' scores, because what is attributed, received or counted adds up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.analysis.source import Booleans
from sightline.errors import OptionError
from sightline.explanation import Level
from sightline.text import Encoding

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Units:
    """The U words (or tokens) of one document that own a token, in document order; specials are not among them."""

    level: Level
    texts: tuple[str, ...]
    """As written."""
    types: tuple[str, ...]
    """Case folded: what counts as the same word."""
    positions: Integers
    """(U,) the first token of each."""
    of_token: Integers
    """(n,) the unit of every token; -1 for specials."""

    def __len__(self) -> int:
        return len(self.texts)

    def fold(self, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Sum token scores (..., n) over each unit: (..., U)."""
        values = np.asarray(scores, dtype=np.float64)
        inside = self.of_token >= 0
        rows = values[..., inside].reshape(-1, int(inside.sum()))
        folded = [np.bincount(self.of_token[inside], weights=row, minlength=len(self)) for row in rows]
        return np.array(folded, dtype=np.float64).reshape(*values.shape[:-1], len(self))

    def keep(self, tokens: Booleans) -> Booleans:
        """Fold a mask of tokens (n,) onto the units: a unit is kept if its first token is. (U,)"""
        return np.asarray(tokens[self.positions])


def units_of(encoding: Encoding, level: Level = "word") -> Units:
    """Return the words or the tokens of a document."""
    if level == "word":
        owned = [
            (word.text, positions) for word, positions in zip(encoding.words, encoding.word_positions(), strict=True)
        ]
        parts = [(text, positions) for text, positions in owned if len(positions)]
    elif level == "token":
        parts = [(encoding.tokens[i], np.array([i])) for i in np.flatnonzero(~encoding.special)]
    else:
        raise OptionError(f"level = '{level}' is not known. Known: word, token.")
    of_token = np.full(len(encoding), -1, dtype=np.int64)
    for number, (_, positions) in enumerate(parts):
        of_token[positions] = number
    return Units(
        level=level,
        texts=tuple(text for text, _ in parts),
        types=tuple(text.strip().casefold() for text, _ in parts),
        positions=np.array([positions[0] for _, positions in parts], dtype=np.int64),
        of_token=of_token,
    )


def descending_ranks(values: npt.NDArray[np.float64]) -> Integers:
    """Return the rank of every value, (U,): 1 = largest; equal values in the order they stand."""
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks
