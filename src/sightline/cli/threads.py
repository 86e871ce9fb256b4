"""How many threads to compute with: as many as there are idle cores."""

from __future__ import annotations

import os
from pathlib import Path


def use_free_cores() -> None:
    """Let torch use the cores that nobody else is using, one at least.

    Two threads on a core that is taken are slower than one: each waits for the other at every matrix product. Whoever
    sets OMP_NUM_THREADS has decided already.
    """
    if "OMP_NUM_THREADS" in os.environ or not hasattr(os, "getloadavg"):
        return
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    torch.set_num_threads(max(1, min(cores, round(cores - _busy_cores()))))


def _busy_cores() -> float:
    """Return how many cores others use: the mean of the last minute, or what runs now where that is less.

    The mean still holds the command that somebody ran just before this one.
    """
    average = os.getloadavg()[0]
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    except (OSError, ValueError, IndexError):
        return average
    return min(average, running - 1)  # without ourselves
