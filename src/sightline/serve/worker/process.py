"""The worker process as the server sees it: start it, exchange messages with it, stop it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Self

from sightline.errors import ModelError
from sightline.files.children import Child, Message
from sightline.serve.limits import ServerLimits
from sightline.serve.worker import main

_PRELOADED = ("sightline.serve.worker.session", "numba")
"""Modules imported before workers are forked, including those that the first job would import.

Replacing a worker then costs the loading of its models but not another five seconds of imports.
"""


class WorkerProcess(Child):
    """One worker with its models loaded. `start` blocks until it is ready, so do not call it on the event loop."""

    def __init__(self, settings: ServerLimits) -> None:
        super().__init__("sightline-worker", main.run_worker, settings, preload=_PRELOADED)
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.catalogue: dict[str, bytes] = {}
        """Models, methods and metrics as JSON: see `WorkerSession.catalogue`."""

    def start(self) -> Self:
        """Start the process and wait until its models are loaded; raise a SightlineError if they cannot be."""
        super().start()
        greeting = self.receive()
        if greeting is None:
            raise ModelError(
                f"The worker process ended while loading the models (exit code {self.exit_code()}), most often "
                "because memory ran out. Try fewer or smaller models."
            )
        if greeting.kind == "unable":
            raise greeting.error()
        self.catalogue = dict(greeting.parts)
        return self

    def listen(self, receive: Callable[[Message | None], None]) -> None:
        """Call `receive` with every message, from a background thread; None means that the process has ended.

        Another thread writes what `post` is given, because a process that does not read makes its writer wait.
        """

        def read() -> None:
            while (message := self.receive()) is not None:
                receive(message)
            receive(None)

        def write() -> None:
            while (message := self._outbox.get()) is not None:
                self.send(message)

        for target in (read, write):
            threading.Thread(target=target, daemon=True, name=f"sightline-worker-{target.__name__}").start()

    def post(self, message: Message) -> None:
        """Send a message after those before it, without waiting for the process to read it; call `listen` first."""
        self._outbox.put(message)

    def stop(self) -> None:
        """Stop the process, by force if necessary; do nothing if it was never started."""
        self._outbox.put(None)
        super().stop()
