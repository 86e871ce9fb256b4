"""The server's end of a worker process: start it, talk to it, end it."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import threading
from collections.abc import Callable

from sightline.errors import ModelError, UsageError
from sightline.serve.settings import Settings
from sightline.serve.worker import main
from sightline.serve.worker.frames import Frame

_PRELOADED = ["sightline.serve.worker.desk", "numba", "sklearn.feature_extraction.text", "stop_words"]
"""What workers import: the desk, and what it would import during its first job."""
_PATIENCE = 2.0
"""Seconds a process gets to end before it is killed."""


def _context() -> multiprocessing.context.BaseContext:
    """Return how workers are started: never as a fork of this process, whose threads may hold any lock.

    Where the system has it, a process without threads imports the libraries once and is forked for each worker: a
    worker that was ended is replaced in the time its models take to load, not in that and five seconds of imports.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


class WorkerProcess:
    """One worker with its models loaded. `start` blocks until it is ready; call it away from the event loop."""

    def __init__(self, settings: Settings) -> None:
        context = _context()
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=main.main, args=(theirs, settings), daemon=True)  # type: ignore[attr-defined]
        self._theirs = theirs
        self.catalogue: dict[str, bytes] = {}
        """What the worker offers, by name: see `Desk.catalogue`."""

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        number: int | None = self._process.pid
        return number

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return bool(self._process.is_alive())

    def start(self) -> WorkerProcess:
        """Start the process and wait until its models are loaded, or say why they cannot be."""
        self._process.start()
        self._theirs.close()  # so that the end of the process is the end of the stream
        try:
            hello = Frame.unpack(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._process.join(_PATIENCE)
            raise ModelError(
                f"The process that computes ended while it loaded the models (exit code {self._process.exitcode}). "
                "Often that means too little memory."
            ) from None
        if hello.kind != "ready":
            self._process.join(_PATIENCE)
            kind = UsageError if hello.facts["refused"] else ModelError
            raise kind(str(hello.facts["error"]))
        self.catalogue = dict(hello.parts)
        return self

    def listen(self, receive: Callable[[Frame | None], None]) -> None:
        """Hand every message to `receive`, in a thread of its own; None means that the process has ended."""

        def read() -> None:
            while True:
                try:
                    frame = Frame.unpack(self._connection.recv_bytes())
                except (EOFError, OSError):
                    receive(None)
                    return
                receive(frame)

        threading.Thread(target=read, daemon=True, name="sightline-ear").start()

    def send(self, frame: Frame) -> None:
        """Send a message; a worker that is gone is found out by `listen`."""
        try:
            self._connection.send_bytes(frame.pack())
        except OSError:
            return

    def stop(self) -> None:
        """End the process, by force if it must be. One that was interrupted before it had begun needs no end."""
        if self._process.pid is None:
            return
        self._process.terminate()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
