"""Words of a text, found in the original string and in no way dependent on a tokenizer.

Two models with different vocabularies therefore agree on where the words are, and scores can be compared word by word.
A word is

- a run of letters and digits with their combining marks, joined by single inner apostrophes and hyphens
  ("don't", "state-of-the-art") and, between digits, by points and commas ("3.14", "1,000");
- one ideograph or one kana of Chinese and Japanese, which are written without spaces;
- any other visible character with what hangs on it: a punctuation sign, a symbol, a whole emoji sequence;
- a typed "[MASK]" or "<mask>" (and the same for unknown), which stands for one word.

White space, control characters and invisible characters (zero-width spaces, direction marks) lie between words and are
called *blank* here. Scripts without spaces other than Chinese and Japanese (Thai, Khmer) come out as long words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import regex  # type: ignore[import-untyped]
from numpy.typing import NDArray

_BLANK = r"[\s\p{Cc}\p{Default_Ignorable_Code_Point}]"
_IDEOGRAPH = r"[\p{Han}\p{Hiragana}\p{Katakana}\u30FC\uFF70]"  # the two signs are the kana's prolonged-sound marks
# A soft hyphen, a joiner or a non-joiner inside a word belongs to the letter before it.
_LETTERS = (
    rf"(?:[[\p{{L}}\p{{N}}]--{_IDEOGRAPH}--\p{{Default_Ignorable_Code_Point}}][\p{{M}}\u00AD\u200C\u200D\u2060]*)+"
)
_INNER = r"(?:['\u2019\uFF07\-\u2010\u2011]|(?<=\p{N})[.,](?=\p{N}))"

_WORD = regex.compile(
    rf"""(?V1x)
      \[(?:MASK|UNK)\] | <(?:mask|unk)>                        # a gap somebody typed for the model to fill
    | [0-9\#*]\uFE0F?\u20E3                                    # a keycap emoji, before its digit is taken for a number
    | {_IDEOGRAPH}\p{{M}}*
    | {_LETTERS}(?:{_INNER}{_LETTERS})*
    | (?!{_BLANK})(?:\p{{Grapheme_Cluster_Break=Prepend}}|\X)  # \X: the character with its marks, joiners, modifiers
    """
)
_LETTER_OR_DIGIT = regex.compile(r"[\p{L}\p{N}]")
_VISIBLE = regex.compile(rf"(?V1)(?!{_BLANK}).")


class Word(NamedTuple):
    """One word: `text` is the characters [start, end) of its segment (0 the text, 1 the pair)."""

    text: str
    start: int
    end: int
    segment: int


def has_visible_character(text: str) -> bool:
    """Return whether `text` has a visible character; a text of blanks has no words."""
    return _VISIBLE.search(text) is not None


def count_words(words: Iterable[Word]) -> int:
    """Return how many of `words` a reader would count: those with a letter or a digit, not punctuation or symbols."""
    return sum(_LETTER_OR_DIGIT.search(word.text) is not None for word in words)


def split_words(text: str, segment: int = 0, stop: int | None = None) -> tuple[Word, ...]:
    """Return the words of `text` that begin before character `stop`, in order, and at least the first.

    `stop` keeps the work in proportion to what the model saw of a long text.
    """
    words: list[Word] = []
    for match in _WORD.finditer(text):
        if stop is not None and words and match.start() >= stop:
            break
        words.append(Word(match.group(), match.start(), match.end(), segment))
    return tuple(words)


def words_of_tokens(starts: NDArray[np.int64], words: tuple[Word, ...]) -> NDArray[np.int64]:
    """Return for tokens that begin at characters `starts` (n,) the number (n,) of the word each belongs to.

    That is the word which holds the token's first character that is not blank. A token of blanks only (a line break in
    byte-level vocabularies) goes to the word that follows it, at the end of the text to the last one, so that sums over
    words lose nothing. All tokens and words are of one segment.
    """
    ends = np.array([word.end for word in words], dtype=np.int64)
    return np.minimum(np.searchsorted(ends, starts, side="right"), len(words) - 1).astype(np.int64)
