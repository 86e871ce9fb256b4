"""Which documents run together: batches of similar length, so that little work goes into padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

BATCH_TOKENS = 4096
"""Tokens a batch (padding included): large enough to keep the matrix products busy, small enough for a laptop."""
SHORTEST_SHARE = 0.75
"""A document joins a batch only if it fills at least this share of the longest one's length."""


def batches_by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield lists of indices, longest documents first; each list pads to at most `tokens` (or holds one document)."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        if batch and ((len(batch) + 1) * longest > tokens or lengths[index] < SHORTEST_SHARE * longest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
