"""What the extractors share: their result, their error, and the assembly of paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_CHARACTERS = 20_000_000
"""A document with more text than this is refused."""


class ExtractionError(Exception):
    """The document cannot be read; the message is the rest of a sentence that begins with the name of the file."""


@dataclass(frozen=True)
class Extracted:
    """Text of a document, and what was left out."""

    text: str
    notices: list[str] = field(default_factory=list)


class Paragraphs:
    """Paragraphs collected one by one, up to the limit."""

    def __init__(self) -> None:
        self._paragraphs: list[str] = []
        self._characters = 0

    def add(self, text: str) -> None:
        """Add a paragraph, without spaces around its lines and without soft hyphens; an empty one is dropped."""
        lines = (re.sub(r"[^\S\n\t]+", " ", line).strip() for line in text.replace("\u00ad", "").split("\n"))
        paragraph = "\n".join(line for line in lines if line)
        self._characters += len(paragraph)
        if self._characters > MOST_CHARACTERS:
            raise ExtractionError(f"contains more than {MOST_CHARACTERS // 1_000_000} million characters.")
        if paragraph:
            self._paragraphs.append(paragraph)

    def extend(self, texts: Iterable[str]) -> None:
        """Add several paragraphs."""
        for text in texts:
            self.add(text)

    def join(self) -> str:
        """Return the text, a blank line between paragraphs."""
        return "\n\n".join(self._paragraphs) + "\n"
