"""Import heavy libraries with progress shown, and exit at once on Ctrl-C.

An interrupt that reaches a library while it initialises may be swallowed (by importlib's locks, and the command then
runs to its end) or abort the process from C++. Nothing has been written by then, so the process may exit at once.

`use_free_cores` chooses the number of threads: one per idle physical core, and no more than a container may use.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from sightline.cli.error_reports import STOPPED
from sightline.progress import Progress

_SHOW_CURSOR = "\x1b[?25h"
"""The progress bar hides the cursor, and is not given time to show it again."""


@contextmanager
def starting(progress: Progress) -> Iterator[None]:
    """Import the heavy libraries inside this block, and do nothing else there."""
    progress("starting", 0, 0)
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> None:
    cursor = f"\r\x1b[2K{_SHOW_CURSOR}" if sys.stderr.isatty() else ""
    os.write(2, f"{cursor}Stopped.\n".encode())
    os._exit(STOPPED)


CPUS = Path("/sys/devices/system/cpu")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""In a container: microseconds of CPU time per period, or "max", and the period."""


def use_free_cores() -> None:
    """Let torch use the physical cores that are idle, at least one.

    With a thread on a busy core, two threads are slower than one: each waits for the other at every matrix product.
    The same holds for two threads on the two logical processors of one core. A user who sets OMP_NUM_THREADS has
    already decided.
    """
    if "OMP_NUM_THREADS" in os.environ or not hasattr(os, "getloadavg"):
        return
    import torch

    cores = min(count_physical_cores(), read_quota())
    torch.set_num_threads(max(1, int(min(cores, round(cores - _busy_cores())))))


def count_physical_cores(folder: Path = CPUS) -> int:
    """Return how many physical cores this process may run on; logical processors of one core count once.

    Where the system does not say which processors share a core, every processor counts.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = set()
    for number in allowed:
        try:
            siblings = (folder / f"cpu{number}" / "topology" / "thread_siblings_list").read_text().strip()
        except OSError:
            siblings = str(number)
        cores.add(siblings)
    return max(1, len(cores))


def read_quota(file: Path = QUOTA) -> float:
    """Return how many cores the limits of a container allow; infinity where there are none."""
    try:
        quota, period = file.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no container, or "max"
        return math.inf


def _busy_cores() -> float:
    """Return how many cores other processes use: the mean of the last minute, or the running threads if fewer.

    The mean still includes commands that have just ended.
    """
    average = os.getloadavg()[0]
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    except (OSError, ValueError, IndexError):
        return average
    return min(average, running - 1)  # without this process
