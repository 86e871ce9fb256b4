"""Compute everything about one document, as table rows: explanations and measures of attention from one shared pass.

Documents run one at a time, not in padded batches: rounding would depend on the rest of a batch, and the results of a
run that was interrupted, or that left out a document, would differ in the last digits.

All engines run a `UnitWorker`, which computes work units in a process that loads the model once. A document that fails
is recorded with its error. A document that kills its process (out of memory, a crash in native code) cannot record
anything, so the worker logs each document in a file before it starts; when a unit is started again in the same run, a
document that was started twice and never finished is skipped and recorded."""

from __future__ import annotations

import gc
import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.analysis.filters import TokenFilter
from sightline.analysis.importance import head_importance_of, normalized_importance
from sightline.analysis.relations import relation_counts
from sightline.analysis.similarity import document_similarity
from sightline.api.model import Model
from sightline.corpus import tables
from sightline.corpus.plan import PlannedDocument, read_documents
from sightline.corpus.run_storage import RunFolder
from sightline.corpus.settings import ModelSource, RunSettings
from sightline.corpus.tables import pa
from sightline.errors import SightlineError, UnsupportedError, UsageError
from sightline.files.foreign import check_regular
from sightline.files.processes import exempt_loaded_objects, release_memory, resident_bytes
from sightline.methods import METHODS, method_name
from sightline.models import ALL
from sightline.passes.trace import Trace
from sightline.results.explanation import Explanation
from sightline.results.explanation_storage import TargetRecord
from sightline.results.records import to_plain
from sightline.text import Encoding
from sightline.text.units import Units, units_of

Rows = list[dict[str, Any]]
ScoreColumns = dict[str, npt.NDArray[Any] | pa.Array]
"""Numbers as numpy arrays, strings as Arrow arrays: a string that cannot be stored fails with its document."""


@dataclass
class UnitTables:
    """The rows of a unit, collected document by document."""

    score_columns: tuple[str, ...]
    rows: dict[str, Rows] = field(default_factory=lambda: {name: [] for name in tables.RESULTS if name != "tokens"})
    tokens: list[ScoreColumns] = field(default_factory=list)
    """The columns of the table of tokens, by document; one table per document would cost more than all of a unit."""

    def add_error(self, document: PlannedDocument, kind: str, message: str) -> None:
        """Record that a document failed."""
        self.rows["errors"].append({"document": document.document, "kind": kind, "error": message})

    def build(self) -> dict[str, pa.Table]:
        """Return all tables."""
        built = {name: pa.Table.from_pylist(rows, schema=tables.SCHEMAS[name]) for name, rows in self.rows.items()}
        return {**built, "tokens": _join_columns(self.tokens, tables.token_schema(self.score_columns))}


def score_columns(settings: RunSettings, labels: tuple[str, ...]) -> dict[tuple[str, str | None], str]:
    """Return the column of scores by method and class; the class is None where all share one column."""
    columns: dict[tuple[str, str | None], str] = {}
    for method in settings.methods:
        if settings.target == ALL and METHODS.get(method).class_specific:
            columns |= {(method, label): f"{method}:{label}" for label in labels}
        else:
            columns[method, None] = method
    return columns


def explain_document(model: Model, document: PlannedDocument, settings: RunSettings, results: UnitTables) -> None:
    """Explain one document and add its rows to `results`; on an error nothing is added."""
    first, second = model.network.task.reading_order(document.text, document.pair)
    encoding = model.encode(first, second, truncate=settings.truncate)
    # Each window has its own attention and heads: they are measured in documents that the model reads at once.
    visible = model.network.sees_inside and encoding.windows is None
    measures = set(settings.measures) if visible else set()
    trace = model.trace(encoding, settings.explained)
    if measures & {"received", "counts", "similarity"}:
        trace.require("attentions")
    importance = _require_importance(trace) if measures & {"heads", "similarity"} else None
    checking: dict[str, Any] = {"check": settings.check, "check_readings": settings.check_readings}
    options: dict[str, Any] = {name: dict(chosen) for name, chosen in settings.options.items()}
    methods = [method_name(name) for name in settings.methods]
    report = model.report(trace, methods, inside=False, **checking, **options)
    explanations = {
        (method, label): explanation
        for method, result in report.explanations.items()
        for label, explanation in ([(None, result)] if isinstance(result, Explanation) else result.items())
    }
    heads = None if importance is None else importance()
    seen = trace.with_target(None) if settings.target == ALL else trace
    words = units_of(encoding, "word")
    rows: dict[str, Rows] = {
        "documents": [_document_row(document, next(iter(explanations.values())), len(words))],
        "explanations": _explanation_rows(document.document, explanations, settings, model.labels),
        "heads": _head_rows(document.document, heads) if heads is not None and "heads" in measures else [],
        "similarity": [],
    }
    if "similarity" in measures:
        rows["similarity"] = _similarity_rows(document.document, seen, explanations, heads, settings)
    tokens = _token_columns(document.document, seen, words, explanations, measures, settings, model.labels)
    for name, new in rows.items():
        results.rows[name] += new
    results.tokens.append(tokens)


def _require_importance(trace: Trace) -> Any:
    """Make the shared pass record the gradients of head weights; return a function that computes raw importance."""
    try:
        trace.require("head_importance")
    except UnsupportedError:
        return None
    if trace.shared.requests[trace.document].target != ALL:
        return lambda: head_importance_of(trace, "raw")
    # For the predicted class, on a graph that is kept for the other classes.
    importance = head_importance_of(trace.with_target(None), "raw")
    trace.shared.keep_graph = False
    return lambda: importance


def _document_row(document: PlannedDocument, explanation: Explanation, words: int) -> dict[str, Any]:
    encoding, prediction = explanation.encoding, explanation.prediction
    return {
        "document": document.document,
        "digest": document.digest,
        "tokens": len(encoding),
        "words": words,
        "dropped": encoding.dropped,
        "windows": None if encoding.windows is None else json.dumps(to_plain(encoding.windows)),
        "prediction": prediction.label,
        "class": prediction.index,
        "probability": prediction.probability,
        "labels": list(prediction.labels),
        "logits": prediction.logits.astype(np.float64).tolist(),
        "probabilities": prediction.probabilities.astype(np.float64).tolist(),
    }


def _explanation_rows(
    document: int,
    explanations: Mapping[tuple[str, str | None], Explanation],
    settings: RunSettings,
    labels: tuple[str, ...],
) -> Rows:
    columns = score_columns(settings, labels)
    return [
        {
            "document": document,
            "method": method,
            "class": explanation.target.name,
            "column": columns.get((method, label), method),
            "signed": explanation.signed,
            "special_share": explanation.checks.get("special_share"),
            "verdict": explanation.verdict.level,
            "matters": explanation.verdict.matters,
            "p_value": explanation.verdict.p_value,
            **{name: explanation.verdict.numbers.get(name) for name in ("fall", "random_mean")},
            "target": json.dumps(TargetRecord.plain(explanation.target)),
            "checks": json.dumps(explanation.checks),
            "options": json.dumps(explanation.options),
            "check": None if explanation.check is None else json.dumps(explanation.check.to_dict()),
        }
        for (method, label), explanation in explanations.items()
    ]


def _head_rows(document: int, importance: npt.NDArray[np.float64]) -> Rows:
    return [
        {"document": document, "layer": layer, "head": head, "importance": float(value)}
        for (layer, head), value in np.ndenumerate(importance)
    ]


def _similarity_rows(
    document: int,
    trace: Trace,
    explanations: Mapping[tuple[str, str | None], Explanation],
    heads: npt.NDArray[np.float64] | None,
    settings: RunSettings,
) -> Rows:
    stop_words = None if settings.stop_words is None else TokenFilter(stop_words=settings.stop_words)
    weights = None if heads is None else normalized_importance(heads, "minmax")
    return [
        {
            "document": document,
            "method": method,
            "class": explanation.target.name,
            "layers": similarity.layers,
            "scaled_by_document": similarity.scaled,
            "masked": similarity.masked,
            "statistic": statistic,
            "value": value,
            "chance": similarity.chance[statistic].mean,
        }
        for (method, _), explanation in explanations.items()
        for similarity in document_similarity(
            trace,
            explanation,
            head_weights=weights,
            by_document=True,
            filter=stop_words,
            permutations=settings.permutations,
            seed=settings.seed,
        )
        for statistic, value in similarity.values.items()
    ]


def _token_columns(
    document: int,
    trace: Trace,
    words: Units,
    explanations: Mapping[tuple[str, str | None], Explanation],
    measures: Set[str],
    settings: RunSettings,
    labels: tuple[str, ...],
) -> ScoreColumns:
    """Return one value per token and column: where it is, which word it belongs to, its attention and its scores."""
    encoding = trace.encoding
    n = len(encoding)
    columns: ScoreColumns = {
        "document": np.full(n, document),
        "position": np.arange(n),
        "id": encoding.ids,
        "type_id": encoding.type_ids,
        "token": pa.array(encoding.tokens, pa.string()),
        "segment": encoding.segments,
        "start": encoding.offsets[:, 0],
        "end": encoding.offsets[:, 1],
        "word": encoding.word_ids,
        **_type_columns(encoding, words),
    }
    if "received" in measures:
        columns["received"] = trace.received.mean(axis=(0, 1))
    if "counts" in measures:
        counts = relation_counts(trace, settings.top_k, distinct=False)
        columns["attended"] = counts.attended.sum(axis=(0, 1))
        columns["attending"] = counts.attending.sum(axis=(0, 1))
    names = score_columns(settings, labels)
    for (method, label), explanation in explanations.items():
        columns[names.get((method, label), method)] = tables.round_to_bits(explanation.scores)
    return columns


def _join_columns(documents: Sequence[ScoreColumns], schema: pa.Schema) -> pa.Table:
    """Return the tokens of all documents as one table, with nulls for whatever a document has no values of."""

    def values(columns: ScoreColumns, field: pa.Field) -> pa.Array:
        if field.name not in columns:
            return pa.nulls(len(columns["document"]), field.type)
        return pa.array(columns[field.name]).cast(field.type)

    joined = {field.name: [values(columns, field) for columns in documents] for field in schema}
    return pa.table({name: pa.chunked_array(parts, schema.field(name).type) for name, parts in joined.items()}, schema)


def _type_columns(encoding: Encoding, words: Units) -> ScoreColumns:
    """Return the columns for sums by word type: the type of each token, and its number of instances in the document."""
    owner = words.of_token
    first_of_word = np.zeros(len(encoding), dtype=bool)
    first_of_word[words.first_tokens] = True
    numbers: dict[str, int] = {}
    type_numbers = np.array([numbers.setdefault(text, len(numbers)) for text in words.types], dtype=np.int64)
    instances = np.bincount(type_numbers, minlength=len(numbers)) if len(words) else np.zeros(0, dtype=np.int64)
    first_of_type = np.zeros(len(encoding), dtype=bool)
    if len(words):
        _, first_words = np.unique(type_numbers, return_index=True)
        first_of_type[words.first_tokens[first_words]] = True
    inside = owner >= 0
    counted = np.zeros(len(encoding), dtype=np.int64)
    counted[inside] = instances[type_numbers[owner[inside]]]
    written = [None if text == folded else text for text, folded in zip(words.texts, words.types, strict=True)]
    return {
        "type": _strings_of_tokens(words.types, owner),
        "written": _strings_of_tokens(written, owner),
        "first_of_word": first_of_word,
        "first_of_type": first_of_type,
        "instances": counted,
    }


def _strings_of_tokens(of_words: Sequence[str | None], owner: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Return the string of each token's word, null for tokens outside words."""
    return pa.array([of_words[word] if word >= 0 else None for word in owner.tolist()], pa.string())


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
    """Computing time in seconds, including reading and writing the files."""
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
        """Undo process-wide changes; only needed if the process goes on to do other work."""
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
        """Return how often each document was started but not finished; begin a new log if there is none."""
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
        """Return as many bytes of the log as its first line should have; none if there is no log."""
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
