"""What the Longformer study measures of every document, in one pass shared by attribution and attention.

The same is measured with the weights made random (`random_twin`): agreement that stays there is no property of what the
model has learnt.

Words are attributed over the data set, for a fixed class:

    s_c(w) = 1/D Σ_d Σ_{i ∈ d: word i = w} score_i^c

over all D documents, whatever was predicted for them; a document without the word counts as 0. This is
`store.aggregate(by="type", class_=c, rule="mean-all")` of a run with target="all". Instances of a word are put together
whatever their case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from sightline.analysis import TokenFilter, document_similarity, head_importance, relation_counts
from sightline.api.model import Model
from sightline.evaluation.sanity import cascade
from sightline.passes.trace import Trace
from sightline.results.explanation import Explanation
from sightline.text import Encoding, Example
from sightline.text.units import Level, units_of
from sightline_studies.accuracy import measure_accuracy
from sightline_studies.data import DataSet
from sightline_studies.generated import rule_documents
from sightline_studies.rule_model import rule_model
from sightline_studies.study import Size
from sightline_studies.tables import published
from sightline_studies.verdicts import Measured
from sightline_studies.workbench import Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

NOTES = "clinical_notes"
LISTED_WORDS = 10
"""Words for and words against a class."""
WordSums = Mapping[str, Sequence[float]]
"""Word -> number of its instances, then the sum of their scores for every class."""


def sum_words(explanations: Sequence[Explanation], level: Level = "word") -> dict[str, list[float]]:
    """Return `WordSums` of one document from its explanations, one per class; level="token": of its tokens."""
    units = units_of(explanations[0].encoding, level)
    scores = np.stack([units.fold(explanation.scores.astype(np.float64)) for explanation in explanations], axis=1)
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0] + [0.0] * len(explanations))
    for word, row in zip(units.types, scores.tolist(), strict=True):
        entry = sums[word]
        entry[0] += 1
        for place, score in enumerate(row, 1):
            entry[place] += score
    return dict(sums)


def rank_words(documents: Sequence[WordSums], place: int, seed: int, filter: TokenFilter) -> pd.DataFrame:
    """Return the words with the largest and the smallest score for one class, with intervals over documents.

    Words that the filter drops are not listed; rank counts all words, these included.
    """
    import pandas as pd

    held: defaultdict[str, dict[int, Sequence[float]]] = defaultdict(dict)
    for number, words in enumerate(documents):
        for word, entry in words.items():
            held[word][number] = entry
    scores = {word: sum(entry[1 + place] for entry in rows.values()) for word, rows in held.items()}
    ordered = sorted(scores, key=lambda word: (-scores[word], word))
    ranks = {word: rank for rank, word in enumerate(ordered, 1)}
    listed = [word for word in ordered if not filter.drops(word)]
    strongest = [word for word in listed if scores[word] > 0][:LISTED_WORDS]
    weakest = [word for word in listed if scores[word] < 0][-LISTED_WORDS:]
    rows: list[dict[str, Any]] = []
    for word in (*strongest, *weakest):
        per_document = [float(held[word][n][1 + place]) if n in held[word] else 0.0 for n in range(len(documents))]
        rows.append(
            {
                "rank": ranks[word],
                "word": word,
                **Measured.of(per_document, seed).columns(),
                "documents": len(held[word]),
                "instances": int(sum(entry[0] for entry in held[word].values())),
            }
        )
    return pd.DataFrame(rows, columns=["rank", "word", "mean", "low", "high", "documents", "instances"])


METHOD: Final = "integrated_gradients"
MASK = TokenFilter(numbers=True)
"""The published mask: alphabetic words that are no stop words."""
PARTNERS = 2
"""Strongest partners per token, layer and head. With many heads, longer lists soon hold every word of a window."""
LISTED = 40
"""Partners kept per document and direction."""
TOP = 10
"""Length of the two lists whose common entries are counted, as in the report."""
BINS = 20
"""Parts of a document in which received attention is averaged."""


def choose_subject(bench: Workbench) -> tuple[DataSet, Subject]:
    """Return the documents and the model that was given, fine-tuned, or made for generated documents."""
    explained, words = bench.number("documents"), bench.number("tokens") // 2
    tested, training = max(explained, bench.number("tested")), bench.number("training")

    def read(documents: int) -> DataSet:
        return bench.read(
            "papers",
            lambda: rule_documents(documents, words, bench.seed + 1),
            documents=documents,
            training=training,
        )

    data = read(tested)
    given = bench.given_model("classifier")
    if given is not None:
        return data, given
    if data.generated:
        return data, bench.made_model("Longformer built from a rule", {}, lambda: rule_model("any", bench.seed))
    if len(data.train) < training:
        # Of a small file without splits, the test documents would leave nothing to train on.
        smaller = read(explained)
        data = smaller if len(smaller.train) > len(data.train) else data
    return data, _fine_tune(bench, "longformer", data.train, bench.number("epochs"))


def choose_notes(bench: Workbench) -> tuple[DataSet, Subject] | None:
    """Return the clinical notes and a model that is trained on them, or None if there are none.

    As in the report, the notes that are explained are those that were trained on: there are twelve.
    """
    if NOTES not in bench.sources.paths:
        return None
    data = bench.read(NOTES, list, documents=bench.number("notes"))
    return replace(data, train=data.test), _fine_tune(bench, "longformer-notes", data.test, bench.number("note_epochs"))


def _fine_tune(bench: Workbench, name: str, rows: Sequence[Example], epochs: int) -> Subject:
    base = bench.given_models.get("base") or bench.given_models.get("classifier") or "built-in"
    subject = bench.trained_model(
        name, rows, base, epochs=epochs, max_tokens=bench.number("tokens"), **training_options(bench.size)
    )
    source = "built-in model" if base == "built-in" else Path(base).name
    return replace(subject, name=f"{source}, fine-tuned on {len(rows):,} documents")


def training_options(size: Size) -> dict[str, Any]:
    """Return batch, learning rate and weight decay: the report's at the size of the paper, else for few documents."""
    if size != "paper":
        return {"batch": 4, "learning_rate": 5e-5}
    rate, decay, batch = (
        published("longformer_facts", "value", name=name)[0] for name in ("learning_rate", "weight_decay", "batch_size")
    )
    return {"batch": int(batch), "learning_rate": rate, "weight_decay": decay}


def describe_training(size: Size) -> str:
    """Return these in words: "batch 4, learning rate 5e-05"."""
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in training_options(size).items())


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


def measure_performance(bench: Workbench, subject: Subject, data: DataSet) -> list[dict[str, Any]]:
    """Return the predicted and the true label of every test document that has one, cut like those explained."""
    tokens = bench.number("tokens")
    labelled = [example for example in data.test if example.label is not None]
    return measure_accuracy(
        bench,
        subject,
        labelled,
        data.name,
        identity={"tokens": tokens},
        read=lambda example: shorten(subject.model, example, tokens).text,
    )


def measure_importance(
    bench: Workbench, subject: Subject, examples: Sequence[Example], name: str
) -> npt.NDArray[np.float64]:
    """Return the importance (L, H) of the heads over some documents, 0 to 1."""

    def measure(part: Sequence[Example]) -> Iterator[Any]:
        for example in part:
            encoding = shorten(subject.model, example, bench.number("tokens"))
            yield head_importance(subject.model, encoding, normalize="raw").tolist()

    identity = {"model": subject.identity, "tokens": bench.number("tokens")}
    raw = np.array(bench.measure_documents(f"head-importance-{name}", identity, examples, measure, at_once=2)).mean(
        axis=0
    )
    spread = float(np.ptp(raw))
    return (raw - raw.min()) / spread if spread else np.zeros_like(raw)


def measure_inside(
    bench: Workbench, subject: Subject, examples: Sequence[Example], weights: npt.NDArray[np.float64], name: str
) -> list[dict[str, Any]]:
    """Return, per document, the similarity of attention and attribution, the words of every class, and the partners."""

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        model = subject.model
        for example in part:
            encoding = shorten(model, example, bench.number("tokens"))
            explained = model.explain(
                encoding, method=METHOD, target="all", quantity="logit", steps=bench.number("steps")
            )
            by_class = explained.by_target()
            trace = model.trace(encoding, quantity="logit")
            yield {
                "similarity": _compare(bench, trace, by_class[trace.prediction.label], weights),
                "classes": list(by_class),
                "tokens": sum_words(list(by_class.values()), "token"),
                "words": sum_words(list(by_class.values())),
                "received": _received_by_place(trace),
                **_partners(trace),
            }

    identity = {
        **_identity(bench, subject, weights),
        "partners": PARTNERS,
        "counted": "words and tokens",
        "explained": "classes",
    }
    return bench.measure_documents(f"documents-{name}", identity, examples, measure, at_once=2)


def measure_control(
    bench: Workbench, subject: Subject, examples: Sequence[Example], weights: npt.NDArray[np.float64], name: str
) -> list[dict[str, Any]]:
    """Return the similarity of attention and attribution of every document."""

    def measure(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        model = subject.model
        for example in part:
            trace = model.trace(shorten(model, example, bench.number("tokens")), quantity="logit")
            explanation = model.explain(trace, method=METHOD, steps=bench.number("steps"))
            yield {"similarity": _compare(bench, trace, explanation, weights)}

    return bench.measure_documents(
        f"random-weights-{name}", _identity(bench, subject, weights), examples, measure, at_once=2
    )


def _identity(bench: Workbench, subject: Subject, weights: npt.NDArray[np.float64]) -> dict[str, Any]:
    return {
        "model": subject.identity,
        "tokens": bench.number("tokens"),
        "steps": bench.number("steps"),
        "weights": weights.round(6),
        "method": METHOD,
        "level": "token",
    }


def shorten(model: Model, example: Example, tokens: int) -> Encoding:
    """Return the first `tokens` tokens of a document as an encoding of its own."""
    text = str(example.text)
    encoding = model.encode(text, truncate=True)
    if len(encoding) <= tokens:
        return encoding
    end = int(encoding.offsets[tokens - 2][1])
    return model.encode(text[:end], truncate=True)


def _compare(
    bench: Workbench, trace: Trace, explanation: Any, weights: npt.NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return every statistic in every setting, each as [value, chance]."""
    options: dict[str, Any] = {
        "permutations": 50,
        "seed": bench.seed,
        "filter": MASK,
        "head_weights": weights,
        "level": "token",
    }
    dropped = document_similarity(trace, explanation, **options)
    zeroed = document_similarity(trace, explanation, mask_mode="zero", **options)
    comparisons = [("dropped", row) for row in dropped] + [("zeroed", row) for row in zeroed if row.masked]
    return [
        {
            "mode": mode if row.masked else "unmasked",
            "layers": row.layers,
            "scaled": row.scaled,
            **{key: [value, row.chance[key].mean] for key, value in row.values.items()},
        }
        for mode, row in comparisons
    ]


def _partners(trace: Trace) -> dict[str, Any]:
    """Return the words most often attended and attending, and how many the ten first of both have in common."""
    counts = relation_counts(trace, PARTNERS, MASK)
    return {
        direction: counts.by_type(direction, top=LISTED, count="tokens")[["type", "count"]].values.tolist()
        for direction in ("attended", "attending")
    } | {"common": {by: len(counts.intersection(by=by, count="tokens", top=TOP)) for by in ("type", "position")}}


def _received_by_place(trace: Trace) -> list[float]:
    """Return the attention received per token in each twentieth of the document, 1 on average."""
    received = trace.received.mean(axis=(0, 1))
    parts = np.array_split(received, min(BINS, len(received)))
    mean = float(received.mean()) or 1.0
    return [float(part.mean()) / mean for part in parts]
