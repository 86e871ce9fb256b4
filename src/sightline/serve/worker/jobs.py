"""Jobs: request, progress and result of each explanation. They live in the server's memory, within fixed bounds."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
