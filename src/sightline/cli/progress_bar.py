"""While a command works: a progress bar on standard error, imports that Ctrl-C can stop, and the number of threads.

The bar is shown only on a terminal, and only if the work takes more than a second.

`CheckTime` says what is known before the check of an explanation, and how long the check will take if that is long. A
check reads changed forms of the document, so its time follows from that of the first one. Besides comparing with random
orders, it deletes sentences (`metrics.check`) and runs every method again on exchanged words (`analysis.exchange`).

`starting` imports heavy libraries with progress shown, and exits at once on Ctrl-C. An interrupt that reaches a library
while it initialises may be swallowed (by importlib's locks, and the command then runs to its end) or abort the process
from C++. Nothing has been written by then, so the process may exit at once.

`use_free_cores` chooses the number of threads: one per idle physical core, and no more than a container may use.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from sightline.cli.error_reports import STOPPED
from sightline.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from sightline.results.report import Report

PATIENCE = 1.0
"""Seconds before the bar appears, and before a stage says how much time is left."""


class LateProgress:
    """Progress callback: call it with (stage, done, total) inside its `with` block; total 0 means unknown."""

    def __init__(self, console: Console | None = None, patience: float = PATIENCE) -> None:
        from rich.console import Console as TerminalConsole

        self._console = console or TerminalConsole(stderr=True)
        self._timer = threading.Timer(patience, self._appear)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._now: tuple[str, int, int] = ("", 0, 0)
        self._patience = patience
        self._stage_start = time.monotonic()
        self._announcements: list[threading.Timer] = []
        self._stopped = False

    def __enter__(self) -> LateProgress:
        if self._console.is_terminal:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar; it does not appear again, nor do announcements that have not been printed."""
        for timer in (self._timer, *self._announcements):
            timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            self._stopped = True

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Record the progress of the work and redraw the bar."""
        with self._lock:
            if stage != self._now[0] or done < self._now[1]:
                self._stage_start = time.monotonic()
            self._now = (stage, done, total)
            self._update()

    def announce(self, line: str) -> None:
        """Print a line on a terminal if the work goes on for longer than the bar waits."""
        if self._console.is_terminal:
            timer = threading.Timer(self._patience, self._print_announcement, (line,))
            timer.daemon = True
            self._announcements.append(timer)
            timer.start()

    def note(self, line: str) -> None:
        """Print a line at once, on a terminal or not."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _print_announcement(self, line: str) -> None:
        with self._lock:
            if not self._stopped:
                self.note(line)

    def _appear(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._stopped:
                return
            counted = TextColumn("{task.fields[counted]}", style="progress.download")
            columns = (TextColumn("{task.description}"), BarColumn(), counted, TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=None, counted="")
            self._bar.start()
            self._update()

    def _update(self) -> None:
        if self._bar is not None and self._task is not None:
            stage, done, total = self._now
            counted = f"{done:,}/{total:,}{self._time_left()}" if total else ""
            self._bar.update(self._task, description=stage, completed=done, total=total or None, counted=counted)

    def _time_left(self) -> str:
        """Return ", about 40 s left" if the stage has lasted long enough to tell."""
        _, done, total = self._now
        elapsed = time.monotonic() - self._stage_start
        if not 0 < done < total or elapsed < self._patience:
            return ""
        return f", about {describe_seconds(elapsed / done * (total - done))} left"


def describe_seconds(seconds: float) -> str:
    """Return an estimated duration as "40 s", "3 min" or "2 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"


LONG = 30.0
"""Seconds above which a check is announced with its time."""
_SEARCH = 15
"""Documents that are read to find the smallest set of words: about so many in a long text."""
_EXCHANGES = 2
"""Runs of a method on exchanged words: one to three."""


class CheckTime:
    """Progress callback that passes everything on and watches the check of a report."""

    def __init__(
        self,
        progress: LateProgress,
        *,
        every: bool,
        artefacts: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what shows the progress, whether every method is checked, and whether words are exchanged."""
        self._progress = progress
        self._clock = clock
        self._every = every
        self._exchanges = _EXCHANGES if artefacts else 0
        self._checks = 0
        self._explain_seconds = 0.0
        self._start: float | None = None
        self._is_announced = False

    def explained(self, report: Report) -> None:
        """Announce the first answer of a report that is going to be checked."""
        classes = len({explanation.target.index for explanation in report})
        self._checks = classes * (len(report.explanations) if self._every else 1)
        self._explain_seconds = report.seconds["explain"]
        self._progress.announce(first_answer(report))

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Pass progress on; after the first calls of the check, announce its time if that is long."""
        from sightline.metrics.check import TEST_STAGE

        self._progress(stage, done, total)
        if stage != TEST_STAGE or self._is_announced:
            return
        if self._start is None:
            self._start = self._clock()
        elif done:
            self._is_announced = True
            self._announce((self._clock() - self._start) / done, total)

    def _announce(self, per_call: float, calls: int) -> None:
        seconds = self._checks * (per_call * (calls + _SEARCH) + self._exchanges * self._explain_seconds)
        if seconds >= LONG:
            self._progress.note(f"The check takes about {describe_seconds(seconds)}; --no-check leaves it out.")


def first_answer(report: Report) -> str:
    """Return what the model says and the words that decided it, before any check."""
    from sightline.view.words.headline import headline_parts
    from sightline.view.words.terminal import printable

    sentence = "".join(part.text for part in headline_parts(report.first)[:-1])  # without the verdict
    return f"{printable(sentence)} (not checked yet)."


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
