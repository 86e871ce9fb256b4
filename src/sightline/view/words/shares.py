"""Shares of the total: what the percentages of lists, passages and sentences are shares of, everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.explanation import Explanation, WordScore


def word_total(explanation: Explanation) -> float:
    """Return Σ|score| over the words of the document, special tokens excluded, as `wordTotal` of the page does."""
    return _magnitude(explanation.words())


def share_of_words(explanation: Explanation, words: Iterable[WordScore]) -> float:
    """Return the share of `word_total` that some words have together; 0 if no word has a score."""
    total = word_total(explanation)
    return _magnitude(words) / total if total else 0.0


def _magnitude(words: Iterable[WordScore]) -> float:
    return sum(abs(word.score) for word in words)
