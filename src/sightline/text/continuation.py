"""A prompt and the text that continues it as one Encoding whose first tokens are exactly those of the prompt.

The text of the result is the prompt's text followed by the continuation's. If the tokenizer reads both together and
finds the prompt's tokens at the beginning, these are the tokens: they are what the model would see of the whole text.
Else (a token that spans the border, marks that the tokenizer puts around every text) the continuation is read alone and
its tokens follow those of the prompt, as they do when a model generates. Words end at the border in either case: the
continuation "s" of "tenant" is a word of its own. A special token that is typed ("</s>") is plain text in a
continuation; a list of ids can hold the special token itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.text.encode import check_text, encode_ids, encode_text, ids_of_text
from sightline.text.encoding import Encoding
from sightline.text.offsets import token_spans
from sightline.text.tokenizers import special_tokens, tokenizer_errors
from sightline.text.words import Word, split_words, words_of_tokens

CONTEXT = 16
"""Last tokens of the prompt that are decoded together with what follows them."""


def continue_text(tokenizer: Any, prompt: Encoding, continuation: str) -> Encoding:
    """Return the encoding of a prompt and the text that follows it; the space between them is part of either text."""
    check_text(continuation, "continuation")
    with tokenizer_errors("The tokenizer failed on the continuation"):
        together = _read_together(tokenizer, prompt, continuation)
        if together is not None:
            return _append(prompt, continuation, *together, special_tokens(tokenizer))
        ids = ids_of_text(tokenizer, continuation, split_special_tokens=True)
        if not len(ids):
            raise InputError("The tokenizer finds no token in the continuation: nothing to explain.")
        if typed := _typed_marks(tokenizer, ids):
            raise InputError(
                f"The continuation contains '{typed[0]}', which this tokenizer always reads as a special token: remove "
                "it, or give the continuation as token ids."
            )
        spans = token_spans(tokenizer, continuation, ids, len(continuation))
    return _append(prompt, continuation, ids, spans, special_tokens(tokenizer))


def continue_ids(
    prompt: Encoding,
    ids: Sequence[int] | NDArray[np.int64],
    *,
    tokenizer: Any | None,
    special_ids: Mapping[int, str] | Collection[int] = (),
    vocab_size: int | None = None,
) -> Encoding:
    """Return the encoding of a prompt followed by bare ids, as a model generates them.

    The text of the ids is what they add to the decoded prompt, since some tokenizers drop the first space of what they
    decode; a token whose bytes are only part of a character has the span of what decoding adds when the token is
    appended. Without a tokenizer, ids are shown as numbers.
    """
    added = encode_ids(ids, special_ids=special_ids, vocab_size=vocab_size).ids  # checked
    if tokenizer is None:
        return encode_ids(np.concatenate((prompt.ids, added)), special_ids=special_ids, vocab_size=vocab_size)
    with tokenizer_errors("The tokenizer failed on the continuation"):
        marks = special_tokens(tokenizer)
        ordinary = [int(i) for i in added if int(i) not in marks]
        context = [int(i) for i in prompt.ids[~prompt.special][-CONTEXT:] if int(i) not in marks]
        decoded, text = _decode(tokenizer, context), _decode(tokenizer, context + ordinary)
        if not text.startswith(decoded):  # the first id completes a character of the prompt
            context, decoded, text = [], "", _decode(tokenizer, ordinary)
        text = text[len(decoded) :]
        together = _read_together(tokenizer, prompt, text) if text else None
        if together is not None and np.array_equal(together[0], added):
            return _append(prompt, text, *together, marks)
        spans = _decoded_spans(tokenizer, context, added, marks, text)
    return _append(prompt, text, added, spans, marks)


def _read_together(
    tokenizer: Any, prompt: Encoding, continuation: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the ids (k,) and spans (k, 2) of the continuation, in its characters, where both texts are read as one.

    None if that does not begin with the tokens of the prompt, if a token has characters of both, or if the continuation
    contains the text of a special token.
    """
    if prompt.pair is not None:
        return None
    joined = encode_text(tokenizer, prompt.text + continuation, max_tokens=None)
    k, border = len(prompt), len(prompt.text)
    # In a chat, what the template wrote is special, which the text alone does not show.
    names = ("ids", "special", "offsets")
    alike = all(np.array_equal(getattr(joined, name)[:k], getattr(prompt, name)) for name in names)
    if len(joined) <= k or not alike:
        return None
    ids, spans = joined.ids[k:], joined.offsets[k:] - border
    return None if (spans < 0).any() or _typed_marks(tokenizer, ids) else (ids, spans)


def _typed_marks(tokenizer: Any, ids: NDArray[np.int64]) -> list[str]:
    """Return the special tokens among the ids of a text, which can only have been typed."""
    marks = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    return [str(tokenizer.convert_ids_to_tokens(token)) for token in ids.tolist() if token in marks]


def _decode(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False)) if ids else ""


def _decoded_spans(
    tokenizer: Any, context: list[int], ids: NDArray[np.int64], marks: Mapping[int, str], text: str
) -> NDArray[np.int64]:
    """Return where each id stands in the text that it adds to `context`, (k, 2): from the end of what precedes it."""
    spans = np.zeros((len(ids), 2), dtype=np.int64)
    before, shift = list(context), len(_decode(tokenizer, context))
    end = 0
    for place, token in enumerate(ids.tolist()):
        if token in marks:
            continue
        before.append(token)
        start, end = end, max(end, min(len(text), len(_decode(tokenizer, before)) - shift))
        shown = text[start:end]
        if not shown.isspace():
            start += len(shown) - len(shown.lstrip())
        spans[place] = start, end
    return spans


def _append(
    prompt: Encoding, text: str, ids: NDArray[np.int64], spans: NDArray[np.int64], marks: Mapping[int, str]
) -> Encoding:
    """Return the prompt with tokens at `spans` (k, 2) of the text that follows it."""
    shift, special = len(prompt.text), np.isin(ids, list(marks))
    words = split_words(text)
    if not words and not special.all():
        words = (Word(text, 0, len(text), 0),)
    word_ids = np.full(len(ids), -1, dtype=np.int64)
    if not special.all():
        word_ids[~special] = len(prompt.words) + words_of_tokens(spans[~special, 0], words)
    offsets = np.where(special[:, None], 0, spans + shift)
    tokens = [
        marks[token] if mark else text[start:end]
        for token, mark, (start, end) in zip(ids.tolist(), special, spans.tolist(), strict=True)
    ]
    return Encoding(
        text=prompt.text + text,
        pair=prompt.pair,
        ids=np.concatenate((prompt.ids, ids)),
        type_ids=np.concatenate((prompt.type_ids, np.zeros_like(ids))),
        offsets=np.concatenate((prompt.offsets, offsets)),
        segments=np.concatenate((prompt.segments, np.where(special, -1, 0))),
        special=np.concatenate((prompt.special, special)),
        word_ids=np.concatenate((prompt.word_ids, word_ids)),
        tokens=(*prompt.tokens, *tokens),
        words=(*prompt.words, *(Word(word.text, word.start + shift, word.end + shift, 0) for word in words)),
        dropped=prompt.dropped,
        global_tokens=prompt.global_tokens,
        vocabulary=prompt.vocabulary,
    )
