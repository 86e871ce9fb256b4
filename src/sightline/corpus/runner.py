"""run: explain a whole data set, unit by unit, so that a run that is stopped or killed can be resumed.

    sl.run("tickets.csv", "my-model", methods=["attcat", "rollout"], out="explained")
    store = sl.open_run("explained")

The same call resumes a run, and a larger limit extends it. Finished documents are never computed again; a changed
model, setting or data file raises an error that names the difference.

Progress is reported as a `RunProgress`; the command line shows it as a bar, or in logs as one line per minute.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.api.model import Model
from sightline.corpus import manifest as manifests
from sightline.corpus.compute import Job, score_columns
from sightline.corpus.engines import Engine, InlineEngine, make_engine
from sightline.corpus.plan import Plan, read_plan, write_plan
from sightline.corpus.run_storage import MANIFEST, RunFolder
from sightline.corpus.settings import MEASURES, PREDICTED, Measure, ModelSource, RunSettings
from sightline.corpus.streaming import Row, Selection, stream_examples
from sightline.errors import InputError, OptionError, UsageError
from sightline.files.ownership import not_empty
from sightline.methods import METHODS, method_name
from sightline.models import ALL
from sightline.models.classes import Label, classes_of
from sightline.models.target import class_index, parse_target
from sightline.settings.explain import DEFAULT_METHODS
from sightline.settings.names import MethodName
from sightline.text import as_examples

if TYPE_CHECKING:
    from sightline.corpus.store import Store

Report = Callable[["RunProgress"], None]


@dataclass
class RunProgress:
    """The progress of a run, which `run` passes to `progress` after every unit, and before the first if it resumes."""

    total: int
    """Distinct documents of the data set."""
    before: int
    """Documents that were computed before this run was started or resumed."""
    done: int = 0
    """Documents computed since then, failed ones included."""
    failed: int = 0
    """Documents that failed since then."""
    cpu_seconds: float = 0.0
    """Computing time of the workers since then, without loading the model."""
    started: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Documents per second since the start; 0 before the first."""
        elapsed = time.monotonic() - self.started
        return self.done / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end at the rate so far; None before the first document."""
        return (self.total - self.before - self.done) / self.rate if self.done else None

    def line(self) -> str:
        """Return everything in one line: "120 of 5,000 documents, 4.1 per second, 20 min left, 2 failed"."""
        parts = [f"{self.before + self.done:,} of {self.total:,} documents"]
        if self.done:
            parts.append(f"{self.rate:.2g} per second")
        if self.seconds_left:
            parts.append(f"{_duration(self.seconds_left)} left")
        parts.append(f"{self.failed:,} failed")
        return ", ".join(parts)

    def first_line(self) -> str:
        """Return what was done before a run was resumed: "Resumed: 120 of 5,000 documents were explained before."."""
        if self.before == self.total:
            return f"Nothing to do: all {self.total:,} documents were explained before."
        return f"Resumed: {self.before:,} of {self.total:,} documents were explained before."


class EveryMinute:
    """Calls `write` with a line at most once per `seconds`."""

    def __init__(self, write: Callable[[str], None], seconds: float = 60.0) -> None:
        self._write = write
        self._seconds = seconds
        self._last = time.monotonic()

    def __call__(self, progress: RunProgress) -> None:
        """Write the line if it is due."""
        if time.monotonic() - self._last >= self._seconds:
            self._last = time.monotonic()
            self._write(progress.line())


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def run(
    data: Any,
    model: str | Path | ModelSource | Model | None = None,
    methods: Sequence[MethodName] | None = None,
    *,
    out: str | Path,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    target: str | int | tuple[int | str, int | str] = PREDICTED,
    measures: Sequence[Measure] = MEASURES,
    check: bool = False,
    check_readings: int | None = None,
    selection: Selection | None = None,
    retry_failed: bool = False,
    progress: Callable[[RunProgress], None] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> Store:
    """Explain every document of a data set and return the store; the same call again resumes the run.

    With a larger limit in `selection`, the rows that follow are added to the run.

    data: a file, a folder, hf://name, or rows in memory (a DataFrame, a list of texts or of examples).
    model: a folder or hub id, which every worker loads (`ModelSource` for further arguments of `load`), or a loaded
    `Model`, which then works alone in this process.
    methods: by default the `default_methods` of the model.
    out: the folder of the run, or the URI of an object store such as s3://bucket/run.
    engine: "local" uses processes on this machine, "ray" actors on a Ray cluster.
    workers: number of processes or actors.
    address: address of the Ray cluster; without it, one is started for the run.
    target: "predicted", a class or a contrast (A, B), also written "A:B", for all documents, or "all" classes.
    measures: what is measured of attention.
    check: compare every explanation with random orders of the words.
    check_readings: the most model calls per check.
    selection: fields, conditions, limit and sample.
    retry_failed: compute failed documents again.
    options: options by method.
    settings: the other fields of `RunSettings`.

    Examples
    --------
    >>> import sightline as sl
    >>> texts = ["A neural network learns from data.", "The compiler checks types."]
    >>> store = sl.run(texts, sl.load(), methods=["attcat"], out="explained")
    >>> store.documents()["prediction"].tolist()
    ['artificial intelligence', 'programming languages']
    >>> sl.open_run("explained").methods
    ('attcat',)
    """
    if isinstance(methods, str):
        methods = (method_name(methods),)
    chosen = RunSettings(
        methods=DEFAULT_METHODS if methods is None else tuple(methods),
        options=options or {},
        target=target,
        measures=tuple(measures),
        check=check,
        check_readings=check_readings,
        **settings,
    )
    selection = selection or Selection()
    source = _model_source(model)
    workforce: Engine
    if isinstance(model, Model):
        if engine != "local" or workers not in (None, 1):
            raise OptionError("A loaded model works in this process only; give its folder to use several workers.")
        workforce = InlineEngine(model)
    else:
        workforce = make_engine(engine, workers=workers, address=address)
    if not isinstance(data, str | Path):
        data = as_examples(data, text=selection.text, pair=selection.pair, label=selection.label)
    folder = RunFolder(out)
    if folder.only_in_this_process and not isinstance(model, Model):
        raise OptionError(f"Workers cannot see '{out}', which exists in this process only: give a loaded model.")
    _check_own(folder, manifests.read_manifest(folder))  # before the lock, which is a file in the folder
    with folder.storage.lock():
        loaded = model if isinstance(model, Model) else source.load()
        if methods is None:
            chosen = replace(chosen, methods=loaded.default_methods)
        chosen = replace(chosen, target=parse_target(chosen.target, loaded.labels))
        _check_request(loaded, chosen)
        plan = _prepare(folder, loaded, data, selection, chosen)
        del loaded  # workers load their own
        if retry_failed:
            for unit in folder.units_with("errors", plan.units):
                folder.remove_unit(unit)
        finished = folder.finished_units(plan.units)
        sizes = dict(zip(plan.units, plan.sizes, strict=True))
        units = [unit for unit in plan.units if unit not in finished]
        state = RunProgress(plan.documents, plan.documents - sum(sizes[unit] for unit in units))
        if state.before and progress is not None:
            progress(state)
        if units:
            job = Job(str(folder.path), source, chosen, secrets.token_hex(4))
            for outcome in workforce.compute(job, units):
                state.done += outcome.documents + outcome.failed
                state.failed += outcome.failed
                state.cpu_seconds += outcome.cpu_seconds
                if progress is not None:
                    progress(state)

    from sightline.corpus.store import Store

    return Store(folder.path)


def _model_source(model: str | Path | ModelSource | Model | None) -> ModelSource:
    if isinstance(model, ModelSource):
        return model
    if model is None or isinstance(model, str | Path | Model):
        return ModelSource(source=str(model) if isinstance(model, str | Path) else None)
    raise InputError(f"A model is a folder, a hub id or a loaded Model, not {type(model).__name__}.")


def _check_request(model: Model, settings: RunSettings) -> None:
    """Raise an error before anything is written if these settings cannot explain any document."""
    for name in settings.methods:
        METHODS.get(name).check_options(dict(settings.options.get(name, {})))
    if unknown := [name for name in settings.options if name not in settings.methods]:
        raise OptionError(f"Options are given for '{unknown[0]}', which is not one of the methods.")
    if settings.target not in (PREDICTED, ALL):
        parts = settings.target if isinstance(settings.target, tuple) else [settings.target]
        for part in parts:
            class_index(part, model.labels)
    columns = list(score_columns(settings, model.labels).values())
    if len({column.casefold() for column in columns}) < len(columns):
        raise OptionError("Two classes have names that differ only in case; explain one class at a time.")


def _prepare(folder: RunFolder, model: Model, data: Any, selection: Selection, settings: RunSettings) -> Plan:
    """Return the plan of the run: the recorded one (after checking that it belongs to the run), extended, or new."""
    recorded = manifests.read_manifest(folder)
    _check_own(folder, recorded)
    before = None
    if recorded is None or recorded["plan"] is None:  # nothing was computed, so any run may start here
        requested = manifests.describe_run(model, manifests.describe_data(data), selection, settings)
        recorded = requested
        manifests.write_manifest(folder, recorded)
    else:
        described = manifests.describe_data(data, recorded["data"])
        requested = manifests.describe_run(model, described, selection, settings)
        manifests.check_same_run(folder, recorded, requested)
        if manifests.add_versions(recorded, requested):
            manifests.write_manifest(folder, recorded)
        before = read_plan(folder, recorded["plan"])
    folder.make()
    if before is not None and not manifests.is_longer_run(recorded, requested):
        return before
    labels: dict[Label | None, None] = {}
    plan = write_plan(folder, _collect_labels(stream_examples(data, selection), labels), settings, before)
    if model.network.task.has_named_classes:
        classes_of(labels, model.labels)  # raises an error if the column mixes names and numbers of classes
    manifests.write_manifest(folder, {**recorded, "selection": requested["selection"], "plan": plan.to_dict()})
    return plan


def _collect_labels(rows: Iterable[Row], labels: dict[Label | None, None]) -> Iterator[Row]:
    """Yield the rows, and add each new label to `labels`, in order."""
    for row in rows:
        if row.example is not None:
            labels[row.example.label] = None
        yield row


def _check_own(folder: RunFolder, recorded: Mapping[str, Any] | None) -> None:
    """Raise UsageError if the folder has no manifest of ours and is not empty."""
    if recorded is None and (names := folder.storage.foreign_names()):
        raise UsageError(f"{not_empty(folder.path, names)}: it has no {MANIFEST} of a run. Choose an empty folder.")
