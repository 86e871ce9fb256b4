"""Words and tokens as they can be drawn: pieces of the original text that do not overlap and hold no outer spaces.

Byte-level tokenizers cut one emoji into several tokens with the same characters, and some tokens are nothing but white
space; neither can be drawn as such. Tokens that share characters become one unit, whose score is their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.explanation import Explanation, Level


@dataclass(frozen=True)
class DisplayUnit:
    """Characters [start, end) of one segment and the token positions that they show."""

    segment: int
    start: int
    end: int
    tokens: tuple[int, ...]


def segment_texts(explanation: Explanation) -> list[str]:
    """Return the text and, if there is one, its pair."""
    encoding = explanation.encoding
    return [encoding.text] if encoding.pair is None else [encoding.text, encoding.pair]


def display_units(explanation: Explanation, level: Level) -> list[DisplayUnit]:
    """Return the units of all segments in document order; they can be drawn one after the other."""
    texts = segment_texts(explanation)
    units: list[DisplayUnit] = []
    for unit in explanation.units(level):
        text = texts[unit.segment]
        start, end = unit.start, unit.end
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        if start == end:
            continue
        last = units[-1] if units else None
        if last is not None and last.segment == unit.segment and start < last.end:
            units[-1] = DisplayUnit(last.segment, last.start, max(last.end, end), last.tokens + unit.tokens)
        else:
            units.append(DisplayUnit(unit.segment, start, end, unit.tokens))
    return units
