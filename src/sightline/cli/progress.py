"""A progress bar on standard error, shown only on a terminal and only if the work takes more than a second."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

PATIENCE = 1.0
"""Seconds before the bar appears."""


class LateProgress:
    """Progress callback: call it with (stage, done, total) inside its `with` block; total 0 means unknown."""

    def __init__(self, console: Console | None = None, patience: float = PATIENCE) -> None:
        from rich.console import Console as TerminalConsole

        self._console = console or TerminalConsole(stderr=True)
        self._timer = threading.Timer(patience, self._appear)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._now: tuple[str, int, int] = ("", 0, 0)

    def __enter__(self) -> LateProgress:
        if self._console.is_terminal:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar; it does not appear again."""
        self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            self._timer.finished.set()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Record the progress of the work and redraw the bar."""
        with self._lock:
            self._now = (stage, done, total)
            self._update()

    def _appear(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._timer.finished.is_set():
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
            counted = f"{done:,}/{total:,}" if total else ""
            self._bar.update(self._task, description=stage, completed=done, total=total or None, counted=counted)
