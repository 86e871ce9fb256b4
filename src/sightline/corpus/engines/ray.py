"""RayEngine: compute units on a Ray cluster with Ray Data, which does scheduling, retries and autoscaling.

Every unit is a row of a Ray data set; `map_batches` runs an actor class on it, whose actors load the model once. Actors
read and write the folder of the run, which all machines of the cluster must see under the same path. An actor that dies
is replaced by Ray and its unit is started again; `UnitWorker` then skips the document that caused it.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sightline.corpus.unit_worker import Job, Outcome, UnitWorker
from sightline.errors import SightlineError, UsageError
from sightline.settings.extras import require

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
