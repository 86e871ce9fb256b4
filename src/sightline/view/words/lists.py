"""Lists of the strongest words, what several methods agree on, and verdicts that can be compared.

Lists are by default without words that say little, and name the share that is left out. Words are ranked by the sum of
their instances. Left out are stop words (but for negations), punctuation and artefacts, whose score belongs to the
position (`Explanation.artefacts`). Only lists leave them out; no number does.

Verdicts of several explanations all name the same number of removed words. A check names the count at which its
explanation differs most from random words, which is another one for each explanation: "its 100 strongest words" beside
"its 50 strongest words" of another method. Where several explanations of a document were measured at the same counts,
all sentences name one of them, and those that lose by it add their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.analysis.filters import TokenFilter
from sightline.results.explanation import merge_instances
from sightline.results.verdict import TELLING
from sightline.view.words.phrases import count, share_of_words, word_total
from sightline.view.words.sentences import CLOSE, VerdictText, describe_verdict, percent

if TYPE_CHECKING:
    from sightline.analysis.consensus import Consensus
    from sightline.results.explanation import Explanation, RemovalCurve, Sign, WordScore
    from sightline.results.report import Report

FILLERS = TokenFilter(meaningful=True)
"""Words that say little: stop words that are no reason, and punctuation."""
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


def describe_verdicts(explanations: Sequence[Explanation]) -> list[VerdictText]:
    """Return the verdicts of explanations of one document in sentences."""
    common = common_count([explanation.removal for explanation in explanations])
    return [describe_verdict(explanation.verdict, _numbers_at(explanation, common)) for explanation in explanations]


def common_count(removals: Sequence[RemovalCurve | None]) -> int | None:
    """Return the number of removed words that tells most about several curves; None without two comparable ones.

    With d_e(k) the difference between random words and those of explanation e at count k, it is the smallest k with
    at least `CLOSE` of the largest sum over e of d_e(k) / max d_e; explanations that never beat random words say
    nothing about k.
    """
    curves = [removal for removal in removals if removal is not None and removal.counts is not None]
    if len(curves) < 2:
        return None
    shared = sorted(set.intersection(*(set(_counts(curve)) for curve in curves)) - {0})
    leads = [np.array([_lead(curve)[_counts(curve).index(count)] for count in shared]) for curve in curves]
    worth = np.array([lead / lead.max() for lead in leads if lead.max(initial=0.0) > 0]).sum(axis=0)
    return shared[int(np.argmax(worth >= CLOSE * worth.max()))] if np.any(worth) else None


def _numbers_at(explanation: Explanation, count: int | None) -> dict[str, float | int] | None:
    """Return the `TELLING` numbers of an explanation at a count; None where its own are to be used alone."""
    removal = explanation.removal
    if count is None or removal is None or removal.counts is None or "removed_words" not in explanation.verdict.numbers:
        return None
    at = _counts(removal).index(count)
    values = (removal.ratios[at], removal.probabilities[0], removal.probabilities[at], removal.random[:, at].mean())
    return dict(zip(TELLING, (count, *map(float, values)), strict=True))


def _counts(removal: RemovalCurve) -> list[int]:
    return [] if removal.counts is None else removal.counts.tolist()


def _lead(removal: RemovalCurve) -> NDArray[np.float64]:
    """(K,) how far the probability is below that without random words."""
    return np.asarray(removal.random.mean(axis=0) - removal.probabilities)
