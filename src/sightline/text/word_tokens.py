"""Documents for models that read plain text: every word is a token, and any selection of tokens is a text again.

The id of a token is the number of its word among the different words of its own document, so that equal ids are equal
words. One special token begins the text and another one its pair; what is left when all words are removed is therefore
an encoding, whose text is empty.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sightline.errors import InputError
from sightline.text.encode import check_text
from sightline.text.encoding import Encoding
from sightline.text.words import Word, split_words

VOCABULARY = "words of the document"
"""`Encoding.vocabulary` of these encodings."""
MARKS = ("[TEXT]", "[PAIR]")
"""Names of the special tokens, whose ids are 0 and 1."""


def encode_words(text: str, pair: str | None = None) -> Encoding:
    """Return a text, or a pair, with one token per word behind a special token."""
    texts = [check_text(text)] + ([] if pair is None else [check_text(pair, "second text of the pair")])
    numbers = {word: number for number, word in enumerate(_different_words(text, pair), start=len(MARKS))}
    ids, offsets, segments, word_ids, tokens = [], [], [], [], []
    words: list[Word] = []
    for segment, written in enumerate(texts):
        ids.append(segment)
        offsets.append((0, 0))
        segments.append(-1)
        word_ids.append(-1)
        tokens.append(MARKS[segment])
        for word in split_words(written, segment):
            ids.append(numbers[word.text])
            offsets.append((word.start, word.end))
            segments.append(segment)
            word_ids.append(len(words))
            tokens.append(word.text)
            words.append(word)
    return Encoding(
        text=text,
        pair=pair,
        ids=np.array(ids),
        type_ids=np.zeros(len(ids), dtype=np.int64),
        offsets=np.array(offsets),
        segments=np.array(segments),
        special=np.array(segments) < 0,
        word_ids=np.array(word_ids),
        tokens=tuple(tokens),
        words=tuple(words),
        vocabulary=VOCABULARY,
    )


def join_words(encoding: Encoding) -> tuple[str, ...]:
    """Return the text, and the pair if there is one, that the tokens of an encoding of `encode_words` stand for.

    With all its tokens, that is the original string. Where words are missing, one of the gaps around them stays: the
    one with most line breaks, and among these the longest, so that neither words nor paragraphs grow together.
    """
    if encoding.vocabulary not in (VOCABULARY, None):
        raise InputError("The encoding was made for another model: give the text itself, or encode it with this model.")
    written = _different_words(encoding.text, encoding.pair)
    texts = []
    for segment, original in enumerate(encoding.segment_texts):
        places = np.flatnonzero(encoding.segments == segment)
        starts = encoding.offsets[places, 0].tolist()
        ids = dict(zip(starts, encoding.ids[places].tolist(), strict=True))
        pieces: list[str] = []
        gap, end = "", 0
        for word in _split(original):
            gap, end = max(gap, original[end : word.start], key=_separation), word.end
            if word.start in ids:
                pieces += [
                    gap if pieces else original[: _split(original)[0].start],
                    written[ids[word.start] - len(MARKS)],
                ]
                gap = ""
        texts.append("".join([*pieces, original[end:]]) if pieces else "")
    return tuple(texts)


_split = lru_cache(maxsize=32)(split_words)


@lru_cache(maxsize=32)
def _different_words(text: str, pair: str | None) -> tuple[str, ...]:
    """Return the different words of a document in the order in which they first occur."""
    words = [word.text for segment in (text, pair) if segment is not None for word in _split(segment)]
    return tuple(dict.fromkeys(words))


def _separation(gap: str) -> tuple[int, int]:
    """Return how strongly a gap separates what stands around it."""
    return gap.count("\n"), len(gap)
