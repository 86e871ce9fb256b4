"""A generated text in a terminal: every generated word with the earlier words behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.foreign import printable
from sightline.view.words.numbers import count, format_number

if TYPE_CHECKING:
    from sightline.continuation import ContinuationExplanation


def describe_continuation(continuation: ContinuationExplanation, top: int) -> str:
    """Return lines of text: a sentence, then one line per generated word with its `top` strongest earlier words."""
    words = [(printable(word), behind) for word, behind in continuation.top(top)]
    width = min(24, max((len(word) for word, _ in words), default=0))
    lines = [
        f"{count(len(continuation), 'generated token')} after a prompt of {continuation.prompt_length}, explained by "
        f"{continuation.method}. Behind every generated word, the earlier words that count most:"
    ]
    for word, behind in words:
        listed = ", ".join(f"{printable(text)} {format_number(score)}" for text, score in behind)
        lines.append(f"  {word:<{width}}  {listed or '–'}")
    return "\n".join(lines) + "\n"
