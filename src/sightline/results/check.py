"""What was measured about an explanation on its model: a `Check` by deleting words, an `Exchange` by moving them.

Two questions are asked (`api.checking`). Do the explanation's strongest words matter more than random words? What is
the smallest set of them without which the label changes? A `Check` holds the measurements and the words that were
tested; `results.verdict` says what they mean for the explanation.

Artefacts are scores that say nothing about a word:

- "special": the score of a special token such as [CLS] or [SEP], which stands for no word.
- "position": the score belongs to the position. It stays there when another word is put in, and does not follow the
  word to another place.
- "sink": the same, and the position also draws attention, whatever word is there.

Special tokens are known from the encoding. The others are found by exchanging words (`analysis.exchange`), and what was
measured is kept in an `Exchange`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sightline.results.records import Share, Whole, to_plain

if TYPE_CHECKING:
    from sightline.text import Encoding

Matters = Literal["yes", "not_shown", "opposite", "too_small"]


@dataclass(frozen=True)
class TestedWord:
    """A word of the document that was deleted for a test."""

    text: str
    """The word as it is written."""
    index: Whole
    """Its place among the words of the document, as in `Explanation.words()`."""
    start: Whole
    """First character in the text (segment 0) or its pair (segment 1)."""
    end: Whole
    segment: Whole
    tokens: tuple[Whole, ...]
    """Positions of its tokens."""


@dataclass(frozen=True)
class Reading:
    """What the model said about the document, or about the document without some words."""

    value: float
    """The log-odds of the explained class; the value of a single output."""
    label: str
    """What the model predicts; empty where it predicts no label."""
    label_probability: Share
    """Probability of `label`, 1 for a single output."""
    probability: Share
    """Probability of the explained class, 1 for a single output."""


@dataclass(frozen=True)
class SmallestSet:
    """The fewest of the explanation's strongest words whose deletion was found to change the label."""

    words: tuple[TestedWord, ...]
    """In document order."""
    label: str
    """What the model says without them."""
    probability: Share
    """Probability of `label` without them."""
    share: Share
    """Their share of the words of the document."""
    random_changed: Whole
    """Number of random sets whose deletion changed the label as well."""
    random_sets: Whole
    """Number of random sets that were deleted."""
    random_words: Whole
    """Size of the random sets: at least that of this set."""
    bound: Share
    """Upper limit (one-sided, 95 %) of the rate at which random sets of that size change the label."""

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Check:
    """What deleting words showed about one explanation. K sizes of sets, R random sets of each."""

    matters: Matters
    """Whether the strongest words matter more than random words (`metrics.significance`)."""
    p_value: Share
    """Its p-value, corrected for the number of explanations that were compared (Holm)."""
    words: Whole
    """Number of words of the document that can be deleted."""
    counts: tuple[Whole, ...]
    """(K,) numbers of strongest words that were deleted to test whether they matter, ascending."""
    whole: Reading
    """The whole document."""
    without: tuple[Reading, ...]
    """(K,) the document without its `counts` strongest words."""
    random: tuple[tuple[float, ...], ...]
    """(R, K) `Reading.value` without random words, as many and alike; the test of a long text stops once it cannot
    succeed, that of a short one does not need them."""
    random_sets: Whole
    """Number of random sets that the whole test would have used; in a short text, of other orders of the words that
    count, of which at most 999 are compared."""
    searched: Whole = 0
    """Largest number of strongest words deleted to change the label; 0 if that was not asked."""
    label_changed: bool = False
    """Whether the model gave another label to anything it read except the empty text."""
    limit_reached: bool = False
    """Whether the search ended because no more documents were to be read."""
    path: tuple[tuple[Whole, Reading], ...] = ()
    """Number of strongest words deleted, and what the model then said: all that was read, ascending."""
    empty: Reading | None = None
    """The document without any words; None if nothing would be left to read."""
    smallest_set: SmallestSet | None = None
    tested: tuple[TestedWord, ...] = ()
    """The smallest set, or the words that together have more effect than random words, in document order."""
    without_tested: Reading | None = None
    """The document without them."""
    named: tuple[TestedWord, ...] = ()
    """Those of them that a summary may name: not those whose score belongs to their position."""
    opposing: TestedWord | None = None
    """The strongest word against the class, if it outweighs the named ones and its deletion raises `Reading.value`."""
    calls: Whole = 0
    """Documents the model read."""
    fingerprint: str = ""
    """Digest of the scores that were checked (`explanation.fingerprint_scores`)."""

    @property
    def deciding_set(self) -> SmallestSet | None:
        """The smallest set, if it is the one that may be named."""
        found = self.smallest_set
        return found if found is not None and found.words == self.tested else None

    @property
    def is_undecided(self) -> bool:
        """Whether nothing in the text was found to decide: an empty text and everything deleted leave the label."""
        same = self.empty is not None and self.empty.label == self.whole.label != ""
        return same and self.searched > 0 and not self.label_changed and self.matters != "yes"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        record: dict[str, Any] = to_plain(self)
        return record

    def require_words(self, encoding: Encoding) -> None:
        """Raise ValueError unless the check fits a document: its numbers of words, and the words it tested."""
        n, size = len(encoding.words), len(self.counts)
        if not 1 <= self.words <= n or not all(1 <= count <= n for count in (*self.counts, *dict(self.path))):
            raise ValueError(f"check.words, check.counts and check.path must be numbers of the {n} words")
        if len(self.without) != size or any(len(row) != size for row in self.random):
            raise ValueError(f"check.without and check.random must have {size} entries, one per count")
        smallest = self.smallest_set
        if smallest is not None and smallest.random_changed > smallest.random_sets:
            raise ValueError("check.smallest_set.random_changed must be at most random_sets")
        lists = {
            "tested": self.tested,
            "named": self.named,
            "opposing": () if self.opposing is None else (self.opposing,),
            "smallest_set.words": () if smallest is None else smallest.words,
        }
        for name, words in lists.items():
            if len({word.index for word in words}) < len(words):
                raise ValueError(f"check.{name} must name every word once")
            if not all(_is_word(word, encoding) for word in words):
                raise ValueError(f"check.{name} must name words where they are in the document")


def _is_word(tested: TestedWord, encoding: Encoding) -> bool:
    if tested.index >= len(encoding.words) or not all(position < len(encoding) for position in tested.tokens):
        return False
    word = encoding.words[tested.index]
    same = (tested.start, tested.end, tested.segment) == (word.start, word.end, word.segment)
    return same and all(encoding.word_ids[position] == tested.index for position in tested.tokens)


ArtefactReason = Literal["special", "position", "sink"]
REASONS: dict[ArtefactReason, str] = {
    "special": "a special token stands for no word",
    "position": "this score belongs to the position, not to the word",
    "sink": "this score belongs to the position, which draws attention whatever word is there",
}
"""What each reason means, in words."""
EXCHANGE_ENTRIES = ("exchanged_words", "artefact_words", "artefact_share", "exchange_runs")
"""Entries of `Explanation.checks` that an exchange makes."""
_LARGEST_RATIO = 1e9


@dataclass(frozen=True)
class Artefact:
    """Tokens whose score says nothing about a word; they form a word or are one special token."""

    tokens: tuple[int, ...]
    """Positions, ascending."""
    reason: ArtefactReason
    stays: float | None = None
    """Share of the score that the position keeps when another word is put in; None for special tokens."""
    moves: float | None = None
    """Share of the score that follows the word to another place; None for special tokens."""


@dataclass(frozen=True)
class Exchange:
    """What exchanging the strongest words of an explanation showed."""

    tested: int
    """Number of words that were exchanged."""
    runs: int
    """Documents on which the method ran for it."""
    artefacts: tuple[Artefact, ...]
    """Words whose score belongs to their position, the strongest first."""
    fingerprint: str = ""
    """Digest of the scores that were tested (`explanation.fingerprint_scores`)."""

    def require_tokens(self, n: int) -> None:
        """Raise ValueError unless every artefact is a word of a document of n tokens, named once."""
        tokens = [position for artefact in self.artefacts for position in artefact.tokens]
        if len(set(tokens)) < len(tokens):
            raise ValueError("exchange.artefacts must name every token once")
        if not len(self.artefacts) <= self.tested <= n:
            raise ValueError(f"exchange.tested must be a whole number from {len(self.artefacts)} to {n}")
        for place, artefact in enumerate(self.artefacts):
            where, positions = f"exchange.artefacts[{place}]", artefact.tokens
            if not positions or list(positions) != sorted(positions) or not 0 <= positions[0] <= positions[-1] < n:
                raise ValueError(f"{where}.tokens must be positions of tokens, ascending")
            if artefact.reason == "special":
                raise ValueError(f"{where}.reason must be 'position' or 'sink'")
            for name, share in (("stays", artefact.stays), ("moves", artefact.moves)):
                if share is None or abs(share) > _LARGEST_RATIO:
                    raise ValueError(f"{where}.{name} must be a finite number up to {_LARGEST_RATIO:g}")
