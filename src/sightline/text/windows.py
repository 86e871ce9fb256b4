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

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from sightline.errors import OptionError
from sightline.settings.values import check_count, check_one_of
from sightline.text.encoding import Aggregation, Encoding, Windows
from sightline.text.units import units_of

WINDOW_TOKENS = 32_768
"""Tokens that all windows of a document have together, unless more windows are asked for: 64 windows of 512."""
FEWEST_WINDOWS = 8
"""Windows that are read at least, however long one of them is."""
OVERLAP_SHARE = 8
"""By default windows overlap by this part of the tokens that slide: 1/8, about 60 of 512."""
LARGEST_OVERLAP = 4
"""The largest overlap is this part of the tokens that slide: 1/4, so that every window advances."""


def default_max_windows(max_tokens: int) -> int:
    """Return how many windows of `max_tokens` tokens are read unless more are asked for."""
    return max(FEWEST_WINDOWS, WINDOW_TOKENS // max_tokens)


def read_in_windows(
    encoding: Encoding,
    max_tokens: int,
    *,
    overlap: int | None = None,
    aggregation: Aggregation = "mean",
    max_windows: int | None = None,
) -> Encoding | None:
    """Return a long document with its windows, or None if the shorter text of a pair leaves too little room.

    The arguments are those of `cut_windows`. What lies behind the last of `max_windows` windows is cut off, and
    `dropped` counts it.
    """
    windows = cut_windows(encoding, max_tokens, overlap, aggregation, max_windows)
    if windows is None:
        return None
    last = _sliding_range(encoding)[1]
    end = windows.spans[-1][1]
    if end < last:
        read = np.concatenate([np.arange(end), np.arange(last, len(encoding))])
        encoding = replace(encoding.select(read), dropped=encoding.dropped + last - end)
    return replace(encoding, windows=windows)


def cut_windows(
    encoding: Encoding,
    max_tokens: int,
    overlap: int | None = None,
    aggregation: Aggregation = "mean",
    max_windows: int | None = None,
) -> Windows | None:
    """Return windows of at most `max_tokens` tokens, or None if the shorter text of a pair leaves too little room.

    The text slides; of a pair, the longer one (the second if they are equal, as the context of a question). Consecutive
    windows share between `overlap` and twice as many tokens (by default 1/8 of the room). Windows are about equally
    long, so that none of them consists of the last few words only. At most `max_windows` are made (by default those of
    `default_max_windows`): what is behind the last of them is not read.
    """
    check_one_of("aggregation", aggregation, get_args(Aggregation))
    most = default_max_windows(max_tokens) if max_windows is None else check_count("max_windows", max_windows)
    first, last = _sliding_range(encoding)
    room = max_tokens - (len(encoding) - (last - first))
    if room < max(1, max_tokens // 2):
        return None
    if overlap is None:
        overlap = room // OVERLAP_SHARE
    if not 0 <= overlap <= room // LARGEST_OVERLAP:
        raise OptionError(
            f"overlap={overlap} is out of range: windows of {room} tokens of text overlap by 0 to "
            f"{room // LARGEST_OVERLAP} tokens."
        )
    sentences, words = _starts(encoding, first, last)
    spans: list[tuple[int, int]] = []
    start = first
    while last - start > room and len(spans) < most:
        end = _choose_end(start, last, room, overlap, sentences, words)
        spans.append((start, end))
        start = _choose_start(end, overlap, sentences, words)
    if len(spans) < most:
        spans.append((start, last))
    return Windows(tuple(spans), aggregation)


def _sliding_range(encoding: Encoding) -> tuple[int, int]:
    """Return the token range [first, last) of the text that slides; an empty one if all tokens are special."""
    places = np.flatnonzero(encoding.segments == _sliding_segment(encoding))
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)


def _sliding_segment(encoding: Encoding) -> int:
    if encoding.pair is None:
        return 0
    return int(np.sum(encoding.segments == 1) >= np.sum(encoding.segments == 0))


def _starts(encoding: Encoding, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions in [first, last) at which a sentence begins, and those at which a word begins."""
    sentences = units_of(encoding, "sentence").first_tokens
    words = units_of(encoding, "word").first_tokens
    return sentences[(sentences >= first) & (sentences < last)], words[(words >= first) & (words < last)]


def _choose_end(
    start: int, last: int, room: int, overlap: int, sentences: NDArray[np.int64], words: NDArray[np.int64]
) -> int:
    """Return the end of the window that begins at `start`: near an equal share of what is left.

    Sentences, then words, that begin in the second half of the room are considered; without any, the room is filled.
    """
    left = last - start
    windows = -(-(left - overlap) // (room - overlap))
    ideal = start + min(room, -(-(left + (windows - 1) * overlap) // windows))
    for starts in (sentences, words):
        possible = starts[(starts > start + room // 2) & (starts <= start + room)]
        if len(possible):
            return int(possible[np.argmin(np.abs(possible - ideal))])
    return start + room


def _choose_start(end: int, overlap: int, sentences: NDArray[np.int64], words: NDArray[np.int64]) -> int:
    """Return the start of the window after one that ends at `end`: a sentence, else a word, `overlap` before it."""
    for starts in (sentences, words):
        possible = starts[(starts >= end - 2 * overlap) & (starts <= end - overlap)]
        if len(possible):
            return int(possible[-1])
    return end - overlap


def window_encodings(encoding: Encoding, positions: Sequence[NDArray[np.int64]]) -> list[Encoding]:
    """Return what the model reads of each window, given the positions of its tokens."""
    return [encoding.select(window) for window in positions]
