"""Units of a document: its tokens, words, sentences or paragraphs, as groups of token positions.

Everything that groups tokens uses `Units`: explanations sum scores over them, perturbation methods and faithfulness
metrics remove them, tables list them and pages draw them. Special tokens belong to no unit.

Levels are nested. A sentence is made of whole words and a paragraph of whole sentences, so removing the words of a
sentence and removing the sentence is the same thing. `text.sentences` says where sentences and paragraphs begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from sightline.errors import OptionError
from sightline.settings.values import check_one_of
from sightline.text.encoding import Encoding
from sightline.text.sentences import paragraph_starts, sentence_starts

Level = Literal["token", "word", "sentence", "paragraph"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""From fine to coarse."""
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Unit(NamedTuple):
    """One unit: characters [start, end) of its segment (0 the text, 1 the pair) and its token positions."""

    text: str
    segment: int
    start: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Units:
    """The U units of one level that own at least one of the n tokens of a document, in document order."""

    level: Level
    texts: tuple[str, ...]
    """As written."""
    segments: Integers
    """(U,) 0 = text, 1 = pair."""
    starts: Integers
    """(U,) first character in the original string of the segment."""
    ends: Integers
    """(U,) the character after the last one."""
    of_token: Integers
    """(n,) the unit of every token; -1 for tokens in no unit, such as specials."""

    def __post_init__(self) -> None:
        sizes = {len(self.texts), len(self.segments), len(self.starts), len(self.ends)}
        if len(sizes) != 1 or self.of_token.min(initial=0) < -1 or self.of_token.max(initial=-1) >= len(self.texts):
            raise ValueError(f"of_token must be -1 or the number of one of the {len(self.texts)} units")

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Unit]:
        for number, text in enumerate(self.texts):
            place = int(self.segments[number]), int(self.starts[number]), int(self.ends[number])
            yield Unit(text, *place, tuple(self.tokens[number].tolist()))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The texts in folded case: units with equal types are instances of the same word."""
        return tuple(text.strip().casefold() for text in self.texts)

    @cached_property
    def tokens(self) -> tuple[Integers, ...]:
        """The token positions of every unit: U ascending arrays."""
        order = np.argsort(self.of_token, kind="stable")
        bounds = np.searchsorted(self.of_token[order], np.arange(len(self) + 1))
        return tuple(order[first:last] for first, last in pairwise(bounds))

    @cached_property
    def first_tokens(self) -> Integers:
        """(U,) the first token of every unit."""
        return np.array([positions[0] for positions in self.tokens], dtype=np.int64)

    @cached_property
    def sizes(self) -> Integers:
        """(U,) how many tokens every unit has."""
        return np.bincount(self.of_token[self.of_token >= 0], minlength=len(self)).astype(np.int64)

    def positions(self, units: Iterable[int]) -> list[int]:
        """Return the token positions of some units, ascending."""
        return sorted(int(position) for unit in units for position in self.tokens[unit])

    def fold(self, scores: npt.ArrayLike) -> Floats:
        """Sum token scores (..., n) over every unit: (..., U). What is attributed, received or counted adds up."""
        values = np.asarray(scores, dtype=np.float64)
        if values.shape[-1:] != self.of_token.shape:
            raise ValueError(f"scores have shape {values.shape}, expected one per token: (..., {len(self.of_token)})")
        inside = self.of_token >= 0
        rows = values.reshape(-1, len(inside))[:, inside]
        sums = [np.bincount(self.of_token[inside], weights=row, minlength=len(self)) for row in rows]
        return np.array(sums, dtype=np.float64).reshape(*values.shape[:-1], len(self))

    def spread(self, values: npt.ArrayLike) -> Floats:
        """Share the value of every unit (U,) equally among its tokens: (n,), 0 for tokens in no unit.

        The inverse of `fold` up to rounding: fold(spread(v)) = v.
        """
        shares = np.append(np.asarray(values, dtype=np.float64) / np.maximum(self.sizes, 1), 0.0)
        return np.asarray(shares[self.of_token])  # the last entry serves the -1 of tokens in no unit

    def select(self, units: Sequence[int] | Integers) -> Units:
        """Return some of the units, renumbered in the order given."""
        chosen = np.asarray(units, dtype=np.int64)
        number = np.full(len(self) + 1, -1, dtype=np.int64)  # the last entry serves the -1 of tokens in no unit
        number[chosen] = np.arange(len(chosen))
        return replace(
            self,
            texts=tuple(self.texts[unit] for unit in chosen),
            segments=self.segments[chosen],
            starts=self.starts[chosen],
            ends=self.ends[chosen],
            of_token=number[self.of_token],
        )

    def without(self, positions: Iterable[int]) -> Units:
        """Return the units without some tokens; a unit that loses its last token is dropped."""
        of_token = self.of_token.copy()
        of_token[list(positions)] = -1
        left = np.unique(of_token[of_token >= 0])
        return replace(self, of_token=of_token).select(left)

    def parents(self, coarser: Units) -> Integers:
        """Return for every unit the number of the coarser unit that holds it, (U,); -1 if none does."""
        return np.asarray(coarser.of_token[self.first_tokens])

    def cut_at(self, position: int, encoding: Encoding) -> Units:
        """Return the units with those cut in two that have tokens before and from `position` on.

        Units of earlier tokens come first, then those of later ones. Each part of a unit that was cut has the
        characters of its tokens.
        """
        inside = self.of_token >= 0
        later = inside & (np.arange(len(inside)) >= position)
        groups = self.of_token + len(self) * later
        present = np.unique(groups[inside])
        units = np.where(present >= len(self), present - len(self), present)
        halves = np.intersect1d(self.of_token[later], self.of_token[inside & ~later])
        places = np.column_stack([self.segments, self.starts, self.ends])[units]
        texts = [self.texts[unit] for unit in units]
        for number in np.flatnonzero(np.isin(units, halves)):
            spans = encoding.offsets[groups == present[number]]
            start, end = int(spans[:, 0].min()), int(spans[:, 1].max())
            places[number, 1:] = start, end
            texts[number] = encoding.segment_texts[places[number, 0]][start:end]
        return _build(self.level, places, _renumber(groups), encoding.segment_texts, tuple(texts))

    def drawable(self, encoding: Encoding) -> Units:
        """Return the units as pieces of text that can be drawn one after the other.

        Byte-level tokenizers split one emoji into several tokens with the same characters, and some tokens are only
        white space. Units that overlap are merged, outer white space is trimmed, and units without a visible character
        are dropped; the tokens of those belong to no unit.
        """
        texts = encoding.segment_texts
        pieces: list[tuple[int, int, int]] = []
        number = np.full(len(self) + 1, -1, dtype=np.int64)
        for unit, (segment, start, end) in enumerate(zip(self.segments, self.starts, self.ends, strict=True)):
            written = texts[segment][start:end]
            first, last = start + len(written) - len(written.lstrip()), start + len(written.rstrip())
            if first >= last:
                continue
            if pieces and pieces[-1][0] == segment and first < pieces[-1][2]:
                pieces[-1] = (segment, pieces[-1][1], max(pieces[-1][2], last))
            else:
                pieces.append((segment, first, last))
            number[unit] = len(pieces) - 1
        return _build(self.level, pieces, number[self.of_token], texts)


def units_of(encoding: Encoding, level: Level = "word", *, special: bool = False) -> Units:
    """Return the units of a document at one level.

    special: include special tokens, each as its own unit; only at the level of tokens, since they belong to no word.
    """
    texts = encoding.segment_texts
    if special and level != "token":
        raise OptionError(f"Special tokens are no part of a {level}; use level='token', or leave out special=True.")
    if level == "token":
        ordinary = np.arange(len(encoding)) if special else np.flatnonzero(~encoding.special)
        of_token = _renumber(np.where(np.isin(np.arange(len(encoding)), ordinary), np.arange(len(encoding)), -1))
        places = np.column_stack([encoding.segments, encoding.offsets])[ordinary]
        return _build(level, places, of_token, texts, tuple(encoding.tokens[i] for i in ordinary))
    if level == "word":
        words = [encoding.words[number] for number in np.unique(encoding.word_ids[encoding.word_ids >= 0])]
        word_places = [(word.segment, word.start, word.end) for word in words]
        return _build(level, word_places, _renumber(encoding.word_ids), texts, tuple(word.text for word in words))
    starts_of = sentence_starts if check_one_of("level", level, LEVELS) == "sentence" else paragraph_starts
    of_word = np.full(len(encoding.words) + 1, -1, dtype=np.int64)  # the last entry serves the -1 of specials
    before = 0
    for segment, text in enumerate(texts):
        starts = starts_of(text)
        here = [number for number, word in enumerate(encoding.words) if word.segment == segment]
        beginnings = [encoding.words[number].start for number in here]
        of_word[here] = before + np.searchsorted(starts, beginnings, side="right") - 1
        before += len(starts)
    of_token = _renumber(of_word[encoding.word_ids])
    inside = np.flatnonzero(of_token >= 0)
    spans = np.zeros((of_token.max(initial=-1) + 1, 3), dtype=np.int64)
    spans[:, 1] = np.iinfo(np.int64).max
    spans[of_token[inside], 0] = encoding.segments[inside]
    np.minimum.at(spans[:, 1], of_token[inside], encoding.offsets[inside, 0])
    np.maximum.at(spans[:, 2], of_token[inside], encoding.offsets[inside, 1])
    return _build(level, spans, of_token, texts)


def _renumber(groups: Integers) -> Integers:
    """Number the groups (n,) that have a token from 0, in ascending order; -1 stays -1."""
    present = np.unique(groups[groups >= 0])
    return np.where(groups >= 0, np.searchsorted(present, groups), -1).astype(np.int64)


def _build(
    level: Level,
    places: Sequence[tuple[int, int, int]] | Integers,
    of_token: Integers,
    texts: Sequence[str],
    written: tuple[str, ...] | None = None,
) -> Units:
    """Build units from (segment, start, end) of each; what is written there is looked up unless given."""
    segments, starts, ends = np.array(places, dtype=np.int64).reshape(-1, 3).T
    if written is None:
        written = tuple(texts[segment][start:end] for segment, start, end in zip(segments, starts, ends, strict=True))
    return Units(level, written, segments, starts, ends, of_token)
