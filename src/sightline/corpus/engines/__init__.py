"""Engines compute the units of a run: in this process, in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Protocol

from sightline.api.model import Model
from sightline.corpus.unit_worker import Job, Outcome, UnitWorker
from sightline.errors import OptionError
from sightline.registry import suggestion
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
        from sightline.corpus.engines.local import LocalEngine

        if address is not None:
            raise OptionError("address= is the address of a Ray cluster: choose engine='ray' with it.")
        return LocalEngine(workers)
    if name == "ray":
        from sightline.corpus.engines.ray import RayEngine

        return RayEngine(workers, address)
    raise OptionError(f"There is no engine '{name}'.{suggestion(name, list(ENGINES))} Known: {', '.join(ENGINES)}.")
