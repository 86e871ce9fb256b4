"""UnitWorker: computes work units in a process that loads the model once. All engines run this.

A document that fails is recorded with its error. A document that kills its process (out of memory, a crash in native
code) cannot record anything, so the worker logs each document in a file before it starts; when a unit is started again
in the same run, a document that was started twice and never finished is skipped and recorded.
"""

from __future__ import annotations

import gc
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.api.model import Model
from sightline.corpus.compute import UnitTables, explain_document, score_columns
from sightline.corpus.folder import RunFolder
from sightline.corpus.plan import PlannedDocument, read_documents
from sightline.corpus.settings import ModelSource, RunSettings
from sightline.errors import SightlineError, UsageError
from sightline.files.foreign import check_regular
from sightline.files.processes import exempt_loaded_objects, release_memory, resident_bytes

MOST_DEATHS = 2
"""How often a process may die while explaining a document before the document is skipped."""
MOST_WRITING_DEATHS = 5
_WRITING = -1
"""Logged instead of a document while the tables of a unit are written."""
_FIRST_LINE = re.compile(rb"run [0-9a-f]+\n")
KILLED = "killed"
"""The kind of error recorded for a document that was skipped."""
_GROWTH = 1.25
_ALLOWANCE = 256 * 2**20


@dataclass(frozen=True)
class Job:
    """What every worker of a run needs."""

    folder: str
    model: ModelSource
    settings: RunSettings
    run: str
    """Distinguishes the logs of this run from those of earlier ones."""


@dataclass(frozen=True)
class Outcome:
    """The result of computing a unit."""

    unit: str
    documents: int
    """Documents computed."""
    failed: int
    """Documents that failed."""
    cpu_seconds: float
    """Computing time, with that of reading and writing the files."""
    worn: bool = False
    """Whether the process occupies much more memory than at first and should be replaced."""


class UnitWorker:
    """Computes units one after the other."""

    def __init__(self, job: Job, model: Model | None = None) -> None:
        self.job = job
        self.folder = RunFolder(job.folder)
        self.model = job.model.load() if model is None else model
        self._first_size: int | None = None
        exempt_loaded_objects()

    def close(self) -> None:
        """Undo what concerns the whole process; necessary only if the process goes on with something else."""
        gc.unfreeze()

    def compute(self, unit: str) -> Outcome:
        """Compute a unit, write its tables, and return the outcome."""
        start = time.process_time()
        note = _AttemptLog(self.folder.storage.attempt_log(self.job.run, unit), self.job.run)
        deaths = note.deaths()
        results = UnitTables(tuple(score_columns(self.job.settings, self.model.labels).values()))
        documents = read_documents(self.folder, unit)
        for document in documents:
            if deaths[document.document] >= MOST_DEATHS:
                results.add_error(document, KILLED, f"The process ended {MOST_DEATHS} times while explaining it.")
                continue
            note.begin(document.document)
            self._explain(document, results)
            note.end(document.document)
        if deaths[_WRITING] >= MOST_WRITING_DEATHS:
            raise UsageError(
                f"The process ended {MOST_WRITING_DEATHS} times while writing unit {unit} to '{self.folder.path}'."
            )
        note.begin(_WRITING)
        self.folder.write_unit(unit, results.build())
        note.remove()
        failed = len(results.rows["errors"])
        del results
        release_memory()
        return Outcome(unit, len(documents) - failed, failed, time.process_time() - start, self._has_grown())

    def _explain(self, document: PlannedDocument, results: UnitTables) -> None:
        try:
            explain_document(self.model, document, self.job.settings, results)
        except Exception as error:
            results.add_error(document, type(error).__name__, _describe_error(error))

    def _has_grown(self) -> bool:
        size = resident_bytes()
        self._first_size = self._first_size or size
        return size > _GROWTH * self._first_size + _ALLOWANCE


class _AttemptLog:
    """A log of the documents that were started and finished in one run; removed when the unit is complete."""

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self._first_line = f"run {run}\n"

    def deaths(self) -> Counter[int]:
        """Return how often each document was started and never finished; begin a new log if there is none."""
        counts: Counter[int] = Counter()
        check_regular(self.path, UsageError)
        first = self._read_beginning()
        if first and not _FIRST_LINE.fullmatch(first):
            raise UsageError(f"'{self.path}' was not written by Sightline and would be replaced. Move it.")
        if first != self._first_line.encode():  # there is none, or that of an earlier run
            self.path.write_text(self._first_line)
            return counts
        for line in self.path.read_text().splitlines()[1:]:
            word, _, number = line.partition(" ")
            counts[int(number)] += 1 if word == "begin" else -1
        return counts

    def _read_beginning(self) -> bytes:
        """Return as many bytes as the first line has; none if there is no log."""
        if not self.path.exists():
            return b""
        with self.path.open("rb") as file:
            return file.read(len(self._first_line))

    def begin(self, document: int) -> None:
        """Log that a document is started."""
        self._add(f"begin {document}")

    def end(self, document: int) -> None:
        """Log that a document is finished."""
        self._add(f"end {document}")

    def _add(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")

    def remove(self) -> None:
        """Delete the log."""
        self.path.unlink(missing_ok=True)


def _describe_error(error: Any) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, SightlineError) else f"{type(error).__name__}: {text[:500]}"
