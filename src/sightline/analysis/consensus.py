"""Consensus: the words that several methods rank among their strongest, beside the agreement expected by chance.

With m methods, n words and the k words that each method ranks highest for the explained class, the consensus is the
intersection of the m sets. For m random sets of k words its expected size is

    n (k / n)^m,

since every word is in all sets with probability (k / n)^m (any number of words may agree; chance makes few).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.errors import InputError, OptionError
from sightline.metrics.plans import score_order
from sightline.results.explanation import Explanation, WordScore
from sightline.text.units import units_of

MOST_WORDS = 20
LARGEST_SHARE = 0.2
"""By default each method names 20 words, in short documents a fifth of the words."""


@dataclass(frozen=True)
class Consensus:
    """Words on which methods agree."""

    methods: tuple[str, ...]
    k: int
    """Words that each method names."""
    words: tuple[WordScore, ...]
    """Words that all of them name, with the scores of the first method, strongest first."""
    document_words: int

    @property
    def expected(self) -> float:
        """Number of words on which random sets would agree."""
        return float(self.document_words * (self.k / self.document_words) ** len(self.methods))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "methods": list(self.methods),
            "k": self.k,
            "agreed": len(self.words),
            "expected": self.expected,
            "words": [
                {"text": word.text, "start": word.start, "end": word.end, "segment": word.segment, "index": word.index}
                for word in self.words
            ],
        }


def find_consensus(explanations: Sequence[Explanation], k: int | None = None) -> Consensus:
    """Return the words that all explanations of one document rank among their k highest."""
    if len(explanations) < 2:
        raise InputError("A consensus needs the explanations of at least two methods.")
    first = explanations[0]
    if any(explanation.encoding.ids.tolist() != first.encoding.ids.tolist() for explanation in explanations):
        raise InputError("A consensus is about one document: these explanations are of different ones.")
    units = units_of(first.encoding, "word")
    if not len(units):
        raise InputError("The document has no words.")
    if k is None:
        k = min(MOST_WORDS, max(1, int(LARGEST_SHARE * len(units))))
    if not 1 <= k <= len(units):
        raise OptionError(f"k={k} is not possible; the document has {len(units)} words.")
    orders = [score_order(explanation.scores, units)[:k] for explanation in explanations]
    agreed = set(orders[0].tolist()).intersection(*(order.tolist() for order in orders[1:]))
    words = first.words()
    ranked = [int(unit) for unit in orders[0] if int(unit) in agreed]
    return Consensus(
        methods=tuple(explanation.method for explanation in explanations),
        k=k,
        words=tuple(words[unit] for unit in np.array(ranked, dtype=np.int64)),
        document_words=len(units),
    )
