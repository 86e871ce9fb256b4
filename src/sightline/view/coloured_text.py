"""A document cut into coloured words and what is between them, for views without a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.text.units import Units


def text_pieces(text: str, segment: int, units: Units) -> Iterator[tuple[str, int | None]]:
    """Yield all of the text of one segment: every unit with its number, and the text between units with None."""
    end = 0
    for number, unit in enumerate(units):
        if unit.segment != segment:
            continue
        if end < unit.start:
            yield text[end : unit.start], None
        yield text[unit.start : unit.end], number
        end = unit.end
    if end < len(text):
        yield text[end:], None
