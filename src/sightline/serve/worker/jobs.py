"""Jobs: what was asked, how far it is, what came of it. All of it lives in the server's memory, and is bounded."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True)
class Progress:
    """How far a running job is; `total` is 0 when it is not known beforehand."""

    stage: str = ""
    done: int = 0
    total: int = 0


@dataclass(eq=False)
class Job:
    """One request for an explanation. Changed only on the event loop."""

    request: bytes
    """The validated request as JSON."""
    model: str
    methods: list[str]
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Not guessable: whoever knows it may read the result."""
    status: Status = "queued"
    progress: Progress = field(default_factory=Progress)
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, bytes] = field(default_factory=dict)
    """What the worker answered, by name."""
    error: str | None = None
    error_status: int = 500
    started: float | None = None
    ended: float | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ("done", "failed", "cancelled")

    @property
    def seconds(self) -> float:
        """How long it has run."""
        if self.started is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.started

    @property
    def nbytes(self) -> int:
        """Memory the job holds."""
        return len(self.request) + sum(len(part) for part in self.parts.values())

    def start(self) -> None:
        """The worker has begun."""
        self.status, self.started = "running", time.monotonic()
        self._tell()

    def advance(self, progress: Progress) -> None:
        """The worker is further."""
        self.progress = progress
        self._tell()

    def finish(self, facts: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        """The worker has answered."""
        self.facts, self.parts = facts, parts
        self._end("done")

    def fail(self, status: int, sentence: str) -> None:
        """It will not be answered; `status` is the HTTP status that says why."""
        self.error, self.error_status = sentence, status
        self._end("failed")

    def cancel(self) -> None:
        """Somebody no longer wants it."""
        self.error, self.error_status = "This job was cancelled.", 409
        self._end("cancelled")

    async def change(self) -> None:
        """Wait until something has changed; returns at once if the job is over."""
        if not self.over:
            await self._changed.wait()

    async def end(self) -> None:
        """Wait until the job is over."""
        while not self.over:
            await self.change()

    def _end(self, status: Status) -> None:
        self.status, self.ended = status, time.monotonic()
        self._tell()

    def _tell(self) -> None:
        # Everyone who waits holds the old event; whoever asks from now on waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()


class JobBook:
    """All jobs that can still be asked about: those under way and the latest finished ones."""

    def __init__(self, kept_jobs: int, kept_bytes: int) -> None:
        self._kept_jobs = kept_jobs
        self._kept_bytes = kept_bytes
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        """Enter a job and forget finished ones that no longer fit."""
        self._jobs[job.id] = job
        self.trim()

    def find(self, job: str) -> Job | None:
        """Return the job, if it is still known, and keep it longer for having been asked for."""
        found = self._jobs.get(job)
        if found is not None:
            self._jobs.move_to_end(job)
        return found

    def trim(self) -> None:
        """Forget the finished jobs that nobody asked about for longest, until the rest fits; the latest stays."""
        over = [job for job in self._jobs.values() if job.over]
        held = sum(job.nbytes for job in over)
        while len(over) > 1 and (len(over) > self._kept_jobs or held > self._kept_bytes):
            oldest = over.pop(0)
            held -= oldest.nbytes
            del self._jobs[oldest.id]
