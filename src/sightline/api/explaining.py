"""Explainer: runs methods on traces of one model and turns what they return into explanations.

`build_report` runs the stages of a report: explain, look inside, check. They share the pass of one trace, and each is
timed.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from sightline.analysis.exchange import Rerun
from sightline.analysis.importance import Importance, head_importance_of
from sightline.analysis.internals import inside as look_inside
from sightline.api.checking import special_share
from sightline.errors import OptionError, TargetError, UnsupportedError
from sightline.methods import METHODS, Attribution, Method
from sightline.methods.applicability import ChosenMethods
from sightline.models import ALL, Network, Prediction, TargetLike
from sightline.models.batching import BATCH_TOKENS, batches_by_length
from sightline.models.target import ENTITIES, Request, check_quantity
from sightline.models.task import name_tokens
from sightline.models.tasks import MaskedLanguageModel, TokenClassification
from sightline.models.torch_context import own_torch_context
from sightline.passes.document_windows import WindowedPass, describe_windows
from sightline.passes.forward import Pass
from sightline.passes.prefixes import PrefixPass
from sightline.passes.reading import Reader
from sightline.passes.trace import Trace
from sightline.progress import Progress
from sightline.results.continuation import ContinuationExplanation, Origin
from sightline.results.explanation import Explanation, FloatArray
from sightline.results.report import Report
from sightline.text import Encoding


@dataclass(frozen=True)
class Explainer:
    """Explains documents with one model."""

    network: Network

    def predict(
        self, encodings: Sequence[Encoding], position: int | None, batch_size: int | None = None
    ) -> list[Prediction]:
        """Return what the model predicts for each document; no more logits are held than those of one batch."""
        task, predictions = self.network.task, {}
        for number, logits in self.network.run_each(encodings, batch_size=batch_size):
            target = task.resolve(logits, encodings[number], Request(position=position))
            predictions[number] = task.prediction(logits, encodings[number], target.position)
        return [predictions[number] for number in range(len(encodings))]

    def explain(
        self,
        encodings: Sequence[Encoding],
        request: Request,
        chosen: ChosenMethods,
        progress: Progress | None,
        batch_size: int | None = None,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number and the results (see `explain_traces`) of every document, batch by batch."""
        for batch in batches(encodings, padded=self.network.pads, most=batch_size):
            traces = self.trace([encodings[number] for number in batch], request)
            yield from zip(batch, self.explain_traces(traces, request, chosen, progress), strict=True)

    def trace(self, encodings: Sequence[Encoding], request: Request) -> list[Trace]:
        """Return the traces of encodings that share a pass where the model can be padded; windows have their own.

        If all entities are wanted, the target of a trace is the predicted label of its most confident token.
        """
        request = replace(request, target=self._find_target(request.target))
        short = [encoding for encoding in encodings if encoding.windows is None]
        if self.network.pads:
            shared = Pass(self.network, short, [request] * len(short))
            places = iter([(shared, number) for number in range(len(short))])
        else:
            places = iter([(Pass(self.network, [encoding], [request]), 0) for encoding in short])
        return [
            self._make_trace(*next(places))
            if encoding.windows is None
            else self._make_trace(WindowedPass(self.network, encoding, request), 0)
            for encoding in encodings
        ]

    def _make_trace(self, shared: Pass, document: int) -> Trace:
        trace = Trace(shared, document)
        trace.reader = Reader(self.network).read
        return trace

    def _find_target(self, target: TargetLike) -> TargetLike:
        """Return a target as a pass takes it: words of a masked language model as ids, none for all entities."""
        if isinstance(self.network.task, MaskedLanguageModel) and self.network.tokenizer is not None:
            return name_tokens(target, self.network.task, self.network.tokenizer)
        return None if self._names_entities(target) else target

    def _names_entities(self, target: TargetLike) -> bool:
        """Return whether every entity is to be explained; a label of this name takes precedence."""
        return isinstance(target, str) and target == ENTITIES and ENTITIES not in self.network.task.facts.labels

    def explain_traces(
        self, traces: Sequence[Trace], request: Request, chosen: ChosenMethods, progress: Progress | None
    ) -> list[dict[str, Any]]:
        """Return method -> explanation of every trace of one pass.

        For all classes or entities, it is method -> label or entity -> explanation.
        """
        if self._names_entities(request.target):
            return [self._explain_entities(trace, chosen, request.quantity, progress) for trace in traces]
        shared = traces[0].shared
        _announce_needs(shared, chosen)
        if shared.requests[traces[0].document].target != ALL:
            return [self._run_methods(trace, chosen, progress, {}) for trace in traces]
        results: list[dict[str, Any]] = [{entry.name: {} for entry in chosen} for _ in traces]
        shared_attributions: list[dict[str, Attribution]] = [{} for _ in traces]
        for label, targets in shared.classes():
            traces = [trace.sibling(targets[trace.document]) for trace in traces]
            for trace, by_method, class_independent in zip(traces, results, shared_attributions, strict=True):
                for name, explanation in self._run_methods(trace, chosen, progress, class_independent).items():
                    by_method[name][label] = explanation
        return results

    def _run_methods(
        self,
        trace: Trace,
        chosen: ChosenMethods,
        progress: Progress | None,
        class_independent: dict[str, Attribution],
    ) -> dict[str, Explanation]:
        """Run the methods on one trace; results that do not depend on the class are read from `class_independent`.

        Missing ones are added to it, unless the document is read in windows: which windows count depends on the class.
        """
        explanations = {}
        for step, (entry, options) in enumerate(chosen.items()):
            if progress is not None:
                progress(entry.name, step, len(chosen))
                trace.progress = partial(progress, entry.name)
            with trace.shared.lock, own_torch_context():
                attribution = class_independent.get(entry.name) or entry.run(trace, options)
                if not entry.class_specific and not trace.windowed:
                    class_independent[entry.name] = attribution
                explanations[entry.name] = self._make_explanation(trace, entry, options, attribution)
        trace.progress = None
        return explanations

    def _explain_entities(
        self, trace: Trace, chosen: ChosenMethods, quantity: str | None, progress: Progress | None
    ) -> dict[str, Any]:
        """Return method -> entity -> explanation of a traced document: one forward, one backward per entity."""
        task = self.network.task
        if not isinstance(task, TokenClassification):
            raise TargetError(f"Entities are tagged tokens; a model for {task.name} has none to explain.")
        _announce_needs(trace.shared, chosen)
        trace.shared.keep_graph = True
        entities = task.entities(trace.shared.logits(trace.document), trace.encoding, quantity)
        if not entities:
            raise TargetError("The model finds no entity in this text: give a token (position=, --position).")
        explained: dict[str, Any] = {entry.name: {} for entry in chosen}
        for name, target in entities.items():
            for method, explanation in self._run_methods(trace.sibling(target), chosen, progress, {}).items():
                explained[method][name] = explanation
        return explained

    def explain_continuation(
        self,
        encoding: Encoding,
        prompt: Encoding,
        origin: Origin,
        chosen: ChosenMethods,
        quantity: str | None,
        progress: Progress | None,
    ) -> dict[str, ContinuationExplanation]:
        """Return method -> continuation: one forward, one backward per generated token behind the prompt."""
        shared = PrefixPass(self.network, encoding, len(prompt), quantity)
        _announce_needs(shared, chosen)
        rows, probabilities = [], []
        for number in range(len(shared.encodings)):
            trace = self._make_trace(shared, number)
            rows.append(self._run_methods(trace, chosen, None, {}))
            probabilities.append(self.network.task.probability(shared.logits(number).detach(), trace.target))
            if progress is not None:
                progress("explaining generated tokens", number + 1, len(shared.encodings))
        return {
            entry.name: ContinuationExplanation(
                tuple(row[entry.name] for row in rows),
                encoding,
                len(prompt),
                np.array(probabilities),
                origin,
                len(prompt.text),
            )
            for entry in chosen
        }

    def received(self, explanation: Explanation) -> FloatArray:
        """Return the attention that every token of an explained document receives, (L, H, n)."""
        (trace,) = self.trace([explanation.encoding], _repeat_request(explanation))
        return trace.received

    def repeat(self, explanation: Explanation) -> Rerun:
        """Return a function that computes the same scores for changed documents."""
        chosen = {METHODS.get(explanation.method): explanation.options}

        def rerun(encodings: Sequence[Encoding]) -> list[FloatArray]:
            scores: dict[int, FloatArray] = {}
            for place, by_method in self.explain(encodings, _repeat_request(explanation), chosen, None):
                scores[place] = by_method[explanation.method].scores
            return [scores[place] for place in range(len(encodings))]

        return rerun

    def _make_explanation(
        self, trace: Trace, entry: Method, options: dict[str, Any], attribution: Attribution
    ) -> Explanation:
        encoding = trace.encoding
        checks = {**model_checks(attribution.scores, encoding, self.network), **attribution.checks}
        return Explanation(
            method=entry.name,
            scores=attribution.scores,
            encoding=encoding,
            target=replace(trace.target, quantity=options.get("quantity") or trace.target.quantity),
            prediction=trace.prediction,
            layers=attribution.layers,
            layer_kind=attribution.layer_kind,
            checks=checks,
            options=options,
            provenance=_provenance_of_pass(trace.shared),
            extras={**attribution.extras, **describe_windows(trace.shared, trace.target)},
            signed=entry.signed,
        )


def model_checks(scores: FloatArray, encoding: Encoding, network: Network) -> dict[str, Any]:
    """Return the entries of `Explanation.checks` that every explanation has."""
    return {
        "special_share": special_share(scores, encoding),
        "untrained": network.untrained,
        "dropped_tokens": encoding.dropped,
    }


def _announce_needs(shared: Pass, chosen: ChosenMethods) -> None:
    """Announce the needs of the methods to a pass before it runs."""
    shared.require(*{need for entry, options in chosen.items() for need in entry.requirements(options)})


def check_trace(trace: Trace, network: Network, request: Request, pair: object, truncate: bool) -> None:
    """Raise OptionError for a trace of another model or other weights, and for arguments that the trace fixes."""
    if trace.network is not network:
        raise OptionError("The trace was made by another model. Give one of model.trace().")
    if trace.shared.weights_state != network.weights_state:
        raise OptionError("The weights of the model have changed since the trace was made: make a new trace.")
    quantity = request.quantity
    other_quantity = quantity is not None and quantity != check_quantity(trace.chosen_quantity)
    if (request.target, request.position, pair, truncate) != (None, None, None, False) or other_quantity:
        raise OptionError(
            "A trace has its own document, target, quantity and position, and was read in windows or truncated: leave "
            "them out, or give them to encode() and trace()."
        )


def _repeat_request(explanation: Explanation) -> Request:
    return Request(explanation.target, position=explanation.target.position)


def provenance_of(network: Network) -> dict[str, str]:
    """Return what produces a result: model, hash of its weights, versions.

    `rounding_error`, present for models converted to a half type, is the relative error of their logits;
    `similar_to`, present for similarity models, is the text that documents are compared with.
    """
    error = network.rounding_error
    return {
        "model": network.name,
        "model_type": str(network.config.model_type),
        "weights": network.weights_hash,
        "dtype": str(network.dtype).removeprefix("torch."),
        **({} if error is None else {"rounding_error": f"{error:.1e}"}),
        **({} if network.reference_text is None else {"similar_to": network.reference_text}),
        "sightline": _version("sightline-xai"),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "python": platform.python_version(),
    }


_OF_PASSES: WeakKeyDictionary[Pass, dict[str, str]] = WeakKeyDictionary()


def _provenance_of_pass(shared: Pass) -> dict[str, str]:
    """Return the provenance of all the results of a pass, which looks only once whether weights have changed."""
    if shared not in _OF_PASSES:
        _OF_PASSES[shared] = provenance_of(shared.network)
    return dict(_OF_PASSES[shared])


_version = cache(version)  # reading a package's metadata takes a millisecond


def batches(encodings: Sequence[Encoding], *, padded: bool, most: int | None = None) -> Iterator[list[int]]:
    """Yield the numbers of documents that share a pass: documents with windows alone, others by length.

    If the model cannot be padded, every document has a pass of its own. `most` bounds the documents of a pass.
    """
    if not padded:
        yield from ([index] for index in range(len(encodings)))
        return
    short = [index for index, encoding in enumerate(encodings) if encoding.windows is None]
    yield from ([index] for index, encoding in enumerate(encodings) if encoding.windows is not None)
    for batch in batches_by_length([len(encodings[index]) for index in short], BATCH_TOKENS, most=most):
        yield [short[place] for place in batch]


def build_report(
    trace: Trace,
    explain: Callable[[], dict[str, Any]],
    check: Callable[[dict[str, Any]], dict[str, Any]] | None,
    *,
    inside: bool,
    progress: Progress | None,
    on_explained: Callable[[Report], None] | None = None,
) -> Report:
    """Return the report of a trace (see `Model.report`).

    explain: returns the explanations of this trace, by method. check: returns them with their checks.
    """
    seconds: dict[str, float] = {}
    with _time_stage(seconds, "explain"):
        visible = trace.network.sees_inside and not trace.windowed
        importance = _require_inside(trace) if inside and visible else None
        explanations = explain()
    if on_explained is not None:
        on_explained(Report(explanations, seconds=dict(seconds)))
    looked_inside = None
    if importance is not None:
        with _time_stage(seconds, "inside"):
            looked_inside = look_inside(trace, importance=importance(), progress=progress)
    if check is not None:
        with _time_stage(seconds, "check"):
            explanations = check(explanations)
    return Report(explanations, inside=looked_inside, seconds=seconds)


def _require_inside(trace: Trace) -> Callable[[], Importance | None]:
    """Announce what `inside` needs to the pass of the methods; return a function that gives the head importance.

    That is None if the weights of single heads are not known. If all classes are explained, it is the importance
    for the predicted class, computed first on a graph that is kept for the classes.
    """
    trace.require("attentions")
    try:
        trace.require("head_importance")
    except UnsupportedError:
        return lambda: None
    if trace.shared.requests[trace.document].target != ALL:
        return lambda: head_importance_of(trace)
    importance = head_importance_of(trace.with_target(None))
    trace.shared.keep_graph = False
    return lambda: importance


@contextmanager
def _time_stage(seconds: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - start
