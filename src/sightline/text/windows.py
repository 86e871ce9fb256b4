"""Windows: a document longer than the model reads, cut into overlapping pieces that it can read.

A window is a range of the tokens of the text that slides; the tokens around it (sequence marks, and the question or the
shorter text of a pair) are part of every window:

    document   [CLS] q q [SEP] a b c d e f g h [SEP]
    window 0   [CLS] q q [SEP] a b c d         [SEP]
    window 1   [CLS] q q [SEP]     c d e f     [SEP]
    window 2   [CLS] q q [SEP]         e f g h [SEP]

Every window is a selection of the document's own tokens, so scores return to the document by position, which is the
same as by character. Windows begin and end at sentences where the length permits, else at words. When words are
deleted, the borders stay between the same words: windows are a property of the document that is explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Aggregation = Literal["mean", "max", "first"]
"""How the logits of windows make the logits of the document: their mean, the largest of each class, or the first's."""


@dataclass(frozen=True)
class Windows:
    """Where the windows of one document are, and how their logits are combined."""

    spans: tuple[tuple[int, int], ...]
    """Token ranges [start, end) of the text that slides, ascending; they cover it without gaps."""
    aggregation: Aggregation = "mean"

    def __post_init__(self) -> None:
        spans = tuple((int(start), int(end)) for start, end in self.spans)
        if not spans or any(start > end for start, end in spans):
            raise ValueError("windows need at least one range of tokens, each with start <= end")
        if self.aggregation not in get_args(Aggregation):
            raise ValueError(f"windows are not combined by '{self.aggregation}'")
        object.__setattr__(self, "spans", spans)

    def __len__(self) -> int:
        return len(self.spans)

    def positions(self, tokens: int) -> list[NDArray[np.int64]]:
        """Return the document positions of the tokens of every window, ascending, for a document of n `tokens`."""
        first, last = self.spans[0][0], self.spans[-1][1]
        before, after = np.arange(first), np.arange(last, tokens)
        return [np.concatenate([before, np.arange(start, end), after]) for start, end in self.spans]

    def after_removal(self, stays: NDArray[np.bool_]) -> Windows:
        """Return the windows of the document that keeps the tokens where `stays` (n,) is true."""
        new_position = np.concatenate([[0], np.cumsum(stays)])
        spans = tuple((int(new_position[start]), int(new_position[end])) for start, end in self.spans)
        return Windows(spans, self.aggregation)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for saving."""
        return {"spans": [list(span) for span in self.spans], "aggregation": self.aggregation}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Windows:
        """Rebuild windows from `to_dict`."""
        return cls(tuple((start, end) for start, end in data["spans"]), data["aggregation"])
