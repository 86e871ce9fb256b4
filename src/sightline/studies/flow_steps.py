"""What the attention-flow study measures of every sentence: attention by layer against blank-out and gradients.

    raw      row of [CLS] in Ā^l
    rollout  row of [CLS] in Â^l ⋯ Â^1, Â = (Ā + I)/2
    flow     maximum flow from ([CLS], l) to every input, with capacities Â

Each, for each layer, is compared by Spearman's ρ over the words of the sentence with blank-out (the drop of the
predicted class's probability when a token is replaced by the unknown token) and with the norm of the input gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sightline.metrics import SightlineWarning, spearman
from sightline.model import Model
from sightline.studies.workbench import Subject, Workbench
from sightline.text import Encoding, Example

VIEWS = {"raw": "raw_attention", "rollout": "rollout", "flow": "flow"}
REFERENCES = {"blank_out": "occlusion", "gradient": "gradient"}
FEWEST_TOKENS = 3
"""A ranking of fewer tokens says nothing."""


def measure_sentences(
    bench: Workbench, subject: Subject, examples: Sequence[Example], name: str
) -> list[dict[str, Any]]:
    """Return per sentence: prediction, and for each reference and view one ρ per layer."""

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            yield measure_sentence(subject.model, subject.model.encode(str(example.text), truncate=True), example)

    identity = {"model": subject.identity, "views": list(VIEWS), "references": list(REFERENCES)}
    return bench.measure_documents(name, identity, examples, measure, at_once=20)


def measure_sentence(model: Model, encoding: Encoding, example: Example) -> dict[str, Any]:
    """Return prediction, label, ρ by reference, view and layer, and the entropy of the raw row in each layer."""
    trace = model.trace(encoding)
    methods = [*VIEWS.values(), *REFERENCES.values()]
    explained = model.explain(trace, methods=methods, occlusion={"replacement": "unk"})
    words = np.flatnonzero(~encoding.special)
    entry: dict[str, Any] = {"predicted": trace.prediction.index, "label": example.label, "tokens": len(words)}
    if len(words) < FEWEST_TOKENS:
        return entry
    for reference, method in REFERENCES.items():
        importance = np.abs(explained[method].scores[words])
        for view, name in VIEWS.items():
            layers = explained[name].layers
            assert layers is not None
            entry[f"{reference} {view}"] = [rank_correlation(row[words], importance) for row in layers]
    raw = explained["raw_attention"].layers
    assert raw is not None
    entry["entropy"] = [_evenness(row) for row in raw]
    return entry


def explain_views(bench: Workbench, subject: Subject, example: Example) -> dict[str, Any]:
    """Return tokens and the three views by layer of one sentence, for the maps of [CLS]."""

    def explain() -> dict[str, Any]:
        explained = subject.model.explain(str(example.text), methods=list(VIEWS.values()), truncate=True)
        return {
            "tokens": explained["rollout"].tokens,
            **{view: explained[name].layers for view, name in VIEWS.items()},
        }

    views: dict[str, Any] = bench.step("maps", {"model": subject.identity, "text": str(example.text)}, explain)
    return views


def rank_correlation(first: Any, second: Any) -> float | None:
    """Return Spearman's ρ of two score vectors (n,), None if one of them is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SightlineWarning)
        return spearman(first, second)


def _evenness(weights: Any) -> float:
    """Return the entropy of weights (n,) divided by log n: 1 if all are equal."""
    share = np.asarray(weights, dtype=np.float64)
    share = share[share > 0] / share.sum()
    return float(-(share * np.log(share)).sum() / np.log(max(2, len(weights))))
