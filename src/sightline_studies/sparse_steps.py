"""What the sparse-attention study measures: importance, entropies, ties and other weights in single-attention models.

Per data set, encoder and projection one model is trained (`lab.train`), and its accuracy measured on test documents. Of
the first of these are kept: the normalised entropies of the attention, of the input importance by gradients and by
leave-one-out, and of the dependence of representations on inputs, and tau-b between attention and importance of inputs
and representations, with the share of tied pairs (`lab.feature_importance`). `lab.adversary` looks for other weights
with the same output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sightline.api.model import Model
from sightline.lab import adversary, feature_importance, normalised_entropy
from sightline.lab.adversary import Test
from sightline.text import Example
from sightline_studies.accuracy import measure_accuracy, readable
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
        data.train,
        ENCODERS[encoder],
        projection=projection,
        epochs=count_epochs(len(data.train), bench.number("readings")),
        batch=bench.number("batch"),
        learning_rate=LEARNING_RATES[encoder],
        weight_decay=1e-5,
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

    def attack(part: Sequence[Example]) -> Iterator[list[dict[str, Any]]]:
        yield from attack_documents(subject, part, bench)

    rows = readable(bench, subject, data, [])
    tested = measure_accuracy(bench, subject, rows, name)
    measured = rows[: bench.number("documents")]
    documents = bench.measure_documents(f"importance-{name}", identity, measured, measure, at_once=16)
    few = rows[: bench.number("attacked")]
    identity |= {"steps": bench.number("attack_steps"), "tests": TESTS}
    attacked = bench.measure_documents(f"adversary-{name}", identity, few, attack, at_once=len(few) or 1)
    others = [pair for pairs in attacked for pair in pairs]
    return Cell(data.name, encoder, projection, tested, documents, others)


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


def attack_documents(subject: Subject, examples: Sequence[Example], bench: Workbench) -> Iterator[list[dict[str, Any]]]:
    """Yield, per document, JSD and TVD of each test."""
    result = adversary(
        subject.model,
        [subject.model.encode(str(example.text), truncate=True) for example in examples],
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


def cut_words(example: Example, tokens: int) -> Example:
    """Return a text cut after its first words: the vocabulary is one of words, so that so many tokens are read."""
    return replace(example, text=" ".join(str(example.text).split()[: tokens - 2]))


def _entropy(weights: Any) -> float:
    """Return the normalised entropy of weights (n,) scaled to sum 1; 0 if there is nothing to scale."""
    total = float(weights.sum())
    return float(normalised_entropy(torch.from_numpy(weights / total))) if total else 0.0
