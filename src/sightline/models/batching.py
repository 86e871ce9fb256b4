"""Which documents run together: batches of similar length, so that little work goes into padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

BATCH_TOKENS = 4096
"""Tokens a batch (padding included): large enough to keep the matrix products busy, small enough for a laptop."""
SHORTEST_SHARE = 0.75
"""A document joins a batch only if it fills at least this share of the longest one's length."""
LARGEST_GAP = 32
"""Nor may it be shorter by more tokens than this: for long documents a batch of their own costs less than padding."""


def batches_by_length(lengths: Sequence[int], tokens: int, enough: int | None = None) -> Iterator[list[int]]:
    """Yield lists of indices, longest documents first; each list pads to at most `tokens` (or holds one document).

    A batch that has `enough` tokens already takes no shorter document: to start another one costs less than padding.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        filled = len(batch) * longest
        shortest = max(SHORTEST_SHARE * longest, longest - LARGEST_GAP)
        if enough is not None and filled >= enough:
            shortest = longest
        if batch and (filled + longest > tokens or lengths[index] < shortest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
