"""Shares of the total: what the percentages of lists, passages and sentences are shares of, everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation, WordScore

SMALLEST_PERCENT = 0.01
SHARES_NOTE = "Shares are of the total of absolute word scores, not of the probability."


def word_total(explanation: Explanation) -> float:
    """Return Σ|score| over the words of the document, special tokens excluded, as `wordTotal` of the page does."""
    return _magnitude(explanation.words())


def share_of_words(explanation: Explanation, words: Iterable[WordScore]) -> float:
    """Return the share of `word_total` that some words have together; 0 if no word has a score."""
    total = word_total(explanation)
    return _magnitude(words) / total if total else 0.0


def format_share(explanation: Explanation, score: float, total: float) -> str:
    """Return a score as a share of `total` with its sign: "+6.1 %", as `ShareFormat` of the page does."""
    share = score / total if total else 0.0
    value = 100.0 * abs(share)
    sign = "−" if share < 0 else "+" if explanation.signed and share > 0 else ""
    if 0.0 < value < SMALLEST_PERCENT:
        return f"{'>' if share < 0 else '<'} {sign}{SMALLEST_PERCENT} %"
    decimals = 0 if value == 0.0 or value >= 9.95 else 1 if value >= 0.095 else 2
    return f"{sign}{value:.{decimals}f} %"


def _magnitude(words: Iterable[WordScore]) -> float:
    return sum(abs(word.score) for word in words)
