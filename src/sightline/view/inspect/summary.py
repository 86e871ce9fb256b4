"""The short form of an inspection, for a terminal or a pipe: a few plain tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.view.frames import to_text
from sightline.view.inspect.attention import whole_numbers
from sightline.view.inspect.comparison import similarity_tables
from sightline.view.inspect.sections import importance_frame
from sightline.view.words.sentences import notices, percent, prediction_sentence
from sightline.view.words.terminal import printable

if TYPE_CHECKING:
    import pandas as pd

    from sightline.view.inspect.dataset import DataSetInspection
    from sightline.view.inspect.numbers import Inspection

HEADS = 5


def document_summary(found: Inspection) -> str:
    """Return prediction, most important heads, most received words, relations, strongest words and similarity."""
    settings = found.settings
    k = settings.top_k
    first = found.first
    blocks = [
        "\n".join([prediction_sentence(first), f"{len(found.encoding):,} tokens.", *notices(first)]),
    ]
    if found.importance is not None:
        blocks.append(_block("Most important heads", importance_frame(found.importance).head(HEADS)))
    blocks.append(_block("Words that receive most attention", found.totals.top(k, filter=settings.filter)))
    flagged = [sink for sink in found.totals.sinks if sink.flagged]
    if flagged:
        places = ", ".join(f"{sink.position:,}" for sink in flagged)
        blocks.append(f"Sinks at multiples of 512, probably from copied position embeddings: {places}.")
    for side, title in (("attended", "Words most attended to"), ("attending", "Words most attending")):
        frame = found.relations.by_type(
            side,  # type: ignore[arg-type]
            settings.layer,
            settings.head,
            head_weights=found.head_weights,
            top=k,
        )
        blocks.append(_block(f"{title} (count of top-{found.relations.k} lists)", whole_numbers(frame)))
    for name, table in found.by_type.items():
        frame = table.to_frame()[["sign", "rank", "text", "score", "instances"]]
        blocks.append(_block(f"Strongest words by {name}", frame) if len(frame) else f"{name}: {table.note}")
    blocks.append(similarity_text(found))
    return "\n\n".join(printable(block.rstrip("\n")) for block in blocks) + "\n"


def similarity_text(found: Inspection | DataSetInspection) -> str:
    """Return the tables of attention against every method, over all words and over those that the filter keeps."""
    blocks = []
    for name, compared in found.similarity.items():
        tables = similarity_tables(compared, name)
        blocks += [f"{table.title}\n{to_text(compact(table.frame))}" for table in tables]
        notes = [one.note for one in compared] if isinstance(compared, tuple) else compared.notes
        blocks += [f"{note}\n" for note in dict.fromkeys(notes) if note]
    return "\n".join(blocks)


def dataset_summary(found: DataSetInspection) -> str:
    """Return accuracy, most important heads, words of each class and similarity over a data set."""
    frame = found.predictions.to_frame()
    labelled = frame[frame["label"].notna()]
    said = [f"{found.documents:,} documents."]
    if len(labelled):
        said.append(f"{percent(float(labelled['correct'].mean()))} of {len(labelled):,} labelled ones are right.")
    blocks = [" ".join(said), *found.notes]
    if found.importance is not None:
        heads = importance_frame(found.importance).head(HEADS)
        blocks.append(_block("Most important heads over the data set", heads))
    for words in found.words:
        title = f"Words of documents predicted '{words.label}' by {words.method}, mean of {words.documents:,}"
        frame = words.table.to_frame()[["sign", "rank", "text", "score", "instances", "documents"]]
        blocks.append(_block(title, frame) if len(frame) else f"{title}: {words.table.note}")
    blocks.append(similarity_text(found))
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
                f"{cell} [{_two_places(low)}, {_two_places(high)}]"
                for cell, (low, high) in zip(cells, ends, strict=True)
            ]
        columns.append(("chance" if name.endswith("_chance") else name, cells))
    rows = zip(*(cells for _, cells in columns), strict=True)
    return pd.DataFrame(list(rows), columns=[name for name, _ in columns])


def _two_places(value: object) -> str:
    # "z" makes −0.00 a plain 0.00.
    return f"{value:z.2f}".replace("-", "−") if isinstance(value, float) else str(value)


def _block(title: str, frame: pd.DataFrame) -> str:
    return f"{title}\n{to_text(frame)}" if len(frame) else f"{title}\nnothing to list"
