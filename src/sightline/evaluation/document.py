"""All measurements of one document: explain it by every method, then measure every explanation by every metric.

Each method is timed on a pass of its own: that is its cost when it is used alone. A method that fails leaves rows with
the error, and the others continue; a metric that is undefined for the document, or defined only by convention (constant
scores have no order), is missing with the reason.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sightline.errors import SightlineError
from sightline.evaluation.comparison import PERMUTATIONS
from sightline.evaluation.result import MODEL, MetricCurve, Record
from sightline.evaluation.subject import (
    Missing,
    TargetChoice,
    choose_target,
    context_segment,
    describe_error,
    encode_example,
    explain_by_each,
    seed_for,
    seeded_options,
)
from sightline.methods import METHODS
from sightline.metrics import METRICS, MetricEntry, SightlineWarning, chance_level, spans_of, tokens_in_characters
from sightline.metrics.chance import TokenScores
from sightline.metrics.measurement import Faithfulness, FaithfulnessSettings, Measured, measure_scores
from sightline.metrics.registry import SHUFFLED_SCORES, MetricNeed
from sightline.metrics.score_inputs import FloatArray, IntArray, without_conventions
from sightline.models import Target
from sightline.models.classes import Label
from sightline.models.target import Quantity
from sightline.passes.perturb import removable_units
from sightline.progress import Progress
from sightline.settings.evaluation import Compat
from sightline.text import Encoding, Example
from sightline.text.units import Units, units_of

if TYPE_CHECKING:
    from sightline.api.model import Model


@dataclass(frozen=True)
class Assignment:
    """What to measure on every document."""

    methods: Sequence[str]
    metrics: Sequence[str]
    options: Mapping[str, Mapping[str, Any]]
    """Options of the methods, by method."""
    target: TargetChoice
    quantity: Quantity
    classes: Mapping[Label, int | None]
    """The class of the model that each label of the data set stands for."""
    reference: str | None
    settings: FaithfulnessSettings
    seed: int

    def needs(self, need: MetricNeed) -> bool:
        """Return whether one of the metrics has this need."""
        return any(need in METRICS.get(name).needs for name in self.metrics)


@dataclass
class DocumentResult:
    """The contribution of one document to an evaluation."""

    records: list[Record] = field(default_factory=list)
    curves: dict[tuple[str, str, str], MetricCurve] = field(default_factory=dict)
    calls_requested: int = 0
    calls_made: int = 0


@dataclass(frozen=True)
class Explained:
    """The scores of one method (n,), of every class (C, n) if confidence needs them, and the time they took."""

    scores: FloatArray
    class_scores: FloatArray | None
    seconds: float


def evaluate_document(
    model: Model, example: Example, assignment: Assignment, progress: Progress | None = None
) -> DocumentResult:
    """Measure one document."""
    try:
        encoding = encode_example(model, example)
        chosen = choose_target(model, example, encoding, assignment.target, assignment.classes)
        target = model.trace(encoding, chosen, quantity=assignment.quantity).target
    except Missing as reason:
        return _without(example, assignment, str(reason), "missing")
    except SightlineError as error:
        return _without(example, assignment, str(error), "failed")
    return _Document(model, example, encoding, target, assignment).measure(progress)


def _without(
    example: Example, assignment: Assignment, reason: str, status: Literal["missing", "failed"]
) -> DocumentResult:
    return DocumentResult(
        [
            Record(example.id, method, metric, None, status=status, error=reason)
            for metric in assignment.metrics
            for method in ([MODEL] if METRICS.get(metric).describes_model else assignment.methods)
        ]
    )


class _Document:
    def __init__(
        self, model: Model, example: Example, encoding: Encoding, target: Target, assignment: Assignment
    ) -> None:
        self.model = model
        self.example = example
        self.encoding = encoding
        self.target = target
        self.assignment = assignment
        self.explained: dict[str, Explained] = {}
        self.failures: dict[str, str] = {}

    def measure(self, progress: Progress | None) -> DocumentResult:
        self._explain_all(progress)
        measured, obstacle = self._faithfulness(progress)
        result = DocumentResult()
        if measured is not None:
            result.calls_requested, result.calls_made = measured.calls_requested, measured.calls_made
        for metric in self.assignment.metrics:
            entry = METRICS.get(metric)
            if entry.describes_model:
                result.records.append(self._record(MODEL, entry))
                continue
            for method in self.assignment.methods:
                if method in self.failures:
                    reason = self.failures[method]
                    result.records.append(Record(self.example.id, method, metric, None, status="failed", error=reason))
                elif entry.plan is not None:
                    faithfulness = None if measured is None else measured.by[method, metric]
                    result.records.append(self._faithful_record(method, metric, faithfulness, obstacle))
                    if faithfulness is not None:
                        curve = MetricCurve(
                            faithfulness.ratios,
                            faithfulness.curve,
                            faithfulness.floor_curve,
                            faithfulness.reference_curve,
                        )
                        result.curves[self.example.id, method, metric] = curve
                else:
                    record = self._record(method, entry)
                    result.records.append(self._with_chance(record, entry))
        return result

    # Explaining -------------------------------------------------------------------------------------------------------

    def _explain_all(self, progress: Progress | None) -> None:
        reference = self.assignment.reference
        names = [*self.assignment.methods, *([reference] if reference is not None else [])]
        self.explained, self.failures = explain_by_each(names, self._explain, progress)

    def _explain(self, name: str) -> Explained:
        entry = METHODS.get(name)
        given = self.assignment.options.get(name, {})
        options = seeded_options(name, given, self.assignment.seed, self.example.id)
        begin = time.perf_counter()
        trace = self.model.trace(self.encoding, self.target)
        scores = entry(trace, **options).scores
        seconds = time.perf_counter() - begin
        rows = None
        if self.assignment.needs("class_scores") and name in self.assignment.methods:
            # By their logits: the log-odds of two classes are each other's negative, and so would be their scores.
            logits = replace(self.target, quantity="logit")
            rows = [
                scores
                if not entry.class_specific or (c, "logit") == (self.target.index, self.target.quantity)
                else entry(trace.with_target(replace(logits, index=c, label=label)), **options).scores
                for c, label in enumerate(self.model.labels)
            ]
        class_scores = None if rows is None else np.stack(rows).astype(np.float64)
        return Explained(scores.astype(np.float64), class_scores, seconds)

    def _faithfulness(self, progress: Progress | None) -> tuple[Measured | None, str]:
        metrics = [name for name in self.assignment.metrics if METRICS.get(name).plan is not None]
        scores = {name: self.explained[name].scores for name in self.assignment.methods if name in self.explained}
        if not metrics or not scores:
            return None, ""
        try:
            return measure_scores(
                self.model.network,
                self.encoding,
                self.target,
                scores,
                metrics,
                self.assignment.settings,
                seed=seed_for(self.assignment.seed, self.example.id),
                progress=None if progress is None else lambda done, total: progress("perturbed inputs", done, total),
            ), ""
        except SightlineError as error:
            return None, str(error)

    # Measuring --------------------------------------------------------------------------------------------------------

    def _faithful_record(self, method: str, metric: str, faithfulness: Faithfulness | None, obstacle: str) -> Record:
        seconds = self.explained[method].seconds
        if faithfulness is None:
            return Record(self.example.id, method, metric, None, seconds=seconds, status="missing", error=obstacle)
        return Record(
            self.example.id,
            method,
            metric,
            faithfulness.value,
            faithfulness.floor,
            faithfulness.reference,
            faithfulness.calls,
            seconds=seconds,
        )

    def _record(self, method: str, entry: MetricEntry) -> Record:
        seconds = self.explained[method].seconds if method in self.explained else 0.0
        try:
            with without_conventions():
                value = entry.compute(partial(self._supply, method, entry))
            if not math.isfinite(value):
                raise Missing(f"The metric '{entry.name}' returned {value}.")
            return Record(self.example.id, method, entry.name, value, seconds=seconds)
        except Exception as error:  # an error in one metric must not stop the others
            reason = str(error) if isinstance(error, Missing | SightlineWarning) else describe_error(error)
            return Record(self.example.id, method, entry.name, None, seconds=seconds, status="missing", error=reason)

    def _with_chance(self, record: Record, entry: MetricEntry) -> Record:
        """Return the record with its floor: for agreement, the value after shuffling the method's token scores; for
        retrieval and plausibility, the mean value of random scores.
        """
        if record.value is None or entry.chance is None:
            return record
        if entry.kind in ("retrieval", "plausibility") and entry.chance.level is not None:
            supplied = {name: self._supply(record.method, entry, need) for name, need in entry.arguments.items()}
            return replace(record, floor=float(entry.chance.level(**supplied, **entry.options)))
        if entry.chance is not SHUFFLED_SCORES:
            return record
        tokens = TokenScores(self.explained[record.method].scores, self._units) if entry.level == "units" else None
        seed = seed_for(self.assignment.seed, self.example.id, record.method, entry.name)
        chance = chance_level(
            entry.name,
            self._reference_scores(record.method, entry),
            self._fold(self.explained[record.method].scores, entry),
            permutations=PERMUTATIONS,
            seed=seed,
            tokens=tokens,
        )
        return replace(record, floor=chance.mean)

    def _supply(self, method: str, entry: MetricEntry, need: str) -> Any:
        """Return the value of one of a metric's needs."""
        match need:
            case "scores":
                return self._fold(self.explained[method].scores, entry)
            case "other_scores":
                return self._reference_scores(method, entry)
            case "class_scores":
                rows = self.explained[method].class_scores
                assert rows is not None
                if self._compat is not None and "compat" in entry.arguments:
                    return rows  # the published code compares all tokens
                return self._fold(rows, entry)
            case "target":
                return self.target.index
            case "rationale" | "answer":
                return self._spans(need, entry)
            case "special":
                return self.encoding.special
            case "hidden_states":
                return self.model.trace(self.encoding, self.target).hidden_states[-1]
            case "encoding":
                return self.encoding
            case "model":
                return self.model
            case "compat":
                return self._compat
        raise AssertionError(f"nothing is supplied for '{need}'")

    @property
    def _compat(self) -> Compat | None:
        return self.assignment.settings.compat

    def _fold(self, scores: FloatArray, entry: MetricEntry) -> FloatArray:
        """Return token scores (..., n) at the level of the metric."""
        return self._units_for(entry).fold(scores) if entry.level == "units" else scores

    @cached_property
    def _units(self) -> Units:
        return removable_units(self.encoding, self.target, self.assignment.settings.level)

    def _units_for(self, entry: MetricEntry) -> Units:
        """Return the units that a metric ranks; where answers are searched for, these include the answer's own."""
        return units_of(self.encoding, self.assignment.settings.level) if "answer" in entry.needs else self._units

    def _reference_scores(self, method: str, entry: MetricEntry) -> FloatArray:
        reference = self.assignment.reference
        assert reference is not None
        if method == reference:
            raise Missing("This is the reference itself.")
        if reference in self.failures:
            raise Missing(f"The reference '{reference}' failed: {self.failures[reference]}")
        return self._fold(self.explained[reference].scores, entry)

    def _spans(self, which: Literal["rationale", "answer"], entry: MetricEntry) -> IntArray:
        """Half-open spans (s, 2) of units that the marked characters touch."""
        marked = self.example.rationale if which == "rationale" else self.example.answer
        if marked is None:
            raise Missing(f"The document has no {which}.")
        spans = list(self._marked_spans(marked, context_segment(self.model, self.encoding), entry))
        if not spans:
            raise Missing(f"No {self.assignment.settings.level} that the model read lies in the {which}.")
        return np.concatenate(spans)

    def _marked_spans(self, marked: Sequence[tuple[int, int]], segment: int, entry: MetricEntry) -> Iterator[IntArray]:
        for characters in marked:
            tokens = tokens_in_characters(
                self.encoding.offsets, [characters], segments=self.encoding.segments, segment=segment
            )
            touched = tokens
            if entry.level == "units":
                touched = np.array([bool(tokens[unit].any()) for unit in self._units_for(entry).tokens])
            if touched.any():
                yield spans_of(touched)
