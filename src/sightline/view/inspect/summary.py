"""An inspection as a folder with a page, or in its short form, a few plain tables for a terminal or a pipe.

inspection = sl.load().inspect("The text of a document …")
write_inspection("folder", inspection)

The section about a data set (`dataset_section`) shows what holds over documents, with intervals and chance levels.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.errors import UsageError
from sightline.view import plots
from sightline.view.frames import to_text
from sightline.view.inspect.attention import (
    HOW_TO_READ,
    count_name,
    measured_dots,
    saturation_sentence,
    similarity_tables,
    whole_numbers,
    word_instances,
)
from sightline.view.inspect.sections import (
    anisotropy_parts,
    attribution_rankings,
    document_sections,
    effective_sentence,
    importance_frame,
    importance_parts,
)
from sightline.view.sections.pages import Picture, Section, Table, describe_facts, document_title, write_sections
from sightline.view.words.phrases import count, format_number, percent
from sightline.view.words.sentences import notices, prediction_sentence
from sightline.view.words.takeaways import TEXT_PAGE, chosen_heads, relation_frame
from sightline.view.words.terminal import printable

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import DataSetInspection, Inspection, TargetWords
    from sightline.analysis.attribution_tables import DataSetRule
    from sightline.analysis.inspection import InspectionSettings
    from sightline.progress import Progress

HEADS = 5
INSPECTION = "an inspection"
"""The content type in the folder's record."""


def write_inspection(
    folder: Path | str,
    document: Inspection | None = None,
    dataset: DataSetInspection | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the inspection of a document, of a data set or of both into `folder`, and return the path of the page.

    A folder with other content raises UsageError unless `overwrite`, which replaces files of the same names.
    """
    first = document or dataset
    if first is None:
        raise UsageError("There is nothing to write: give the inspection of a document, of a data set, or both.")
    title = "Data set" if document is None else document_title(document.encoding.text)
    sections = [
        *(document_sections(document) if document is not None else []),
        *([dataset_section(dataset)] if dataset is not None else []),
    ]
    facts = _facts(first.settings) | describe_facts(first.provenance)
    return write_sections(
        Path(folder),
        INSPECTION,
        title,
        sections,
        facts,
        others={} if document is None else {TEXT_PAGE: document.report.to_html},
        overwrite=overwrite,
        progress=progress,
    )


def document_summary(inspection: Inspection) -> str:
    """Return the prediction, the most important heads, attention received, relations, strongest words, similarity."""
    settings = inspection.settings
    k, where = settings.top_k, chosen_heads(inspection)
    first = inspection.first
    blocks = [
        "\n".join([prediction_sentence(first), f"{len(inspection.encoding):,} tokens.", *notices(first)]),
    ]
    if inspection.importance is not None:
        blocks.append(_block("Most important heads", importance_frame(inspection.importance).head(HEADS)))
    received = inspection.totals.top(k, settings.layers, settings.head, filter=settings.filter)
    blocks.append(_block(f"Words that receive the most attention, {where}", received))
    flagged = [sink for sink in inspection.totals.sinks if sink.flagged]
    if flagged:
        places = ", ".join(f"{sink.position:,}" for sink in flagged)
        blocks.append(f"Sinks at multiples of 512, probably from copied position embeddings: {places}.")
    for side, title in (("attended", "Most attended words"), ("attending", "Most attending words")):
        frame = relation_frame(inspection, side, top=k)
        counted = f"top-{inspection.relations.k} lists {where}, {count_name(inspection)}"
        blocks.append(_block(f"{title} ({counted})", whole_numbers(frame)))
    blocks += filter(None, [saturation_sentence(inspection, inspection.relations)])
    if settings.word is not None:
        instances, remark = word_instances(inspection, settings.word)
        names = [name for name in instances if name not in ("segment", "start", "end")]
        if len(instances):
            blocks.append(_block(f"Instances of “{settings.word}” ({count_name(inspection)})", instances[names]))
        blocks += filter(None, [remark])
    if inspection.anisotropy is not None:
        blocks.append(_block("Anisotropy over the layers", inspection.anisotropy.to_frame()))
    if inspection.effective is not None:
        blocks.append(effective_sentence(inspection.effective, len(inspection.encoding)))
    for name, table in inspection.by_type.items():
        frame = table.to_frame()[["sign", "rank", "text", "score", "instances"]]
        blocks.append(_block(f"Strongest words by {name}", frame) if len(frame) else f"{name}: {table.note}")
    blocks.append(similarity_text(inspection))
    return "\n\n".join(printable(block.rstrip("\n")) for block in blocks) + "\n"


def similarity_text(inspection: Inspection | DataSetInspection) -> str:
    """Return the tables that compare attention with every method, over all words and over those the filter keeps."""
    blocks = []
    for name, compared in inspection.similarity.items():
        tables = similarity_tables(compared, name)
        blocks += [f"{table.title}\n{to_text(compact(table.frame))}" for table in tables]
        notes = [similarity.note for similarity in compared] if isinstance(compared, tuple) else compared.notes
        blocks += [f"{note}\n" for note in dict.fromkeys(notes) if note]
    return "\n".join(blocks)


def dataset_summary(inspection: DataSetInspection) -> str:
    """Return accuracy, the most important heads, words by target and similarity over a data set."""
    frame = inspection.predictions.to_frame()
    labelled = frame[frame["label"].notna()]
    sentences = [f"{count(inspection.documents, 'document')}."]
    if len(labelled):
        accuracy = percent(float(labelled["correct"].mean()))
        sentences.append(f"{accuracy} of the {len(labelled):,} labelled ones are predicted correctly.")
    blocks = [" ".join(sentences), *inspection.notes]
    if inspection.importance is not None:
        heads = importance_frame(inspection.importance).head(HEADS)
        blocks.append(_block("Most important heads over the data set", heads))
    for words in inspection.words:
        title = words_title(inspection, words)
        frame = words.table.to_frame().drop(columns="position")
        blocks.append(_block(f"{title}. {RULES[words.rule]}", frame) if len(frame) else f"{title}: {words.table.note}")
    for name, ranks in inspection.token_ranks.items():
        blocks.append(_block(f"Ranks of special tokens and punctuation by {name}. {RANKS}", ranks))
    if inspection.anisotropy is not None:
        blocks.append(_block("Anisotropy over the layers, mean over documents", inspection.anisotropy.to_frame()))
    blocks.append(similarity_text(inspection))
    return "\n\n".join(printable(block.rstrip("\n")) for block in blocks) + "\n"


def compact(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a similarity table that fits a terminal: "0.31 [0.28, 0.35]" in one column, "chance" beside it."""
    import pandas as pd

    columns: list[tuple[str, list[str]]] = []
    for name in frame.columns:
        if name.endswith(("_low", "_high")):
            continue
        cells = [_two_places(value) for value in frame[name]]
        if f"{name}_low" in frame:
            ends = zip(frame[f"{name}_low"], frame[f"{name}_high"], strict=True)
            cells = [
                cell if low != low else f"{cell} [{_two_places(low)}, {_two_places(high)}]"
                for cell, (low, high) in zip(cells, ends, strict=True)
            ]
        columns.append(("chance" if name.endswith("_chance") else name, cells))
    rows = zip(*(cells for _, cells in columns), strict=True)
    return pd.DataFrame(list(rows), columns=[name for name, _ in columns])


def _two_places(value: object) -> str:
    return format_number(value, ".2f") if isinstance(value, float) else str(value)


def _block(title: str, frame: pd.DataFrame) -> str:
    return f"{title}\n{to_text(frame)}" if len(frame) else f"{title}\nNothing to list."


def _facts(settings: InspectionSettings) -> dict[str, str]:
    """Return the settings as the page lists them."""
    return {
        "methods": ", ".join(settings.methods),
        "stop words left out": settings.stop_words or "none",
        "top k": str(settings.top_k),
        "layer": "all" if settings.layer is None else str(settings.layer),
        "head": "all" if settings.head is None else str(settings.head),
        "heads weighted by importance": "yes" if settings.scaled else "no",
        "permutations for chance levels": str(settings.permutations),
        "seed": str(settings.seed),
    }


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
