"""The data-set part of an inspection: what holds over documents, with intervals, beside chance.

Each document is explained for the class that the model predicts for it; attributions are therefore averaged class by
class. One document is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline import analysis
from sightline.analysis.similarity_tables import summarised
from sightline.errors import InputError
from sightline.text import as_examples
from sightline.view import plots
from sightline.view.inspect.comparison import HOW_TO_READ, setting_name, similarity_tables, statistic_name
from sightline.view.inspect.parts import Picture, Section, Table
from sightline.view.inspect.sections import attribution_rankings, importance_frame

if TYPE_CHECKING:
    from sightline.analysis import AttentionMaps, AttributionTable, Predictions, Similarity, SimilarityTable
    from sightline.explanation import Explanation
    from sightline.model import Model, Progress
    from sightline.text import Example
    from sightline.view.inspect.numbers import Settings

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ClassWords:
    """The words that mattered, on average, in the documents predicted as one class."""

    method: str
    label: str
    documents: int
    first: Explanation
    """One of the explanations: what they have in common, such as being signed, is asked of it."""
    table: AttributionTable


@dataclass(frozen=True, eq=False)
class DataSetInspection:
    """Everything about a data set that is shown."""

    settings: Settings
    documents: int
    predictions: Predictions
    importance: FloatArray | None
    """(L, H), mean over the documents, 0 to 1."""
    maps: AttentionMaps
    words: tuple[ClassWords, ...]
    similarity: dict[str, SimilarityTable]
    notes: tuple[str, ...]
    """Documents that were left out, and why."""


def gather_dataset(
    model: Model, dataset: Sequence[Any], settings: Settings, *, progress: Progress | None = None
) -> DataSetInspection:
    """Run the model over a data set (what `as_examples` takes) and collect all that is shown of it."""
    examples, notes = _readable(model, as_examples(dataset))
    encodings = [example.text for example in examples]
    importance = None
    if settings.head_importance:
        labels = [example.label for example in examples]
        importance = analysis.head_importance(model, encodings, labels, progress=progress)
    explanations: dict[str, list[Explanation]] = {name: [] for name in settings.methods}
    compared: dict[str, list[tuple[Similarity, ...]]] = {name: [] for name in settings.methods}
    for number, encoding in enumerate(encodings):
        if progress is not None:
            progress("explaining the data set", number, len(encodings))
        trace = model.trace(encoding)
        found = model.explain(encoding, methods=list(settings.methods), **settings.options)
        for name, explanation in found.items():
            explanations[name].append(replace(explanation, layers=None, extras={}))
            compared[name].append(
                analysis.document_similarity(
                    trace,
                    explanation,
                    head_weights=importance,
                    filter=settings.filter,
                    permutations=min(50, settings.permutations),
                    seed=settings.seed,
                )
            )
    return DataSetInspection(
        settings=settings,
        documents=len(examples),
        predictions=analysis.predict(model, examples, progress=progress),
        importance=importance,
        maps=analysis.average_maps(model, encodings, progress=progress),
        words=tuple(words for name in settings.methods for words in _by_class(name, explanations[name], settings)),
        similarity={
            name: analysis.SimilarityTable(summarised(found, seed=settings.seed), name)
            for name, found in compared.items()
        },
        notes=tuple(notes),
    )


def dataset_section(found: DataSetInspection) -> Section:
    """The section of the page about the data set."""
    documents = f"{found.documents:,} document" + ("s" if found.documents != 1 else "")
    correct = found.predictions.to_frame()
    parts: list[Picture | Table] = [Table("dataset-predictions", "Predictions", correct)]
    if found.importance is not None:
        parts += [
            Picture(
                "dataset-head-importance",
                "Head importance over the data set",
                "The mean over the documents, each with a pass of its own, scaled to 0 to 1.",
                partial(plots.head_importance_map, found.importance, title=f"Head importance over {documents}"),
            ),
            Table("dataset-head-importance", "Heads by importance", importance_frame(found.importance)),
        ]
    parts.append(
        Picture(
            "dataset-attention-maps",
            "Attention averaged over the documents",
            "Each position is averaged over the documents that reach it.",
            partial(
                plots.attention_grid,
                found.maps.pixels,
                tokens=found.maps.tokens,
                importance=found.importance,
                title=f"Attention of all heads, mean of {documents}",
            ),
        )
    )
    for words in found.words:
        stem = f"dataset-{words.method}-class-{words.first.target.index}"
        title = f"Words of documents predicted “{words.label}”, {words.method}, mean of {words.documents:,}"
        parts += [
            Picture(
                stem,
                title,
                "A word's score is averaged over the documents that hold it.",
                partial(plots.ranked_bars, attribution_rankings(words.first, words.table), title=title),
            ),
            Table(stem, title, words.table.to_frame().drop(columns="position")),
        ]
    for name, table in found.similarity.items():
        if not table.cells:
            continue
        parts.append(
            Picture(
                f"dataset-{name}-similarity",
                f"Attention against {name} over the data set",
                "Dots are means over documents with 95 % bootstrap intervals, grey marks what chance gives.",
                partial(
                    plots.similarity_dots,
                    measured_cells(table),
                    title=f"Attention against {name}, {documents}",
                ),
            )
        )
        parts += [replace(part, name=f"dataset-{part.name}") for part in similarity_tables(table, name)]
    return Section("dataset", f"Over the data set of {documents}", (HOW_TO_READ, *found.notes), tuple(parts))


def measured_cells(table: SimilarityTable) -> dict[str, list[plots.Measured]]:
    """Return the panels of the dot plot: statistic -> one dot a setting, with its interval."""
    panels: dict[str, list[plots.Measured]] = {}
    for cell in table.cells:
        dot = plots.Measured(
            setting_name(cell.layers, cell.scaled, cell.masked),
            cell.mean.mean,
            cell.mean.low,
            cell.mean.high,
            cell.chance,
            cell.chance,
            cell.chance,
        )
        panels.setdefault(statistic_name(cell.statistic), []).append(dot)
    return panels


def _readable(model: Model, examples: Sequence[Example]) -> tuple[list[Example], list[str]]:
    """Encode the documents; those that cannot be read are left out, with a note."""
    readable, notes = [], []
    for example in examples:
        try:
            encoding = model.encode(example.text, example.pair) if isinstance(example.text, str) else example.text
        except InputError as error:
            notes.append(f"Document {example.id} was left out: {error}")
            continue
        readable.append(replace(example, text=encoding, pair=None))
    if not readable:
        raise InputError("No document of the data set can be read. " + " ".join(notes[:3]))
    return readable, notes


def _by_class(name: str, explanations: Sequence[Explanation], settings: Settings) -> list[ClassWords]:
    groups: dict[str, list[Explanation]] = {}
    for explanation in explanations:
        groups.setdefault(explanation.target.label, []).append(explanation)
    return [
        ClassWords(
            name,
            label,
            len(group),
            group[0],
            # A word of a single document is that document's; with more documents it has to be shared.
            analysis.attributions_over_dataset(
                group, settings.top_k, filter=settings.filter, least_documents=2 if len(group) > 4 else 1
            ),
        )
        for label, group in sorted(groups.items())
    ]
