"""DataSetInspection: means over the documents of a data set, with intervals, beside chance.

Each document is explained for the class that the model predicts for it, or for one target that all share; attributions
are averaged by target. One document is in memory at a time. Head importance is that of the loss, over all documents,
and weights the heads of every comparison, so that it is computed in a round of its own.

A document longer than the model reads is predicted and explained as a whole, in windows, as everywhere else. Attention
(maps, head importance, similarity) exists within one pass only, so it is that of the beginning of the document, as much
as the model reads at once; a note says so.

`predict` helps to choose documents: by outcome, by confidence, or at random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.analysis.attribution_tables import (
    SHARED_AMONG,
    AttributionTable,
    DataSetRule,
    attributions_over_dataset,
    token_ranks,
)
from sightline.analysis.importance import head_importance
from sightline.analysis.inspection import TRANSFORMED_TOKENS, InspectionSettings
from sightline.analysis.layer_anisotropy import LayerAnisotropy, anisotropy_by_layer, mean_anisotropy
from sightline.analysis.maps import AttentionMaps, MapAverage
from sightline.analysis.similarity import Similarity, SimilarityTable, document_similarity, summarise_documents
from sightline.analysis.source import track
from sightline.errors import InputError, OptionError, TargetError, UnsupportedError
from sightline.methods import method_name
from sightline.models import ALL, TargetLike
from sightline.models.classes import classes_of, no_class
from sightline.progress import Progress
from sightline.results.explanation import Explanation
from sightline.text import Encoding, Example, as_examples

if TYPE_CHECKING:
    import pandas as pd

    from sightline.api.model import Model

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model predicts for a data set of N documents with C classes."""

    examples: tuple[Example, ...]
    encodings: tuple[Encoding, ...]
    classes: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    """(N,) true classes; -1 where missing."""
    predicted: npt.NDArray[np.int64]
    """(N,)."""
    probabilities: npt.NDArray[np.float64]
    """(N, C)."""

    @property
    def confidence(self) -> npt.NDArray[np.float64]:
        """Probability of the predicted class, (N,)."""
        return self.probabilities[np.arange(len(self.predicted)), self.predicted]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per document: index, id, label, predicted, probability, correct (None without a label)."""
        import pandas as pd

        known = [None if number < 0 else self.classes[number] for number in self.labels.tolist()]
        predicted = [self.classes[number] for number in self.predicted.tolist()]
        return pd.DataFrame(
            {
                "index": np.arange(len(predicted)),
                "id": [example.id for example in self.examples],
                "label": known,
                "predicted": predicted,
                "probability": self.confidence,
                "correct": [
                    None if label is None else label == name for label, name in zip(known, predicted, strict=True)
                ],
            }
        )


def predict(model: Model, dataset: Iterable[Any], *, progress: Progress | None = None) -> Predictions:
    """Return what the model predicts for a data set (anything that `as_examples` accepts).

    A text that cannot be read, or a label that the model does not have, raises an error with the number of its row.
    Labels may be missing.
    """
    if model.task != "sequence_classification":
        raise UnsupportedError(f"Documents are picked by their class; this model does {model.task.replace('_', ' ')}.")
    examples = as_examples(dataset)
    task = model.network.task
    classes = classes_of((example.label for example in examples), model.labels)
    encodings, labels = [], []
    for number, example in enumerate(examples):
        text = example.text
        try:
            encodings.append(model.encode(text, example.pair) if isinstance(text, str) else text)
        except InputError as error:
            raise InputError(f"Row {number} of the data set: {error}") from None
        index = -1 if example.label is None else classes[example.label]
        if index is None:
            raise TargetError(f"Row {number} of the data set: {no_class(example.label, model.labels)}")
        labels.append(index)
    logits = model.network.run_many(
        encodings, progress=None if progress is None else lambda done, total: progress("predictions", done, total)
    )
    probabilities = np.stack(
        [task.probabilities(task.class_logits(scores, None)).double().cpu().numpy() for scores in logits]
    )
    return Predictions(
        examples=tuple(examples),
        encodings=tuple(encodings),
        classes=model.labels,
        labels=np.array(labels, dtype=np.int64),
        predicted=np.array([int(task.class_logits(scores, None).argmax()) for scores in logits], dtype=np.int64),
        probabilities=probabilities,
    )


PERMUTATIONS = 50
"""Most shuffles per document for chance levels: a mean over documents needs fewer."""


@dataclass(frozen=True)
class TargetWords:
    """The words that mattered most, on average, in the documents explained for one target."""

    method: str
    target: str
    """The class, or the contrast "A:B"."""
    documents: int
    first: Explanation
    """One of the explanations, for what they share: the target, whether scores are signed."""
    table: AttributionTable
    rule: DataSetRule
    """How scores were averaged over the documents."""


@dataclass(frozen=True, eq=False)
class DataSetInspection:
    """All numbers of an inspection of a data set."""

    settings: InspectionSettings
    documents: int
    predictions: Predictions
    predicted_targets: bool
    """Whether each document was explained for its predicted class, rather than all for one target."""
    importance: npt.NDArray[np.float64] | None
    """(L, H), mean over the documents, 0 to 1."""
    maps: AttentionMaps
    words: tuple[TargetWords, ...]
    similarity: dict[str, SimilarityTable]
    """By method."""
    notes: tuple[str, ...]
    """Notes: which documents were left out, and why; how many are read in windows."""
    anisotropy: LayerAnisotropy | None
    """Of hidden states, y and T by layer, mean over the documents; None unless requested."""
    token_ranks: dict[str, pd.DataFrame]
    """Ranks of special tokens and punctuation over the documents, by method."""
    provenance: dict[str, str]
    """Provenance of the numbers: model, weights, versions."""


def inspect_dataset(
    model: Model,
    dataset: Sequence[Any],
    settings: InspectionSettings | None = None,
    *,
    target: TargetLike = None,
    progress: Progress | None = None,
) -> DataSetInspection:
    """Run the model over a data set (anything `as_examples` accepts) and return all numbers of its inspection.

    target: explain every document for this class or contrast; by default each for the class predicted for it.
    """
    settings = settings or InspectionSettings()
    if target == ALL:
        raise OptionError("An inspection explains one target; name a class, or a pair of classes for a contrast.")
    rule = settings.rule or ("mean-present" if target is None else "mean-all")
    if rule == "mean-all" and target is None:
        raise OptionError(
            "rule='mean-all' averages over all documents, which need scores for the same class: name it with target=, "
            "or use rule='mean-present'."
        )
    examples, encodings, notes = _readable(model, as_examples(dataset))
    predictions = predict(model, examples, progress=progress)
    beginnings = [_beginning(model, encoding) for encoding in encodings]
    if windowed := [encoding for encoding in encodings if encoding.windows is not None]:
        notes.append(
            f"{len(windowed):,} of {len(encodings):,} documents are read in windows: their attention is that of their "
            f"beginning, which the model reads at once (at most {max(map(len, beginnings)):,} tokens)."
        )
    importance = None
    if settings.head_importance:
        labels = [None if index < 0 else model.labels[index] for index in predictions.labels]
        importance = head_importance(model, beginnings, labels, progress=progress)
    explanations: dict[str, list[Explanation]] = {name: [] for name in settings.methods}
    compared: dict[str, list[tuple[Similarity, ...]]] = {name: [] for name in settings.methods}
    anisotropies: list[LayerAnisotropy] = []
    maps = MapAverage(len(model.network.layers), model.network.heads, max(len(encoding) for encoding in beginnings))
    for number, encoding in enumerate(track(encodings, "explaining the data set", progress)):
        beginning = beginnings[number]
        wanted = model.labels[predictions.predicted[number]] if target is None else target
        trace = model.trace(beginning, wanted)
        trace.require("attentions")
        if settings.anisotropy:
            trace.require("blocks", "hidden_states")
        methods = [method_name(name) for name in settings.methods]
        of_beginning = model.explain(trace, methods=methods, **settings.options)
        of_document = of_beginning
        if beginning is not encoding:
            of_document = model.explain(encoding, methods=methods, target=wanted, **settings.options)
        for name, explanation in of_beginning.items():
            explanations[name].append(replace(of_document[name], layers=None, extras={}))
            compared[name].append(
                document_similarity(
                    trace,
                    explanation,
                    head_weights=importance,
                    filter=settings.filter,
                    permutations=min(PERMUTATIONS, settings.permutations),
                    seed=settings.seed,
                )
            )
        maps.add(trace)
        if settings.anisotropy:
            anisotropies.append(anisotropy_by_layer(trace, transformed=len(beginning) <= TRANSFORMED_TOKENS))
    return DataSetInspection(
        settings=settings,
        documents=len(examples),
        predictions=predictions,
        predicted_targets=target is None,
        importance=importance,
        maps=maps.mean(),
        words=tuple(
            words for name in settings.methods for words in _by_target(name, explanations[name], settings, rule)
        ),
        similarity={
            name: SimilarityTable(
                summarise_documents(documents, seed=settings.seed), name, _comparison_notes(examples, documents)
            )
            for name, documents in compared.items()
        },
        notes=tuple(notes),
        anisotropy=mean_anisotropy(anisotropies) if anisotropies else None,
        token_ranks={name: token_ranks(explained, seed=settings.seed) for name, explained in explanations.items()},
        provenance=model.provenance(),
    )


def _readable(model: Model, examples: Sequence[Example]) -> tuple[list[Example], list[Encoding], list[str]]:
    """Return the examples that can be encoded, their encodings, and a note for each of the others."""
    readable, encodings, notes = [], [], []
    for example in examples:
        try:
            encoding = example.text
            if isinstance(encoding, str):
                first, second = model.network.task.reading_order(encoding, example.pair)
                encoding = model.encode(first, second)
        except InputError as error:
            notes.append(f"Document {example.id} was left out: {error}")
            continue
        readable.append(replace(example, text=encoding, pair=None))
        encodings.append(encoding)
    if not readable:
        raise InputError("No document of the data set can be read. " + " ".join(notes[:3]))
    return readable, encodings, notes


def _beginning(model: Model, encoding: Encoding) -> Encoding:
    """Return as much of a document as the model reads at once: all of it, unless it is read in windows."""
    return encoding if encoding.windows is None else model.encode(encoding.text, encoding.pair, truncate=True)


def _comparison_notes(examples: Sequence[Example], documents: Sequence[Sequence[Similarity]]) -> tuple[str, ...]:
    return tuple(
        f"Document {example.id}: {note}"
        for example, settings in zip(examples, documents, strict=True)
        for note in dict.fromkeys(similarity.note for similarity in settings if similarity.note)
    )


def _by_target(
    name: str, explanations: Sequence[Explanation], settings: InspectionSettings, rule: DataSetRule
) -> list[TargetWords]:
    groups: dict[str, list[Explanation]] = {}
    for explanation in explanations:
        groups.setdefault(explanation.target.name, []).append(explanation)
    return [
        TargetWords(
            method=name,
            target=target,
            documents=len(group),
            first=group[0],
            table=attributions_over_dataset(
                group,
                settings.top_k,
                filter=settings.filter,
                rule=rule,
                least_documents=2 if rule == "mean-present" and len(group) >= SHARED_AMONG else 1,
                seed=settings.seed,
            ),
            rule=rule,
        )
        for target, group in sorted(groups.items())
    ]
