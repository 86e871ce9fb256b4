"""Artefacts: scores that say nothing about a word.

- "special": the score of a special token such as [CLS] or [SEP], which stands for no word.
- "position": the score belongs to the position. It stays there when another word is put in, and does not follow the
  word to another place.
- "sink": the same, and the position also draws attention, whatever word is there.

Special tokens are known from the encoding. The others are found by exchanging words (`analysis.exchange`), and what was
measured is kept in an `Exchange`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
