"""Encoding: one unpadded document as the model sees it, tied character by character to the text a person wrote.

`Windows` says how a document that is longer than the model reads is cut; `sightline.text.windows` cuts it.

Arrays of finished results are read-only, so that none is changed by accident. numpy drops the flag when an array is
copied or pickled; `ReadOnlyArrays` sets it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.settings.explain import Aggregation as Aggregation
from sightline.text.words import Word, count_words

A = TypeVar("A", bound=NDArray[Any])


def protect(array: A) -> A:
    """Return `array`, marked so that numpy refuses to write to it."""
    array.flags.writeable = False
    return array


class ReadOnlyArrays:
    """Base of results whose fields hold read-only arrays, which stay read-only in copies and after unpickling.

    The fields themselves may be arrays, or dictionaries of arrays.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        for field in state.values():
            for value in field.values() if isinstance(field, dict) else (field,):
                if isinstance(value, np.ndarray):
                    protect(value)
        vars(self).update(state)


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


_ARRAYS = {"ids": np.int64, "type_ids": np.int64, "segments": np.int64, "special": np.bool_, "word_ids": np.int64}
_SHOWN = 40
"""Characters of a text shown in one line of output."""


@dataclass(frozen=True, eq=False, repr=False)
class Encoding(ReadOnlyArrays):
    """Token ids of one document and where each token is in the original text; n tokens, W words.

    Nothing changes an encoding: its arrays are read-only, and `replace_ids` and `drop` return new encodings.
    """

    text: str
    """The original text, unchanged."""
    pair: str | None
    """The original second text of a pair, if any."""
    ids: NDArray[np.int64]
    """(n,) int64: exactly what the model is given."""
    type_ids: NDArray[np.int64]
    """(n,) int64: token types; zeros where the tokenizer gives none."""
    offsets: NDArray[np.int64]
    """(n, 2) int64: characters [start, end) in the original string of the token's segment; (0, 0) for specials.

    White space at the ends is trimmed unless the token is only white space. Byte-level tokens that share one character
    (parts of an emoji) all have the span of that character. A token with no character of its own (the word-boundary
    sign some vocabularies put before the first word) has an empty span.
    """
    segments: NDArray[np.int64]
    """(n,) int64: 0 = text, 1 = pair, -1 = special."""
    special: NDArray[np.bool_]
    """(n,) bool: sequence marks ([CLS], [SEP], <s>, </s>, pads), which belong to no word and are never ranked."""
    word_ids: NDArray[np.int64]
    """(n,) int64: index into `words`; -1 for specials."""
    tokens: tuple[str, ...]
    """What a person sees: the original characters of each span, specials by name. Never a vocabulary's own spelling."""
    words: tuple[Word, ...]
    """Words of the part the model saw, those of the pair after those of the text.

    They are found without the tokenizer, so a word may own no token: "!!!" is three words, and if it is one token, the
    first of them owns it.
    """
    dropped: int = 0
    """Tokens lost to truncation."""
    global_tokens: tuple[int, ...] | None = None
    """Positions with global attention, ascending; None = the model's default."""
    windows: Windows | None = None
    """How a document longer than the model reads is cut into windows; None if it is read at once."""
    vocabulary: str | None = None
    """Digest of the vocabulary that the ids are from; None if it is not known, as for ids given without a tokenizer."""

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name, dtype in _ARRAYS.items():
            object.__setattr__(self, name, _own_array(getattr(self, name), dtype, (n,), name))
        object.__setattr__(self, "offsets", _own_array(self.offsets, np.int64, (n, 2), "offsets"))
        if n == 0 or len(self.tokens) != n:
            raise ValueError(f"an encoding needs at least one token and a name for each: {len(self.tokens)} for {n}")
        if self.word_ids.min() < -1 or self.word_ids.max() >= len(self.words):
            raise ValueError(f"word_ids must be -1 or one of the {len(self.words)} words")
        if self.global_tokens is not None:
            object.__setattr__(self, "global_tokens", _positions(self.global_tokens, n, "Global token"))
        if self.windows is not None and not 0 <= self.windows.spans[0][0] <= self.windows.spans[-1][1] <= n:
            raise ValueError(f"windows must lie within the {n} tokens")

    def __repr__(self) -> str:
        excerpts = (text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()}…" for text in self.segment_texts)
        dropped = f", {self.dropped} dropped" if self.dropped else ""
        windows = f", {len(self.windows)} windows" if self.windows is not None else ""
        size = f"{len(self)} tokens, {count_words(self.words)} words{windows}{dropped}"
        return f"Encoding({', '.join(map(repr, excerpts))}: {size})"

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal; a vocabulary that is not known (in a corpus store) equals any other."""
        if not isinstance(other, Encoding):
            return NotImplemented
        known = self.vocabulary is not None and other.vocabulary is not None
        compared = [field.name for field in fields(self) if known or field.name != "vocabulary"]
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in compared)

    @property
    def segment_texts(self) -> tuple[str, ...]:
        """The original text and, if there is one, its pair."""
        return (self.text,) if self.pair is None else (self.text, self.pair)

    def without_specials(self) -> NDArray[np.bool_]:
        """Mask (n,) of the tokens that belong to the text."""
        return ~self.special

    def word_positions(self) -> tuple[NDArray[np.int64], ...]:
        """Token positions of every word: W ascending arrays, empty for a word that owns no token."""
        order = np.argsort(self.word_ids, kind="stable")
        bounds = np.searchsorted(self.word_ids[order], np.arange(len(self.words) + 1))
        return tuple(order[bounds[w] : bounds[w + 1]] for w in range(len(self.words)))

    def replace_ids(self, ids: NDArray[np.int64]) -> Encoding:
        """Return the same document with other token ids (n,) in the same places, for perturbations.

        Text, spans, words and specials stay those of the original: token i still stands for the original token at
        position i.
        """
        return replace(self, ids=ids)

    def drop(self, positions: Iterable[int]) -> Encoding:
        """Return the document without the tokens at `positions`.

        Text and spans still point into the original string. A word that loses its last token is removed, the others are
        renumbered; a global token that is dropped is no longer global. `dropped` keeps counting truncation only.
        The borders of windows stay between the same tokens.
        """
        remaining = np.ones(len(self), dtype=bool)
        remaining[list(_positions(positions, len(self), "Token"))] = False
        if not remaining.any():
            raise InputError("All tokens were to be deleted: nothing would be left to give to the model.")
        lost_words = np.setdiff1d(self.word_ids, self.word_ids[remaining])
        windows = None if self.windows is None else self.windows.after_removal(remaining)
        return self._take(np.flatnonzero(remaining), np.setdiff1d(np.arange(len(self.words)), lost_words), windows)

    def select(self, positions: NDArray[np.int64]) -> Encoding:
        """Return the document with the tokens at the ascending `positions` only: what `drop` of all others returns.

        Of words without a token, none stays. Cost: proportional to the tokens that stay, whatever the length of the
        document. The result has no windows.
        """
        chosen = np.asarray(positions, dtype=np.int64)
        if not len(chosen):
            raise InputError("No token was selected: nothing would be left to give to the model.")
        if chosen[0] < 0 or chosen[-1] >= len(self) or (np.diff(chosen) <= 0).any():
            raise InputError(f"Selected positions must ascend within the {len(self)} tokens of the document.")
        owners = np.unique(self.word_ids[chosen])
        return self._take(chosen, owners[owners >= 0], None)

    def _take(self, chosen: NDArray[np.int64], owners: NDArray[np.int64], windows: Windows | None) -> Encoding:
        """Return the document with the tokens at `chosen` and the words `owners` only, both ascending."""
        word_ids = np.where(self.word_ids[chosen] < 0, -1, np.searchsorted(owners, self.word_ids[chosen]))
        global_tokens = None
        if self.global_tokens is not None:
            places = np.searchsorted(chosen, self.global_tokens)
            pairs = zip(places.tolist(), self.global_tokens, strict=True)
            global_tokens = tuple(place for place, g in pairs if place < len(chosen) and chosen[place] == g)
        return replace(
            self,
            ids=self.ids[chosen],
            type_ids=self.type_ids[chosen],
            offsets=self.offsets[chosen],
            segments=self.segments[chosen],
            special=self.special[chosen],
            word_ids=word_ids,
            tokens=tuple(self.tokens[position] for position in chosen),
            words=tuple(self.words[owner] for owner in owners),
            global_tokens=global_tokens,
            windows=windows,
        )


def _own_array(values: Any, dtype: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Copy `values` into a read-only array of `dtype`; the shape must be `shape`."""
    array = np.array(values, dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    return protect(array)


def _positions(positions: Iterable[int], n: int, what: str) -> tuple[int, ...]:
    """Return token positions ascending, each once; one outside 0 … n-1 is refused."""
    ordered = tuple(sorted({int(position) for position in positions}))
    for position in ordered:
        if not 0 <= position < n:
            raise InputError(f"{what} {position} asked for, the document has {n} tokens (0-{n - 1}).")
    return ordered
