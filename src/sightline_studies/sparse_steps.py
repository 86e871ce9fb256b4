"""What the sparse-attention study measures: importance, entropies, ties and other weights in single-attention models.

Per data set, encoder and projection one model is trained (`lab.train`), and its accuracy measured on test documents. Of
the first of these are kept: the normalised entropies of the attention, of the input importance and of the dependence of
representations on inputs, the part of that dependence that is on the word itself, and tau-b between attention and
importance of inputs and representations, with the share of tied pairs (`lab.feature_importance`). `lab.adversary` looks
for other weights with the same output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from sightline.api.model import Model
from sightline.lab import adversary, feature_importance, normalised_entropy
from sightline.lab.adversary import Test
from sightline.text import Example
from sightline_studies.accuracy import measure_accuracy
from sightline_studies.data import DataSet
from sightline_studies.workbench import Subject, Workbench

ENCODERS = {"bilstm": "new-bilstm", "transformer": "new-transformer"}
PROJECTIONS = ("softmax", "sparsegen-1", "sparsemax", "sparsegen0.5", "sparsegen0.9")
LAMBDAS = {"sparsegen-1": -1.0, "sparsemax": 0.0, "sparsegen0.5": 0.5, "sparsegen0.9": 0.9}
"""λ of the sparsegen family, from dense to sparse; sparsemax is λ = 0."""
LEARNING_RATES = {"bilstm": 2e-3, "transformer": 1e-3}
VOCABULARY = 8_000
"""Most words of a model's vocabulary: those that are frequent in its training texts."""
MEASURES = ("gradient_x", "gradient_h", "leave_out_x", "leave_out_h")
TESTS: tuple[Test, ...] = ("uniform", "permuted", "frozen")


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
    others: Sequence[dict[str, Any]]
    """Weights of the adversary: one entry per document and test."""


def measure_cell(bench: Workbench, data: DataSet, encoder: str, projection: str) -> Cell:
    """Train a model, then measure the documents of the data set with it."""
    tokens, width = bench.number("tokens"), bench.number("width")
    name = f"{data.name}-{encoder}-{projection}"
    subject = bench.trained_model(
        name,
        [replace(example, text=cut_words(example, tokens)) for example in data.train],
        ENCODERS[encoder],
        projection=projection,
        epochs=count_epochs(len(data.train), bench.number("readings")),
        batch=16,
        learning_rate=LEARNING_RATES[encoder],
        max_tokens=tokens,
        vocabulary=VOCABULARY,
        sizes={"hidden_size": width} if encoder == "transformer" else {"hidden_size": width, "embedding_size": width},
    )
    identity = {"model": subject.identity, "tokens": tokens}

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            yield measure_document(subject.model, example, tokens)

    def attack(part: Sequence[Example]) -> Iterator[list[dict[str, Any]]]:
        yield from attack_documents(subject, part, tokens, bench)

    tested = measure_accuracy(
        bench, subject, data.test, name, identity={"tokens": tokens}, read=lambda example: cut_words(example, tokens)
    )
    measured = data.test[: bench.number("documents")]
    documents = bench.measure_documents(f"importance-{name}", identity, measured, measure, at_once=16)
    few = data.test[: bench.number("attacked")]
    identity |= {"steps": bench.number("attack_steps"), "tests": TESTS}
    attacked = bench.measure_documents(f"adversary-{name}", identity, few, attack, at_once=len(few) or 1)
    others = [pair for pairs in attacked for pair in pairs]
    return Cell(data.name, encoder, projection, tested, documents, others)


def count_epochs(rows: int, readings: int) -> int:
    """Return how often a model reads its training texts so that it reads about `readings` texts in all.

    Data sets differ sixfold in size; with the same number of epochs the models of the smallest would learn nothing.
    """
    return max(1, round(readings / max(1, rows)))


def measure_document(model: Model, example: Example, tokens: int) -> dict[str, Any]:
    """Return entropies, own share and correlations of one document."""
    encoding = model.encode(cut_words(example, tokens), truncate=True)
    importance = feature_importance(model, encoding)
    attended = importance.attended
    count = int(attended.sum())
    entry: dict[str, Any] = {
        "tokens": count,
        "attention_entropy": _entropy(importance.attention[attended]),
        "importance_entropy": _entropy(importance.gradient_x[attended]),
        "representation_entropy": float(importance.entropies[attended].mean()),
        "own_share": float(np.diag(importance.representations)[attended].mean()),
        "support": float((importance.attention[attended] > 0).mean()),
    }
    pairs = count * (count - 1) / 2
    for measure in MEASURES:
        tau, ties = importance.correlation(measure)
        entry[measure] = tau
        entry[f"{measure}_ties"] = ties / pairs if pairs else None
    return entry


def attack_documents(
    subject: Subject, examples: Sequence[Example], tokens: int, bench: Workbench
) -> Iterator[list[dict[str, Any]]]:
    """Yield, per document, JSD and TVD of each test."""
    result = adversary(
        subject.model,
        [subject.model.encode(cut_words(example, tokens), truncate=True) for example in examples],
        tests=TESTS,
        strengths=(1.0,),
        steps=bench.number("attack_steps"),
        restarts=1,
        permutations=20,
        seed=bench.seed,
    )
    by_test = {test: result.select(test) for test in TESTS}
    for number in range(len(examples)):
        yield [{"test": test, "jsd": pairs[number].jsd, "tvd": pairs[number].tvd} for test, pairs in by_test.items()]


def cut_words(example: Example, tokens: int) -> str:
    """Return the first words of a text: the vocabulary is one of words, so that about so many tokens are read."""
    return " ".join(str(example.text).split()[: tokens - 2])


def _entropy(weights: Any) -> float:
    """Return the normalised entropy of weights (n,) scaled to sum 1; 0 if there is nothing to scale."""
    total = float(weights.sum())
    return float(normalised_entropy(torch.from_numpy(weights / total))) if total else 0.0
