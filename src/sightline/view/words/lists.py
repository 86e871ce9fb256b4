"""Lists of the strongest words: by default without words that say little, and with the share that is left out.

Words are ranked by the sum of their instances. Left out are stop words (but for negations), punctuation and artefacts,
whose score belongs to the position (`Explanation.artefacts`). Only lists leave them out; no number does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.analysis.filters import TokenFilter
from sightline.results.explanation import merge_instances
from sightline.view.words.sentences import percent
from sightline.view.words.shares import share_of_words, word_total

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation, Sign, WordScore

FILLERS = TokenFilter(meaningful=True)
"""Words that say little: stop words that are no reason, and punctuation."""


@dataclass(frozen=True)
class WordLists:
    """The strongest words of an explanation."""

    sides: tuple[tuple[Sign, tuple[WordScore, ...]], ...]
    """For and against, or one list ("any") for methods without signs; strongest first, instances added up."""
    left_out: float
    """Share of the total (`shares.word_total`) on words that are left out."""
    artefacts: bool
    """Whether artefacts are among the words that are left out."""
    total: float
    """What shares are shares of (`shares.word_total`)."""

    @property
    def note(self) -> str:
        """A sentence on what is left out; empty if nothing is."""
        if not self.left_out:
            return ""
        kinds = "stop words, punctuation and artefacts" if self.artefacts else "stop words and punctuation"
        return f"The list leaves out {kinds}, {percent(self.left_out)} of the total."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        sides: dict[str, Any] = {
            sign: [
                {
                    "text": word.text,
                    "score": word.score,
                    "share": word.score / self.total if self.total else 0.0,
                    "count": word.count,
                }
                for word in words
            ]
            for sign, words in self.sides
        }
        return {**sides, "left_out": self.left_out}


def content_words(explanation: Explanation) -> list[WordScore]:
    """Return the words in document order without stop words, punctuation and artefacts."""
    flagged = explanation.artefact_tokens
    return [
        word
        for word in explanation.words()
        if not FILLERS.drops(word.text) and not any(position in flagged for position in word.tokens)
    ]


def list_words(explanation: Explanation, top: int, *, all_words: bool = False) -> WordLists:
    """Return the `top` strongest words of each side."""
    everything = explanation.words()
    words = everything if all_words else content_words(explanation)
    merged = sorted(merge_instances(words), key=lambda word: -abs(word.score))
    signs: tuple[Sign, ...] = ("for", "against") if explanation.signed else ("any",)
    sides = tuple((sign, tuple([word for word in merged if _is_on(word, sign)][:top])) for sign in signs)
    listed = {word.index for word in words}
    return WordLists(
        sides=sides,
        left_out=share_of_words(explanation, (word for word in everything if word.index not in listed)),
        artefacts=explanation.exchange is not None and bool(explanation.exchange.artefacts),
        total=word_total(explanation),
    )


def _is_on(word: WordScore, sign: Sign) -> bool:
    return sign == "any" or (word.score > 0 if sign == "for" else word.score < 0)
