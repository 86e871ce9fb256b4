"""What the attention-flow study measures of every sentence: attention by layer against blank-out and gradients.

    raw      row of [CLS] in Ā^l
    rollout  row of [CLS] in Â^l ⋯ Â^1, Â = (Ā + I)/2
    flow     maximum flow from ([CLS], l) to every input, with capacities Â

Each, for each layer, is compared by Spearman's ρ over all tokens, [CLS] and [SEP] included, and over the words alone,
with blank-out (the drop of the correct class's probability when a token is replaced by the unknown token) and with the
norm of the input gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sightline.analysis import attention_graphs, cancelled_share
from sightline.analysis.maps import COMPARED_GRAPH_TOKENS
from sightline.evaluation.subject import label_classes
from sightline.passes.trace import Trace
from sightline.settings.names import MethodName
from sightline.text import Example
from sightline_studies.alti_steps import rank_correlation
from sightline_studies.workbench import Subject, Workbench

VIEWS: dict[str, MethodName] = {"raw": "raw_attention", "rollout": "rollout", "flow": "flow"}
REFERENCES: dict[str, MethodName] = {"blank_out": "occlusion", "gradient": "gradient"}


OVER = ("all", "words")
"""The tokens that are ranked: all, as in the paper, or all but the special ones."""
BLANK_OUT = {"replacement": "unk", "quantity": "probability", "special": True, "budget": None}
"""Every token is replaced in turn, special ones too."""


def measure_layers(
    bench: Workbench, subject: Subject, examples: Sequence[Example], name: str, *, blank_out: bool = True
) -> list[dict[str, Any]]:
    """Return per sentence: ρ by reference, view and layer, and entropy and cancelled share of raw attention."""
    references = tuple(REFERENCES) if blank_out else ("gradient",)

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        classes = label_classes(subject.model, part)
        for example in part:
            target = None if example.label is None else classes.get(example.label)
            yield measure_sentence(subject, example, target, references)

    identity = {"model": subject.identity, "views": list(VIEWS), "references": references, "tokens": OVER}
    return bench.measure_documents(name, identity, examples, measure, at_once=10)


def measure_sentence(
    subject: Subject, example: Example, target: int | None, references: Sequence[str]
) -> dict[str, Any]:
    """Return the measurements of one sentence; target: the correct class, None for the predicted one."""
    model = subject.model
    trace = model.trace(model.encode(str(example.text), truncate=True), target, quantity="logit")
    options: dict[str, Any] = {} if "blank_out" not in references else {"occlusion": BLANK_OUT}
    explained = model.explain(
        trace,
        methods=[*VIEWS.values(), *(REFERENCES[reference] for reference in references)],
        **options,
    )
    layers = {view: np.asarray(explained[name].layers) for view, name in VIEWS.items()}
    importance = {name: np.abs(explained[REFERENCES[name]].scores) for name in references}
    places = dict(zip(OVER, (slice(None), np.flatnonzero(~trace.encoding.special)), strict=True))
    return {
        **{
            f"{reference} {view} {over}": [rank_correlation(row[places[over]], scores[places[over]]) for row in rows]
            for reference, scores in importance.items()
            for view, rows in layers.items()
            for over in OVER
        },
        "entropy": [evenness(row) for row in layers["raw"]],
        "cancelled": cancelled_share(trace).mean(axis=1),
        "tokens": trace.token_count,
        "head_width": trace.block(0).values.shape[-1],
    }


def explain_views(bench: Workbench, subject: Subject, example: Example) -> dict[str, Any]:
    """Return tokens and the three views of one sentence: by layer for [CLS], and, if it is short, as whole graphs."""

    def explain() -> dict[str, Any]:
        trace = subject.model.trace(subject.model.encode(str(example.text), truncate=True))
        explained = subject.model.explain(trace, methods=list(VIEWS.values()))
        return {
            "tokens": explained["rollout"].tokens,
            "graphs": _graphs(trace) if trace.token_count <= COMPARED_GRAPH_TOKENS else {},
            "readout": int(np.argmax(trace.readout)),
            **{view: explained[name].layers for view, name in VIEWS.items()},
        }

    identity = {"model": subject.identity, "text": str(example.text), "graphs": "raw without residual"}
    views: dict[str, Any] = bench.step("maps", identity, explain)
    return views


def _graphs(trace: Trace) -> dict[str, Any]:
    """Return the graphs of Figure 1: raw attention without the residual connection, rollout and flow with it."""
    raw = np.stack([mean.dense()[0] for mean in trace.mean_attentions])
    return {**attention_graphs(trace), "raw attention": raw}


def evenness(weights: Any) -> float:
    """Return the entropy of weights (n,) divided by log n: 1 if all are equal."""
    share = np.asarray(weights, dtype=np.float64)
    share = share[share > 0] / share.sum()
    return float(-(share * np.log(share)).sum() / np.log(max(2, len(weights))))
