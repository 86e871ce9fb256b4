"""LocalEngine: a pool of processes on this machine, each with its own model and one thread.

Processes are started with `spawn`, which inherits no locks and no threads of the parent. A process that dies is
replaced and its unit is started again (`UnitWorker` finds the document that caused it). A process that has grown too
large is replaced as well. When the parent dies, however it dies, its workers end.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from sightline.corpus.unit_worker import Job, Outcome, UnitWorker
from sightline.errors import ModelError, SightlineError, UsageError
from sightline.files.children import Channel, Child, Message, wait_for_messages

MOST_FAILED_STARTS = 3
"""Number of processes in a row that may die before they have loaded the model."""


class _Worker(Child):
    unit: str | None = None
    """The unit that it computes."""
    ready = False
    """Whether the model is loaded."""


class LocalEngine:
    """Computes units in `workers` processes; by default one per available core."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or available_cores()

    def compute(self, job: Job, units: Sequence[str]) -> Iterator[Outcome]:
        """Yield the outcome of every unit as it is finished."""
        waiting = deque(units)
        failed_starts = 0
        workers: list[_Worker] = []
        try:
            while waiting or _count_busy(workers):
                while waiting and len(workers) < min(self.workers, len(waiting) + _count_busy(workers)):
                    workers.append(_Worker("sightline-worker", _run_worker, job, one_thread=True).start())
                for worker in workers:
                    if worker.unit is None and waiting:
                        worker.unit = waiting.popleft()
                        worker.send(Message("compute", {"unit": worker.unit}))
                for worker in wait_for_messages(workers):
                    message = worker.receive()
                    if message is None:
                        workers.remove(worker)
                        failed_starts = failed_starts if worker.ready else failed_starts + 1
                        if failed_starts >= MOST_FAILED_STARTS:
                            raise ModelError(
                                f"{failed_starts} worker processes ended before they had loaded the model (exit code "
                                f"{worker.exit_code()}). Is there enough memory? Try fewer workers."
                            )
                        if worker.unit is not None:
                            waiting.appendleft(worker.unit)
                    elif message.kind == "unable":
                        raise message.error()
                    elif message.kind == "ready":
                        worker.ready, failed_starts = True, 0
                    else:
                        worker.unit = None
                        outcome = Outcome(**message.facts)
                        if outcome.worn:
                            workers.remove(worker)
                            worker.stop()
                        yield outcome
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.stop()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count_busy(workers: Sequence[_Worker]) -> int:
    return sum(worker.unit is not None for worker in workers)


def _run_worker(channel: Channel, job: Job) -> None:
    """Compute the received units; runs in a process of its own.

    An error that reaches this function concerns the run, not a document: the model cannot be loaded, the disk is full.
    """
    try:
        import torch

        torch.set_num_threads(1)
        worker = UnitWorker(job)
        channel.send(Message("ready"))
        while (message := channel.receive()) is not None:
            channel.send(Message("outcome", asdict(worker.compute(message.facts["unit"]))))
    except SightlineError as error:
        channel.send(Message.unable(error))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        channel.send(Message.unable(UsageError(f"Cannot compute the run in '{job.folder}': {reason}.")))
