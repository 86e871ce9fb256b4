"""Memory of long-running workers: the allocator keeps what a document needed, so that a process grows although nothing
is referenced. `release_memory` returns such memory to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache
from pathlib import Path
from typing import Any


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
