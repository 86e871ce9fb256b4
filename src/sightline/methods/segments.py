"""Parts of a document that are taken away together: tokens, words or sentences; special tokens belong to none.

Sentences are found in the original text, without a tokenizer and for any language that ends sentences with one of
. ! ? … or their full-width forms: after such a sign (and the quotes and brackets that close behind it) and white space,
unless the next word begins in lower case ("e.g. this"); full-width signs need no space; blank lines always part.
An abbreviation before a capital ("Dr. Who") is taken for an end: harmless where a part only has to be taken away.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import regex  # type: ignore[import-untyped]
from numpy.typing import NDArray

from sightline.text import Encoding

Level = Literal["token", "word", "sentence"]
LEVELS: tuple[Level, ...] = ("token", "word", "sentence")
"""From fine to coarse."""

_END = regex.compile(
    r"""(?V1x)
      [.!?\u2026][\p{Pe}\p{Pf}"']*\s+(?=\S)(?!\p{Ll})
    | [\u3002\uFF01\uFF1F][\p{Pe}\p{Pf}]*\s*(?=\S)
    | \n\s*\n\s*(?=\S)
    """
)


def sentence_starts(text: str) -> NDArray[np.int64]:
    """Characters at which a sentence begins, ascending, the first always 0."""
    return np.array([0, *(match.end() for match in _END.finditer(text))], dtype=np.int64)


def groups_of(encoding: Encoding, level: Level) -> list[list[int]]:
    """Token positions of every part of the document, in document order; a token belongs to the part it begins in."""
    ordinary = np.flatnonzero(~encoding.special)
    if level == "token":
        return [[int(i)] for i in ordinary]
    if level == "word":
        return [positions.tolist() for positions in encoding.word_positions() if len(positions)]
    numbers = np.zeros(len(encoding), dtype=np.int64)
    before = 0
    for segment, text in enumerate((encoding.text, encoding.pair or "")):
        starts = sentence_starts(text)
        here = (encoding.segments == segment) & ~encoding.special
        numbers[here] = before + np.searchsorted(starts, encoding.offsets[here, 0], side="right")
        before += len(starts)
    return [ordinary[numbers[ordinary] == number].tolist() for number in np.unique(numbers[ordinary])]
