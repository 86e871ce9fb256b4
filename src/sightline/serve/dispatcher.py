"""Jobs, and the dispatcher: it sends queued ones to the worker one at a time and replaces a worker that has ended.

Everything here runs on the event loop, except for starting, stopping and writing to a process, which run in threads.
Questions (for example, a tile of an attention map) are short and are answered before the next queued job starts.
Jobs (request, progress and result of each explanation) live in the memory of the server, within fixed bounds.
."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sightline.errors import SightlineError
from sightline.files.children import Message
from sightline.serve.process import WorkerProcess
from sightline.serve.refusal import Refusal, queue_full
from sightline.settings.serving import ServerLimits

JobKind = Literal["explanation", "continuation"]
JobStatus = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True)
class JobProgress:
    """Progress of a running job; `total` is 0 when unknown."""

    stage: str = ""
    done: int = 0
    total: int = 0


@dataclass(eq=False)
class Job:
    """One request for an explanation. Modified only on the event loop."""

    request: bytes
    """The validated request as JSON."""
    model: str
    methods: list[str]
    kind: JobKind = "explanation"
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """A random secret: everyone who knows it may read the result."""
    status: JobStatus = "queued"
    progress: JobProgress = field(default_factory=JobProgress)
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, bytes] = field(default_factory=dict)
    """The byte strings of the worker's answer, by name."""
    error: str | None = None
    error_status: int = 500
    started: float | None = None
    ended: float | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        """Whether the job has reached its final status."""
        return self.status in ("done", "failed", "cancelled")

    @property
    def seconds(self) -> float:
        """How long the job has run, or ran."""
        if self.started is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.started

    @property
    def nbytes(self) -> int:
        """Bytes held by the request and the result."""
        return len(self.request) + sum(len(part) for part in self.parts.values())

    def start(self) -> None:
        """Mark the job as running."""
        self.status, self.started = "running", time.monotonic()
        self._notify()

    def advance(self, progress: JobProgress) -> None:
        """Record progress."""
        self.progress = progress
        self._notify()

    def finish(self, facts: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        """Store the worker's answer."""
        self.facts, self.parts = facts, parts
        self._end("done")

    def fail(self, status: int, sentence: str) -> None:
        """End the job with an error sentence and the HTTP status to answer with."""
        self.error, self.error_status = sentence, status
        self._end("failed")

    def cancel(self) -> None:
        """End the job because it was cancelled."""
        self.error, self.error_status = "This job was cancelled.", 409
        self._end("cancelled")

    async def wait_for_change(self) -> None:
        """Wait until something changes; return at once if the job is over."""
        if not self.over:
            await self._changed.wait()

    async def wait_until_over(self) -> None:
        """Wait until the job is over."""
        while not self.over:
            await self.wait_for_change()

    def _end(self, status: JobStatus) -> None:
        self.status, self.ended = status, time.monotonic()
        self._notify()

    def _notify(self) -> None:
        # Current waiters hold the old event; later ones wait for the next change.
        self._changed.set()
        self._changed = asyncio.Event()


class JobStore:
    """All unfinished jobs and the most recently used finished ones."""

    def __init__(self, kept_jobs: int, kept_bytes: int) -> None:
        self._kept_jobs = kept_jobs
        self._kept_bytes = kept_bytes
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        """Add a job and drop finished ones that no longer fit."""
        self._jobs[job.id] = job
        self.trim()

    def find(self, id: str) -> Job | None:
        """Return the job with this id, or None, and mark it as recently used."""
        job = self._jobs.get(id)
        if job is not None:
            self._jobs.move_to_end(id)
        return job

    def trim(self) -> None:
        """Drop the least recently used finished jobs until the rest fits; the latest always stays."""
        finished = [job for job in self._jobs.values() if job.over]
        total_bytes = sum(job.nbytes for job in finished)
        while len(finished) > 1 and (len(finished) > self._kept_jobs or total_bytes > self._kept_bytes):
            oldest = finished.pop(0)
            total_bytes -= oldest.nbytes
            del self._jobs[oldest.id]


MAX_QUESTIONS = 64
INITIAL_RETRY_SECONDS = 5.0
"""Suggested delay before a retry while no job has been timed yet."""


@dataclass(eq=False)
class Question:
    """A short query about a finished job."""

    job: Job
    facts: Mapping[str, Any]
    parts: Mapping[str, bytes] = field(default_factory=dict)
    """Bytes that the worker needs besides the request."""
    answer: asyncio.Future[Message] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, eq=False)
class _Cancel:
    """Put into the inbox to cancel the running job."""

    job: Job


class Dispatcher:
    """The queue, the worker, and all known jobs."""

    def __init__(self, settings: ServerLimits, worker: WorkerProcess) -> None:
        self.settings = settings
        self.job_store = JobStore(settings.kept_jobs, settings.kept_bytes)
        self.catalogue = worker.catalogue
        models, methods = (json.loads(worker.catalogue[kind]) for kind in ("models", "methods"))
        self.default_methods: dict[str, list[str]] = {entry["name"]: entry["default_methods"] for entry in models}
        """Model -> the methods of a request that names none."""
        self.model_names, self.method_names = list(self.default_methods), [str(entry["name"]) for entry in methods]
        self._worker: WorkerProcess | None = worker
        self._inbox: asyncio.Queue[Message | _Cancel | None] = asyncio.Queue()
        self._jobs: deque[Job] = deque()
        self._questions: deque[Question] = deque()
        self._wake = asyncio.Event()
        self._current: Job | None = None
        self._cancelling = False
        self._last_seconds = INITIAL_RETRY_SECONDS
        self._worker_exchanges = 0
        self.streams = 0
        """Open event streams."""
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Number of queued jobs."""
        return len(self._jobs)

    @property
    def current(self) -> Job | None:
        """The running job, if any."""
        return self._current

    @property
    def ready(self) -> bool:
        """Whether a worker is available; false while one is being started."""
        return self._worker is not None

    def start(self) -> None:
        """Start dispatching; requires a running event loop."""
        assert self._worker is not None
        self._listen(self._worker)
        self._task = asyncio.create_task(self._run())

    def end_jobs(self) -> None:
        """Fail all unfinished jobs, so that clients waiting for them are answered."""
        for job in (self._current, *self._jobs):
            if job is not None and not job.over:
                job.fail(503, "The server is being stopped.")

    async def stop(self) -> None:
        """Stop dispatching and stop the worker."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self.end_jobs()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.stop)

    def submit(self, job: Job) -> None:
        """Queue a job; raise `Refusal` if the queue is full."""
        if len(self._jobs) >= self.settings.queue + (self._current is None):
            raise queue_full(max(1, round(self._last_seconds * (1 + len(self._jobs)))))
        self.job_store.add(job)
        self._jobs.append(job)
        self._wake.set()

    def place(self, job: Job) -> int:
        """Return the number of jobs ahead of this one; 0 if it is running or over."""
        return self._jobs.index(job) + (self._current is not None) if job in self._jobs else 0

    def cancel(self, job: Job) -> None:
        """Cancel a job: at once if queued, at its next progress report if running, by force if it reports none."""
        if job in self._jobs:
            self._jobs.remove(job)
            job.cancel()
        elif job is self._current and not self._cancelling:
            self._cancelling = True
            self._inbox.put_nowait(_Cancel(job))

    async def ask(self, job: Job, facts: Mapping[str, Any], parts: Mapping[str, bytes] | None = None) -> Message:
        """Return the worker's answer to a question about a finished job; raise `Refusal` if it fails.

        `parts` are sent with the question.
        """
        if len(self._questions) >= MAX_QUESTIONS:
            raise queue_full(max(1, round(self._last_seconds)))
        question = Question(job, facts, parts or {})
        self._questions.append(question)
        self._wake.set()
        try:
            message = await question.answer
        finally:
            if question in self._questions:
                self._questions.remove(question)
        if message.kind == "failed":
            raise Refusal(int(message.facts["status"]), str(message.facts["error"]))
        return message

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            failure = await self._ensure_worker()
            if self._questions:
                question = self._questions.popleft()
                message = failure or await self._exchange(question.job, "question", question.facts, question.parts)
                if not question.answer.done():
                    question.answer.set_result(message)
            elif self._jobs:
                job = self._current = self._jobs.popleft()
                self._cancelling = False
                job.start()
                self._finish(job, failure or await self._exchange(job, "explain", {}, {}))
                self._current = None
            else:
                self._wake.clear()

    def _finish(self, job: Job, message: Message) -> None:
        if self._cancelling:
            job.cancel()
        elif message.kind == "result":
            job.finish(message.facts, message.parts)
            self._last_seconds = job.seconds
        else:
            job.fail(int(message.facts["status"]), str(message.facts["error"]))
        self.job_store.trim()

    async def _exchange(self, job: Job, kind: str, facts: Mapping[str, Any], parts: Mapping[str, bytes]) -> Message:
        """Send one request to the worker and return its final message; a worker that ends or hangs gives `failed`."""
        worker = self._worker
        assert worker is not None
        request = Message(kind, {**facts, "id": job.id}, {"request": job.request, **parts})
        self._worker_exchanges += 1
        worker.post(request)
        deadline = time.monotonic() + self.settings.timeout
        while True:
            try:
                message = await asyncio.wait_for(self._inbox.get(), max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                await self._discard_worker()
                return _failure(
                    504,
                    f"The explanation took longer than {self.settings.timeout:g} seconds and was stopped. "
                    "Try a shorter text or a cheaper method.",
                )
            if message is None:
                await self._discard_worker()
                return _failure(
                    500,
                    "The worker process ended unexpectedly and is being restarted, most often because memory ran out. "
                    "Try a shorter text or fewer methods.",
                )
            if isinstance(message, _Cancel):
                if message.job is job:
                    worker.post(Message("cancel", {"id": job.id}))
                    deadline = min(deadline, time.monotonic() + self.settings.grace)
            elif message.facts["id"] == job.id and message.kind == "progress":
                if not job.over:  # otherwise the progress is that of a question about it
                    job.advance(JobProgress(message.facts["stage"], message.facts["done"], message.facts["total"]))
            elif message.facts["id"] == job.id:
                return message

    async def _ensure_worker(self) -> Message | None:
        """Start a worker if there is none; return None, or a `failed` message if it cannot be started."""
        if self._worker is not None and (not self._worker.alive or self._worker_is_spent):
            await self._discard_worker()
        if self._worker is None:
            try:
                worker = await asyncio.to_thread(WorkerProcess(self.settings).start)
            except SightlineError as error:
                return _failure(503, str(error))
            except (OSError, EOFError) as error:
                reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
                return _failure(503, f"The worker process cannot be started ({reason}). Try again later.")
            self._listen(worker)
            self._worker = worker
        return None

    @property
    def _worker_is_spent(self) -> bool:
        """Whether the worker has run its maximum number of jobs and is replaced before the next; queued jobs wait."""
        return 0 < self.settings.worker_jobs <= self._worker_exchanges

    async def _discard_worker(self) -> None:
        """Stop the worker; `_run` starts another. Messages still in transit go to an abandoned inbox."""
        worker, self._worker = self._worker, None
        self._inbox = asyncio.Queue()
        if worker is not None:
            await asyncio.to_thread(worker.stop)

    def _listen(self, worker: WorkerProcess) -> None:
        inbox: asyncio.Queue[Message | _Cancel | None] = asyncio.Queue()
        self._inbox = inbox
        self._worker_exchanges = 0
        loop = asyncio.get_running_loop()

        def deliver(message: Message | None) -> None:
            inbox.put_nowait(message)
            if message is None:
                self._wake.set()  # replace a worker that ended while idle at once

        def receive(message: Message | None) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop may already be closed
                loop.call_soon_threadsafe(deliver, message)

        worker.listen(receive)


def _failure(status: int, sentence: str) -> Message:
    return Message("failed", {"status": status, "error": sentence})
