"""Example: one row of a data set, whatever it came from.

`as_examples` takes what people have at hand: texts, (text, label) pairs, mappings with a "text" field (rows of a
DataFrame, of a Hugging Face data set, of JSON lines), or examples. Reading files is the work of `corpus/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.errors import InputError
from sightline.text.encoding import Encoding

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Example:
    """A document, with what is known about it."""

    text: str | Encoding
    pair: str | None = None
    label: int | str | None = None
    """The true class, as its number or its name."""
    rationale: Spans | None = None
    """Characters [start, end) of the text that a person marked as the reason for the label."""
    answer: Spans | None = None
    """Characters [start, end) of the text that answer the question, for extractive question answering."""
    id: str = ""
    """What results call this document; its number in the data set by default."""


def as_examples(
    rows: Iterable[Any], *, text: str = "text", pair: str = "text_pair", label: str = "label"
) -> list[Example]:
    """Return the rows as examples; `text`, `pair` and `label` name the fields of rows that are mappings."""
    if isinstance(rows, str):
        raise InputError("A data set is a list of texts or rows; one text alone is not. Put it in a list: [text].")
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        rows = rows.to_dict("records")
    examples = [_example(row, number, text, pair, label) for number, row in enumerate(rows)]
    if not examples:
        raise InputError("The data set is empty: there is nothing to measure.")
    return examples


def _example(row: Any, number: int, text: str, pair: str, label: str) -> Example:
    match row:
        case Example():
            return row if row.id else Example(row.text, row.pair, row.label, row.rationale, row.answer, str(number))
        case str() | Encoding():
            return Example(row, id=str(number))
        case Mapping():
            return _from_mapping(row, number, text, pair, label)
        case (str() | Encoding() as first, second):
            return Example(first, label=_label(second, number), id=str(number))
    raise InputError(
        f"Row {number} of the data set is of type {type(row).__name__}. A row is a text, a (text, label) pair, "
        f"or a mapping with a field '{text}'."
    )


def _from_mapping(row: Mapping[str, Any], number: int, text: str, pair: str, label: str) -> Example:
    content = row.get(text)
    if not isinstance(content, str | Encoding):
        raise InputError(
            f"Row {number} of the data set has no text in the field '{text}'; its fields are: "
            f"{', '.join(map(str, row)) or 'none'}."
        )
    second = row.get(pair)
    return Example(
        content,
        pair=second if isinstance(second, str) else None,
        label=_label(row.get(label), number),
        rationale=_spans(row.get("rationale"), number, "rationale"),
        answer=_spans(row.get("answer"), number, "answer"),
        id=str(row.get("id", number)),
    )


def _label(value: Any, number: int) -> int | str | None:
    """Return a class number or name; None for what tables hold where nothing was written (None, NaN, '')."""
    if value is None or value == "" or value != value:
        return None
    if isinstance(value, str):
        return value
    if int(value) != value:
        raise InputError(f"The label {value} of row {number} is no class: a label is a whole number or a name.")
    return int(value)


def _spans(value: Any, number: int, field: str) -> Spans | None:
    if value is None or isinstance(value, float):
        return None
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InputError(f"Row {number}: '{field}' must be a list of [start, end) characters, not {value!r}.")
    return tuple((int(start), int(end)) for start, end in value)
