"""Example: one document of a data set with what is known about it; and how rows with named fields become examples.

Rows of files, folders, the hub and lists in memory are all read here, so that every command understands them alike.
Which field is what:

- `label`: a whole number or a name, without blanks around it. Only an empty cell is a missing label; −1 is a label like
  any other, except where the data set itself says that it is none: the datasets library defines the negative numbers
  of a field of type ClassLabel as missing (`class_label_fields`), as in the test sets of GLUE. Which class of a model a
  label means is decided in `models.classes`.
- `split`: train or training; validation, valid, val or dev; test; in any case (`split_name`). Other names are kept as
  written.
- `rationale`: characters [[start, end), …] of the text, or `rationale_tokens`: the same counted in `text.split()`, as
  in the files of ERASER.
- `answers` in the form of SQuAD, {"text": […], "answer_start": […]}, a list of such objects with one text each, or
  [[start, text], …]; or `answer`: characters [[start, end), …].

In CSV files these cells hold JSON, in tables in memory also arrays. An answer that is not found where the row says is
an error: every number computed from it would be wrong.

Rows in memory (`as_examples`) are what people have at hand: texts, documents read from files, (text, label) pairs,
mappings with a "text" field (rows of a DataFrame, of a Hugging Face data set, of JSON lines), or examples.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.files.foreign import depth_exceeds
from sightline.text.documents import DocumentText, plain_text_of
from sightline.text.encoding import Encoding

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Example:
    """A document, with what is known about it."""

    text: str | Encoding
    """What `read_document` returns is replaced with its text."""
    pair: str | None = None
    label: int | str | None = None
    """The true class, as its number or its name."""
    rationale: Spans | None = None
    """Characters [start, end) of the text that a person marked as the reason for the label."""
    answer: Spans | None = None
    """Characters [start, end) of the text that answer the question, for extractive question answering."""
    id: str = ""
    """The name of this document in results; its number in the data set by default."""
    split: str | None = None
    """The part of the data set it belongs to: "train", "validation", "test", or another name as written."""
    # Not compared: the same row has numbers in a JSON file and texts in a CSV file.
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The other fields of its row, as read: all but text, pair, label and id."""

    def __post_init__(self) -> None:
        for name in ("text", "pair"):
            object.__setattr__(self, name, plain_text_of(getattr(self, name)))


LONGEST_NAME = 10_000
"""Characters of an id or a label."""
LARGEST_CLASS = 2**31
_WHOLE_NUMBER = re.compile(r"[+-]?\d+(\.0+)?")
_MOST_DIGITS = 20


SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}
"""The parts of a data set, and how data sets call them."""
EVERY_SPLIT = "*"
"""In place of the name of a split: the rows of all of them."""


@dataclass(frozen=True)
class Columns:
    """The names of the fields that hold text, second text and label."""

    text: str = "text"
    pair: str = "text_pair"
    label: str = "label"


def split_name(written: Any) -> str | None:
    """Return the split that a name stands for: one of `SPLITS`, else the name itself; None if it is empty."""
    written = _to_python(written)
    if _is_empty(written) or not (name := str(written).strip()):
        return None
    return next((split for split, names in SPLITS.items() if name.casefold() in names), name)


def split_field(fields: Iterable[Any]) -> Any:
    """Return the field named "split", in any case; None if the row has no such field."""
    return next((field for field in fields if str(field).strip().casefold() == "split"), None)


def class_label_fields(features: Any) -> tuple[str, ...]:
    """Return the fields of type ClassLabel among the features of a data set of the datasets library."""
    named = features.items() if isinstance(features, Mapping) else ()
    return tuple(name for name, feature in named if type(feature).__name__ == "ClassLabel")


def without_missing_classes(row: Mapping[str, Any], fields: Sequence[str]) -> Mapping[str, Any]:
    """Return the row with the negative numbers in the given fields of type ClassLabel, which are missing, as None."""
    missing = {name: None for name in fields if isinstance(value := row.get(name), int | np.integer) and value < 0}
    return {**row, **missing} if missing else row


def example_from_row(row: Mapping[str, Any], columns: Columns, number: int, where: str) -> Example:
    """Return the row as an Example; errors begin with `where` ("'a.csv', line 3").

    A missing or empty text becomes "": one bad row does not make a data set unreadable.
    """
    row = {field: plain_text_of(_to_python(value)) for field, value in row.items()}
    content = row.get(columns.text)
    if isinstance(content, Encoding):
        document: str | Encoding = content
        text = content.text
    else:
        document = text = _read_text(content, columns.text, where)
    read = {columns.text, columns.pair, columns.label, "id"}
    return Example(
        document,
        pair=_read_text(row.get(columns.pair), columns.pair, where) or None,
        label=read_label(row.get(columns.label), where),
        rationale=_read_rationale(row, text, where),
        answer=_read_answer(row, text, where),
        id=_read_id(row.get("id"), number, where),
        split=split_name(row.get(split_field(row))),
        metadata={str(field): value for field, value in row.items() if field not in read},
    )


def read_label(value: Any, where: str) -> int | str | None:
    """Return a class as its number or name without blanks around it; None for an empty cell.

    Tables write numbers as text, sometimes as 1.0.
    """
    value = _to_python(value)
    if isinstance(value, str):
        value = value.strip()
    if _is_empty(value):
        return None
    if isinstance(value, str):
        if not _WHOLE_NUMBER.fullmatch(value):
            return _check_name(value, "label", where)
        value = int(digits) if len(digits := value.partition(".")[0]) <= _MOST_DIGITS else math.inf
    if isinstance(value, int | float) and abs(value) < LARGEST_CLASS and int(value) == value:
        return int(value)
    raise InputError(f"{where}: the label {_quote(value)} is not a class: a label is a whole number or a name.")


def _read_text(value: Any, field: str, where: str) -> str:
    if _is_empty(value):
        return ""
    if isinstance(value, InputError):
        raise value  # the document of this row could not be read
    if not isinstance(value, str):
        raise InputError(f"{where}: the field '{field}' holds {_quote(value)}, not a text.")
    return value


def _read_id(value: Any, number: int, where: str) -> str:
    """Return the id of a row as text; the number of the row if it has none."""
    if _is_empty(value):
        return str(number)
    if isinstance(value, Mapping | list | tuple | set):
        raise InputError(f"{where}: the id {_quote(value)} is neither a name nor a number.")
    return _check_name(str(value), "id", where)


def _check_name(text: str, field: str, where: str) -> str:
    """Return the text unchanged if it can be shown and written everywhere; otherwise raise InputError."""
    if len(text) > LONGEST_NAME:
        raise InputError(f"{where}: the {field} {_quote(text)} is longer than {LONGEST_NAME:,} characters.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: the {field} {_quote(text)} holds half of a surrogate pair, which is not a character."
        ) from None
    return text


def _to_python(value: Any) -> Any:
    """Return a numpy number or array, nested ones included, as plain Python values."""
    if isinstance(value, np.ndarray):
        return [_to_python(element) for element in value.tolist()]
    if isinstance(value, Mapping):
        return {name: _to_python(element) for name, element in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _is_empty(value: Any) -> bool:
    """Whether a cell is empty: None, an empty text or not-a-number."""
    return value is None or (isinstance(value, str) and not value) or (isinstance(value, float) and value != value)


def _read_rationale(row: Mapping[str, Any], text: str, where: str) -> Spans | None:
    given = _parse_cell(row.get("rationale"), "rationale", where)
    if given is not None:
        return tuple(_read_span(part, len(text), "rationale", where) for part in given)
    counted = _parse_cell(row.get("rationale_tokens"), "rationale_tokens", where)
    if counted is None:
        return None
    pieces = [match.span() for match in re.finditer(r"\S+", text)]
    spans = [_read_span(part, len(pieces), "rationale_tokens", where) for part in counted]
    return tuple((pieces[start][0], pieces[end - 1][1]) for start, end in spans)


def _read_answer(row: Mapping[str, Any], text: str, where: str) -> Spans | None:
    given = row.get("answer")
    # The wording of an answer alone does not say where in the text it is.
    if not isinstance(given, str) or given.lstrip().startswith("["):
        given = _parse_cell(given, "answer", where)
    if given is not None and not isinstance(given, str):
        return tuple(_read_span(part, len(text), "answer", where) for part in given)
    answers = _parse_cell(row.get("answers"), "answers", where)
    if answers is None:
        return None
    spans = []
    for start, wording in _answer_places(answers, where):
        if text[start : start + len(wording)] != wording:
            raise InputError(f"{where}: the answer {_quote(wording)} is not at character {start} of the text.")
        spans.append((start, start + len(wording)))
    return tuple(dict.fromkeys(spans))


def _answer_places(answers: Any, where: str) -> Iterator[tuple[int, str]]:
    """Yield (first character, wording) for each of the known forms; an empty wording means that there is no answer."""
    if isinstance(answers, Mapping):
        starts, wordings = answers.get("answer_start", ()), answers.get("text", ())
        if not isinstance(starts, list | tuple) and not isinstance(wordings, list | tuple):
            starts, wordings = (starts,), (wordings,)
        if not isinstance(starts, list | tuple) or not isinstance(wordings, list | tuple):
            raise InputError(
                f"{where}: 'answers' needs one start per text, not {_quote(starts)} and {_quote(wordings)}."
            )
        answers = list(zip(starts, wordings, strict=False))
    for answer in answers:
        pair = (answer.get("answer_start"), answer.get("text")) if isinstance(answer, Mapping) else answer
        match pair:
            case (int() as start, str() as wording) if start >= 0:
                if wording:
                    yield start, wording
            case _:
                raise InputError(
                    f'{where}: the answer {_quote(answer)} does not have the form {{"text": "…", "answer_start": 0}}.'
                )


def _parse_cell(value: Any, field: str, where: str) -> Any:
    """Return a list or object, parsed if the cell holds it as JSON text; None for an empty cell."""
    if _is_empty(value):
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):  # not JSON, a number of thousands of digits, or nested too deeply
            raise InputError(
                f"{where}: '{field}' holds {_quote(value)}; in a table write JSON, such as [[0, 12]]."
            ) from None
        if depth_exceeds(value):
            raise InputError(f"{where}: '{field}' is nested too deeply; write JSON such as [[0, 12]].")
    if not isinstance(value, Mapping | Sequence) or isinstance(value, str):
        raise InputError(f"{where}: '{field}' must be a list of [start, end), not {_quote(value)}.")
    return value


def _read_span(part: Any, length: int, field: str, where: str) -> tuple[int, int]:
    match part:
        case (int() as start, int() as end) if 0 <= start < end <= length:
            return start, end
    raise InputError(f"{where}: {_quote(part)} in '{field}' is not a [start, end) within 0-{length}.")


def _quote(value: Any) -> str:
    """Return a value for use in a message, cut off after 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


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
