"""Sightline: which words caused a prediction of a Transformer text model, and how far that can be trusted.

    import sightline as sl
    model = sl.load("path-or-hub-id")
    exp = model.explain("text", method="attcat")

Everything here is loaded when it is first used, so that `import sightline` costs nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Threads that wait for each other at every matrix product spin by default, on cores that other programs need. On a busy
# machine that makes two threads many times slower than one (docs/benchmarks.md, "Do two cores help?"). The OpenMP
# runtime reads both when torch is first imported; the second is that of GNU, which then spins for a few microseconds.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    __version__: str
    from sightline import analysis, attention, corpus, errors, evaluation, lab, methods, metrics, models, text, view
    from sightline.api.load import load
    from sightline.api.model import Model
    from sightline.corpus import Selection, Store, open_run, read_examples, run
    from sightline.errors import SightlineError
    from sightline.evaluation import Evaluation, compare, evaluate
    from sightline.methods import list_methods, method
    from sightline.metrics import list_metrics, metric
    from sightline.models import Prediction, Target
    from sightline.passes.trace import Trace
    from sightline.results.continuation import ContinuationExplanation
    from sightline.results.explanation import Explanation
    from sightline.results.report import Report
    from sightline.results.verdict import Verdict
    from sightline.text import Encoding
    from sightline.text.documents import read_document

__all__ = [
    "ContinuationExplanation",
    "Encoding",
    "Evaluation",
    "Explanation",
    "Model",
    "Prediction",
    "Report",
    "Selection",
    "SightlineError",
    "Store",
    "Target",
    "Trace",
    "Verdict",
    "analysis",
    "attention",
    "compare",
    "corpus",
    "errors",
    "evaluate",
    "evaluation",
    "lab",
    "list_methods",
    "list_metrics",
    "load",
    "method",
    "methods",
    "metric",
    "metrics",
    "models",
    "open_run",
    "read_document",
    "read_examples",
    "run",
    "text",
    "view",
]

_HOMES = {
    "Encoding": "sightline.text",
    "Evaluation": "sightline.evaluation",
    "ContinuationExplanation": "sightline.results.continuation",
    "Explanation": "sightline.results.explanation",
    "Model": "sightline.api.model",
    "Prediction": "sightline.models",
    "Report": "sightline.results.report",
    "Selection": "sightline.corpus.streaming",
    "SightlineError": "sightline.errors",
    "Store": "sightline.corpus.store",
    "Target": "sightline.models",
    "Trace": "sightline.passes.trace",
    "Verdict": "sightline.results.verdict",
    "compare": "sightline.evaluation",
    "evaluate": "sightline.evaluation",
    "list_methods": "sightline.methods",
    "list_metrics": "sightline.metrics",
    "load": "sightline.api.load",
    "method": "sightline.methods",
    "metric": "sightline.metrics",
    "open_run": "sightline.corpus.store",
    "read_document": "sightline.text.documents",
    "read_examples": "sightline.corpus",
    "run": "sightline.corpus.runner",
}
_ROOMS = frozenset(
    {"analysis", "attention", "corpus", "errors", "evaluation", "lab", "methods", "metrics", "models", "text", "view"}
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"sightline.{name}")
    if name == "__version__":
        return import_module("importlib.metadata").version("sightline-xai")
    raise AttributeError(f"module 'sightline' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
