"""The dispatcher: hands jobs to the worker one after the other, and keeps a worker alive.

Everything here runs on the event loop; only starting, ending and feeding a process are sent to threads. Questions
(tiles of a kept document) are short and go before jobs that have not begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sightline.errors import SightlineError
from sightline.serve.http.refusal import Refused, busy
from sightline.serve.settings import Settings
from sightline.serve.worker.frames import Frame
from sightline.serve.worker.jobs import Job, JobBook, Progress
from sightline.serve.worker.process import WorkerProcess

MOST_QUESTIONS = 64
FIRST_GUESS = 5.0
"""Seconds after which to try again, before any job has shown how long one takes."""


@dataclass(eq=False)
class Question:
    """Something short asked about a finished job."""

    job: Job
    facts: Mapping[str, Any]
    answer: asyncio.Future[Frame] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, eq=False)
class _Cancel:
    """Put into the inbox when a running job is no longer wanted."""

    job: Job


class Dispatcher:
    """The queue, the worker, and what became of the jobs."""

    def __init__(self, settings: Settings, worker: WorkerProcess) -> None:
        self.settings = settings
        self.book = JobBook(settings.kept_jobs, settings.kept_bytes)
        self.catalogue = worker.catalogue
        self.model_names, self.method_names = (
            [str(entry["name"]) for entry in json.loads(worker.catalogue[kind])] for kind in ("models", "methods")
        )
        self._worker: WorkerProcess | None = worker
        self._inbox: asyncio.Queue[Frame | _Cancel | None] = asyncio.Queue()
        self._jobs: deque[Job] = deque()
        self._questions: deque[Question] = deque()
        self._wake = asyncio.Event()
        self._current: Job | None = None
        self._cancelling = False
        self._last_seconds = FIRST_GUESS
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return len(self._jobs)

    @property
    def current(self) -> Job | None:
        """The job that runs."""
        return self._current

    @property
    def ready(self) -> bool:
        """Whether a worker is there; false while one is being started anew."""
        return self._worker is not None

    def start(self) -> None:
        """Begin to work; call it once the event loop runs."""
        assert self._worker is not None
        self._listen(self._worker)
        self._task = asyncio.create_task(self._run())

    def end_jobs(self) -> None:
        """Tell everyone who waits for a job or follows one that it will not be done."""
        for job in (self._current, *self._jobs):
            if job is not None and not job.over:
                job.fail(503, "The server is being stopped.")

    async def stop(self) -> None:
        """Stop working and end the worker."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self.end_jobs()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.stop)

    def submit(self, job: Job) -> None:
        """Queue a job, or raise `Refused` when the queue is full."""
        if len(self._jobs) >= self.settings.queue + (self._current is None):
            raise busy(max(1, round(self._last_seconds * (1 + len(self._jobs)))))
        self.book.add(job)
        self._jobs.append(job)
        self._wake.set()

    def place(self, job: Job) -> int:
        """How many jobs are before this one; 0 for one that runs or is over."""
        return self._jobs.index(job) + (self._current is not None) if job in self._jobs else 0

    def cancel(self, job: Job) -> None:
        """Stop a job: at once if it waits, at its next report if it runs, by force if it gives none."""
        if job in self._jobs:
            self._jobs.remove(job)
            job.cancel()
        elif job is self._current and not self._cancelling:
            self._cancelling = True
            self._inbox.put_nowait(_Cancel(job))

    async def ask(self, job: Job, facts: Mapping[str, Any]) -> Frame:
        """Ask the worker something about a finished job; returns its `result`, or raises `Refused`."""
        if len(self._questions) >= MOST_QUESTIONS:
            raise busy(max(1, round(self._last_seconds)))
        question = Question(job, facts)
        self._questions.append(question)
        self._wake.set()
        try:
            frame = await question.answer
        finally:
            if question in self._questions:
                self._questions.remove(question)
        if frame.kind == "failed":
            raise Refused(int(frame.facts["status"]), str(frame.facts["error"]))
        return frame

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            trouble = await self._trouble_with_worker()
            if self._questions:
                question = self._questions.popleft()
                frame = trouble or await self._converse(question.job, Frame("question", question.facts))
                if not question.answer.done():
                    question.answer.set_result(frame)
            elif self._jobs:
                job = self._current = self._jobs.popleft()
                self._cancelling = False
                job.start()
                self._settle(job, trouble or await self._converse(job, Frame("explain")))
                self._current = None
            else:
                self._wake.clear()

    def _settle(self, job: Job, frame: Frame) -> None:
        if self._cancelling:
            job.cancel()
        elif frame.kind == "result":
            job.finish(frame.facts, frame.parts)
            self._last_seconds = job.seconds
        else:
            job.fail(int(frame.facts["status"]), str(frame.facts["error"]))
        self.book.trim()

    async def _converse(self, job: Job, frame: Frame) -> Frame:
        """Send one request to the worker and return its last word; what goes wrong with the worker becomes `failed`."""
        worker = self._worker
        assert worker is not None
        request = Frame(frame.kind, {**frame.facts, "id": job.id}, {"request": job.request})
        await asyncio.to_thread(worker.send, request)
        deadline = time.monotonic() + self.settings.timeout
        while True:
            try:
                message = await asyncio.wait_for(self._inbox.get(), max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                await self._discard_worker()
                return _failed(
                    504,
                    f"The explanation took longer than {self.settings.timeout:g} seconds and was stopped. "
                    "Try a shorter text or a cheaper method.",
                )
            if message is None:
                await self._discard_worker()
                return _failed(
                    500,
                    "The process that computes ended unexpectedly and is being started again. Often that means too "
                    "little memory: try a shorter text or fewer methods.",
                )
            if isinstance(message, _Cancel):
                if message.job is job:
                    worker.send(Frame("cancel", {"id": job.id}))
                    deadline = min(deadline, time.monotonic() + self.settings.grace)
            elif message.facts["id"] == job.id and message.kind == "progress":
                if not job.over:  # else it is a question about it that makes progress
                    job.advance(Progress(message.facts["stage"], message.facts["done"], message.facts["total"]))
            elif message.facts["id"] == job.id:
                return message

    async def _trouble_with_worker(self) -> Frame | None:
        """Start a worker, with its models, if the last one is gone; return what to answer if that fails."""
        if self._worker is not None and not self._worker.alive:
            await self._discard_worker()
        if self._worker is None:
            try:
                worker = await asyncio.to_thread(WorkerProcess(self.settings).start)
            except SightlineError as error:
                return _failed(503, str(error))
            except (OSError, EOFError) as error:
                reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
                return _failed(503, f"The process that computes cannot be started ({reason}). Try again later.")
            self._listen(worker)
            self._worker = worker
        return None

    async def _discard_worker(self) -> None:
        """End the worker; the loop of `_run` starts another. Messages under way go to an inbox that nobody reads."""
        worker, self._worker = self._worker, None
        self._inbox = asyncio.Queue()
        if worker is not None:
            await asyncio.to_thread(worker.stop)

    def _listen(self, worker: WorkerProcess) -> None:
        inbox: asyncio.Queue[Frame | _Cancel | None] = asyncio.Queue()
        self._inbox = inbox
        loop = asyncio.get_running_loop()

        def deliver(frame: Frame | None) -> None:
            inbox.put_nowait(frame)
            if frame is None:
                self._wake.set()  # a worker that dies while idle is replaced at once

        def receive(frame: Frame | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed already when the process ends
                loop.call_soon_threadsafe(deliver, frame)

        worker.listen(receive)


def _failed(status: int, sentence: str) -> Frame:
    return Frame("failed", {"status": status, "error": sentence})
