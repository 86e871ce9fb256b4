"""Artefacts: scores that say nothing about a word.

- "special": the score of a special token such as [CLS] or [SEP], which stands for no word.
- "position": the score belongs to the position. It stays there when another word is put in, and does not follow the
  word to another place.
- "sink": the same, and the position also draws attention, whatever word is there.

Special tokens are known from the encoding. The others are found by exchanging words (`analysis.exchange`), and what was
measured is kept in an `Exchange`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from sightline.results.record_checks import (
    check_choice,
    check_list,
    check_number,
    check_object,
    check_text,
    check_whole,
)

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        listed = [{**asdict(artefact), "tokens": list(artefact.tokens)} for artefact in self.artefacts]
        return {"tested": self.tested, "runs": self.runs, "artefacts": listed, "fingerprint": self.fingerprint}

    @classmethod
    def from_dict(cls, values: Any, n: int) -> Exchange:
        """Rebuild an exchange on a document of n tokens from `to_dict`; a damaged record raises ValueError."""
        record = check_object(values, "exchange", ("tested", "runs", "artefacts", "fingerprint"))
        artefacts = [
            _read_artefact(entry, f"exchange.artefacts[{place}]", n)
            for place, entry in enumerate(check_list(record["artefacts"], "exchange.artefacts"))
        ]
        tokens = [position for artefact in artefacts for position in artefact.tokens]
        if len(set(tokens)) < len(tokens):
            raise ValueError("exchange.artefacts must name every token once")
        return cls(
            tested=check_whole(record["tested"], "exchange.tested", len(artefacts), n),
            runs=check_whole(record["runs"], "exchange.runs"),
            artefacts=tuple(artefacts),
            fingerprint=check_text(record["fingerprint"], "exchange.fingerprint"),
        )


def _read_artefact(values: Any, where: str, n: int) -> Artefact:
    record: Mapping[str, Any] = check_object(values, where, ("tokens", "reason", "stays", "moves"))
    positions = [
        check_whole(position, f"{where}.tokens", 0, n - 1)
        for position in check_list(record["tokens"], f"{where}.tokens")
    ]
    if not positions or positions != sorted(positions):
        raise ValueError(f"{where}.tokens must be at least one position, ascending")
    reasons = tuple(reason for reason in get_args(ArtefactReason) if reason != "special")
    stays, moves = (
        check_number(record[name], f"{where}.{name}", -_LARGEST_RATIO, _LARGEST_RATIO) for name in ("stays", "moves")
    )
    reason: Any = check_choice(record["reason"], f"{where}.reason", reasons)
    return Artefact(tuple(positions), reason, stays, moves)
