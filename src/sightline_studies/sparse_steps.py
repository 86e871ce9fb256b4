"""What the sparse-attention study measures: importance, entropies, ties and other weights in single-attention models.

Per data set, encoder and projection one model is trained (`lab.train`), and its accuracy measured on test documents. Of
the first of these are kept: the normalised entropies of the attention, of the input importance by gradients and by
leave-one-out, and of the dependence of representations on inputs, and tau-b between attention and importance of inputs
and representations, with the share of tied pairs (`lab.feature_importance`). `lab.adversary` looks for other weights
with the same output, for each document alone and as the paper does, trained on the training set and measured on the
test documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sightline.api.model import Model
from sightline.evaluation.subject import label_classes
from sightline.lab import adversary, feature_importance, normalised_entropy
from sightline.lab.adversary import Test
from sightline.text import Example
from sightline_studies.accuracy import measure_accuracy, readable
from sightline_studies.data import DataSet, describe_rows
from sightline_studies.tables import published
from sightline_studies.workbench import Subject, Workbench

ENCODERS = {"bilstm": "new-bilstm", "transformer": "new-transformer"}
PROJECTIONS = ("softmax", "entmax15", "sparsegen-1", "sparsemax", "sparsegen0.5", "sparsegen0.9")
LAMBDAS = {"sparsegen-1": -1.0, "sparsemax": 0.0, "sparsegen0.5": 0.5, "sparsegen0.9": 0.9}
"""λ of the sparsegen family, from dense to sparse; sparsemax is λ = 0."""
LEARNING_RATES = {"bilstm": 2e-3, "transformer": 1e-3}
"""Of all sizes but that of the paper, whose own rates need far more readings."""
ATTENTION_RATE = 10.0
"""How many times faster the attention learns, as in the paper; at the same rate it stays even over all words."""
VOCABULARY = 8_000
"""Largest vocabulary of a model, in words; the most frequent ones of its training texts."""
MEASURES = ("gradient_x", "gradient_h", "leave_out_x", "leave_out_h")
TESTS: tuple[Test, ...] = ("uniform", "permuted", "frozen")
"""Tests of each document alone."""
LEARNT: Mapping[str, Test] = {"frozen": "retrained", "unfrozen": "unfrozen"}
"""Adversaries that learn from the training set, as the paper calls them, and as `lab.adversary` does."""
ATTACKED = "sparsemax"
"""The projection whose models are attacked."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One trained model and what was measured with it."""

    data: str
    encoder: str
    projection: str
    tested: Sequence[dict[str, Any]]
    """Prediction and label of every test document."""
    documents: Sequence[dict[str, Any]]
    """Entropies and correlations of the documents that were measured, the first of the test documents."""
    others: Sequence[dict[str, Any]] = ()
    """Weights of the adversary: one entry per document and test, of models with the projection `ATTACKED`."""


def measure_cell(bench: Workbench, data: DataSet, encoder: str, projection: str) -> Cell:
    """Train a model, then measure the documents of the data set with it."""
    tokens, width = bench.number("tokens"), bench.number("width")
    name = f"{data.name}-{encoder}-{projection}"
    subject = bench.trained_model(
        name,
        data.train,
        ENCODERS[encoder],
        projection=projection,
        epochs=count_epochs(len(data.train), bench.number("readings")),
        batch=bench.number("batch"),
        learning_rate=learning_rate(bench, encoder),
        weight_decay=1e-5,
        amsgrad=True,
        attention_rate=ATTENTION_RATE,
        max_tokens=tokens,
        vocabulary=VOCABULARY,
        sizes={
            "hidden_size": width,
            **({"encoder_heads": 1} if encoder == "transformer" else {"embedding_size": width}),
        },
    )
    identity: dict[str, Any] = {"model": subject.identity}

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            yield measure_document(subject.model, example)

    rows = readable(bench, subject, data, [])
    tested = measure_accuracy(bench, subject, rows, name)
    measured = rows[: bench.number("documents")]
    documents = bench.measure_documents(f"importance-{name}", identity, measured, measure, at_once=16)
    if projection != ATTACKED:
        return Cell(data.name, encoder, projection, tested, documents)
    alone: dict[str, Any] = {"tests": TESTS, "steps": bench.number("attack_steps"), "restarts": 1, "permutations": 20}
    learnt = {"tests": list(LEARNT.values()), "epochs": bench.number("attack_epochs")}
    others = attack(bench, subject, f"adversary-{name}", rows[: bench.number("attacked")], alone)
    training = readable(bench, subject, replace(data, test=data.train), [])
    others += attack(bench, subject, f"learnt-{name}", rows, learnt, training)
    return Cell(data.name, encoder, projection, tested, documents, others)


def learning_rate(bench: Workbench, encoder: str) -> float:
    """Return the printed rate at the size of the paper, and a larger one for fewer readings."""
    name = {"bilstm": "learning_rate_lstm", "transformer": "learning_rate_transformer"}[encoder]
    return published("sparse_facts", "value", name=name)[0] if bench.size == "paper" else LEARNING_RATES[encoder]


def count_epochs(rows: int, readings: int) -> int:
    """Return how often a model reads its training texts so that it reads about `readings` texts in all.

    Data sets differ sixfold in size; with the same number of epochs the models of the smallest would learn nothing.
    """
    return max(1, round(readings / max(1, rows)))


def measure_document(model: Model, example: Example) -> dict[str, Any]:
    """Return entropies and correlations of one document."""
    encoding = model.encode(str(example.text), truncate=True)
    importance = feature_importance(model, encoding)
    attended = importance.attended
    count = int(attended.sum())
    entry: dict[str, Any] = {
        "tokens": count,
        "attention_entropy": _entropy(importance.attention[attended]),
        "importance_entropy": _entropy(importance.gradient_x[attended]),
        "representation_entropy": float(importance.entropies[attended].mean()),
        "leave_out_entropy": _entropy(importance.leave_out_x[attended]),
        "support": float((importance.attention[attended] > 0).mean()),
    }
    pairs = count * (count - 1) / 2
    for measure in MEASURES:
        tau, ties = importance.correlation(measure)
        entry[measure] = tau
        entry[f"{measure}_ties"] = ties / pairs if pairs else None
    return entry


def attack(
    bench: Workbench,
    subject: Subject,
    name: str,
    rows: Sequence[Example],
    options: Mapping[str, Any],
    training: Sequence[Example] = (),
) -> list[dict[str, Any]]:
    """Return, per document and test, JSD, TVD, and whether the model and its adversary are right."""

    def measure(part: Sequence[Example]) -> Iterator[list[dict[str, Any]]]:
        model = subject.model
        classes = label_classes(model, rows)
        texts, learnt = ([model.encode(str(row.text), truncate=True) for row in many] for many in (part, training))
        result = adversary(model, texts, strengths=(1.0,), training=learnt or None, seed=bench.seed, **options)
        by_test = [result.select(test) for test in options["tests"]]
        for row, *pairs in zip(part, *by_test, strict=True):
            label = classes.get(row.label)
            yield [
                {
                    "test": pair.test,
                    "jsd": pair.jsd,
                    "tvd": pair.tvd,
                    "right": bool(pair.probabilities.argmax() == label),
                    "other_right": bool(pair.other_probabilities.argmax() == label),
                }
                for pair in pairs
            ]

    identity = {"model": subject.identity, "training": describe_rows(training), **options}
    parts = bench.measure_documents(name, identity, rows, measure, at_once=len(rows) or 1)
    return [pair for pairs in parts for pair in pairs]


def cut_words(example: Example, tokens: int) -> Example:
    """Return a text cut after its first words: the vocabulary is one of words, so that so many tokens are read."""
    return replace(example, text=" ".join(str(example.text).split()[: tokens - 2]))


def _entropy(weights: Any) -> float:
    """Return the normalised entropy of weights (n,) scaled to sum 1; 0 if there is nothing to scale."""
    total = float(weights.sum())
    return float(normalised_entropy(torch.from_numpy(weights / total))) if total else 0.0
