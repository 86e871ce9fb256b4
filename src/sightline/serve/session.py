"""The state of a worker: the loaded models, and the most recent documents for further questions about them.

Programs that call the API get an explanation as one JSON object (`result_record`). Positions in the text (`start`,
`end`, `offsets`) count Unicode characters of the text sent, from 0.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.analysis.maps import pooled_tile, strongest_relations
from sightline.api.load import load
from sightline.api.model import Model
from sightline.errors import InputError, OptionError, SizeError
from sightline.methods import METHODS, list_methods
from sightline.metrics import list_metrics
from sightline.progress import Progress
from sightline.results.continuation import combine_records
from sightline.results.explanation_storage import TargetRecord
from sightline.settings.serving import CORPUS_ADDRESS, ServerLimits
from sightline.text import Encoding
from sightline.view.continuation import POLICY, render_continuation
from sightline.view.page import payload
from sightline.view.page.html import render_payload
from sightline.view.words.headline import headline
from sightline.view.words.phrases import plain_summary
from sightline.view.words.sentences import further_sentences, notices
from sightline.view.words.verdict import describe_verdict

if TYPE_CHECKING:
    from sightline.models import Prediction
    from sightline.passes.trace import Trace
    from sightline.results.explanation import Explanation
    from sightline.results.report import Report
    from sightline.view.corpus_page import CorpusPages

MAX_LABELS = 1_000
"""Longer label lists are vocabularies (masked language models) and are not sent to the page."""
KEPT_DOCUMENTS = 2
"""Number of documents whose trace is kept for questions; other documents are run again."""
MAX_CONTINUATION_SCORES = 1_000_000
"""Scores of one continuation: methods × generated tokens × all tokens."""

Answer = tuple[dict[str, Any], dict[str, bytes]]
"""The facts and the named byte strings of a `Message`."""


class WorkerSession:
    """Loads the models, explains texts and answers questions about explained documents."""

    def __init__(self, settings: ServerLimits) -> None:
        self._settings = settings
        self._models: dict[str, Model] = {}
        for source in settings.models or (None,):
            model = load(source, allow_pickle=settings.allow_pickle)
            self._models[self._unique_name(source, model)] = model
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._corpus: CorpusPages | None = None
        if settings.corpus is not None:
            from sightline.view.corpus_page import CorpusPages

            self._corpus = CorpusPages(settings.corpus, CORPUS_ADDRESS)

    def catalogue(self) -> dict[str, bytes]:
        """Return the available models, methods and metrics as JSON."""
        return {
            "models": _json([_model_facts(name, model) for name, model in self._models.items()]),
            "methods": _json(
                [
                    {**method.facts(), "plain_summary": plain_summary(method.name, method.summary)}
                    for method in list_methods()
                ]
            ),
            "metrics": _json([metric.facts() for metric in list_metrics()]),
        }

    def explain(self, job: str, request: Mapping[str, Any], progress: Progress) -> Answer:
        """Return the result of a request as JSON, with the payload and arrays that the page needs."""
        started = time.monotonic()
        progress("reading the text", 0, 0)
        if request["continuation"] is not None or request["max_new_tokens"] is not None:
            return self._explain_continuation(request, progress)
        model, relations = self._models[request["model"]], request["relations"]
        with _collect_warnings() as notes:
            trace = self._run(request)
            report = model.report(
                trace,
                request["methods"],
                quantity=request["quantity"],
                check=request["check"],
                inside=relations,
                progress=progress,
                **_options(request),
            )
        if report.inside is not None:
            self._keep(job, trace)
        shown = payload.build(report)
        looks_inside = not trace.windowed
        live = {**shown.json, "live": {"relations": looks_inside, "tiles": looks_inside, "predict": True}}
        record = result_record(job, request["model"], report, notes, time.monotonic() - started)
        parts = {f"array:{name}": array.tobytes() for name, array in shown.arrays.items()}
        parts |= {"result": _json(record), "payload": _json(live)}
        facts = {"arrays": shown.json["arrays"], "optional": shown.optional, "better": shown.better, "notes": notes}
        return facts, parts

    def _explain_continuation(self, request: Mapping[str, Any], progress: Progress) -> Answer:
        """Return the result as JSON and the page, both as `sightline explain --continuation` writes them."""
        model = self._models[request["model"]]
        if model.task == "causal_lm":  # otherwise the library refuses before it computes anything
            self._check_continuation_size(model, request)
        with _collect_warnings() as notes:
            continuations = model.explain(
                request["text"],
                methods=request["methods"],
                target=_target(request["target"]),
                position=request["position"],
                pair=request["pair"],
                check=request["check"],
                continuation=request["continuation"],
                max_new_tokens=request["max_new_tokens"],
                quantity=request["quantity"],
                progress=progress,
                **_options(request),
            )
        page = render_continuation(list(continuations.values()))
        parts = {"result": _json(combine_records(continuations)), "page": page.encode("utf-8")}
        return {"policy": POLICY, "notes": notes}, parts

    def _check_continuation_size(self, model: Model, request: Mapping[str, Any]) -> None:
        """Refuse a continuation whose matrices (generated × all tokens, one per method) would be too large."""
        prompt = len(self._encode(model, request))
        together = {**request, "text": request["text"] + (request["continuation"] or "")}
        total = len(self._encode(model, together)) + (request["max_new_tokens"] or 0)
        scores = len(request["methods"]) * (total - prompt) * total
        if scores > MAX_CONTINUATION_SCORES:
            raise SizeError(
                f"This continuation needs about {scores:,} scores; this server computes at most "
                f"{MAX_CONTINUATION_SCORES:,}. Shorten the texts, or use fewer methods."
            )

    def page(self, facts: Mapping[str, Any], parts: Mapping[str, bytes]) -> Answer:
        """Return the result of a job as one HTML file, from the payload and arrays that `explain` returned."""
        content = {name: value for name, value in json.loads(parts["payload"]).items() if name != "live"}
        arrays = {
            name: np.frombuffer(parts[f"array:{name}"], np.dtype(info["dtype"]).newbyteorder("<")).reshape(
                info["shape"]
            )
            for name, info in content["arrays"].items()
        }
        optional = [tuple(group) for group in facts["optional"]]
        html = render_payload(payload.Payload(content, arrays, optional, dict(facts["better"])))
        return {}, {"answer": html.encode("utf-8")}

    def corpus_page(self, row: int | None) -> Answer:
        """Return the reading page of a document of the corpus as HTML, or the index."""
        assert self._corpus is not None
        html = self._corpus.render_index() if row is None else self._corpus.render_document(row)
        return {}, {"answer": html.encode("utf-8")}

    def answer(self, job: str, request: Mapping[str, Any], question: Mapping[str, Any], progress: Progress) -> Answer:
        """Answer a question about a job: a tile of a map, relations of tokens, or the prediction of an edited text."""
        if question["about"] == "predict":
            progress("running the model", 0, 0)
            edited = {**request, **question, "global_tokens": None}
            return {}, {"answer": _json(self._read_again(edited))}
        trace = self._trace(job, request, progress)
        if question["about"] == "head":
            wanted = {name: question[name] for name in ("layer", "head", "rows", "columns", "size")}
            tile = pooled_tile(trace, **wanted)
            return {"shape": list(tile.shape)}, {"answer": tile.astype("<f2").tobytes()}
        wanted = {name: question[name] for name in ("tokens", "layers", "heads", "k")}
        return {}, {"answer": _json(strongest_relations(trace, **wanted))}

    def _read_again(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the prediction for an edited text; if a method is named, also its words with their scores."""
        trace = self._run(request)
        record = prediction_record(trace.prediction)
        if request["methods"]:
            (method, *_) = request["methods"]
            explanation = self._models[request["model"]].explain(trace, method, **_options(request).get(method, {}))
            record["words"] = [{"text": word.text, "score": word.score} for word in explanation.words()]
        return record

    def _unique_name(self, source: str | None, model: Model) -> str:
        """Return the model's name, or its full path if another model has the same name."""
        name = model.name
        if name in self._models:
            name = str(source)
        if name in self._models:
            raise OptionError(f"The model '{source}' is given twice. Give each model once.")
        return name

    def _encode(self, model: Model, request: Mapping[str, Any]) -> Encoding:
        encoding = model.encode(request["text"], request["pair"], global_tokens=request["global_tokens"])
        most = self._settings.max_tokens
        if len(encoding) > most:
            raise InputError(
                f"The text has {len(encoding):,} tokens; this server explains at most {most:,}. Give it in parts."
            )
        return encoding

    def _trace(self, job: str, request: Mapping[str, Any], progress: Progress) -> Trace:
        """Return the trace of a job's document; run the model again if it is no longer in memory."""
        if job not in self._traces:
            progress("running the model", 0, 0)
            trace = self._run(request)
            trace.require("attentions")
            self._keep(job, trace)
        self._traces.move_to_end(job)
        return self._traces[job]

    def _run(self, request: Mapping[str, Any]) -> Trace:
        """Return the lazy trace of a request's document."""
        model = self._models[request["model"]]
        return model.trace(
            self._encode(model, request),
            _target(request["target"]),
            quantity=request["quantity"],
            position=request["position"],
        )

    def _keep(self, job: str, trace: Trace) -> None:
        self._traces[job] = trace
        while len(self._traces) > KEPT_DOCUMENTS:
            self._traces.popitem(last=False)


def _model_facts(name: str, model: Model) -> dict[str, Any]:
    """Return the facts about a model that clients need."""
    labels = model.labels
    return {
        "name": name,
        "type": str(model.network.config.model_type),
        "task": model.task,
        "labels": list(labels) if len(labels) <= MAX_LABELS else [],
        "max_tokens": model.max_tokens,
        "layers": len(model.network.layers),
        "heads": model.network.heads,
        "untrained": bool(model.network.untrained),
        "default_methods": list(model.default_methods),
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _target(given: Any) -> Any:
    """Return the target; JSON sends a contrast as a list."""
    return tuple(given) if isinstance(given, list) else given


def _options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of each method; the seed applies to every method that draws random numbers."""
    options: dict[str, dict[str, Any]] = {name: dict(values) for name, values in request["options"].items()}
    if request["seed"] is not None:
        for name in request["methods"]:
            if "seed" in METHODS.get(name).options:
                options.setdefault(name, {}).setdefault("seed", request["seed"])
    return options


@contextmanager
def _collect_warnings() -> Iterator[list[str]]:
    """Yield a list that receives the warnings raised by Sightline, each once."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield notes
    ours = (entry for entry in caught if issubclass(entry.category, UserWarning) and "sightline" in entry.filename)
    notes.extend(dict.fromkeys(str(entry.message) for entry in ours))


def result_record(job: str, model: str, report: Report, notes: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return the answer to one request: tokens and words once, scores per method."""
    first = report.first
    encoding = first.encoding
    return {
        "id": job,
        "model": model,
        "prediction": prediction_record(first.prediction),
        "tokens": list(encoding.tokens),
        "offsets": encoding.offsets.tolist(),
        "segments": encoding.segments.tolist(),
        "special": encoding.special.tolist(),
        "dropped_tokens": encoding.dropped,
        "words": [
            {"text": word.text, "start": word.start, "end": word.end, "segment": word.segment, "tokens": word.tokens}
            for word in first.words()
        ],
        "explanations": {method: _explanation(explanation) for method, _, explanation in report.entries()},
        "consensus": None if (consensus := report.consensus) is None else consensus.to_dict(),
        "notes": list(notes),
        "provenance": first.provenance,
        "seconds": round(seconds, 3),
    }


def prediction_record(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction as plain JSON values."""
    columns = (prediction.labels, prediction.probabilities.tolist(), prediction.logits.tolist())
    return {
        "index": prediction.index,
        "label": prediction.label,
        "probability": prediction.probability,
        "classes": [
            {"label": label, "probability": probability, "logit": logit}
            for label, probability, logit in zip(*columns, strict=True)
        ],
    }


def _explanation(explanation: Explanation) -> dict[str, Any]:
    return {
        "headline": headline(explanation),
        "target": TargetRecord.plain(explanation.target),
        "signed": explanation.signed,
        "scores": explanation.scores.tolist(),
        "word_scores": [word.score for word in explanation.words()],
        "checks": explanation.checks,
        "verdict": {**explanation.verdict.to_dict(), **describe_verdict(explanation).to_dict()},
        "sentences": [*notices(explanation), *further_sentences(explanation)],
        "check": None if explanation.check is None else explanation.check.to_dict(),
        "artefacts": explanation.describe_artefacts(),
        "options": explanation.options,
    }
