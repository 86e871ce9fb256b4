"""What the ALTI study measures of every sentence: agreement with references, ranks of marks, spread of representations.

Methods that follow how tokens are mixed (raw attention, rollout, norm rollout, GlobEnc, ALTI) are compared by
Spearman's ρ over all tokens but the specials with two references: the norm of the gradient and blank-out.

Anisotropy: do the vectors of a layer point the same way, and those that they are sums of?

Consistency: do explanations of two models agree on the sentences that both predict alike? Word scores of every two
models are compared by Spearman's ρ (`evaluation.consistency`): models that differ by their seed only, as in the paper,
and different models of sentiment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.analysis import anisotropy_by_layer
from sightline.api.model import Model
from sightline.evaluation import consistency
from sightline.evaluation.agreement import Agreement
from sightline.methods.decomposition.matrices import relevance_matrices
from sightline.metrics import normalised_rank
from sightline.text import Encoding, Example
from sightline_studies.agreement import measure_agreement
from sightline_studies.flow_steps import has_ranking, rank_correlation
from sightline_studies.study import Curve, Curves, Dots, Measured, shared_difference
from sightline_studies.workbench import Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

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
    trace = model.trace(encoding, quantity="logit")
    spread = anisotropy_by_layer(trace)
    names = dict.fromkeys([*METHODS, *REFERENCES.values()])
    explained = model.explain(trace, methods=list(names), occlusion={"replacement": "unk", "quantity": "probability"})
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
        explained = model.explain(encoding, methods=["alti", "rollout", "gradient"], quantity="logit")
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


Entries = Sequence[Mapping[str, Any]]


def _spread(entries: Entries, vectors: str, seed: int) -> list[Measured]:
    """Return the anisotropy of some vectors in every layer."""
    return [Measured.of(column, seed) for column in np.array([e["anisotropy"][vectors] for e in entries]).T]


def anisotropy_table(measured: Mapping[str, Entries], seed: int) -> pd.DataFrame:
    """Return one row per model and layer: mean cosine of hidden states, y and T."""
    import pandas as pd

    rows = []
    for name, entries in measured.items():
        columns = {"hidden": _spread(entries, "hidden", seed)[1:]}
        columns |= {vectors: _spread(entries, vectors, seed) for vectors in VECTORS[1:]}
        for layer in range(len(columns["y"])):
            means = {vectors: values[layer].value for vectors, values in columns.items()}
            rows.append({"model": name, "layer": layer, **means})
    return pd.DataFrame(rows)


def vector_curves(entries: Entries, seed: int) -> Curves:
    """Return hidden states, y and T of one model over its layers, with intervals."""
    names = {"hidden": "hidden states", "y": "attention outputs y", "T": "vectors T"}
    curves = [
        Curve.of(name, _spread(entries, vectors, seed)[1 if vectors == "hidden" else 0 :])
        for vectors, name in names.items()
    ]
    return Curves([str(layer) for layer in range(len(curves[0].values))], curves, "layer", "mean cosine")


def anisotropy_curves(measured: Mapping[str, Entries], seed: int) -> Curves:
    """Return the hidden states of every model over its layers, the embedding first, with intervals."""
    spreads = {name: _spread(entries, "hidden", seed) for name, entries in measured.items()}
    longest = max(len(layers) for layers in spreads.values())
    curves = [Curve.of(name, layers, longest) for name, layers in spreads.items()]
    return Curves(["embedding", *map(str, range(longest - 1))], curves, "layer", "mean cosine")


SEEDS, MODELS = "seeds", "models"
"""Whose consistency is measured: models that differ by their seed, and models of sentiment."""
GRADIENTS = ("gradient", "input_x_gradient")
"""Gradient methods whose consistency between models is compared with ALTI's."""


def measure_consistency(
    bench: Workbench, subjects: Sequence[Subject], examples: Sequence[Example], name: str
) -> Agreement:
    """Return ρ between the word scores of every two models, on the sentences that both predict alike."""
    methods = [*METHODS, *GRADIENTS]

    def compare_rows(rows: Sequence[Example]) -> Agreement:
        models = {f"{number}: {subject.name}": subject.model for number, subject in enumerate(subjects, start=1)}
        return consistency(models, rows, methods, magnitude=True, quantity="logit", permutations=20, seed=bench.seed)

    identity = {"models": [subject.identity for subject in subjects], "methods": methods}
    return measure_agreement(bench, f"consistency-{name}", identity, examples, compare_rows, "models")


def consistency_table(groups: Mapping[str, Agreement], control: Agreement) -> pd.DataFrame:
    """Return one row per pair of models and method; the control stands beside models that differ by their seed."""
    import pandas as pd

    random = {row.method: row.mean for row in control.summary().itertuples()}
    return pd.DataFrame(
        [
            {
                "models": f"{row.first}, {row.second}",
                "method": row.method,
                "mean": row.mean,
                "low": row.low,
                "high": row.high,
                "chance": row.chance,
                "random_weights": random.get(row.method, np.nan) if name == SEEDS else np.nan,
                "documents": row.documents,
                "predicted_differently": row.missing,
            }
            for name, agreement in groups.items()
            for row in agreement.summary().itertuples()
        ]
    )


def _pair_title(first: str, second: str) -> str:
    """Return two models without their numbers, which only matter where both have the same name."""
    names = [model.partition(": ")[2] for model in (first, second)]
    return ", ".join(names if names[0] != names[1] else [first, second])


def consistency_dots(groups: Mapping[str, Agreement]) -> Dots:
    """Return one panel per pair of models: ρ of each method with interval and chance level."""
    panels: dict[str, list[tuple[str, Measured, float]]] = {}
    for agreement in groups.values():
        for row in agreement.summary().itertuples():
            measured = Measured(row.mean, row.low, row.high, row.documents)
            panels.setdefault(_pair_title(row.first, row.second), []).append((row.method, measured, row.chance))
    return Dots(panels)


def _consistencies(agreement: Agreement, method: str) -> dict[tuple[str, str, str], float]:
    """Return ρ by (first model, second model, sentence)."""
    return {
        (pair.first, pair.second, pair.document): pair.value
        for pair in agreement.pairs
        if pair.method == method and pair.value is not None
    }


def alti_gain(agreement: Agreement, seed: int) -> Measured:
    """Return by how much models agree more by ALTI than by gradients, paired by sentence and pair of models."""
    return shared_difference(_consistencies(agreement, "alti"), _consistencies(agreement, "gradient"), seed)
