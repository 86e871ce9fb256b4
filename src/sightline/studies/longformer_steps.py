"""What the Longformer study measures of every document, in one pass shared by attribution and attention.

The same is measured with the weights made random (`random_twin`): agreement that stays there is no property of what the
model has learnt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.analysis import TokenFilter, document_similarity, head_importance, relation_counts
from sightline.evaluation.randomised import cascade
from sightline.evaluation.rule_model import rule_model
from sightline.model import Model
from sightline.storage import to_record
from sightline.studies.data import DataSet
from sightline.studies.generated import rule_documents
from sightline.studies.workbench import Subject, Workbench
from sightline.text import Encoding, Example
from sightline.text.units import units_of
from sightline.trace import Trace

METHOD = "integrated_gradients"
MASK = TokenFilter(numbers=True)
"""The published mask: alphabetic words that are no stop words."""
PARTNERS = 5
"""Strongest partners per token, layer and head."""
LISTED = 40
"""Words kept per document and table."""
BINS = 20
"""Parts of a document in which received attention is averaged."""


def choose_subject(bench: Workbench) -> tuple[DataSet, Subject]:
    """Return the documents and the model that was given, fine-tuned, or made for generated documents."""
    documents, words = bench.number("documents"), bench.number("tokens") // 2
    data = bench.read(
        "papers",
        lambda: rule_documents(documents, words, bench.seed + 1),
        documents=documents,
        training=bench.number("training"),
    )
    given = bench.given_model("classifier")
    if given is not None:
        return data, given
    if data.generated:
        return data, bench.made_model("Longformer built from a rule", {}, lambda: rule_model("any", bench.seed))
    return data, bench.trained_model(
        "longformer",
        data.train,
        bench.given_models.get("base", "built-in"),
        epochs=bench.number("epochs"),
        batch=4,
        max_tokens=bench.number("tokens"),
        learning_rate=5e-5,
    )


def random_twin(bench: Workbench, subject: Subject, shift: int = 0) -> Subject:
    """Return the same model with all weights drawn anew.

    shift: added to the seed. Twins of two models of one shape that are compared with each other need different ones,
    because the same seed draws the same numbers for both.
    """

    def make() -> Model:
        *_, (_, randomised) = cascade(subject.model, bench.seed + shift)
        return randomised

    identity = {"model": subject.identity} | ({"shift": shift} if shift else {})
    return bench.made_model(f"{subject.name} with random weights", identity, make)


def measure_importance(bench: Workbench, subject: Subject, examples: Sequence[Example]) -> npt.NDArray[np.float64]:
    """Return the importance (L, H) of the heads over some documents, 0 to 1."""

    def measure(part: Sequence[Example]) -> Iterator[Any]:
        for example in part:
            encoding = shorten(subject.model, example, bench.number("tokens"))
            yield head_importance(subject.model, encoding, normalize="raw").tolist()

    identity = {"model": subject.identity, "tokens": bench.number("tokens")}
    raw = np.array(bench.measure_documents("head-importance", identity, examples, measure, at_once=2)).mean(axis=0)
    spread = float(np.ptp(raw))
    return (raw - raw.min()) / spread if spread else np.zeros_like(raw)


def measure_similarity(
    bench: Workbench, subject: Subject, examples: Sequence[Example], weights: npt.NDArray[np.float64], name: str
) -> list[dict[str, Any]]:
    """Return prediction, similarity of attention and attribution, words and partners of every document."""
    tokens, steps = bench.number("tokens"), bench.number("steps")

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        for example in part:
            model = subject.model
            trace = model.trace(shorten(model, example, tokens))
            trace.require("attentions")
            explanation = model.explain(trace, method=METHOD, steps=steps)
            options: dict[str, Any] = {"permutations": 50, "seed": bench.seed, "filter": MASK, "head_weights": weights}
            dropped = document_similarity(trace, explanation, **options)
            zeroed = document_similarity(trace, explanation, mask_mode="zero", **options)
            comparisons = [("dropped", row) for row in dropped] + [("zeroed", row) for row in zeroed if row.masked]
            yield {
                "predicted": trace.prediction.index,
                "label": example.label,
                "similarity": [
                    {
                        "mode": mode if row.masked else "unmasked",
                        "layers": row.layers,
                        "scaled": row.scaled,
                        "units": row.units,
                        **{f"{key}": [value, row.chance[key].mean] for key, value in row.values.items()},
                    }
                    for mode, row in comparisons
                ],
                "words": _word_sums(explanation.encoding, explanation.scores, trace),
                "received": _received_by_place(trace),
                **_partners(trace),
            }

    identity = {
        "model": subject.identity,
        "tokens": tokens,
        "steps": steps,
        "weights": weights.round(6),
        "method": METHOD,
        "partners": PARTNERS,
        "counted": "words",
    }
    return bench.measure_documents(name, identity, examples, measure, at_once=2)


def explain_one(bench: Workbench, subject: Subject, example: Example) -> dict[str, Any]:
    """Return the explanation of one document as a record, for the overlay."""

    def explain() -> dict[str, Any]:
        encoding = shorten(subject.model, example, min(400, bench.number("tokens")))
        return to_record(subject.model.explain(encoding, method=METHOD, steps=bench.number("steps")))

    identity = {"model": subject.identity, "text": str(example.text), "steps": bench.number("steps")}
    record: dict[str, Any] = bench.step("overlay", identity, explain)
    return record


def shorten(model: Model, example: Example, tokens: int) -> Encoding:
    """Return the first `tokens` tokens of a document as an encoding of its own."""
    text = str(example.text)
    encoding = model.encode(text, truncate=True)
    if len(encoding) <= tokens:
        return encoding
    end = int(encoding.offsets[tokens - 2][1])
    return model.encode(text[:end], truncate=True)


def _word_sums(encoding: Encoding, scores: Any, trace: Trace) -> list[list[Any]]:
    """Return [word, sum of its scores for class 1] of the strongest words; scores of class 0 count negative."""
    units = units_of(encoding, "word")
    folded = units.fold(np.asarray(scores, dtype=np.float64))
    sign = 1.0 if trace.prediction.index == 1 else -1.0
    sums: defaultdict[str, float] = defaultdict(float)
    for kind, score, keep in zip(units.types, folded, MASK.keep(encoding), strict=True):
        if keep:
            sums[kind] += sign * float(score)
    strongest = sorted(sums.items(), key=lambda entry: -abs(entry[1]))[:LISTED]
    return [[word, score] for word, score in strongest]


def _partners(trace: Trace) -> dict[str, Any]:
    counts = relation_counts(trace, PARTNERS, MASK)
    return {
        direction: counts.by_type(direction, top=LISTED, count="tokens")[["type", "count"]].values.tolist()
        for direction in ("attended", "attending")
    }


def _received_by_place(trace: Trace) -> list[float]:
    """Return the attention received per token in each twentieth of the document, 1 on average."""
    received = trace.received.mean(axis=(0, 1))
    parts = np.array_split(received, min(BINS, len(received)))
    mean = float(received.mean()) or 1.0
    return [float(part.mean()) / mean for part in parts]
