"""The desk in the worker: the loaded models, the documents last explained, and what can be asked about them."""

from __future__ import annotations

import json
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sightline.analysis.importance import head_importance
from sightline.analysis.internals import Inside, inside
from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.methods import METHODS, list_methods
from sightline.metrics import list_metrics
from sightline.model import Model, load
from sightline.serve.settings import Settings
from sightline.serve.worker import look
from sightline.serve.worker.results import result_record
from sightline.text import Encoding
from sightline.view.page import payload

if TYPE_CHECKING:
    from sightline.trace import Trace

MOST_LABELS = 1_000
"""More labels than this are a vocabulary (masked language models), which nobody chooses from a list."""
KEPT_DOCUMENTS = 2
"""Documents whose pass is kept for closer looks; another is run again when asked about."""

Report = Callable[[str, int, int], None]
Answer = tuple[dict[str, Any], dict[str, bytes]]
"""Plain facts and byte strings by name, as a `Frame` carries them."""


class Desk:
    """Everything the worker can do."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models: dict[str, Model] = {}
        for source in settings.models or (None,):
            model = load(source, allow_pickle=settings.allow_pickle)
            self._models[self._free_name(source, model)] = model
        self._traces: OrderedDict[str, Trace] = OrderedDict()

    def catalogue(self) -> dict[str, bytes]:
        """Return what there is, as JSON: models, methods and metrics."""
        return {
            "models": _json([_model_facts(name, model) for name, model in self._models.items()]),
            "methods": _json([method.facts() for method in list_methods()]),
            "metrics": _json([metric.facts() for metric in list_metrics()]),
        }

    def explain(self, job: str, request: Mapping[str, Any], report: Report) -> Answer:
        """Explain a text as a request asks; returns the result as JSON and what the view needs."""
        started = time.monotonic()
        report("reading the text", 0, 0)
        model, relations = self._models[request["model"]], request["relations"]
        with _noted() as notes:
            trace = self._run(request)
            if relations:
                trace.require("attentions")
            explanations = model.explain(
                trace,
                methods=request["methods"],
                quantity=request["quantity"],
                check=request["check"],
                progress=report,
                **_options(request),
            )
            seen = None
            if relations:
                self._keep(job, trace)
                seen = self._inside(model, trace, report)
        shown = payload.build(list(explanations.values()), inside=seen)
        live = {**shown.json, "live": {"relations": True, "tiles": True}}
        record = result_record(job, request["model"], explanations, notes, time.monotonic() - started)
        parts = {f"array:{name}": array.tobytes() for name, array in shown.arrays.items()}
        parts |= {"result": _json(record), "payload": _json(live)}
        return {"arrays": shown.json["arrays"]}, parts

    def answer(self, job: str, request: Mapping[str, Any], question: Mapping[str, Any], report: Report) -> Answer:
        """Answer a question about a job: part of a head's map, or the partners of tokens."""
        trace = self._trace(job, request, report)
        if question["about"] == "head":
            wanted = {name: question[name] for name in ("layer", "head", "rows", "columns", "size")}
            picture = look.pooled_tile(trace, **wanted)
            return {"shape": list(picture.shape)}, {"answer": picture.astype("<f2").tobytes()}
        wanted = {name: question[name] for name in ("tokens", "layers", "heads", "k")}
        return {}, {"answer": _json(look.partners(trace, **wanted))}

    def _free_name(self, source: str | None, model: Model) -> str:
        """Return the model's name, or the whole path where two folders are called the same."""
        name = model.name
        if name in self._models:
            name = str(source)
        if name in self._models:
            raise OptionError(f"The model '{source}' is given twice. Name each model once.")
        return name

    def _encoded(self, model: Model, request: Mapping[str, Any]) -> Encoding:
        encoding = model.encode(request["text"], request["pair"], global_tokens=request["global_tokens"])
        most = self._settings.max_tokens
        if len(encoding) > most:
            raise InputError(
                f"The text has {len(encoding):,} tokens; this server explains at most {most:,}. Give it in parts."
            )
        return encoding

    def _inside(self, model: Model, trace: Trace, report: Report) -> Inside:
        """Return what the view shows of the inside of the model, with the importance of heads where it is defined."""
        try:
            importance = head_importance(model, trace.encoding, progress=report)
        except UnsupportedError:
            importance = None
        return inside(trace, importance=importance, progress=report)

    def _trace(self, job: str, request: Mapping[str, Any], report: Report) -> Trace:
        """Return the pass over a job's document, run again if it is no longer held."""
        if job not in self._traces:
            report("running the model", 0, 0)
            trace = self._run(request)
            trace.require("attentions")
            self._keep(job, trace)
        self._traces.move_to_end(job)
        return self._traces[job]

    def _run(self, request: Mapping[str, Any]) -> Trace:
        """Return a pass over what a request asks about; nothing runs until something is asked of it."""
        model = self._models[request["model"]]
        return model.trace(
            self._encoded(model, request),
            _target(request["target"]),
            quantity=request["quantity"] or "logit",
            position=request["position"],
        )

    def _keep(self, job: str, trace: Trace) -> None:
        self._traces[job] = trace
        while len(self._traces) > KEPT_DOCUMENTS:
            self._traces.popitem(last=False)


def _model_facts(name: str, model: Model) -> dict[str, Any]:
    """Return what a client must know to use a model."""
    labels = model.labels
    return {
        "name": name,
        "type": str(model.network.config.model_type),
        "task": model.task,
        "labels": list(labels) if len(labels) <= MOST_LABELS else [],
        "max_tokens": model.max_tokens,
        "layers": len(model.network.layers),
        "heads": model.network.heads,
        "untrained": bool(model.network.untrained),
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _target(given: Any) -> Any:
    """A pair comes from JSON as a list."""
    return tuple(given) if isinstance(given, list) else given


def _options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return each method's own options; the seed goes to every method that draws random numbers."""
    chosen: dict[str, dict[str, Any]] = {name: dict(own) for name, own in request["options"].items()}
    if request["seed"] is not None:
        for name in request["methods"]:
            if "seed" in METHODS.get(name).options:
                chosen.setdefault(name, {}).setdefault("seed", request["seed"])
    return chosen


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Collect what our own code warns about, as sentences for whoever asked."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield notes
    found = (one for one in caught if issubclass(one.category, UserWarning) and "sightline" in one.filename)
    notes.extend(dict.fromkeys(str(one.message) for one in found))
