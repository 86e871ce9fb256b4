"""From a row of a file to an Example: which field is what, and spans of characters from the forms data sets use.

- `rationale`: characters [[start, end), …] of the text, or `rationale_tokens`: the same counted in `text.split()`,
  as ERASER's files do.
- `answers` of SQuAD's form, {"text": […], "answer_start": […]}, a list of such objects with one text each, or
  [[start, text], …]; or `answer`: characters [[start, end), …].

In tables these cells hold JSON, in tables in memory also arrays. An answer that does not stand where the row says is
an error: every number computed from it would be wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.foreign import depth_exceeds
from sightline.text.examples import Example, Spans

LONGEST_NAME = 10_000
"""Characters of an id or a label."""
LARGEST_CLASS = 2**31
_WHOLE_NUMBER = re.compile(r"[+-]?\d+(\.0+)?")
_MOST_DIGITS = 20


@dataclass(frozen=True)
class Columns:
    """The names of the fields that hold text, second text and label."""

    text: str
    pair: str
    label: str


def example(row: Mapping[str, Any], columns: Columns, number: int, where: str) -> Example:
    """Return the row as an Example; `where` ("'a.csv', line 3") begins what errors say about it.

    A missing or empty text is kept as "": a data set is not refused for one row.
    """
    row = {field: _plain(value) for field, value in row.items()}
    text = _text(row.get(columns.text), columns.text, where)
    pair = _text(row.get(columns.pair), columns.pair, where)
    return Example(
        text,
        pair=pair or None,
        label=_label(row.get(columns.label), where),
        rationale=_rationale(row, text, where),
        answer=_answer(row, text, where),
        id=_id(row.get("id"), number, where),
    )


def _text(value: Any, field: str, where: str) -> str:
    if _nothing(value):
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: the field '{field}' holds {_shown(value)}, not a text.")
    return value


def _id(value: Any, number: int, where: str) -> str:
    """Return the id of a row as text; rows without one are numbered."""
    if _nothing(value):
        return str(number)
    if isinstance(value, Mapping | list | tuple | set):
        raise InputError(f"{where}: the id {_shown(value)} is neither a name nor a number.")
    return _name(str(value), "id", where)


def _label(value: Any, where: str) -> int | str | None:
    """Return a class as its number or name; tables write numbers as text, sometimes as 1.0."""
    if _nothing(value):
        return None
    if isinstance(value, str):
        stripped = value.strip()
        if not _WHOLE_NUMBER.fullmatch(stripped):
            return _name(value, "label", where)
        value = int(digits) if len(digits := stripped.partition(".")[0]) <= _MOST_DIGITS else math.inf
    if isinstance(value, int | float) and abs(value) < LARGEST_CLASS and int(value) == value:
        return _numbered(int(value))
    raise InputError(f"{where}: the label {_shown(value)} is no class: a label is a whole number or a name.")


def _name(text: str, field: str, where: str) -> str:
    """Return a name that can be shown and written everywhere."""
    if len(text) > LONGEST_NAME:
        raise InputError(f"{where}: the {field} {_shown(text)} is longer than {LONGEST_NAME:,} characters.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: the {field} {_shown(text)} holds half of a surrogate pair, which is no character."
        ) from None
    return text


def _numbered(label: int) -> int | None:
    """Return the class, or None for −1: data sets whose labels are kept secret say it so."""
    return None if label == -1 else label


def _plain(value: Any) -> Any:
    """Return numbers and arrays of numpy, also nested ones, as Python's own."""
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _nothing(value: Any) -> bool:
    """Whether a cell is empty: None, an empty text or not-a-number."""
    return value is None or value == "" or (isinstance(value, float) and value != value)


def _rationale(row: Mapping[str, Any], text: str, where: str) -> Spans | None:
    given = _structure(row.get("rationale"), "rationale", where)
    if given is not None:
        return tuple(_span(part, len(text), "rationale", where) for part in given)
    counted = _structure(row.get("rationale_tokens"), "rationale_tokens", where)
    if counted is None:
        return None
    pieces = [match.span() for match in re.finditer(r"\S+", text)]
    spans = [_span(part, len(pieces), "rationale_tokens", where) for part in counted]
    return tuple((pieces[start][0], pieces[end - 1][1]) for start, end in spans)


def _answer(row: Mapping[str, Any], text: str, where: str) -> Spans | None:
    given = row.get("answer")
    # An answer that is only worded says nothing about its place.
    if not isinstance(given, str) or given.lstrip().startswith("["):
        given = _structure(given, "answer", where)
    if given is not None and not isinstance(given, str):
        return tuple(_span(part, len(text), "answer", where) for part in given)
    answers = _structure(row.get("answers"), "answers", where)
    if answers is None:
        return None
    spans = []
    for start, wording in _placed_answers(answers, where):
        if text[start : start + len(wording)] != wording:
            raise InputError(f"{where}: the answer {_shown(wording)} does not stand at character {start} of the text.")
        spans.append((start, start + len(wording)))
    return tuple(dict.fromkeys(spans))


def _placed_answers(answers: Any, where: str) -> Iterator[tuple[int, str]]:
    """Yield (first character, wording) from each of the known forms; empty wordings mean that there is no answer."""
    if isinstance(answers, Mapping):
        starts, wordings = answers.get("answer_start", ()), answers.get("text", ())
        if not isinstance(starts, list | tuple) and not isinstance(wordings, list | tuple):
            starts, wordings = (starts,), (wordings,)
        if not isinstance(starts, list | tuple) or not isinstance(wordings, list | tuple):
            raise InputError(
                f"{where}: 'answers' needs one start per text, not {_shown(starts)} and {_shown(wordings)}."
            )
        answers = list(zip(starts, wordings, strict=False))
    for one in answers:
        pair = (one.get("answer_start"), one.get("text")) if isinstance(one, Mapping) else one
        match pair:
            case (int() as start, str() as wording) if start >= 0:
                if wording:
                    yield start, wording
            case _:
                raise InputError(
                    f'{where}: the answer {_shown(one)} has not the form {{"text": "…", "answer_start": 0}}.'
                )


def _structure(value: Any, field: str, where: str) -> Any:
    """Return a list or object, parsed from JSON where a table holds it as text; None for an empty cell."""
    if _nothing(value):
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, or nested without end
            raise InputError(
                f"{where}: '{field}' holds {_shown(value)}; in a table write JSON, such as [[0, 12]]."
            ) from None
        if depth_exceeds(value):
            raise InputError(f"{where}: '{field}' is nested too deeply; write JSON such as [[0, 12]].")
    if not isinstance(value, Mapping | Sequence) or isinstance(value, str):
        raise InputError(f"{where}: '{field}' must be a list of [start, end), not {_shown(value)}.")
    return value


def _span(part: Any, length: int, field: str, where: str) -> tuple[int, int]:
    match part:
        case (int() as start, int() as end) if 0 <= start < end <= length:
            return start, end
    raise InputError(f"{where}: {_shown(part)} in '{field}' is no [start, end) within 0-{length}.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
