"""The worker process, which holds the models and runs one job at a time: as the server sees it, and from the inside.

A process rather than a thread: a computation that hangs can be killed, a crash does not reach the server, and the
server's event loop never waits for the interpreter lock.

Protocol: the worker first sends `ready` or `unable`. For each `explain` or `question` it receives, it
sends any number of `progress` messages and then one `result` or `failed`; the server may send `cancel` in the meantime.
The worker exits when the server does.

The server forwards the parts of a message to browsers without parsing them, so its event loop stays responsive however
large a result is.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from sightline.errors import ModelError, SightlineError, SizeError
from sightline.files.children import Channel, Child, Message
from sightline.files.processes import exempt_loaded_objects, limit_memory, machine_memory, release_memory
from sightline.settings.serving import ServerLimits

if TYPE_CHECKING:
    from sightline.serve.session import WorkerSession

_PRELOADED = ("sightline.serve.session", "numba")
"""Modules imported before workers are forked, including those that the first job would import.

Replacing a worker then costs the loading of its models but not another five seconds of imports.
"""


class WorkerProcess(Child):
    """One worker with its models loaded. `start` blocks until it is ready, so do not call it on the event loop."""

    def __init__(self, settings: ServerLimits) -> None:
        super().__init__("sightline-worker", run_worker, settings, preload=_PRELOADED)
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


REPORT_EVERY = 0.05
"""Seconds between two progress reports of the same stage."""
NICENESS = 5
"""Lowers the worker's priority, so that the server keeps answering when both share a core."""
_NO_MEMORY = ("allocate memory", "could not create a primitive")
"""What torch and oneDNN say in a RuntimeError when they get no memory."""

_log = logging.getLogger(__name__)


class Cancelled(Exception):  # noqa: N818  # not an error: the client asked for it
    """Raised inside the computation of a cancelled job."""


def run_worker(channel: Channel, settings: ServerLimits) -> None:
    """Answer messages until the server closes the connection; runs in a process of its own."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    session = _open_session(channel, settings)
    exempt_loaded_objects()
    _limit_memory(settings.worker_memory)
    while session is not None and (message := channel.receive()) is not None:
        if message.kind != "cancel":  # a cancellation of a job that is already over
            channel.send(_answer(session, message, channel))
            release_memory()


def _open_session(channel: Channel, settings: ServerLimits) -> WorkerSession | None:
    """Load the models and send `ready`, or send `unable` and return None."""
    try:
        from sightline.serve.session import WorkerSession

        session = WorkerSession(settings)
        catalogue = session.catalogue()
    except SightlineError as error:
        channel.send(Message.unable(error))
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust code is no Exception
        _log.exception("The models could not be loaded.")
        channel.send(Message.unable(ModelError(f"The models could not be loaded ({type(error).__name__}: {error}).")))
        return None
    channel.send(Message("ready", parts=catalogue))
    return session


def _limit_memory(memory: int | None) -> None:
    """Limit the memory of this process, so that a request that needs too much fails and the machine works on."""
    import torch

    if memory is None:
        memory = machine_memory() * 4 // 5
    if memory and not torch.cuda.is_available():  # CUDA reserves address space that it never uses
        limit_memory(memory)


def _answer(session: WorkerSession, message: Message, channel: Channel) -> Message:
    """Return the `result` of a request; every failure becomes `failed` with a sentence and an HTTP status."""
    job = str(message.facts["id"])
    progress = _ProgressReporter(channel, job)
    try:
        request = json.loads(message.parts["request"])
        if message.kind == "question":
            if message.facts["about"] == "page":
                facts, parts = session.page(message.facts, message.parts)
            elif message.facts["about"] == "corpus":
                facts, parts = session.corpus_page(message.facts["row"])
            else:
                facts, parts = session.answer(job, request, message.facts, progress)
        else:
            facts, parts = session.explain(job, request, progress)
        return Message("result", {"id": job, **facts}, parts)
    except Cancelled:
        return _failure(job, 409, "This job was cancelled.")
    except (KeyboardInterrupt, SystemExit):
        raise
    except SightlineError as error:
        return _failure(job, status_of(error), str(error))
    except BaseException as error:  # a panic in Rust code is no Exception
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY):
            return _failure(job, 413, "Not enough memory. Try a shorter text or fewer methods at a time.")
        _log.exception("Job %s failed.", job)
        kind = type(error).__name__
        return _failure(
            job, 500, f"Sightline failed with an internal error ({kind}). The server's log has the details."
        )


def status_of(error: SightlineError) -> int:
    """Return the HTTP status for a SightlineError: always a client error, because the server itself works."""
    return 413 if isinstance(error, SizeError) else 422


def _failure(job: str, status: int, sentence: str) -> Message:
    return Message("failed", {"id": job, "status": status, "error": sentence})


class _ProgressReporter:
    """Forwards (stage, done, total) to the server and raises `Cancelled` once the job is cancelled."""

    def __init__(self, channel: Channel, job: str) -> None:
        self._channel = channel
        self._job = job
        self._stage = ""
        self._next = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        while self._channel.connection.poll():
            message = self._channel.receive()
            if message is None or (message.kind == "cancel" and message.facts["id"] == self._job):
                raise Cancelled
        now = time.monotonic()
        if stage != self._stage or now >= self._next:
            self._stage, self._next = stage, now + REPORT_EVERY
            facts: dict[str, Any] = {"id": self._job, "stage": stage, "done": int(done), "total": int(total)}
            self._channel.send(Message("progress", facts))
