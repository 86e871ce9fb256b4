"""stream_examples: the rows of a data set one at a time, so that a data set larger than memory can be read.

    for row in stream_examples("tickets.csv", label="team", where="year >= 2024"):
        row.number, row.example or row.error

Three filters, applied in this order: `where` keeps the rows for which an SQL condition on their fields holds, `limit`
the first N of those, `sample` a seeded random subset of the rest. A row that cannot be used (a number instead of
a text) is yielded with its error, so that one bad row does not stop the others.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from sightline.corpus.readers import number_repeated_ids, select_rows
from sightline.errors import InputError, OptionError
from sightline.settings.evaluation import Selection as Selection
from sightline.settings.extras import require
from sightline.text import Example, as_examples
from sightline.text.examples import Columns, example_from_row

_BATCH_ROWS = 1024
_NUMBER = re.compile(
    r"\s*[+-]?(?P<whole>\d{1,31}|(?=\.\d))(?P<rest>\.\d*([eE][+-]?\d{1,3})?|[eE][+-]?\d{1,3})?\s*", re.ASCII
)
"""A number in a text, with or without blanks around it; also ".5", which DuckDB reads as a number."""
_ROW = "_sightline_row"
"""Column of the place of a row in its batch."""
SourceRow = tuple[int, str, Mapping[str, Any]]
"""Number, place ("'a.csv', line 3") and fields of a row."""


@dataclass(frozen=True)
class Row:
    """One row of a data set: an example, or the reason why it cannot be one."""

    number: int
    """Its position in the data set, from 0, before any filter."""
    example: Example | None
    error: str = ""


def stream_examples(source: Any, selection: Selection | None = None) -> Iterator[Row]:
    """Yield the selected rows of a file, a folder, a hub data set or of anything that `as_examples` accepts."""
    selection = selection or Selection()
    rows = _from_path(source, selection) if isinstance(source, str | Path) else _from_memory(source, selection)
    chosen = islice(rows, selection.limit)
    return chosen if selection.sample is None else sample_rows(chosen, selection.sample, selection.seed)


def read_selection(source: str | Path, selection: Selection) -> list[Example]:
    """Return the selected rows as a list of examples; the first row that cannot be used is an error."""

    def usable(row: Row) -> Example:
        if row.example is None:
            raise InputError(row.error)
        return row.example

    examples = number_repeated_ids(map(usable, stream_examples(source, selection)))
    if not examples:
        condition = "" if selection.where is None else f' by where="{selection.where}"'
        raise InputError(f"No row of '{source}' is selected{condition}.")
    return examples


def sample_rows(rows: Iterable[Row], count: int, seed: int) -> Iterator[Row]:
    """Yield `count` rows drawn without replacement, in their order; each row is equally likely.

    Every row gets a random number from the seed, and the `count` smallest are kept: one pass, `count` rows in memory,
    and the same rows for the same seed and data.
    """
    random = Random(seed)
    keyed = ((random.random(), row.number, row) for row in rows)
    return iter(sorted((row for _, _, row in heapq.nsmallest(count, keyed)), key=lambda row: row.number))


def _from_path(path: str | Path, selection: Selection) -> Iterator[Row]:
    columns = Columns(selection.text, selection.pair, selection.label)
    # Only the needed rows are fetched from the hub; with a condition, their number is not known beforehand.
    ahead = selection.limit if selection.where is None else None
    rows: Iterator[SourceRow] = select_rows(path, columns, selection.split, ahead)
    if selection.where is not None:
        # The rows are read twice: whether a column is numeric depends on all of its cells.
        numbers = _number_fields(fields for _, _, fields in select_rows(path, columns, selection.split, None))
        rows = _satisfying(rows, selection.where, numbers)
    for number, place, fields in rows:
        try:
            yield Row(number, example_from_row(fields, columns, number, place))
        except InputError as error:
            yield Row(number, None, str(error))


def _from_memory(source: Any, selection: Selection) -> Iterator[Row]:
    if selection.where is not None or selection.split is not None:
        raise OptionError("where= and split= choose rows of a data file; choose rows in memory before the run.")
    examples = as_examples(source, text=selection.text, pair=selection.pair, label=selection.label)
    for number, example in enumerate(examples):
        yield Row(number, example)


def _number_fields(rows: Iterable[Mapping[str, Any]]) -> dict[str, type[int] | type[float]]:
    """Return the fields whose cells are all numeric or empty strings, as in CSV files.

    DuckDB would otherwise cast the cells to the type of the number they are compared with, and round them. Whole
    numbers of which some have leading zeros (postcodes) or more than 64 bits are names.
    """
    kinds: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            known = kinds.setdefault(name, set())
            if "text" not in known and value is not None and (not isinstance(value, str) or value.strip()):
                known.add(_kind(value))
    return {
        name: float if "fraction" in known else int
        for name, known in kinds.items()
        if known == {"whole"} or ("fraction" in known and "text" not in known)
    }


def _kind(value: Any) -> str:
    """Return whether a cell is a "whole" number, a "fraction", the "name" of something in digits, or "text"."""
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return "text"
    if match["rest"] is not None:
        return "fraction"
    digits = match["whole"]
    return "name" if (digits[0] == "0" and len(digits) > 1) or int(digits) >= 2**63 else "whole"


def _satisfying(
    rows: Iterable[SourceRow], condition: str, numbers: Mapping[str, type[int] | type[float]]
) -> Iterator[SourceRow]:
    """Yield the rows for which the SQL condition is true, evaluated by DuckDB on batches of rows."""
    duckdb = require("duckdb", "corpus", "A condition on the rows")
    pa = require("pyarrow", "corpus", "A condition on the rows")
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET enable_external_access = false")
        remaining = iter(rows)
        while batch := list(islice(remaining, _BATCH_ROWS)):
            connection.register("data", pa.table(_columns([fields for _, _, fields in batch], numbers)))
            try:
                matches = connection.execute(f"SELECT {_ROW} FROM data WHERE ({condition}) ORDER BY {_ROW}").fetchall()
            except duckdb.Error as error:
                reason = str(error).strip().splitlines()[0].rstrip(".!")
                known = ", ".join(str(field) for field in batch[0][2])
                raise OptionError(
                    f'where="{condition}" is not a condition on the rows: {reason}. Fields: {known}.'
                ) from None
            for (index,) in matches:
                yield batch[index]


def _columns(rows: list[Mapping[str, Any]], numbers: Mapping[str, type[int] | type[float]]) -> dict[str, Any]:
    """Return the fields of some rows as columns; a field of mixed or nested types is compared as text."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name in dict.fromkeys(str(field) for row in rows for field in row):
        values = [row.get(name) for row in rows]
        if name in numbers:
            values = [numbers[name](value) if value and value.strip() else None for value in values]
        kinds = {type(value) for value in values if value is not None}
        plain = kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, bool})
        try:
            columns[name] = pa.array(values if plain else _as_texts(values))
        except OverflowError:  # a whole number of more than 64 bits
            columns[name] = pa.array(_as_texts(values))
    return columns | {_ROW: pa.array(range(len(rows)), pa.int32())}


def _as_texts(values: Iterable[Any]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]
