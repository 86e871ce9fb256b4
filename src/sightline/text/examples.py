"""Example: one document of a data set with what is known about it, whatever it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sightline.text.documents import plain_text_of
from sightline.text.encoding import Encoding

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Example:
    """A document, with what is known about it."""

    text: str | Encoding
    """What `read_document` returns is replaced with its text."""
    pair: str | None = None
    label: int | str | None = None
    """The true class, as its number or its name."""
    rationale: Spans | None = None
    """Characters [start, end) of the text that a person marked as the reason for the label."""
    answer: Spans | None = None
    """Characters [start, end) of the text that answer the question, for extractive question answering."""
    id: str = ""
    """The name of this document in results; its number in the data set by default."""
    split: str | None = None
    """The part of the data set it belongs to: "train", "validation", "test", or another name as written."""
    # Not compared: the same row has numbers in a JSON file and texts in a CSV file.
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The other fields of its row, as read: all but text, pair, label and id."""

    def __post_init__(self) -> None:
        for name in ("text", "pair"):
            object.__setattr__(self, name, plain_text_of(getattr(self, name)))
