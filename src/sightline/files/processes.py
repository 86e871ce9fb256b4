"""Processes: limits on a child that handles an untrusted file, and memory that a long-running worker returns.

A child is limited in its memory, its computing time, and the life of its parent. The parent limits the time that
passes; these limits hold even if the parent was killed. This module loads nothing that a small process does not need.

The allocator of a worker keeps what a document needed, so that the process grows although nothing is referenced.
`release_memory` returns such memory to the system.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_PAGES = Path("/proc/self/statm")
_CONTAINER = Path("/sys/fs/cgroup/memory.max")
_SIGNAL_AT_PARENTS_DEATH = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def limit_resources(memory: int, seconds: int) -> None:
    """Let this process take at most `memory` bytes of address space and `seconds` of computing time from now on.

    On Linux it also ends with its parent, however that ends. Nothing is limited on Windows, and only the time where the
    system does not say how much memory is in use.
    """
    if sys.platform == "linux":
        # The kernel ends this process; a thread of ours might never get to run while a parser computes.
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)
    try:
        import resource
    except ImportError:  # Windows
        return
    limit_memory(memory)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    last = int(spent.ru_utime + spent.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (last, last))


def limit_memory(memory: int) -> None:
    """Let this process take at most `memory` bytes of address space from now on, on Linux."""
    if _PAGES.exists():
        import resource

        most = int(_PAGES.read_text().split()[0]) * resource.getpagesize() + memory
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]  # of the parent, or of the user's own `ulimit -v`
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container that this process is in; 0 if unknown."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return 0
    with suppress(OSError, ValueError):  # no control groups, or no limit ("max")
        memory = min(memory, int(_CONTAINER.read_text()))
    return memory


def exempt_loaded_objects() -> None:
    """Exempt all objects that exist now, such as a loaded model, from garbage collection, until `gc.unfreeze()`.

    A model and its libraries are about 400,000 objects. Looking at each of them takes as long as explaining ten short
    documents, which would make `release_memory` expensive.
    """
    gc.collect()
    gc.freeze()


def release_memory() -> None:
    """Return unused memory of the C allocator to the system (glibc's malloc_trim; nothing on other systems)."""
    gc.collect()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """Return the memory that this process occupies now, its peak where only that is known, and 0 on Windows."""
    try:
        import resource
    except ImportError:
        return 0
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


@cache
def _malloc_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
