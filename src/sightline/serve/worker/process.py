"""The worker process as the server sees it: start it, exchange messages with it, stop it."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.context
import queue
import threading
from collections.abc import Callable

from sightline.errors import ModelError, UsageError
from sightline.serve.settings import Settings
from sightline.serve.worker import main
from sightline.serve.worker.main import Message

_PRELOADED = ["sightline.serve.worker.session", "numba"]
"""Modules imported before workers are forked, including those that the first job would import."""
_STOP_SECONDS = 2.0
"""How long a process may take to end before it is killed."""


def _context() -> multiprocessing.context.BaseContext:
    """Return the start method for workers: never a fork of this process, whose threads may hold locks.

    Where available, a single-threaded fork server imports the libraries once and is forked for each worker, so that
    replacing a worker costs the loading of its models but not another five seconds of imports.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


class WorkerProcess:
    """One worker with its models loaded. `start` blocks until it is ready, so do not call it on the event loop."""

    def __init__(self, settings: Settings) -> None:
        context = _context()
        self._connection, worker_end = context.Pipe()
        self._process = context.Process(target=main.run_worker, args=(worker_end, settings), daemon=True)  # type: ignore[attr-defined]
        self._worker_end = worker_end
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.catalogue: dict[str, bytes] = {}
        """Models, methods and metrics as JSON: see `WorkerSession.catalogue`."""

    @property
    def pid(self) -> int | None:
        """The process id; None before `start`."""
        pid: int | None = self._process.pid
        return pid

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return bool(self._process.is_alive())

    def start(self) -> WorkerProcess:
        """Start the process and wait until its models are loaded; raise a SightlineError if they cannot be."""
        self._process.start()
        self._worker_end.close()  # so that reading ends when the process ends
        try:
            greeting = Message.unpack(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._process.join(_STOP_SECONDS)
            raise ModelError(
                f"The worker process ended while loading the models (exit code {self._process.exitcode}), most often "
                "because memory ran out. Try fewer or smaller models."
            ) from None
        if greeting.kind != "ready":
            self._process.join(_STOP_SECONDS)
            kind = UsageError if greeting.facts["refused"] else ModelError
            raise kind(str(greeting.facts["error"]))
        self.catalogue = dict(greeting.parts)
        return self

    def listen(self, receive: Callable[[Message | None], None]) -> None:
        """Call `receive` with every message, from a background thread; None means that the process has ended.

        Another thread writes what `send` is given, because a process that does not read makes its writer wait.
        """

        def read() -> None:
            while True:
                try:
                    message = Message.unpack(self._connection.recv_bytes())
                except (EOFError, OSError):
                    receive(None)
                    return
                receive(message)

        def write() -> None:
            with contextlib.suppress(OSError):  # the process has ended, which `read` reports
                while (message := self._outbox.get()) is not None:
                    self._connection.send_bytes(message.pack())

        for target in (read, write):
            threading.Thread(target=target, daemon=True, name=f"sightline-worker-{target.__name__}").start()

    def send(self, message: Message) -> None:
        """Send a message after those before it, without waiting for the process to read it; call `listen` first."""
        self._outbox.put(message)

    def stop(self) -> None:
        """Stop the process, by force if necessary; do nothing if it was never started."""
        self._outbox.put(None)
        if self._process.pid is None:
            return
        self._process.terminate()
        self._process.join(_STOP_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
