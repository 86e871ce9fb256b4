"""Engines compute the units of a run: in this process, in processes of this machine, or on a Ray cluster.

`LocalEngine` has a pool of processes on this machine, each with its own model and one thread. Processes are started
with `spawn`, which inherits no locks and no threads of the parent. A process that dies is replaced and its unit is
started again (`UnitWorker` finds the document that caused it). A process that has grown too large is replaced as well.
When the parent dies, however it dies, its workers end.

`RayEngine` computes units on a Ray cluster with Ray Data, which does scheduling, retries and autoscaling. Every unit is
a row of a Ray data set; `map_batches` runs an actor class on it, whose actors load the model once. Actors read and
write the folder of the run, which all machines of the cluster must see under the same path. An actor that dies is
replaced by Ray and its unit is started again; `UnitWorker` then skips the document that caused it.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any, Protocol

from sightline.api.model import Model
from sightline.corpus.compute import Job, Outcome, UnitWorker
from sightline.errors import ModelError, OptionError, SightlineError, UsageError
from sightline.files.children import Channel, Child, Message, wait_for_messages
from sightline.registry import suggestion
from sightline.settings.extras import require
from sightline.settings.values import check_count

ENGINES = ("local", "ray")


class Engine(Protocol):
    """Computes units in any order; each unit's files are complete when its outcome is yielded."""

    def compute(self, job: Job, units: Sequence[str]) -> Iterator[Outcome]:
        """Yield the outcome of every unit as it is finished."""


class InlineEngine:
    """Computes units in this process, with a model that is already loaded."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def compute(self, job: Job, units: Sequence[str]) -> Iterator[Outcome]:
        """Yield the outcome of every unit, in order."""
        with closing(UnitWorker(job, self.model)) as worker:
            for unit in units:
                yield worker.compute(unit)


def make_engine(name: str, *, workers: int | None, address: str | None) -> Engine:
    """Return an engine by its name."""
    if workers is not None:
        check_count("workers", workers)
    if name == "local":
        if address is not None:
            raise OptionError("address= is the address of a Ray cluster: choose engine='ray' with it.")
        return LocalEngine(workers)
    if name == "ray":
        return RayEngine(workers, address)
    raise OptionError(f"There is no engine '{name}'.{suggestion(name, list(ENGINES))} Known: {', '.join(ENGINES)}.")


MOST_FAILED_STARTS = 3
"""Number of processes in a row that may die before they have loaded the model."""


class _Worker(Child):
    unit: str | None = None
    """The unit that is being computed."""
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


_PATIENCE = 5.0
"""Seconds within which a cluster must answer."""


class RayEngine:
    """Computes units with `workers` actors (by default one per CPU of the cluster) at `address`, or locally."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self.workers = workers
        self.address = address

    def compute(self, job: Job, units: Sequence[str]) -> Iterator[Outcome]:
        """Yield the outcome of every unit as it is finished."""
        ray = _import_ray()
        started = not ray.is_initialized()
        if started:
            _connect(ray, self.address, self.workers)
        try:
            yield from self._outcomes(ray, job, units)
        finally:
            if started:
                ray.shutdown()

    def _outcomes(self, ray: Any, job: Job, units: Sequence[str]) -> Iterator[Outcome]:
        workers = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        rows = ray.data.from_items([{"unit": unit} for unit in units], override_num_blocks=len(units))
        outcomes = rows.map_batches(
            _UnitActor,
            fn_constructor_args=(job,),
            batch_size=1,
            batch_format="pandas",
            concurrency=min(workers, len(units)),
            num_cpus=1,
        )
        try:
            for row in outcomes.iter_rows():
                yield Outcome(str(row["unit"]), int(row["documents"]), int(row["failed"]), float(row["cpu_seconds"]))
        except ray.exceptions.RayError as error:
            raise _find_own_error(error) from error


class _UnitActor:
    """What runs on the cluster: a worker that computes the units in its batches."""

    def __init__(self, job: Job) -> None:
        import torch

        torch.set_num_threads(1)
        self._worker = UnitWorker(job)

    def __call__(self, batch: Any) -> Any:
        import pandas as pd

        return pd.DataFrame([asdict(self._worker.compute(unit)) for unit in batch["unit"]])


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    require("ray.data", "ray", "The engine 'ray'", instead="or use engine='local'")
    import ray

    return ray


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    """Connect to a cluster, or start one on this machine."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        ray.init(num_cpus=workers, include_dashboard=False, **quiet)
        return
    _check_reachable(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UsageError(f"No Ray cluster can be reached at '{address}': {reason}.") from None


def _check_reachable(address: str) -> None:
    """Raise UsageError if nothing listens at HOST:PORT; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # "auto", or another form that Ray checks
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"No Ray cluster can be reached at '{address}': {reason}.") from None


def _find_own_error(error: Exception) -> Exception:
    """Return the SightlineError that a worker raised, or else the error of Ray."""
    cause: BaseException | None = error
    while cause is not None:
        inner = getattr(cause, "cause", None)
        if isinstance(inner, SightlineError):
            return inner
        cause = inner if isinstance(inner, BaseException) else cause.__cause__
    return error
