"""What the sparse-attention study measures: importance, entropies, ties and other weights in single-attention models.

Per data set, encoder and projection one model is trained (`lab.train`). Of every document are kept: the normalised
entropies of the attention, of the input importance and of the dependence of representations on inputs, the part of
that dependence that is on the word itself, and tau-b between attention and importance of inputs and representations,
with the share of tied pairs (`lab.feature_importance`). `lab.adversary` looks for other weights with the same output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sightline.lab import adversary, feature_importance, normalised_entropy
from sightline.lab.adversary import Test
from sightline.model import Model
from sightline.studies.data import DataSet
from sightline.studies.workbench import Subject, Workbench
from sightline.text import Example

ENCODERS = {"bilstm": "new-bilstm", "transformer": "new-transformer"}
PROJECTIONS = ("softmax", "sparsegen-1", "sparsemax", "sparsegen0.5", "sparsegen0.9")
LAMBDAS = {"sparsegen-1": -1.0, "sparsemax": 0.0, "sparsegen0.5": 0.5, "sparsegen0.9": 0.9}
"""λ of the sparsegen family, from dense to sparse; sparsemax is λ = 0."""
MEASURES = ("gradient_x", "gradient_h", "leave_out_x", "leave_out_h")
TESTS: tuple[Test, ...] = ("uniform", "permuted", "frozen")


@dataclass(frozen=True, eq=False)
class Cell:
    """One trained model and what was measured with it."""

    data: str
    encoder: str
    projection: str
    documents: Sequence[dict[str, Any]]
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
        epochs=bench.number("epochs"),
        batch=16,
        learning_rate=1e-3,
        max_tokens=tokens,
        sizes={"hidden_size": width} if encoder == "transformer" else {"hidden_size": width, "embedding_size": width},
    )
    identity = {"model": subject.identity, "tokens": tokens}

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            yield measure_document(subject.model, example, tokens)

    def attack(part: Sequence[Example]) -> Iterator[list[dict[str, Any]]]:
        yield from attack_documents(subject, part, tokens, bench)

    documents = bench.measure_documents(f"importance-{name}", identity, data.test, measure, at_once=16)
    few = data.test[: bench.number("attacked")]
    identity |= {"steps": bench.number("attack_steps"), "tests": TESTS}
    attacked = bench.measure_documents(f"adversary-{name}", identity, few, attack, at_once=len(few) or 1)
    return Cell(data.name, encoder, projection, documents, [pair for pairs in attacked for pair in pairs])


def measure_document(model: Model, example: Example, tokens: int) -> dict[str, Any]:
    """Return prediction, entropies, own share and correlations of one document."""
    encoding = model.encode(cut_words(example, tokens), truncate=True)
    importance = feature_importance(model, encoding)
    attended = importance.attended
    count = int(attended.sum())
    entry: dict[str, Any] = {
        "predicted": model.trace(encoding).prediction.label,
        "label": example.label,
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
