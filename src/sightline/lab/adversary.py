"""Adversarial attention: can other weights give the same prediction?

For a document with weights a and output ŷ of a model with a single attention, other weights a' with output ŷ' are
compared by two numbers: TVD(ŷ, ŷ') measures how far the prediction moved, JSD(a, a') (nats, at most ln 2) how far the
weights did. If distant weights leave the prediction unchanged, the weights are not the only explanation of it.

| test | other weights | source |
|---|---|---|
| uniform | the same weight on every attended token | Wiegreffe & Pinter 2019 |
| permuted | the same weights in random order; the median TVD over the orders | Jain & Wallace 2019 |
| frozen | softmax(z'), z' of every document minimises TVD − λ·JSD; encoder and decoder stay | Jain & Wallace |
| retrained | a new attention, trained to minimise the mean of TVD − λ·JSD; the rest stays | Meister et al. 2021 |
| unfrozen | a new model, trained to minimise the same from scratch | Wiegreffe & Pinter |

The last two are measured on documents that they did not learn from. JSD rather than KL, which is infinite where sparse
weights are 0. A larger λ buys more distance at the cost of the prediction, so results are given for a grid of λ.

Shapes: D documents, N tokens of the longest, R restarts, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sightline.api.model import Model
from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.lab.distributions import jensen_shannon, total_variation
from sightline.metrics.statistics import mean_interval
from sightline.models.classes import classes_of, no_class
from sightline.models.inputs import pad_inputs
from sightline.progress import Progress
from sightline.settings.values import check_seed, refuse_unused
from sightline.text import Encoding

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Test = Literal["uniform", "permuted", "frozen", "retrained", "unfrozen"]
TESTS: tuple[Test, ...] = ("uniform", "permuted", "frozen", "retrained", "unfrozen")
DEFAULT_TESTS: tuple[Test, ...] = ("uniform", "permuted", "frozen")
LEARNT: tuple[Test, ...] = ("retrained", "unfrozen")
"""Tests that train an attention, or a whole model."""
WITH_STRENGTH: tuple[Test, ...] = ("frozen", *LEARNT)
STRENGTHS = (0.1, 1.0)
DOCUMENTS_AT_ONCE = 64
LARGEST_STRENGTH = 1e6
"""Largest λ: beyond about 100 the prediction hardly counts, and far beyond that the objective overflows."""
PAGE_TITLE = "Do other attention weights give the same prediction?"


@dataclass(frozen=True, eq=False)
class AttentionPair:
    """One document under its own weights and under others."""

    test: Test
    """The test that produced the other weights."""
    strength: float | None
    """λ, where the test has one."""
    encoding: Encoding
    """The document."""
    weights: Array
    """a, (n,)."""
    other_weights: Array
    """a', (n,)."""
    probabilities: Array
    """ŷ, (C,)."""
    other_probabilities: Array
    """ŷ', (C,)."""
    jsd: float
    """How far the weights differ: Jensen-Shannon divergence in nats, 0 to 0.69."""
    tvd: float
    """How far the predictions differ: total variation, 0 to 1."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per token: both weights side by side."""
        import pandas as pd

        columns = {"token": self.encoding.tokens, "weight": self.weights, "other_weight": self.other_weights}
        return pd.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class AdversarialResult:
    """All pairs of all tests, and their summary."""

    pairs: tuple[AttentionPair, ...]
    labels: tuple[int, ...] | None
    """Class of every document, where given."""
    classes: tuple[str, ...] = ()
    """Names of the classes."""
    provenance: dict[str, str] = field(default_factory=dict)
    """What produced it: settings, model, hash of its weights, versions."""

    def select(self, test: Test, strength: float | None = None) -> list[AttentionPair]:
        """Return the pairs of one test (and λ), in the order of the documents."""
        return [pair for pair in self.pairs if pair.test == test and (strength is None or pair.strength == strength)]

    def table(self) -> pd.DataFrame:
        """Return one row per test and λ: mean JSD and TVD with 95 % intervals over documents, and accuracies."""
        import pandas as pd

        rows = []
        for test, strength in dict.fromkeys((pair.test, pair.strength) for pair in self.pairs):
            chosen = self.select(test, strength)
            row: dict[str, Any] = {"test": test, "lambda": strength, "documents": len(chosen)}
            for name in ("jsd", "tvd"):
                ends = (name, f"{name}_low", f"{name}_high")
                row |= dict(zip(ends, mean_interval([getattr(pair, name) for pair in chosen]), strict=True))
            same = [pair.probabilities.argmax() == pair.other_probabilities.argmax() for pair in chosen]
            row["same_prediction"] = float(np.mean(same))
            if self.labels is not None:
                for name in ("probabilities", "other_probabilities"):
                    hits = [getattr(p, name).argmax() == label for p, label in zip(chosen, self.labels, strict=True)]
                    row["accuracy" if name == "probabilities" else "other_accuracy"] = float(np.mean(hits))
            rows.append(row)
        return pd.DataFrame(rows)

    @overload
    def to_html(self, path: None = None, *, title: str = PAGE_TITLE) -> str: ...
    @overload
    def to_html(self, path: str | Path, *, title: str = PAGE_TITLE) -> Path: ...
    def to_html(self, path: str | Path | None = None, *, title: str = PAGE_TITLE) -> str | Path:
        """Return a page of the documents under both weights; with `path`, write it there and return the path."""
        from sightline.files.writing import write_or_return
        from sightline.view.adversary import render_adversary

        return write_or_return(render_adversary(self, title=title), path)


@dataclass(frozen=True)
class _Batch:
    """A padded batch of documents as the base model sees them."""

    encodings: list[Encoding]
    ids: Tensor
    mask: Tensor
    hidden: Tensor
    attended: Tensor
    weights: Tensor
    probabilities: Tensor


def adversary(
    model: Model,
    documents: Iterable[str | Encoding],
    *,
    tests: Sequence[Test] = DEFAULT_TESTS,
    strengths: Sequence[float] | None = None,
    labels: Sequence[int | str] | None = None,
    training: Iterable[str | Encoding] | None = None,
    steps: int = 200,
    restarts: int = 3,
    permutations: int = 100,
    epochs: int = 8,
    learning_rate: float = 1e-3,
    seed: int = 0,
    progress: Progress | None = None,
) -> AdversarialResult:
    """Run tests of the weights of a model with a single attention on documents.

    strengths: the grid of λ of "frozen", "retrained" and "unfrozen", 0.1 and 1 by default. steps, restarts: Adam steps
    and random starts of "frozen". permutations: random orders of "permuted". training, epochs, learning_rate: the
    training documents of "retrained" and "unfrozen", and how they are learnt; without `training`, each half of the
    documents is measured after training on the other half. labels: class of every document, for accuracies.
    """
    check_seed(seed)
    if not set(tests) & set(WITH_STRENGTH):
        refuse_unused({"strengths": strengths}, f"has no effect: only {', '.join(WITH_STRENGTH)} have a λ.")
    strengths = STRENGTHS if strengths is None else strengths
    encodings = _check(model, documents, tests, strengths, steps, restarts, permutations, epochs)
    learnt = [test for test in tests if test in LEARNT]
    if not learnt:
        refuse_unused({"training": training}, f"has no effect: only {' and '.join(LEARNT)} learn.")
    folds = _folds(encodings, None if training is None else _encode(model, training)) if learnt else []
    numbers = None if labels is None else _class_numbers(model, labels, len(encodings))
    generator = torch.Generator().manual_seed(seed)
    batches = list(_base_batches(model, encodings))
    pairs: list[AttentionPair] = []
    for test in dict.fromkeys(tests):
        for strength in strengths if test in WITH_STRENGTH else (None,):
            if test in LEARNT:
                assert strength is not None
                teach = partial(_train_adversary, model, test, strength, epochs, learning_rate, seed, progress)
                pairs += _learnt_pairs(model, encodings, folds, teach, test, strength)
                continue
            for number, batch in enumerate(batches):
                if progress is not None:
                    progress(f"{test} attention", number, len(batches))
                others = _other_weights(model, batch, test, strength, steps, restarts, permutations, generator)
                pairs += _pairs(batch, *others, test, strength)
    settings = {"steps": steps, "restarts": restarts, "permutations": permutations, "seed": seed}
    if learnt:
        settings |= {"epochs": epochs, "training": len(folds[0][0])}
    provenance = {name: str(value) for name, value in settings.items()} | model.provenance()
    return AdversarialResult(tuple(pairs), numbers, tuple(map(str, model.labels)), provenance)


def _other_weights(
    model: Model,
    batch: _Batch,
    test: Test,
    strength: float | None,
    steps: int,
    restarts: int,
    permutations: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return a' (D, N) and ŷ' (D, C) of one test."""
    if test == "uniform":
        uniform = batch.attended.to(batch.weights)
        uniform = uniform / uniform.sum(dim=1, keepdim=True)
        return uniform, _outputs(model, batch.hidden, uniform)
    if test == "permuted":
        return _median_permutation(model, batch, permutations, generator)
    assert strength is not None
    return _optimise(model, batch, strength, steps, restarts, generator)


def _outputs(model: Model, hidden: Tensor, weights: Tensor) -> Tensor:
    """ŷ' (..., C) of weights (..., N) over representations (..., N, d)."""
    module: Any = model.network.module
    context = torch.einsum("...n,...nd->...d", weights, hidden)
    return model.network.task.probabilities(module.decode(context))


@torch.no_grad()
def _median_permutation(
    model: Model, batch: _Batch, permutations: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the permutation of every document whose TVD is the median one."""
    chosen_weights, chosen_outputs = torch.zeros_like(batch.weights), torch.zeros_like(batch.probabilities)
    for row, attended in enumerate(batch.attended):
        places = attended.nonzero()[:, 0]
        orders = torch.rand(permutations, len(places), generator=generator).argsort(dim=1)
        shuffled = torch.zeros(permutations, batch.weights.shape[1], dtype=batch.weights.dtype)
        shuffled[:, places] = batch.weights[row, places][orders]
        outputs = _outputs(model, batch.hidden[row], shuffled)
        change = total_variation(outputs, batch.probabilities[row])
        middle = change.argsort()[(permutations - 1) // 2]
        chosen_weights[row], chosen_outputs[row] = shuffled[middle], outputs[middle]
    return chosen_weights, chosen_outputs


def _optimise(
    model: Model, batch: _Batch, strength: float, steps: int, restarts: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Minimise TVD − λ·JSD over the weights of every document, from several random starts; keep the best."""
    starts = torch.randn(restarts, *batch.weights.shape, generator=generator, dtype=batch.weights.dtype)
    with torch.enable_grad():
        scores = starts.requires_grad_()
        optimiser = torch.optim.Adam([scores], lr=0.1)
        for _ in range(steps):
            weights = torch.softmax(scores.masked_fill(~batch.attended, -torch.inf), dim=-1)
            objective = _objective(weights, _outputs(model, batch.hidden, weights), batch, strength)
            optimiser.zero_grad()
            (scores.grad,) = torch.autograd.grad(objective.sum(), scores)
            optimiser.step()
    with torch.no_grad():
        weights = torch.softmax(scores.masked_fill(~batch.attended, -torch.inf), dim=-1)
        outputs = _outputs(model, batch.hidden, weights)
        best = _objective(weights, outputs, batch, strength).argmin(dim=0)
        documents = torch.arange(len(best))
        return weights[best, documents], outputs[best, documents]


def _objective(weights: Tensor, outputs: Tensor, batch: _Batch, strength: float) -> Tensor:
    """TVD(ŷ, ŷ') − λ·JSD(a, a'), (..., D)."""
    return total_variation(outputs, batch.probabilities) - strength * jensen_shannon(weights, batch.weights)


def _folds(encodings: list[Encoding], training: list[Encoding] | None) -> list[tuple[list[Encoding], list[int]]]:
    """Return training documents with the indices of documents to measure: `training` and all, or each half."""
    if training is not None:
        return [(training, list(range(len(encodings))))]
    if len(encodings) < 2:
        raise InputError(
            f"{' and '.join(LEARNT)} are measured on documents that they did not learn from: give at least two, or "
            "others as training=."
        )
    return [(encodings[1 - first :: 2], list(range(first, len(encodings), 2))) for first in (0, 1)]


def _learnt_pairs(
    model: Model,
    encodings: Sequence[Encoding],
    folds: Sequence[tuple[list[Encoding], list[int]]],
    teach: Callable[[list[Encoding]], Any],
    test: Test,
    strength: float,
) -> list[AttentionPair]:
    """Return the pair of every document, from a model that was trained without it."""
    pairs: dict[int, AttentionPair] = {}
    for source, places in folds:
        other = teach(source)
        for start, batch in enumerate(_base_batches(model, [encodings[place] for place in places])):
            with torch.no_grad():
                *_, weights, outputs = _read(model, other, batch.ids, batch.mask)
            here = places[start * DOCUMENTS_AT_ONCE :]
            pairs |= zip(here, _pairs(batch, weights, outputs, test, strength), strict=False)
    return [pairs[place] for place in range(len(encodings))]


def _train_adversary(
    model: Model,
    test: Test,
    strength: float,
    epochs: int,
    learning_rate: float,
    seed: int,
    progress: Progress | None,
    documents: Sequence[Encoding],
) -> Any:
    """Train a second model of the same config to minimise the mean of TVD − λ·JSD.

    "unfrozen" begins with new weights. "retrained" keeps the base model's weights and learns only a new attention.
    """
    base: Any = model.network.module
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        module = type(base)(base.config).to(base.device, base.dtype).train()
        if test == "retrained":
            new = {f"model.attention.{name}": value for name, value in module.model.attention.state_dict().items()}
            module.load_state_dict({**base.state_dict(), **new})
            module.eval().requires_grad_(False).model.attention.requires_grad_(True)
        optimiser = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=learning_rate)
        for epoch in range(epochs):
            if progress is not None:
                progress(f"training for {test} attention", epoch, epochs)
            order = torch.randperm(len(documents)).tolist()
            for batch in _base_batches(model, [documents[place] for place in order]):
                *_, weights, outputs = _read(model, module, batch.ids, batch.mask)
                loss = _objective(weights, outputs, batch, strength).mean()
                optimiser.zero_grad()
                torch.autograd.backward(loss)
                optimiser.step()
    return module.eval()


def _read(model: Model, module: Any, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return h (D, N, d), which tokens may get weight, the weights (D, N) and the output (D, C) of a module."""
    hidden, attended = module.model.encode(ids, mask)
    weights = module.model.attention.weights(hidden, attended)
    context = (weights[:, :, None] * hidden).sum(dim=1)
    return hidden, attended, weights, model.network.task.probabilities(module.decode(context))


def _base_batches(model: Model, encodings: Sequence[Encoding]) -> Iterable[_Batch]:
    """Yield batches of what the base model computes for the documents, in order."""
    for start in range(0, len(encodings), DOCUMENTS_AT_ONCE):
        part = list(encodings[start : start + DOCUMENTS_AT_ONCE])
        inputs = pad_inputs(model.network, part)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        with torch.no_grad():
            read = _read(model, model.network.module, ids, mask)
        yield _Batch(part, ids, mask, *read)


def _pairs(
    batch: _Batch, weights: Tensor, probabilities: Tensor, test: Test, strength: float | None
) -> list[AttentionPair]:
    distances = jensen_shannon(weights.double(), batch.weights.double())
    changes = total_variation(probabilities.double(), batch.probabilities.double())
    pairs = []
    for row, encoding in enumerate(batch.encodings):
        n = len(encoding)
        pairs.append(
            AttentionPair(
                test=test,
                strength=strength,
                encoding=encoding,
                weights=_as_array(batch.weights[row, :n]),
                other_weights=_as_array(weights[row, :n]),
                probabilities=_as_array(batch.probabilities[row]),
                other_probabilities=_as_array(probabilities[row]),
                jsd=float(distances[row]),
                tvd=float(changes[row]),
            )
        )
    return pairs


def _as_array(tensor: Tensor) -> Array:
    return np.asarray(tensor.detach().cpu().double().numpy())


def _check(
    model: Model,
    documents: Iterable[str | Encoding],
    tests: Sequence[str],
    strengths: Sequence[float],
    *counts: int,
) -> list[Encoding]:
    """Return the documents as encodings; raise an error if the request is invalid."""
    if not model.network.family.single_attention:
        raise UnsupportedError(
            f"Adversarial attention is defined for models with a single attention; this one is of type "
            f"'{model.network.config.model_type}'. Train one: sightline train DATA --model new-bilstm --out FOLDER, or "
            "sl.lab.train(data, 'new-bilstm', out=...) in Python."
        )
    if len(model.labels) < 2:
        raise UnsupportedError("Adversarial attention compares distributions over classes; this model has one output.")
    check_tests(tests)
    if not strengths or not all(0 < strength <= LARGEST_STRENGTH for strength in strengths):
        raise OptionError(f"strengths must be positive numbers up to {LARGEST_STRENGTH:.0e}, at least one.")
    if any(count < 1 for count in counts):
        raise OptionError("steps, restarts, permutations and epochs must be at least 1.")
    return _encode(model, documents)


def _encode(model: Model, documents: Iterable[str | Encoding]) -> list[Encoding]:
    if isinstance(documents, str | Encoding):
        raise InputError("documents= is a list of texts or encodings; put a single one into a list.")
    encodings = [
        model.encode(document, truncate=True) if isinstance(document, str) else document for document in documents
    ]
    if not encodings:
        raise InputError("Adversarial attention needs at least one document; the list is empty.")
    return encodings


def check_tests(tests: Sequence[str]) -> list[Test]:
    """Return the tests; raise OptionError if there is none or an unknown one."""
    if not tests:
        raise OptionError(f"No test was given. Use one or more of: {', '.join(TESTS)}.")
    unknown = next((test for test in tests if test not in TESTS), None)
    if unknown is not None:
        raise OptionError(f"Unknown test '{unknown}'. Use one or more of: {', '.join(TESTS)}.")
    return [test for test in TESTS if test in tests]


def _class_numbers(model: Model, labels: Sequence[int | str], count: int) -> tuple[int, ...]:
    if len(labels) != count:
        raise InputError(f"{len(labels)} labels were given for {count} documents; give one per document.")
    classes = classes_of(labels, model.labels)
    unknown = next((label for label in labels if classes[label] is None), None)
    if unknown is not None:
        raise InputError(no_class(unknown, model.labels))
    return tuple(index for label in labels if (index := classes[label]) is not None)
