"""From a text, a pair of texts or bare ids to an Encoding; and what cannot be explained as text.

For models that read plain text (functions), every word is a token, and any selection of tokens is a text again. The id
of a token is the number of its word among the different words of its own document, so that equal ids are equal words.
One special token begins the text and another one its pair; what is left when all words are removed is therefore an
encoding, whose text is empty.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.text.encoding import Encoding
from sightline.text.offsets import token_spans
from sightline.text.tokenizer_limits import check_growth
from sightline.text.tokenizers import fingerprint_vocabulary, require_fast, special_tokens, tokenizer_errors
from sightline.text.words import Word, has_visible_character, split_words, words_of_tokens

MAX_CHARACTERS = 5_000_000
"""Longest text that is read. Every token has to be counted even if the model sees only the first few thousand."""


def check_text(text: object, name: str = "text") -> str:
    """Return `text` if it can be given to a tokenizer, else raise an `InputError`; `name` is used in the message."""
    if not isinstance(text, str):
        raise InputError(f"The {name} must be a string, not {type(text).__name__}.")
    if not text:
        raise InputError(f"The {name} is empty: there is nothing to explain.")
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"The {name} has {len(text):,} characters; Sightline reads at most {MAX_CHARACTERS:,}: give it in parts."
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"The {name} has half a surrogate pair at character {error.start:,}, which is not a character: "
            "read it with its right encoding or remove it."
        ) from None
    if not has_visible_character(text):
        raise InputError(f"The {name} is only white space: there is nothing to explain.")
    return text


def ids_of_text(tokenizer: Any, text: str, **options: Any) -> NDArray[np.int64]:
    """Return the ids of a text without the special tokens that the tokenizer puts around it; nothing is truncated."""
    read = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False, **options)
    return np.asarray(read["input_ids"], dtype=np.int64)


_SEGMENT_NAMES = ("text", "second text of the pair")


def encode_text(
    tokenizer: Any,
    text: str,
    pair: str | None = None,
    *,
    max_tokens: int | None,
    global_tokens: Sequence[int] | None = None,
) -> Encoding:
    """Encode a text, or a pair, with a fast tokenizer of transformers.

    The ids and token types are those of `tokenizer(text, pair)`. If they are more than `max_tokens` (None: no limit),
    tokens are cut from the end, always of the longer text, until they fit; special tokens stay; `dropped` says how many
    were cut. Tokens that the tokenizer adds and those of `special_tokens` are special, even if "[SEP]" was typed in the
    text, because the model sees the same id; a warning then names it.
    """
    require_fast(tokenizer)
    texts = [check_text(text)]
    if pair is not None:
        texts.append(check_text(pair, _SEGMENT_NAMES[1]))
    with tokenizer_errors("The tokenizer failed on this text"):
        for segment in texts:
            check_growth(tokenizer, segment)
        return _encode_checked(tokenizer, texts, max_tokens, global_tokens)


def _encode_checked(
    tokenizer: Any, texts: list[str], max_tokens: int | None, global_tokens: Sequence[int] | None
) -> Encoding:
    """Encode a text, or the two texts of a pair, that passed `check_text`."""
    text, pair = texts[0], texts[1] if len(texts) > 1 else None
    batch = tokenizer(text, pair, truncation=False, padding=False, verbose=False, return_attention_mask=False)
    library = batch.encodings[0]
    sequence = np.array([-1 if s is None else s for s in library.sequence_ids], dtype=np.int64)
    kept_positions = _truncate(sequence, max_tokens)
    ids = np.asarray(batch["input_ids"], dtype=np.int64)[kept_positions]
    type_ids = np.asarray(batch["token_type_ids"])[kept_positions] if "token_type_ids" in batch else np.zeros_like(ids)
    dropped = len(sequence) - len(kept_positions)
    sequence = sequence[kept_positions]

    marks = special_tokens(tokenizer)
    special = (sequence < 0) | np.isin(ids, list(marks))
    typed = sorted({marks[int(mark)] for mark in ids[special & (sequence >= 0)]})
    if typed:
        warnings.warn(
            f"The text contains {' and '.join(typed)}, which the tokenizer reads as a special token: it is not a word "
            "of the text and gets no score of a word. Write it differently if it is meant as text.",
            stacklevel=2,
        )
    offsets = np.zeros((len(ids), 2), dtype=np.int64)
    word_ids = np.full(len(ids), -1, dtype=np.int64)
    tokens = [""] * len(ids)
    words: tuple[Word, ...] = ()
    for segment, segment_text in enumerate(texts):
        places = np.flatnonzero(sequence == segment)
        ordinary = np.flatnonzero((sequence == segment) & ~special)
        if len(ordinary) == 0:
            raise InputError(f"The tokenizer finds no token in the {_SEGMENT_NAMES[segment]}: nothing to explain.")
        # The end of the last token, as reported by the library, shows how far the text was read.
        read = len(segment_text) if dropped == 0 else library.token_to_chars(int(kept_positions[places[-1]]))[1]
        offsets[places] = token_spans(tokenizer, segment_text, ids[places], read)
        segment_words = split_words(segment_text, segment, stop=int(offsets[ordinary].max()))
        word_ids[ordinary] = len(words) + words_of_tokens(offsets[ordinary, 0], segment_words)
        words += segment_words
        for i in ordinary:
            tokens[i] = segment_text[offsets[i, 0] : offsets[i, 1]]
    for i in np.flatnonzero(special):
        tokens[i] = tokenizer.convert_ids_to_tokens(int(ids[i]))
        offsets[i] = 0

    return Encoding(
        text=text,
        pair=pair,
        ids=ids,
        type_ids=type_ids,
        offsets=offsets,
        segments=np.where(special, -1, sequence),
        special=special,
        word_ids=word_ids,
        tokens=tuple(tokens),
        words=words,
        dropped=dropped,
        global_tokens=None if global_tokens is None else tuple(global_tokens),
        vocabulary=fingerprint_vocabulary(tokenizer),
    )


def encode_ids(
    ids: Sequence[int] | NDArray[np.int64],
    *,
    special_ids: Mapping[int, str] | Collection[int] = (),
    vocab_size: int | None = None,
    tokenizer: Any | None = None,
    type_ids: Sequence[int] | NDArray[np.int64] | None = None,
    global_tokens: Sequence[int] | None = None,
) -> Encoding:
    """Encode bare token ids, for a model without tokenizer.

    A token is shown as its number ("17"), a special one by its name if `special_ids` maps ids to names. The text is the
    ordinary tokens with spaces between, each one word, so that it can be displayed like any other text. If a
    `tokenizer` is given, it says which ids are special, and where the ids are what it makes of their own decoded text,
    that text is encoded instead. `type_ids` are zeros unless given. Nothing is truncated.
    """
    array = _check_ids(ids, vocab_size)
    types = np.zeros_like(array) if type_ids is None else np.asarray(type_ids)
    if types.shape != array.shape:
        raise InputError(f"{types.size} token types were given for {len(array)} ids: give one for each.")
    if tokenizer is not None:
        special_ids = special_tokens(tokenizer)
        decoded = _encode_decoded(tokenizer, array, special_ids, global_tokens)
        if decoded is not None:
            return decoded if type_ids is None else replace(decoded, type_ids=types)

    names = special_ids if isinstance(special_ids, Mapping) else {}
    special = np.isin(array, list(special_ids))
    offsets = np.zeros((len(array), 2), dtype=np.int64)
    tokens = [names.get(int(i), str(i)) if mark else str(i) for i, mark in zip(array, special, strict=True)]
    words: list[Word] = []
    end = -1
    for i in np.flatnonzero(~special):
        start, end = end + 1, end + 1 + len(tokens[i])
        offsets[i] = start, end
        words.append(Word(tokens[i], start, end, 0))
    return Encoding(
        text=" ".join(word.text for word in words),
        pair=None,
        ids=array,
        type_ids=types,
        offsets=offsets,
        segments=np.where(special, -1, 0),
        special=special,
        word_ids=np.where(special, -1, np.cumsum(~special) - 1),
        tokens=tuple(tokens),
        words=tuple(words),
        global_tokens=None if global_tokens is None else tuple(global_tokens),
        vocabulary=None if tokenizer is None else fingerprint_vocabulary(tokenizer),
    )


def _encode_decoded(
    tokenizer: Any, ids: NDArray[np.int64], special_ids: Collection[int], global_tokens: Sequence[int] | None
) -> Encoding | None:
    """Return the encoding of the text that `ids` spell, or None if that text has other ids."""
    ordinary = ids[~np.isin(ids, list(special_ids))]
    text = tokenizer.decode(ordinary.tolist(), clean_up_tokenization_spaces=False)
    try:
        encoding = encode_text(tokenizer, text, max_tokens=None)
    except InputError:
        return None
    if not np.array_equal(encoding.ids, ids):
        return None
    return replace(encoding, global_tokens=None if global_tokens is None else tuple(global_tokens))


def _check_ids(ids: Any, vocab_size: int | None) -> NDArray[np.int64]:
    """Return `ids` as an int64 array (n,), or raise InputError."""
    try:
        array = np.asarray(ids)
    except ValueError:
        raise InputError("The ids are lists of unequal length: give one document, as one list.") from None
    if array.size == 0:
        raise InputError("The list of ids is empty: there is nothing to explain.")
    if array.ndim != 1:
        raise InputError(f"The ids have shape {array.shape}: give one document, as one list.")
    if array.dtype.kind not in "iu":
        raise InputError("The ids must be whole numbers.")
    if array.min() < 0:
        raise InputError(f"Id {array.min()} at position {int(array.argmin())} is negative: ids count from 0.")
    if vocab_size is not None and array.max() >= vocab_size:
        raise InputError(
            f"Id {array.max()} at position {int(array.argmax())} is too large: the model knows {vocab_size:,} tokens "
            f"(0-{vocab_size - 1:,})."
        )
    return array.astype(np.int64)


def _truncate(sequence: NDArray[np.int64], max_tokens: int | None) -> NDArray[np.int64]:
    """Return the positions that stay when n tokens are cut down to `max_tokens`; `sequence` (n,) is -1, 0 or 1.

    Specials (-1) stay; of each sequence the beginning stays.
    """
    if max_tokens is None or len(sequence) <= max_tokens:
        return np.arange(len(sequence))
    sizes = [int((sequence == segment).sum()) for segment in (0, 1)]
    room = max_tokens - int((sequence < 0).sum())
    if room < sum(size > 0 for size in sizes):
        raise InputError(
            f"A limit of {max_tokens} tokens leaves no room for text beside {max_tokens - room} special ones: raise it."
        )
    stays = sequence < 0
    for segment, size in enumerate(_longest_first(sizes[0], sizes[1], room)):
        stays[np.flatnonzero(sequence == segment)[:size]] = True
    return np.flatnonzero(stays)


def _longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how many tokens of two texts stay so that together they are `room`, cutting the longer one first.

    If both are cut, the odd token goes to the longer one, or to the second if they are equal (as in the library).
    """
    shorter = min(first, second, room // 2)
    return (shorter, room - shorter) if first <= second else (room - shorter, shorter)


VOCABULARY = "words of the document"
"""`Encoding.vocabulary` of these encodings."""
MARKS = ("[TEXT]", "[PAIR]")
"""Names of the special tokens, whose ids are 0 and 1."""


def encode_words(text: str, pair: str | None = None) -> Encoding:
    """Return a text, or a pair, with one token per word behind a special token."""
    texts = [check_text(text)] + ([] if pair is None else [check_text(pair, "second text of the pair")])
    numbers = {word: number for number, word in enumerate(_different_words(text, pair), start=len(MARKS))}
    rows: list[tuple[int, tuple[int, int], int, int, str]] = []
    words: list[Word] = []
    for segment, written in enumerate(texts):
        rows.append((segment, (0, 0), -1, -1, MARKS[segment]))
        for word in split_words(written, segment):
            rows.append((numbers[word.text], (word.start, word.end), segment, len(words), word.text))
            words.append(word)
    ids, offsets, segments, word_ids, tokens = zip(*rows, strict=True)
    return Encoding(
        text=text,
        pair=pair,
        ids=np.array(ids),
        type_ids=np.zeros(len(ids), dtype=np.int64),
        offsets=np.array(offsets),
        segments=np.array(segments),
        special=np.array(segments) < 0,
        word_ids=np.array(word_ids),
        tokens=tokens,
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
