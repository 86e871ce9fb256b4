"""Import heavy libraries with progress shown, and exit at once on Ctrl-C.

An interrupt that reaches a library while it initialises may be swallowed (by importlib's locks, and the command then
runs to its end) or abort the process from C++. Nothing has been written by then, so the process may exit at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sightline.cli.errors import STOPPED
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
