"""Group documents into batches of similar length, so that little work goes into padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

BATCH_TOKENS = 4096
"""Tokens per batch (padding included): enough for efficient matrix products, few enough for a laptop's memory."""
SHORTEST_SHARE = 0.75
"""A document joins a batch only if it fills at least this share of the longest one's length."""
LARGEST_GAP = 32
"""Nor may it be shorter by more tokens than this: for long documents, a separate batch costs less than padding."""


def batches_by_length(
    lengths: Sequence[int], tokens: int, enough: int | None = None, *, padded: bool = True
) -> Iterator[list[int]]:
    """Yield lists of document indices, longest first; each pads to at most `tokens` (or holds one document).

    No shorter document joins a batch that already has `enough` tokens: another batch costs less than padding. If the
    model cannot be `padded`, the documents of a batch are equally long.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        filled = len(batch) * longest
        shortest = max(SHORTEST_SHARE * longest, longest - LARGEST_GAP)
        if not padded or (enough is not None and filled >= enough):
            shortest = longest
        if batch and (filled + longest > tokens or lengths[index] < shortest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
