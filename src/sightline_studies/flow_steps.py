"""What the attention-flow study measures of every sentence: attention by layer against blank-out and gradients.

    raw      row of [CLS] in Ā^l
    rollout  row of [CLS] in Â^l ⋯ Â^1, Â = (Ā + I)/2
    flow     maximum flow from ([CLS], l) to every input, with capacities Â

Each, for each layer, is compared by Spearman's ρ over the tokens of the sentence (`evaluation.compare`) with blank-out
(the drop of the predicted class's probability when a token is replaced by the unknown token) and with the norm of the
input gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.analysis import attention_graphs, cancelled_share
from sightline.analysis.maps import COMPARED_GRAPH_TOKENS
from sightline.api.model import Model
from sightline.evaluation import compare
from sightline.evaluation.agreement import Agreement
from sightline.metrics import SightlineWarning, spearman
from sightline.text import Encoding, Example
from sightline_studies.agreement import measure_agreement
from sightline_studies.workbench import Subject, Workbench

VIEWS = {"raw": "raw_attention", "rollout": "rollout", "flow": "flow"}
REFERENCES: dict[str, dict[str, dict[str, Any]]] = {
    "blank_out": {"occlusion": {"replacement": "unk", "quantity": "probability"}},
    "gradient": {"gradient": {}},
}
"""Reference -> method -> its options."""
STATISTIC = "spearman"
FEWEST_TOKENS = 3
"""A ranking of fewer tokens says nothing."""


def measure_layers(
    bench: Workbench, subject: Subject, examples: Sequence[Example], name: str, reference: str
) -> Agreement:
    """Return ρ between each layer of each view and a reference; sentences of fewer than three tokens have none."""
    chosen: dict[str, Any] = REFERENCES[reference]
    (method,) = chosen

    def compare_rows(rows: Sequence[Example]) -> Agreement:
        encoded = [replace(row, text=subject.model.encode(str(row.text), truncate=True), pair=None) for row in rows]
        ranked = [row for row in encoded if isinstance(row.text, Encoding) and has_ranking(row.text)]
        if not ranked:
            return Agreement(pairs=(), between="layers", documents=(), metrics=(STATISTIC,), settings={})
        return compare(
            subject.model,
            ranked,
            list(VIEWS.values()),
            STATISTIC,
            level="token",
            layers=True,
            reference=method,
            magnitude=True,
            permutations=1,
            seed=bench.seed,
            quantity="logit",
            **chosen,
        )

    identity = {"model": subject.identity, "views": list(VIEWS.values()), "reference": chosen}
    name = f"{name}-{reference.replace('_', '-')}"
    return measure_agreement(bench, name, identity, examples, compare_rows, "layers", reference=method)


def has_ranking(encoding: Encoding) -> bool:
    """Say whether a text has enough tokens for a ranking of them to say something."""
    return int((~encoding.special).sum()) >= FEWEST_TOKENS


def measure_predictions(
    bench: Workbench, subject: Subject, examples: Sequence[Example], name: str
) -> list[dict[str, Any]]:
    """Return per sentence: prediction, label, and entropy and cancelled share of raw attention by layer."""

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            yield measure_sentence(subject.model, subject.model.encode(str(example.text), truncate=True), example)

    identity = {"model": subject.identity, "effective": True}
    return bench.measure_documents(name, identity, examples, measure, at_once=20)


def measure_sentence(model: Model, encoding: Encoding, example: Example) -> dict[str, Any]:
    """Return prediction, label, and by layer the entropy of the row of [CLS] and the share that is cancelled.

    cancelled: share of the squared weights that has no effect, mean over heads (`analysis.cancelled_share`). There is
    such a part only if the sentence has more tokens than a head is wide.
    """
    trace = model.trace(encoding)
    raw = model.explain(trace, method="raw_attention").layers
    assert raw is not None
    return {
        "predicted": trace.prediction.index,
        "label": example.label,
        "entropy": [_evenness(row) for row in raw],
        "cancelled": cancelled_share(trace).mean(axis=1),
        "tokens": len(encoding),
        "head_width": trace.block(0).values.shape[-1],
    }


def explain_views(bench: Workbench, subject: Subject, example: Example) -> dict[str, Any]:
    """Return tokens and the three views of one sentence: by layer for [CLS], and, if it is short, as whole graphs."""

    def explain() -> dict[str, Any]:
        trace = subject.model.trace(subject.model.encode(str(example.text), truncate=True))
        explained = subject.model.explain(trace, methods=list(VIEWS.values()))
        return {
            "tokens": explained["rollout"].tokens,
            "graphs": attention_graphs(trace) if trace.token_count <= COMPARED_GRAPH_TOKENS else {},
            "readout": int(np.argmax(trace.readout)),
            **{view: explained[name].layers for view, name in VIEWS.items()},
        }

    identity = {"model": subject.identity, "text": str(example.text), "graphs": True}
    views: dict[str, Any] = bench.step("maps", identity, explain)
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
