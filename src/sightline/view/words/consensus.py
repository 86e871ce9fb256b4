"""The consensus of several methods as a sentence: how many words they agree on, chance beside it, and which words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.analysis.filters import TokenFilter
from sightline.view.words.numbers import count

if TYPE_CHECKING:
    from sightline.analysis.consensus import Consensus
    from sightline.report import Report

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
    sentence = (
        f"{methods} agree on {agreed} of their {count(consensus.k, 'highest-ranked word')}; "
        f"by chance {expected_words(consensus)} would be expected"
    )
    words = _named_words(report, consensus)
    # The number counts every instance, and stop words too.
    among = ":" if len(words) == agreed else ", among them"
    return f"{sentence}{among} {', '.join(f'“{word}”' for word in words)}." if words else f"{sentence}."


def expected_words(consensus: Consensus) -> str:
    """Return how many words random sets would share: "0.3", "12", or "fewer than 0.1"."""
    expected = consensus.expected
    return "fewer than 0.1" if expected < SMALLEST else f"{expected:.1f}" if expected < 9.95 else f"{expected:.0f}"


def _named_words(report: Report, consensus: Consensus) -> list[str]:
    """Return the first agreed words, each once; stop words and punctuation count but are not named."""
    kept = TokenFilter().keep_tokens(report.encoding)
    words: dict[str, str] = {}
    for word in consensus.words:
        if any(kept[token] for token in word.tokens):
            words.setdefault(word.text.lower(), word.text)
    return list(words.values())[:LISTED]
