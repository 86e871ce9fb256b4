"""LocalEngine: a pool of processes on this machine, each with its own model and one thread.

Processes are started with `spawn`, which inherits no locks and no threads of the parent. A process that dies is
replaced and its unit is started again (`UnitWorker` finds the document that caused it). A process that has grown too
large is replaced as well. When the parent dies, however it dies, its workers end.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from sightline.corpus.unit_worker import Job, Outcome, UnitWorker
from sightline.errors import ModelError, SightlineError

MOST_FAILED_STARTS = 3
"""Number of processes in a row that may die before they have loaded the model."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class _Failure:
    """An error that concerns the run, not a document: the model cannot be loaded, the disk is full."""

    error: SightlineError | OSError


class _Ready:
    """The model is loaded."""


@dataclass
class _Process:
    process: Any
    connection: Connection
    unit: str | None = None
    ready: bool = False


class LocalEngine:
    """Computes units in `workers` processes; by default one per available core."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or available_cores()

    def compute(self, job: Job, units: Sequence[str]) -> Iterator[Outcome]:
        """Yield the outcome of every unit as it is finished."""
        waiting = deque(units)
        failed_starts = 0
        processes: list[_Process] = []
        try:
            while waiting or any(process.unit is not None for process in processes):
                while (
                    waiting and len(processes) < self.workers and len(processes) < len(waiting) + _count_busy(processes)
                ):
                    processes.append(_start(job))
                for process in processes:
                    if process.unit is None and waiting:
                        process.unit = waiting.popleft()
                        _send(process, process.unit)
                for process in _wait_for_messages(processes):
                    message = _receive(process)
                    if message is None:
                        processes.remove(process)
                        process.process.join()
                        failed_starts = failed_starts if process.ready else failed_starts + 1
                        if failed_starts >= MOST_FAILED_STARTS:
                            raise ModelError(
                                f"{failed_starts} worker processes ended before they had loaded the model (exit code "
                                f"{process.process.exitcode}). Is there enough memory? Try fewer workers."
                            )
                        if process.unit is not None:
                            waiting.appendleft(process.unit)
                    elif isinstance(message, _Failure):
                        raise message.error
                    elif isinstance(message, _Ready):
                        process.ready, failed_starts = True, 0
                    else:
                        process.unit = None
                        if message.worn:
                            processes.remove(process)
                            _stop(process)
                        yield message
        finally:
            for process in processes:
                process.process.kill() if process.unit is not None else _stop(process)
            for process in processes:
                process.process.join()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count_busy(processes: Sequence[_Process]) -> int:
    return sum(process.unit is not None for process in processes)


def _start(job: Job) -> _Process:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run_worker, args=(theirs, job), name="sightline-worker", daemon=True)
    with worker_environment():
        process.start()
    theirs.close()
    return _Process(process, ours)


@contextmanager
def worker_environment() -> Iterator[None]:
    """Start processes with one computing thread each, because two threads on one core are slower than one.

    Before they have the parent's path, they import nothing from the current folder, which may hold foreign files.
    """
    wanted = {**dict.fromkeys(_THREAD_VARIABLES, "1"), "TOKENIZERS_PARALLELISM": "false", "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _wait_for_messages(processes: Sequence[_Process]) -> list[_Process]:
    by_connection: dict[Any, _Process] = {process.connection: process for process in processes}
    return [by_connection[connection] for connection in wait(list(by_connection))]


def _send(process: _Process, message: str | None) -> None:
    with suppress(OSError):  # if it died, the next receive reports it
        process.connection.send(message)


def _receive(process: _Process) -> Outcome | _Failure | _Ready | None:
    """Return the next message of a process, or None if it died."""
    try:
        message: Outcome | _Failure | _Ready = process.connection.recv()
        return message
    except (EOFError, OSError):
        process.connection.close()
        return None


def _stop(process: _Process) -> None:
    _send(process, None)
    process.connection.close()


def _run_worker(connection: Connection, job: Job) -> None:
    """Compute the received units until None is received; runs in a process of its own."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        import torch

        torch.set_num_threads(1)
        worker = UnitWorker(job)
        connection.send(_Ready())
        while (unit := connection.recv()) is not None:
            connection.send(worker.compute(unit))
    except (EOFError, KeyboardInterrupt):
        pass
    except (SightlineError, OSError) as error:
        connection.send(_Failure(error))


def end_with_parent() -> None:
    """Wait in a thread until the parent process has ended, then end this one."""
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
