"""Waiting in tests: as long as a busy machine needs, and no longer than it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which something is taken to never happen."""


def wait_for(true: Callable[[], object], otherwise: Callable[[], str] = lambda: "it never became true") -> None:
    """Return when `true()` is; fail with what `otherwise()` says when it never is."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.02)
