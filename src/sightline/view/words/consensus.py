"""The consensus of several methods as a sentence: how many words they agree on, chance beside it, and which words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sightline.view.words.lists import FILLERS
from sightline.view.words.numbers import count

if TYPE_CHECKING:
    from sightline.analysis.consensus import Consensus
    from sightline.results.report import Report

LISTED = 8
"""Words named in the sentence."""
SMALLEST = 0.05
"""Expected numbers of words below this are written as "fewer than 0.1"."""


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
