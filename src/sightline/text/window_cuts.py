"""Where a document that is longer than the model reads is cut into windows (`sightline.text.windows`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from sightline.arguments import check_one_of
from sightline.errors import InputError, OptionError
from sightline.text.encoding import Encoding
from sightline.text.units import units_of
from sightline.text.windows import Aggregation, Windows

MAX_WINDOWS = 256
"""More windows than this are refused: explaining them would take hours without a word of warning."""
OVERLAP_SHARE = 8
"""By default windows overlap by this part of the tokens that slide: 1/8, about 60 of 512."""
LARGEST_OVERLAP = 4
"""The largest overlap is this part of the tokens that slide: 1/4, so that every window advances."""


def cut_windows(
    encoding: Encoding, max_tokens: int, overlap: int | None = None, aggregation: Aggregation = "mean"
) -> Windows | None:
    """Return windows of at most `max_tokens` tokens, or None if the shorter text of a pair leaves too little room.

    The text slides; of a pair, the longer one (the second if they are equal, as the context of a question). Consecutive
    windows share between `overlap` and twice as many tokens (by default 1/8 of the room). Windows are about equally
    long, so that none of them consists of the last few words only.
    """
    check_one_of("aggregation", aggregation, get_args(Aggregation))
    segment = _sliding_segment(encoding)
    places = np.flatnonzero(encoding.segments == segment)
    first, last = int(places[0]), int(places[-1]) + 1
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
    needed = -(-(last - first - overlap) // (room - overlap))
    if needed > MAX_WINDOWS:
        raise InputError(
            f"The document has {len(encoding):,} tokens, the model reads {max_tokens:,} at once, and at most "
            f"{MAX_WINDOWS} windows are read: give the text in parts, or only its beginning with truncate=True."
        )
    sentences, words = _starts(encoding, first, last)
    spans = []
    start = first
    while last - start > room:
        end = _choose_end(start, last, room, overlap, sentences, words)
        spans.append((start, end))
        start = _choose_start(end, overlap, sentences, words)
    return Windows((*spans, (start, last)), aggregation)


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
    everything = np.arange(len(encoding))
    return [encoding.drop(np.setdiff1d(everything, own).tolist(), keep_windows=False) for own in positions]
