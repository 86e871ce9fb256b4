"""Group documents into batches of similar length, so that little work goes into padding.

`graph_tokens` says how many tokens a forward with gradients may hold at once on this machine. The rule looks at the
memory that the machine *has*, not at what is free: the size of a batch decides in which order numbers are added, so a
rule that followed other programs would give other last digits from one day to the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from sightline.settings.values import check_count

BATCH_TOKENS = 4096
"""Tokens per batch (padding included): enough for efficient matrix products, few enough for a laptop's memory."""
SHORTEST_SHARE = 0.75
"""A document joins a batch only if it fills at least this share of the longest one's length."""
LARGEST_GAP = 32
"""Nor may it be shorter by more tokens than this: for long documents, a separate batch costs less than padding."""


def batches_by_length(
    lengths: Sequence[int], tokens: int, enough: int | None = None, *, most: int | None = None, padded: bool = True
) -> Iterator[list[int]]:
    """Yield lists of document indices, longest first; each pads to at most `tokens` (or holds one document).

    A batch has at most `most` documents.

    No shorter document joins a batch that already has `enough` tokens: another batch costs less than padding. If the
    model cannot be `padded`, the documents of a batch are equally long.
    """
    if most is not None:
        check_count("batch_size", most)
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        filled = len(batch) * longest
        shortest = max(SHORTEST_SHARE * longest, longest - LARGEST_GAP)
        if not padded or (enough is not None and filled >= enough):
            shortest = longest
        if batch and (filled + longest > tokens or lengths[index] < shortest or len(batch) == most):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


SHARE = 0.25
"""Of the memory of the machine, for the graph of one batch."""
KEPT_WIDTHS = 16
"""Numbers that a backward needs per token and layer, in widths of the model: 11 in a Longformer, and some room."""
CEILING = 16 * BATCH_TOKENS
"""Tokens of a batch on an accelerator. On a CPU batches of more than BATCH_TOKENS are no faster."""
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def graph_tokens(config: Any, device: torch.device, dtype: torch.dtype) -> int:
    """Return the most tokens of a batch whose graph is kept for a backward, at least 1."""
    per_token = KEPT_WIDTHS * int(getattr(config, "hidden_size", 1024)) * int(getattr(config, "num_hidden_layers", 12))
    memory = total_memory(device)
    ceiling = BATCH_TOKENS if device.type == "cpu" else CEILING
    if memory is None:
        return BATCH_TOKENS
    return max(1, min(ceiling, int(SHARE * memory / (per_token * dtype.itemsize))))


def total_memory(device: torch.device) -> int | None:
    """Return the bytes that the device, or this container, has in all; None where that is not known."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # an MPS device shares it
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(memory, int(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return memory
