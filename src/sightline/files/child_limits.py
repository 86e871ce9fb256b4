"""Limits on a child process that handles an untrusted file: memory, computing time, and the life of its parent.

The parent limits the time that passes; these limits hold even if the parent was killed. This module loads nothing that
a small process does not need.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

_PAGES = Path("/proc/self/statm")
_SIGNAL_AT_PARENTS_DEATH = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def limit_resources(memory: int, seconds: int) -> None:
    """Let this process take at most `memory` bytes of address space and `seconds` of computing time from now on.

    On Linux it also ends with its parent, however that ends. Nothing is limited on Windows, and only the time where the
    system does not say how much memory is in use.
    """
    if sys.platform == "linux":
        import ctypes

        # The kernel ends this process; a thread of ours might never get to run while a parser computes.
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)
    try:
        import resource
    except ImportError:  # Windows
        return
    if _PAGES.exists():
        most = int(_PAGES.read_text().split()[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    spent = resource.getrusage(resource.RUSAGE_SELF)
    last = int(spent.ru_utime + spent.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (last, last))
