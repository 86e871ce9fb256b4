"""as_examples: the rows of a data set in memory as examples.

Rows are what people have at hand: texts, documents read from files, (text, label) pairs, mappings with a
"text" field (rows of a DataFrame, of a Hugging Face data set, of JSON lines), or examples. Fields are read by the same
function as the rows of files, which `corpus/` opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from sightline.errors import InputError
from sightline.text.documents import DocumentText, plain_text_of
from sightline.text.encoding import Encoding
from sightline.text.examples import Example
from sightline.text.fields import (
    Columns,
    class_label_fields,
    example_from_row,
    read_label,
    without_missing_classes,
)


def as_examples(
    rows: Iterable[Any], *, text: str = "text", pair: str = "text_pair", label: str = "label"
) -> list[Example]:
    """Return the rows as examples; `text`, `pair` and `label` name the fields of rows that are mappings."""
    if isinstance(rows, str):
        raise InputError("A data set is a list of texts or rows, not a single text. Put the text in a list: [text].")
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping | bytes):
        raise InputError(
            f"A data set is a list of texts or rows, or a table; what was given is of type {type(rows).__name__}."
        )
    class_labels = class_label_fields(getattr(rows, "features", None))
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        rows = _with_index(rows).to_dict("records")
    columns = Columns(text, pair, label)
    examples = [_to_example(row, number, columns, class_labels) for number, row in enumerate(rows)]
    if not examples:
        raise InputError("The data set is empty: it has no rows.")
    return examples


def _with_index(frame: Any) -> Any:
    """Return a DataFrame with its index as columns, unless the index only counts the rows.

    An index of the name of a column, or without a name, is called "index", "index_2" …
    """
    if list(frame.index) == list(range(len(frame))):
        return frame
    taken = set(map(str, frame.columns))
    names = []
    for level in frame.index.names:
        name = "index" if level is None or str(level) in taken else level
        free = (f"{name}_{number}" for number in count(2))
        names.append(name if str(name) not in taken else next(other for other in free if other not in taken))
        taken.add(str(names[-1]))
    return frame.reset_index(names=names)


def _to_example(row: Any, number: int, columns: Columns, class_labels: Sequence[str]) -> Example:
    where = f"Row {number} of the data set"
    match row:
        case Example():
            return row if row.id else replace(row, id=str(number))
        case str() | Encoding() | DocumentText():
            return Example(plain_text_of(row), id=str(number))
        case Mapping():
            if columns.text not in row:
                raise InputError(
                    f"{where} has no field '{columns.text}'; its fields are: {', '.join(map(str, row)) or 'none'}."
                )
            return example_from_row(without_missing_classes(row, class_labels), columns, number, where)
        case (str() | Encoding() | DocumentText() as document, label):
            return Example(plain_text_of(document), label=read_label(label, where), id=str(number))
    raise InputError(
        f"{where} is of type {type(row).__name__}. A row is a text, a (text, label) pair, or a mapping with a field "
        f"'{columns.text}'."
    )
