"""Lists of the strongest words, and what several methods agree on.

Lists are by default without words that say little, and name the share that is left out. Words are ranked by the sum of
their instances. Left out are stop words (but for negations), punctuation and artefacts, whose score belongs to the
position (`Explanation.artefacts`). Only lists leave them out; no number does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.results.explanation import merge_instances
from sightline.view.words.phrases import FILLERS, count, percent, share_of_words, word_total

if TYPE_CHECKING:
    from sightline.analysis.consensus import Consensus
    from sightline.results.explanation import Explanation, Sign, WordScore
    from sightline.results.report import Report

LISTED = 8
"""Words named in the sentence."""
SMALLEST = 0.05
"""Expected numbers of words below this are written as "fewer than 0.1"."""


@dataclass(frozen=True)
class WordLists:
    """The strongest words of an explanation."""

    sides: tuple[tuple[Sign, tuple[WordScore, ...]], ...]
    """For and against, or one list ("any") for methods without signs; strongest first, instances added up."""
    left_out: float
    """Share of the total (`word_total`) on words that are left out."""
    artefacts: bool
    """Whether artefacts are among the words that are left out."""
    total: float
    """What shares are shares of (`word_total`)."""

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


def consensus_sentence(report: Report) -> str | None:
    """Return which words all methods of a report rank highest; None for a report of a single method."""
    consensus = report.consensus
    if consensus is None:
        return None
    titles = report.titles
    names = [titles.get(name, name) for name in consensus.methods]
    methods = f"{', '.join(names[:-1])} and {names[-1]}"
    agreed = len(consensus.words)
    sentence = f"{methods} agree on {agreed} of their {count(consensus.k, 'highest-ranked word')}"
    named = _named_words(consensus)
    if named:
        # The number counts every instance, and stop words too.
        opening = ":" if sum(named.values()) == agreed else ", among them"
        sentence += f"{opening} {_enumerate(named)}"
    return f"{sentence}; by chance {expected_words(consensus)} would be expected."


def expected_words(consensus: Consensus) -> str:
    """Return how many words random sets would share: "0.3", "12", or "fewer than 0.1"."""
    expected = consensus.expected
    return "fewer than 0.1" if expected < SMALLEST else f"{expected:.1f}" if expected < 9.95 else f"{expected:.0f}"


def _named_words(consensus: Consensus) -> dict[str, int]:
    """Return the first agreed words with their numbers of instances; stop words and punctuation are not named."""
    words: dict[str, str] = {}
    instances: Counter[str] = Counter()
    for word in consensus.words:
        if not FILLERS.drops(word.text):
            words.setdefault(word.text.lower(), word.text)
            instances[word.text.lower()] += 1
    return {text: instances[key] for key, text in list(words.items())[:LISTED]}


def _enumerate(named: dict[str, int]) -> str:
    """Return "“river” (2 times), “old” and “mill”"."""
    words = [f"“{word}”" + (f" ({times} times)" if times > 1 else "") for word, times in named.items()]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
