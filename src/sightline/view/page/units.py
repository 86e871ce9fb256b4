"""Tokens, words, sentences and paragraphs as they can be drawn: pieces of the text that do not overlap.

Byte-level tokenizers cut one emoji into several tokens with the same characters, and some tokens are nothing but white
space; neither can be drawn as such. Tokens that share characters become one unit, whose score is their sum. Units hold
no outer white space.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import regex  # type: ignore[import-untyped]
from numpy.typing import NDArray

from sightline.methods.segments import sentence_starts

if TYPE_CHECKING:
    from sightline.explanation import Explanation
    from sightline.text import Encoding

PageLevel = Literal["token", "word", "sentence", "paragraph"]
PAGE_LEVELS: tuple[PageLevel, ...] = ("token", "word", "sentence", "paragraph")
"""From fine to coarse."""

_Piece: TypeAlias = tuple[int, int, int, tuple[int, ...]]
_BLANK_LINES = regex.compile(r"\n\s*\n\s*(?=\S)")


@dataclass(frozen=True)
class DisplayUnit:
    """Characters [start, end) of one segment and the token positions that they show."""

    segment: int
    start: int
    end: int
    tokens: tuple[int, ...]


def segment_texts(explanation: Explanation) -> list[str]:
    """Return the text and, if there is one, its pair."""
    return _texts(explanation.encoding)


def display_units(explanation: Explanation, level: PageLevel) -> list[DisplayUnit]:
    """Return the units of all segments in document order; they can be drawn one after the other."""
    texts = segment_texts(explanation)
    units: list[DisplayUnit] = []
    for segment, start, end, tokens in _pieces(explanation, level):
        text = texts[segment]
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        if start == end:
            continue
        last = units[-1] if units else None
        if last is not None and last.segment == segment and start < last.end:
            units[-1] = DisplayUnit(last.segment, last.start, max(last.end, end), last.tokens + tokens)
        else:
            units.append(DisplayUnit(segment, start, end, tokens))
    return units


def paragraph_starts(text: str) -> NDArray[np.int64]:
    """Characters at which a paragraph begins: 0, and what follows a blank line."""
    return np.array([0, *(match.end() for match in _BLANK_LINES.finditer(text))], dtype=np.int64)


def _texts(encoding: Encoding) -> list[str]:
    return [encoding.text] if encoding.pair is None else [encoding.text, encoding.pair]


def _pieces(explanation: Explanation, level: PageLevel) -> Iterable[_Piece]:
    """Segment, start, end and tokens of every unit, specials left out."""
    if level in ("token", "word"):
        units = explanation.units(level)
        return [(unit.segment, unit.start, unit.end, unit.tokens) for unit in units]
    return _stretches(explanation.encoding, level)


def _stretches(encoding: Encoding, level: PageLevel) -> Iterable[_Piece]:
    """Sentences or paragraphs that hold a token; a token belongs to the one it begins in."""
    starts_of = sentence_starts if level == "sentence" else paragraph_starts
    for segment, text in enumerate(_texts(encoding)):
        tokens = np.flatnonzero((encoding.segments == segment) & ~encoding.special)
        numbers = np.searchsorted(starts_of(text), encoding.offsets[tokens, 0], side="right")
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        for part in np.split(tokens, cuts) if len(tokens) else ():
            spans = encoding.offsets[part]
            yield segment, int(spans[:, 0].min()), int(spans[:, 1].max()), tuple(part.tolist())
