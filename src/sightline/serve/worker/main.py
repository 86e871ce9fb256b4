"""The worker process: it holds the models and runs one job at a time.

A process rather than a thread: a computation that hangs can be killed, a crash does not reach the server, and the
server's event loop never waits for the interpreter lock.

Protocol: the worker first sends `ready` or `unable`. For each `explain` or `question` it receives, it
sends any number of `progress` messages and then one `result` or `failed`; the server may send `cancel` in the meantime.
The worker exits when the server does.

A `Message` between the server and its worker is a JSON header and named byte strings; reading one executes nothing.
Layout: length of the header (4 bytes, little-endian) · header (UTF-8 JSON) · the parts, concatenated. The header's
"parts" lists [name, length] in order. The server forwards parts to browsers without parsing them, so its event loop
stays responsive however large a result is.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from sightline.errors import SightlineError, SizeError, UsageError
from sightline.files.processes import exempt_loaded_objects, release_memory
from sightline.serve.settings import Settings

if TYPE_CHECKING:
    from sightline.serve.worker.session import WorkerSession

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Message:
    """One message: its `kind`, JSON-serialisable facts, and byte strings by name."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, bytes] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the message as bytes."""
        lengths = [[name, len(part)] for name, part in self.parts.items()]
        header = json.dumps({"kind": self.kind, "facts": dict(self.facts), "parts": lengths}, allow_nan=False).encode()
        return b"".join((_LENGTH.pack(len(header)), header, *self.parts.values()))

    @classmethod
    def unpack(cls, data: bytes) -> Message:
        """Return the message that `pack` encoded."""
        (length,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + length
        header = json.loads(data[_LENGTH.size : start])
        parts = {}
        for name, size in header["parts"]:
            parts[name] = data[start : start + size]
            start += size
        if start != len(data):
            raise ValueError(f"The message has {len(data)} bytes; its header announces {start}.")
        return cls(header["kind"], header["facts"], parts)


REPORT_EVERY = 0.05
"""Seconds between two progress reports of the same stage."""
NICENESS = 5
"""Lowers the worker's priority, so that the server keeps answering when both share a core."""

_log = logging.getLogger(__name__)


class Cancelled(Exception):  # noqa: N818  # not an error: the client asked for it
    """Raised inside the computation of a cancelled job."""


def run_worker(connection: Connection, settings: Settings) -> None:
    """Answer messages until the server closes the connection; the target function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the server stops the worker
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        session = _open_session(connection, settings)
        exempt_loaded_objects()
        while session is not None:
            message = Message.unpack(connection.recv_bytes())
            if message.kind != "cancel":  # a cancellation of a job that is already over
                connection.send_bytes(_answer(session, message, connection).pack())
                release_memory()
    except (EOFError, OSError):
        return


def _open_session(connection: Connection, settings: Settings) -> WorkerSession | None:
    """Load the models and send `ready`, or send `unable` and return None."""
    try:
        from sightline.serve.worker.session import WorkerSession

        session = WorkerSession(settings)
        catalogue = session.catalogue()
    except SightlineError as error:
        refused = error.exit_code == UsageError.exit_code
        connection.send_bytes(Message("unable", {"error": str(error), "refused": refused}).pack())
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust code is no Exception
        _log.exception("The models could not be loaded.")
        sentence = f"The models could not be loaded ({type(error).__name__}: {error})."
        connection.send_bytes(Message("unable", {"error": sentence, "refused": False}).pack())
        return None
    connection.send_bytes(Message("ready", parts=catalogue).pack())
    return session


def _answer(session: WorkerSession, message: Message, connection: Connection) -> Message:
    """Return the `result` of a request; every failure becomes `failed` with a sentence and an HTTP status."""
    job = str(message.facts["id"])
    progress = _ProgressReporter(connection, job)
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
    except (EOFError, BrokenPipeError, KeyboardInterrupt, SystemExit):
        raise
    except SightlineError as error:
        return _failure(job, status_of(error), str(error))
    except MemoryError:
        return _failure(job, 413, "Not enough memory. Try a shorter text or fewer methods at a time.")
    except BaseException as error:  # a panic in Rust code is no Exception
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

    def __init__(self, connection: Connection, job: str) -> None:
        self._connection = connection
        self._job = job
        self._stage = ""
        self._next = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        while self._connection.poll():
            message = Message.unpack(self._connection.recv_bytes())
            if message.kind == "cancel" and message.facts["id"] == self._job:
                raise Cancelled
        now = time.monotonic()
        if stage != self._stage or now >= self._next:
            self._stage, self._next = stage, now + REPORT_EVERY
            facts: dict[str, Any] = {"id": self._job, "stage": stage, "done": int(done), "total": int(total)}
            self._connection.send_bytes(Message("progress", facts).pack())


def _exit_with_parent() -> None:
    """Exit as soon as the server process has ended for any reason, even during a long computation."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
