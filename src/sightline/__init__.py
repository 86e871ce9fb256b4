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
    from sightline import analysis as analysis
    from sightline import attention as attention
    from sightline import corpus as corpus
    from sightline import errors as errors
    from sightline import evaluation as evaluation
    from sightline import lab as lab
    from sightline import methods as methods
    from sightline import metrics as metrics
    from sightline import models as models
    from sightline import text as text
    from sightline import view as view
    from sightline.api.load import load as load
    from sightline.api.model import Model as Model
    from sightline.corpus import read_examples as read_examples
    from sightline.corpus.runner import run as run
    from sightline.corpus.store import Store as Store
    from sightline.corpus.store import open_run as open_run
    from sightline.corpus.streaming import Selection as Selection
    from sightline.errors import SightlineError as SightlineError
    from sightline.evaluation import Evaluation as Evaluation
    from sightline.evaluation import compare as compare
    from sightline.evaluation import evaluate as evaluate
    from sightline.methods import list_methods as list_methods
    from sightline.methods import method as method
    from sightline.metrics import list_metrics as list_metrics
    from sightline.metrics import metric as metric
    from sightline.models import Prediction as Prediction
    from sightline.models import Target as Target
    from sightline.passes.trace import Trace as Trace
    from sightline.results.continuation import ContinuationExplanation as ContinuationExplanation
    from sightline.results.explanation import Explanation as Explanation
    from sightline.results.report import Report as Report
    from sightline.results.verdict import Verdict as Verdict
    from sightline.text import Encoding as Encoding
    from sightline.text.documents import read_document as read_document

_NAMES = {
    "api.load": "load",
    "api.model": "Model",
    "corpus": "read_examples",
    "corpus.runner": "run",
    "corpus.store": "Store open_run",
    "corpus.streaming": "Selection",
    "errors": "SightlineError",
    "evaluation": "Evaluation compare evaluate",
    "methods": "list_methods method",
    "metrics": "list_metrics metric",
    "models": "Prediction Target",
    "passes.trace": "Trace",
    "results.continuation": "ContinuationExplanation",
    "results.explanation": "Explanation",
    "results.report": "Report",
    "results.verdict": "Verdict",
    "text": "Encoding",
    "text.documents": "read_document",
}
"""The public names by module."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
_ROOMS = frozenset(
    {"analysis", "attention", "corpus", "errors", "evaluation", "lab", "methods", "metrics", "models", "text", "view"}
)
__all__ = sorted([*_HOMES, *_ROOMS])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sightline.{_HOMES[name]}"), name)
    if name in _ROOMS:
        return import_module(f"sightline.{name}")
    if name == "__version__":
        return import_module("importlib.metadata").version("sightline-xai")
    raise AttributeError(f"module 'sightline' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
