"""The worker: a process of its own that holds the models and computes, one job at a time.

A process, not a thread: a computation that does not stop can be ended, one that dies takes nothing with it, and the
server's event loop never waits for the interpreter lock.

The conversation (see `frames`): the worker says `ready` or `unable` once. Then it is sent `explain` or `question` and
answers any number of `progress`, then one `result` or `failed`; `cancel` may be sent meanwhile. When the server is gone
so is the worker.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from sightline.errors import SightlineError, SizeError, UsageError
from sightline.serve.settings import Settings
from sightline.serve.worker.frames import Frame

if TYPE_CHECKING:
    from sightline.serve.worker.desk import Desk

REPORT_EVERY = 0.05
"""Seconds between two reports of the same stage."""
NICENESS = 5
"""The server answers before the worker computes, where both want the same core."""

_log = logging.getLogger(__name__)


class Cancelled(Exception):  # noqa: N818  # not an error: somebody asked for it
    """Raised inside a computation whose job was cancelled."""


def main(connection: Connection, settings: Settings) -> None:
    """Run the worker until the server closes the connection; the target of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal reaches everyone; the server ends us in order
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        desk = _open_desk(connection, settings)
        while desk is not None:
            frame = Frame.unpack(connection.recv_bytes())
            if frame.kind != "cancel":  # one that came too late
                connection.send_bytes(_answer(desk, frame, connection).pack())
    except (EOFError, OSError):
        return


def _open_desk(connection: Connection, settings: Settings) -> Desk | None:
    """Load the models and say what there is, or why not."""
    try:
        from sightline.serve.worker.desk import Desk

        desk = Desk(settings)
        catalogue = desk.catalogue()
    except SightlineError as error:
        refused = isinstance(error, UsageError)
        connection.send_bytes(Frame("unable", {"error": str(error), "refused": refused}).pack())
        return None
    except Exception as error:
        _log.exception("The models could not be loaded.")
        sentence = f"The models could not be loaded ({type(error).__name__}: {error})."
        connection.send_bytes(Frame("unable", {"error": sentence, "refused": False}).pack())
        return None
    connection.send_bytes(Frame("ready", parts=catalogue).pack())
    return desk


def _answer(desk: Desk, frame: Frame, connection: Connection) -> Frame:
    """Do what was asked; whatever goes wrong becomes a sentence and an HTTP status."""
    job = str(frame.facts["id"])
    report = _Reporter(connection, job)
    try:
        request = json.loads(frame.parts["request"])
        if frame.kind == "question":
            facts, parts = desk.answer(job, request, frame.facts, report)
        else:
            facts, parts = desk.explain(job, request, report)
        return Frame("result", {"id": job, **facts}, parts)
    except Cancelled:
        return _failed(job, 409, "This job was cancelled.")
    except (EOFError, BrokenPipeError):
        raise
    except SightlineError as error:
        return _failed(job, status_of(error), str(error))
    except MemoryError:
        return _failed(job, 413, "There is not enough memory for this. Try a shorter text or fewer methods at a time.")
    except Exception as error:
        _log.exception("Job %s failed.", job)
        kind = type(error).__name__
        return _failed(job, 500, f"Something failed inside Sightline ({kind}). The server's log says where.")


def status_of(error: SightlineError) -> int:
    """Return the HTTP status for one of our errors: always the request's fault, for the server itself is well."""
    return 413 if isinstance(error, SizeError) else 422


def _failed(job: str, status: int, sentence: str) -> Frame:
    return Frame("failed", {"id": job, "status": status, "error": sentence})


class _Reporter:
    """Told (stage, done, total) by the computation; tells the server, and stops the computation when cancelled."""

    def __init__(self, connection: Connection, job: str) -> None:
        self._connection = connection
        self._job = job
        self._stage = ""
        self._next = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        while self._connection.poll():
            frame = Frame.unpack(self._connection.recv_bytes())
            if frame.kind == "cancel" and frame.facts["id"] == self._job:
                raise Cancelled
        now = time.monotonic()
        if stage != self._stage or now >= self._next:
            self._stage, self._next = stage, now + REPORT_EVERY
            facts: dict[str, Any] = {"id": self._job, "stage": stage, "done": int(done), "total": int(total)}
            self._connection.send_bytes(Frame("progress", facts).pack())


def _leave_with_parent() -> None:
    """End this process when the server's has ended in any way, even in the middle of a long computation."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
