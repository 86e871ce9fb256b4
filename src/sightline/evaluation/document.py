"""All measurements of one document: explain it by every method, then measure every explanation by every metric.

A method is timed by itself, on a pass of its own: that is what it costs whoever uses it alone. A method that fails
leaves rows that say so and the others go on; a metric that is not defined for the document, or only by convention
(constant scores have no order), is absent with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sightline.errors import SightlineError
from sightline.evaluation.comparison import PERMUTATIONS
from sightline.evaluation.explaining import (
    Missing,
    Progress,
    TargetChoice,
    encoded,
    seed_for,
    seeded,
    sentence,
    wanted,
)
from sightline.evaluation.result import MODEL, Curve, Record
from sightline.methods import METHODS
from sightline.metrics import METRICS, MetricEntry, SightlineWarning, chance_level, spans_of, tokens_in_characters
from sightline.metrics.chance import TokenScores
from sightline.metrics.inputs import FloatArray, IntArray, without_conventions
from sightline.metrics.measurement import Faithfulness, Measured, Settings, measure_scores
from sightline.models import Target
from sightline.perturb import removable_units
from sightline.text import Encoding, Example
from sightline.text.units import Units

if TYPE_CHECKING:
    from sightline.model import Model


@dataclass(frozen=True)
class Assignment:
    """What is to be measured on every document."""

    methods: Sequence[str]
    metrics: Sequence[str]
    options: Mapping[str, Mapping[str, Any]]
    """Options of the methods, by method."""
    target: TargetChoice
    reference: str | None
    settings: Settings
    seed: int

    def of_kind(self, *kinds: str) -> list[str]:
        """Metrics of these kinds."""
        return [name for name in self.metrics if METRICS.get(name).kind in kinds]


@dataclass
class DocumentResult:
    """What one document adds to an evaluation."""

    records: list[Record] = field(default_factory=list)
    curves: dict[tuple[str, str, str], Curve] = field(default_factory=dict)
    calls_requested: int = 0
    calls_made: int = 0


@dataclass(frozen=True)
class Explained:
    """The scores of one method (n,), of every class (C, n) where confidence wants them, and the time they took."""

    scores: FloatArray
    class_scores: FloatArray | None
    seconds: float


def evaluate_document(
    model: Model, example: Example, assignment: Assignment, progress: Progress | None = None
) -> DocumentResult:
    """Measure one document."""
    try:
        encoding = encoded(model, example)
        target = model.trace(encoding, wanted(example, assignment.target)).target
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
            Record(example.id, MODEL if _of_the_model(metric) else method, metric, None, status=status, error=reason)
            for metric in assignment.metrics
            for method in (assignment.methods[:1] if _of_the_model(metric) else assignment.methods)
        ]
    )


def _of_the_model(metric: str) -> bool:
    return "scores" not in (needs := METRICS.get(metric).needs) and "class_scores" not in needs


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
            if _of_the_model(metric):
                result.records.append(self._record(MODEL, metric, self._model_value))
                continue
            for method in self.assignment.methods:
                if method in self.failures:
                    reason = self.failures[method]
                    result.records.append(Record(self.example.id, method, metric, None, status="failed", error=reason))
                elif entry.kind == "faithfulness":
                    found = None if measured is None else measured.by[method, metric]
                    result.records.append(self._faithful_record(method, metric, found, obstacle))
                    if found is not None:
                        curve = Curve(found.ratios, found.curve, found.floor_curve, found.ceiling_curve)
                        result.curves[self.example.id, method, metric] = curve
                elif entry.kind == "agreement":
                    result.records.append(self._agreement_record(method, metric))
                else:
                    result.records.append(self._record(method, metric, partial(self._value, method, entry)))
        return result

    # Explaining -------------------------------------------------------------------------------------------------------

    def _explain_all(self, progress: Progress | None) -> None:
        reference = self.assignment.reference
        names = dict.fromkeys([*self.assignment.methods, *([reference] if reference is not None else [])])
        for step, name in enumerate(names):
            if progress is not None:
                progress(name, step, len(names))
            try:
                self.explained[name] = self._explain(name)
            except Exception as error:  # whatever goes wrong in a method, the others go on
                self.failures[name] = sentence(error)

    def _explain(self, name: str) -> Explained:
        entry = METHODS.get(name)
        given = self.assignment.options.get(name, {})
        options = seeded(entry, given, seed_for(self.assignment.seed, self.example.id, name))
        begin = time.perf_counter()
        trace = self.model.trace(self.encoding, self.target)
        scores = entry(trace, **options).scores
        seconds = time.perf_counter() - begin
        rows = None
        if "confidence" in self.assignment.metrics and name in self.assignment.methods:
            classes = range(len(self.model.labels))
            position = self.target.position
            rows = [
                scores
                if c == self.target.index or not entry.class_specific
                else entry(trace.with_target(c, position=position), **options).scores
                for c in classes
            ]
        class_scores = None if rows is None else np.stack(rows).astype(np.float64)
        return Explained(scores.astype(np.float64), class_scores, seconds)

    def _faithfulness(self, progress: Progress | None) -> tuple[Measured | None, str]:
        metrics = self.assignment.of_kind("faithfulness")
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

    def _faithful_record(self, method: str, metric: str, found: Faithfulness | None, obstacle: str) -> Record:
        seconds = self.explained[method].seconds
        if found is None:
            return Record(self.example.id, method, metric, None, seconds=seconds, status="missing", error=obstacle)
        return Record(
            self.example.id, method, metric, found.value, found.floor, found.ceiling, found.calls, seconds=seconds
        )

    def _record(self, method: str, metric: str, value: Callable[[], float]) -> Record:
        seconds = self.explained[method].seconds if method in self.explained else 0.0
        try:
            with without_conventions():
                return Record(self.example.id, method, metric, value(), seconds=seconds)
        except (Missing, SightlineWarning, SightlineError) as reason:
            return Record(self.example.id, method, metric, None, seconds=seconds, status="missing", error=str(reason))

    def _agreement_record(self, method: str, metric: str) -> Record:
        """The floor is chance: the same after the scores of the method's tokens were shuffled."""
        record = self._record(method, metric, partial(self._value, method, METRICS.get(metric)))
        if record.value is None:
            return record
        own = TokenScores(self.explained[method].scores, self._units)
        seed = seed_for(self.assignment.seed, self.example.id, method, metric)
        chance = chance_level(
            metric, self._reference_scores(method), own.sums(), permutations=PERMUTATIONS, seed=seed, tokens=own
        )
        return replace(record, floor=chance.mean)

    def _model_value(self) -> float:
        return float(METRICS.get("anisotropy")(self.model.trace(self.encoding, self.target).hidden_states[-1]))

    def _value(self, method: str, entry: MetricEntry) -> float:
        explained = self.explained[method]
        match entry.kind:
            case "confidence":
                assert explained.class_scores is not None
                compat = self.assignment.settings.compat
                rows = explained.class_scores if compat else np.stack([*map(self._on_units, explained.class_scores)])
                return float(entry(rows, self.target.index, compat=compat))
            case "agreement":
                return float(entry(self._on_units(explained.scores), self._reference_scores(method)))
            case "plausibility" | "retrieval":
                which: Literal["rationale", "answer"] = "rationale" if "rationale" in entry.needs else "answer"
                return float(entry(self._on_units(explained.scores), self._spans(which)))
        if "special" in entry.needs:
            return float(entry(explained.scores, self.encoding.special))
        return float(entry(self._on_units(explained.scores)))

    def _on_units(self, scores: FloatArray) -> FloatArray:
        return self._units.fold(scores)

    @cached_property
    def _units(self) -> Units:
        return removable_units(self.encoding, self.target, self.assignment.settings.level)

    def _reference_scores(self, method: str) -> FloatArray:
        reference = self.assignment.reference
        assert reference is not None
        if method == reference:
            raise Missing("This is the reference itself.")
        if reference in self.failures:
            raise Missing(f"The reference '{reference}' failed: {self.failures[reference]}")
        return self._on_units(self.explained[reference].scores)

    def _spans(self, which: Literal["rationale", "answer"]) -> IntArray:
        """Half-open spans (s, 2) of units that the marked characters touch."""
        marked = self.example.rationale if which == "rationale" else self.example.answer
        if marked is None:
            raise Missing(f"The document has no {which}.")
        read_second = self.model.task == "question_answering" and self.encoding.pair is not None
        spans = list(self._unit_spans(marked, 1 if read_second else 0))
        if not spans:
            raise Missing(f"No {self.assignment.settings.level} that the model read lies in the {which}.")
        return np.concatenate(spans)

    def _unit_spans(self, marked: Sequence[tuple[int, int]], segment: int) -> Iterator[IntArray]:
        for characters in marked:
            tokens = tokens_in_characters(
                self.encoding.offsets, [characters], segments=self.encoding.segments, segment=segment
            )
            units = np.array([bool(tokens[unit].any()) for unit in self._units.tokens])
            if units.any():
                yield spans_of(units)
