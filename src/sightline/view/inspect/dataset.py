"""The section of an inspection's page about a data set: what holds over documents, with intervals and chance levels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sightline.view import plots
from sightline.view.inspect.sections import anisotropy_parts, attribution_rankings, importance_parts
from sightline.view.inspect.similarity import HOW_TO_READ, measured_dots, similarity_tables
from sightline.view.sections.pages import Picture, Section, Table
from sightline.view.words.phrases import count

if TYPE_CHECKING:
    from sightline.analysis import DataSetInspection, TargetWords
    from sightline.analysis.attribution_tables import DataSetRule

RULES: dict[DataSetRule, str] = {
    "mean-present": "Mean over the documents that contain the word, of its mean over instances.",
    "mean-all": "Sum over the instances of the word in a document, averaged over all documents.",
}
"""What the scores of words over a data set are."""


RANKS = "1 is the strongest token of a document; chance is the rank of a token like any other."
"""What the ranks of special tokens and punctuation are."""


def dataset_section(inspection: DataSetInspection) -> Section:
    """Return the section of the page about the data set."""
    documents = count(inspection.documents, "document")
    parts: list[Picture | Table] = [
        Table("dataset-predictions", "Predictions", inspection.predictions.to_frame(), folded=True)
    ]
    if inspection.importance is not None:
        mean = "The mean over the documents, scaled from 0 (the least important head) to 1 (the most important one)."
        parts += importance_parts(inspection.importance, stem="dataset-", over=f" over {documents}", sentence=mean)
    parts.append(
        Picture(
            "dataset-attention-maps",
            "Attention averaged over the documents",
            "Each position is averaged over the documents that reach it.",
            partial(
                plots.attention_grid,
                inspection.maps.pixels,
                tokens=inspection.maps.tokens,
                importance=inspection.importance,
                title=f"Attention of all heads, mean of {documents}",
            ),
        )
    )
    for words in inspection.words:
        stem = f"dataset-{words.method}-class-{words.first.target.index}"
        if words.first.target.contrast is not None:
            stem += f"-{words.first.target.contrast}"
        title = words_title(inspection, words)
        parts += [
            Picture(
                stem,
                title,
                f"{RULES[words.rule]} Lines are 95 % bootstrap intervals over documents.",
                partial(
                    plots.ranked_bars,
                    attribution_rankings(words.first, words.table),
                    title=title,
                    caption=f"{RULES[words.rule]} Lines: 95 % intervals over documents.",
                ),
            ),
            Table(stem, title, words.table.to_frame().drop(columns="position"), RULES[words.rule], folded=True),
        ]
    parts += [
        Table(
            f"dataset-{name}-token-ranks",
            f"Ranks of special tokens and punctuation by {name}",
            frame,
            RANKS,
            folded=True,
        )
        for name, frame in inspection.token_ranks.items()
    ]
    if inspection.anisotropy is not None:
        parts += anisotropy_parts(inspection.anisotropy, stem="dataset-", of=f", mean of {documents}")
    for name, table in inspection.similarity.items():
        if not table.cells:
            continue
        parts.append(
            Picture(
                f"dataset-{name}-similarity",
                f"Attention against {name} over the data set",
                "Dots are means over documents with 95 % bootstrap intervals; grey marks the chance level.",
                partial(
                    plots.similarity_dots,
                    measured_dots(table),
                    title=f"Attention against {name}, {documents}",
                ),
            )
        )
        parts += [replace(part, name=f"dataset-{part.name}") for part in similarity_tables(table, name)]
    notes = (
        *inspection.notes,
        *dict.fromkeys(note for table in inspection.similarity.values() for note in table.notes),
    )
    return Section("dataset", f"Over the data set of {documents}", (HOW_TO_READ, *notes), tuple(parts))


def words_title(inspection: DataSetInspection, words: TargetWords) -> str:
    """Return the title of a list of words: in which documents, explained for what, by which method."""
    documents = count(words.documents, "document")
    which = (
        f"Words in {documents} predicted" if inspection.predicted_targets else f"Words in {documents}, explained for"
    )
    return f"{which} “{words.target}”, by {words.method}"
