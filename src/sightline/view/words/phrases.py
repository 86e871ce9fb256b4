"""Phrases inside sentences: numbers with a minus sign, counted nouns, shares of the total, what is explained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation, WordScore

NO_INTERVAL = "no interval"
"""Stands for the ends of an interval where too few documents were measured."""
SMALLEST_PERCENT = 0.01
SHARES_NOTE = "Shares are of the total of absolute word scores, not of the probability."


def count(number: int, noun: str) -> str:
    """Return "1 document", "2 documents"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_range(
    low: float, high: float, format_end: Callable[[float], str] | None = None, *, named: bool = False
) -> str:
    """Return "0.18 to 0.67", if `named` "interval 0.18 to 0.67", or "no interval" where the ends are NaN.

    format_end: `format_number` by default.
    """
    if low != low or high != high:
        return NO_INTERVAL
    write = format_end or format_number
    return f"{'interval ' if named else ''}{write(low)} to {write(high)}"


def format_number(value: float, form: str = ".3g") -> str:
    """Return a number in a format such as ".2f": −1.67, and 0.00 for what rounds to it from either side."""
    text = f"{value:z{form}}"
    return f"−{text[1:]}" if text.startswith("-") else text


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


def predicted_value(explanation: Explanation) -> str | None:
    """Return the number that a model of one output gives (a regression, a similarity); None if it chooses a class."""
    prediction = explanation.prediction
    if len(prediction.labels) == 1 and prediction.probability == 1.0:
        return f"{float(prediction.logits[0]):.3g}"
    return None


def describe_target(explanation: Explanation) -> str:
    """Return a phrase such as "logit of 'B-PER' at “Ada” (token 1)" or "similarity to “a text” (cosine …)"."""
    reference = explanation.provenance.get("similar_to")
    if reference is not None:
        return f"similarity to “{reference}” (cosine of the two vectors)"
    phrase, position, word = explanation.target.description(), explanation.target.position, target_word(explanation)
    if word is None:
        return phrase
    return phrase.removesuffix(f" at token {position}") + f" at “{word}” (token {position})"


def target_word(explanation: Explanation) -> str | None:
    """Return the word that is tagged or predicted, for models that score single tokens; None for others."""
    position, encoding = explanation.target.position, explanation.encoding
    if position is None or not 0 <= position < len(encoding) or encoding.word_ids[position] < 0:
        return None
    text: str = encoding.words[encoding.word_ids[position]].text
    return text
