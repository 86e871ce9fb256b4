"""Chats as prompts: the tokenizer's template turns messages into a text; its marks are not part of what was said.

A template is a Jinja program from a stranger's folder. transformers renders it in Jinja's sandbox, which keeps it from
files and code but not from endless loops or large strings; so it runs in a process of its own (`chat_rendering`) with
bounds on time and memory. Tokens that the template wrote (role names, marks, a default system message) are special:
they belong to no word and are never ranked. Only the contents of the messages are text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, ModelError
from sightline.files.children import ask_program
from sightline.files.foreign import first_line
from sightline.text.encode import MAX_CHARACTERS, check_text, ids_of_text
from sightline.text.encoding import Encoding
from sightline.text.offsets import token_spans
from sightline.text.tokenizers import (
    bound_template,
    fingerprint_vocabulary,
    require_fast,
    special_tokens,
    tokenizer_errors,
)
from sightline.text.words import split_words, words_of_tokens

Chat = Sequence[Mapping[str, str]]
"""Messages such as {"role": "user", "content": "Where are the keys?"}."""

MAX_MESSAGES = 10_000
SECONDS = 120
"""Longest wait for a template; its own process may compute for 10 seconds, the rest is for a busy machine."""


def is_chat(document: object) -> TypeGuard[Chat]:
    """Whether a document is a list of messages with roles."""
    return (
        isinstance(document, Sequence)
        and not isinstance(document, str)
        and len(document) > 0
        and all(isinstance(message, Mapping) for message in document)
    )


def check_chat(document: object) -> None:
    """Raise InputError for a chat without messages: an empty list."""
    if isinstance(document, list | tuple) and not document:
        raise InputError('The chat has no message: give at least one, {"role": "user", "content": …}.')


def encode_chat(tokenizer: Any, messages: Chat) -> Encoding:
    """Return the encoding of a chat up to where the assistant is to answer.

    The ids are those of `tokenizer.apply_chat_template(messages, add_generation_prompt=True)`.
    """
    require_fast(tokenizer)
    contents = _check_messages(messages)
    text = render_chat(tokenizer, messages)
    check_text(text, "chat")
    with tokenizer_errors("The tokenizer failed on this chat"):
        ids = ids_of_text(tokenizer, text)
        spans = token_spans(tokenizer, text, ids, len(text))
    marks = special_tokens(tokenizer)
    said = _find_contents(text, contents)
    special = np.isin(ids, [*marks, *tokenizer.all_special_ids]) | ~_touches(spans, said)
    if special.all():
        raise InputError("The chat has no content that the tokenizer finds: there is nothing to explain.")
    words = tuple(word for word in split_words(text) if _touches(np.array([[word.start, word.end]]), said)[0])
    word_ids = np.full(len(ids), -1, dtype=np.int64)
    word_ids[~special] = words_of_tokens(spans[~special, 0], words)
    names = tokenizer.convert_ids_to_tokens(ids.tolist())
    tokens = [
        text[start:end] if not mark or (start < end and token not in tokenizer.all_special_tokens) else token
        for token, mark, (start, end) in zip(names, special, spans.tolist(), strict=True)
    ]
    return Encoding(
        text=text,
        pair=None,
        ids=ids,
        type_ids=np.zeros_like(ids),
        offsets=np.where(special[:, None], 0, spans),
        segments=np.where(special, -1, 0),
        special=special,
        word_ids=word_ids,
        tokens=tuple(tokens),
        words=words,
        vocabulary=fingerprint_vocabulary(tokenizer),
    )


def render_chat(tokenizer: Any, messages: Chat) -> str:
    """Return the text that the tokenizer's template makes of the messages, rendered in a process of its own."""
    template = bound_template(getattr(tokenizer, "chat_template", None))
    if template is None:
        raise InputError("The tokenizer has no chat template: give the prompt as one text.")
    request = {
        "template": template,
        "messages": [dict(message) for message in messages],
        "tokens": {name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)},
        "longest": MAX_CHARACTERS,
    }
    answer: dict[str, Any] = {}
    with suppress(TimeoutError):
        answer = ask_program("sightline.text.chat_rendering", (), json.dumps(request).encode(), SECONDS)
    if "error" in answer:
        raise InputError(f"The chat template refuses these messages: {first_line(ValueError(answer['error']))}")
    if not isinstance(answer.get("text"), str):
        raise ModelError("The chat template could not be applied: it needs too much time or memory.")
    return str(answer["text"])


def _check_messages(messages: Chat) -> list[str]:
    """Return the contents of the messages; raise InputError if one has no role or content."""
    if len(messages) > MAX_MESSAGES:
        raise InputError(f"The chat has {len(messages):,} messages; at most {MAX_MESSAGES:,} are read.")
    for place, message in enumerate(messages):
        if set(message) != {"role", "content"} or not all(isinstance(value, str) for value in message.values()):
            raise InputError(
                f'Message {place} of the chat must be {{"role": …, "content": …}} with two texts and nothing else.'
            )
        if message["content"]:
            check_text(message["content"], f"content of message {place}")
    contents = [message["content"] for message in messages]
    if not any(content.strip() for content in contents):
        raise InputError("All messages of the chat are empty: there is nothing to explain.")
    return contents


def _find_contents(text: str, contents: Sequence[str]) -> NDArray[np.int64]:
    """Return where the contents stand in the rendered text, (k, 2); one that the template changed is not found."""
    spans, end = [], 0
    for content in contents:
        for form in (content, content.strip()):
            start = text.find(form, end) if form else -1
            if start >= 0:
                end = start + len(form)
                spans.append((start, end))
                break
    return np.array(spans or [(0, len(text))], dtype=np.int64)


def _touches(spans: NDArray[np.int64], ranges: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which spans (n, 2) share a character with one of the ascending ranges (k, 2)."""
    place = np.searchsorted(ranges[:, 1], spans[:, 0], side="right")
    inside = place < len(ranges)
    starts = ranges[np.minimum(place, len(ranges) - 1), 0]
    return np.asarray(inside & (np.maximum(spans[:, 1], spans[:, 0] + 1) > starts))
