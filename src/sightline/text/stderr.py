"""Hold back what native code writes to standard error."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_one_at_a_time = threading.RLock()


@contextmanager
def hold_back_stderr() -> Iterator[None]:
    """Keep what is written to file descriptor 2 inside this block, and pass it on only if the block ends well.

    A Rust panic prints its message and, if the user asked for it, a backtrace before Python sees an exception; the
    exception becomes a sentence, and the message is not needed. Where there is no standard error (a
    service without a terminal), nothing is done.
    """
    with _one_at_a_time:
        try:
            sys.stderr.flush()
            saved = os.dup(2)
        except (OSError, ValueError, AttributeError):
            yield
            return
        with tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(saved, 2)
                os.close(saved)
            held.seek(0)
            while chunk := held.read(65536):
                os.write(2, chunk)
