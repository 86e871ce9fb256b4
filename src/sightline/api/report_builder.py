"""The stages of a report: explain, look inside, check. They share the pass of one trace, and each is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sightline.analysis.importance import Importance, head_importance_of
from sightline.analysis.internals import inside as look_inside
from sightline.errors import UnsupportedError
from sightline.models import ALL
from sightline.passes.trace import Trace
from sightline.progress import Progress
from sightline.results.report import Report


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
