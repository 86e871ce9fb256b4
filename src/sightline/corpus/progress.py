"""RunProgress: documents, rate, time left and failures of a run; shown as a bar, or in logs as one line per minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Report = Callable[["RunProgress"], None]


@dataclass
class RunProgress:
    """The progress of a run, which `run` passes to `progress` after every unit, and before the first if it resumes."""

    total: int
    """Documents of the data set, each counted once however often it occurs."""
    before: int
    """Documents that were computed before this run was started or resumed."""
    done: int = 0
    """Documents computed since then, failed ones included."""
    failed: int = 0
    """Documents that failed since then."""
    cpu_seconds: float = 0.0
    """Computing time of the workers since then, without that of loading the model."""
    started: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Documents per second since the start; 0 before the first."""
        elapsed = time.monotonic() - self.started
        return self.done / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end at the rate so far; None before the first document."""
        return (self.total - self.before - self.done) / self.rate if self.done else None

    def line(self) -> str:
        """Return everything in one line: "120 of 5,000 documents, 4.1 per second, 20 min left, 2 failed"."""
        parts = [f"{self.before + self.done:,} of {self.total:,} documents"]
        if self.done:
            parts.append(f"{self.rate:.2g} per second")
        if self.seconds_left:
            parts.append(f"{_duration(self.seconds_left)} left")
        parts.append(f"{self.failed:,} failed")
        return ", ".join(parts)

    def first_line(self) -> str:
        """Return what was done before a run was resumed: "Resumed: 120 of 5,000 documents were explained before."."""
        if self.before == self.total:
            return f"Nothing to do: all {self.total:,} documents were explained before."
        return f"Resumed: {self.before:,} of {self.total:,} documents were explained before."


class EveryMinute:
    """Calls `write` with a line at most once per `seconds`."""

    def __init__(self, write: Callable[[str], None], seconds: float = 60.0) -> None:
        self._write = write
        self._seconds = seconds
        self._last = time.monotonic()

    def __call__(self, progress: RunProgress) -> None:
        """Write the line if it is due."""
        if time.monotonic() - self._last >= self._seconds:
            self._last = time.monotonic()
            self._write(progress.line())


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
