"""What the ALTI study measures of every sentence: agreement with references, ranks of marks, spread of representations.

Methods that follow how tokens are mixed (raw attention, rollout, norm rollout, GlobEnc, ALTI) are compared by
Spearman's ρ over all tokens but the specials with two references: the norm of the gradient and blank-out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sightline.analysis import anisotropy_by_layer
from sightline.api.model import Model
from sightline.methods.decomposition.matrices import relevance_matrices
from sightline.metrics import normalised_rank
from sightline.text import Encoding, Example
from sightline_studies.flow_steps import has_ranking, rank_correlation
from sightline_studies.workbench import Subject, Workbench

METHODS = ("raw_attention", "rollout", "norm_rollout", "globenc", "alti")
REFERENCES = {"gradient": "gradient", "blank_out": "occlusion"}
MARKS = ("first", "last", ",", ".")
"""Marks whose rank is reported: the special tokens before and after the text, comma, full stop."""
VECTORS = ("hidden", "y", "T")
"""Vectors whose anisotropy is measured: hidden states, outputs of the attention blocks, the vectors they sum."""


def measure_sentences(
    bench: Workbench, subject: Subject, examples: Sequence[Example], name: str
) -> list[dict[str, Any]]:
    """Return per sentence: prediction, ρ by reference and method, ranks of marks, anisotropy by layer."""

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            yield measure_sentence(subject.model, subject.model.encode(str(example.text), truncate=True), example)

    identity = {"model": subject.identity, "methods": METHODS, "marks": MARKS, "anisotropy": VECTORS}
    return bench.measure_documents(name, identity, examples, measure, at_once=10)


def measure_sentence(model: Model, encoding: Encoding, example: Example) -> dict[str, Any]:
    """Return the measurements of one sentence."""
    trace = model.trace(encoding)
    spread = anisotropy_by_layer(trace)
    names = dict.fromkeys([*METHODS, *REFERENCES.values()])
    explained = model.explain(trace, methods=list(names), occlusion={"replacement": "unk"})
    words = np.flatnonzero(~encoding.special)
    entry: dict[str, Any] = {
        "predicted": trace.prediction.index,
        "label": example.label,
        "tokens": len(encoding),
        "anisotropy": {"hidden": spread.hidden, "y": spread.outputs, "T": spread.transformed},
    }
    for method in METHODS:
        ranks = normalised_rank(np.abs(explained[method].scores))
        entry[f"ranks {method}"] = _ranks_of_marks(ranks, encoding)
        scores = explained[method].scores
        entry[f"special {method}"] = special_share_of_others(scores, encoding.special, trace.readout)
        for reference, source in REFERENCES.items():
            importance = np.abs(explained[source].scores[words])
            entry[f"{reference} {method}"] = (
                rank_correlation(scores[words], importance) if has_ranking(encoding) else None
            )
    return entry


def special_share_of_others(scores: Any, special: Any, readout: Any) -> float:
    """Return the share of special tokens in the total magnitude, the tokens that are read out left out of both.

    A layer passes much of the token that is read out on to itself; raw attention does not count that, ALTI does.
    """
    others = np.abs(np.asarray(scores, dtype=np.float64)) * (np.asarray(readout) == 0)
    total = float(others.sum())
    return float(others[np.asarray(special)].sum()) / total if total else 0.0


def explain_one(bench: Workbench, subject: Subject, example: Example) -> dict[str, Any]:
    """Return tokens, R^1 … R^L of ALTI and the scores of some methods for one sentence."""

    def explain() -> dict[str, Any]:
        model = subject.model
        encoding = model.encode(str(example.text), truncate=True)
        explained = model.explain(encoding, methods=["alti", "rollout", "gradient"])
        return {
            "tokens": list(encoding.tokens),
            "matrices": relevance_matrices(model.trace(encoding), "alti"),
            **{name: explanation.scores for name, explanation in explained.items()},
        }

    record: dict[str, Any] = bench.step("example", {"model": subject.identity, "text": str(example.text)}, explain)
    return record


def _ranks_of_marks(ranks: Any, encoding: Encoding) -> dict[str, float]:
    """Return the mean normalised rank of every mark that the sentence has; 1 is the highest-scored token."""
    specials = np.flatnonzero(encoding.special)
    places: dict[str, Any] = {"first": specials[:1], "last": specials[1:][-1:]}
    for sign in (",", "."):
        places[sign] = [place for place, token in enumerate(encoding.tokens) if token.strip("Ġ▁") == sign]
    return {mark: float(np.mean(ranks[positions])) for mark, positions in places.items() if len(positions)}
