"""Rows of data files: CSV, TSV, JSON lines, a JSON list, Parquet; all but Parquet also packed with gzip.

Every reader yields (place, row) one after the other, so that the first rows of a large file cost no more than they
are; the place ("line 7") is what an error message names. Text is UTF-8, with or without a byte-order mark, or UTF-16
with one, as spreadsheets save "Unicode text".
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from sightline.errors import InputError
from sightline.text import MAX_CHARACTERS

Rows: TypeAlias = Iterator[tuple[str, Mapping[str, Any]]]

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BATCH_ROWS = 256


def file_rows(path: Path, text: str) -> Rows:
    """Yield the rows of a data file, of a form known by its name; `text` is the field of rows that are bare texts."""
    name = path.name.lower().removesuffix(".gz")
    reader = next((reader for ending, reader in _READERS.items() if name.endswith(ending)), None)
    if reader is None or (reader is _parquet_rows and path.suffix == ".gz"):
        raise InputError(
            f"The form of '{path}' is not known by its name. Known: {', '.join(_READERS)} (text forms also with .gz), "
            "or a folder saved by the datasets library."
        )
    with _said_in_words(path):
        yield from reader(path, text)


@contextmanager
def _said_in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise InputError(f"'{path}' is not a whole gzip file: it is damaged or cut off.") from None
    except OSError as error:
        raise InputError(f"Cannot read '{path}': {(error.strerror or str(error)).lower()}.") from None


def _opened(path: Path) -> io.BufferedReader:
    return io.BufferedReader(gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines with their ends; a file that is no text is refused."""
    with _opened(path) as file:
        yield from _utf16_lines(path, file) if file.peek(2)[:2] in _UTF16_MARKS else _utf8_lines(path, file)


def _utf8_lines(path: Path, file: io.BufferedReader) -> Iterator[str]:
    """Yield the lines, decoded one by one so that a wrong byte is found on its line."""
    for number, line in enumerate(file, start=1):
        if b"\0" in line:
            raise _no_text(path, number)
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"Line {number} of '{path}' is not UTF-8 text: byte 0x{line[error.start]:02x} at position "
                f"{error.start} is wrong. Save the file as UTF-8."
            ) from None


def _utf16_lines(path: Path, file: io.BufferedReader) -> Iterator[str]:
    """Yield the lines of a file that begins with the byte-order mark of UTF-16."""
    try:
        for number, line in enumerate(io.TextIOWrapper(file, encoding="utf-16", newline="\n"), start=1):
            if "\0" in line:
                raise _no_text(path, number)
            yield line
    except UnicodeDecodeError:
        raise InputError(
            f"'{path}' begins as UTF-16 text does, but does not go on as such: it is damaged, or no text. "
            "Save the data as text in UTF-8."
        ) from None


def _no_text(path: Path, number: int) -> InputError:
    return InputError(
        f"'{path}' is not text: line {number} holds a NUL byte, as workbooks, pictures and archives do. Save the data "
        "as text in UTF-8."
    )


def _csv_rows(path: Path, _text: str) -> Rows:
    yield from _table_rows(path, None)


def _tsv_rows(path: Path, _text: str) -> Rows:
    yield from _table_rows(path, "\t")


def _table_rows(path: Path, delimiter: str | None) -> Rows:
    """Yield the rows below a header line; without a delimiter, the one of , ; and tab the header has most of."""
    lines = _lines(path)
    first = next(lines, "")
    while first and not first.strip():
        first = next(lines, "")
    if not first:
        return
    delimiter = delimiter or max(",;\t", key=first.count)
    header = next(csv.reader([first], delimiter=delimiter))
    with _long_cells():
        # Strict: a quote that is never closed would else swallow all rows behind it.
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        while True:
            # Counted from the header on; a quoted cell may go over many lines.
            place = f"line {reader.line_num + 2}"
            try:
                cells = next(reader, None)
            except csv.Error as error:
                why = "a quoted cell is never closed" if "unexpected end" in str(error) else str(error).rstrip(".")
                raise InputError(f"'{path}', {place}: {why}.") from None
            if cells is None:
                return
            if len(cells) > len(header):
                raise InputError(
                    f"'{path}', {place} has {len(cells)} cells, the header {len(header)}: a cell that holds the "
                    'separator must be quoted ("…").'
                )
            if cells:
                yield place, dict(zip(header, cells, strict=False))


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let a cell hold a whole document: the library's limit of 131,072 characters is a setting of the process."""
    before = csv.field_size_limit(max(csv.field_size_limit(), 4 * MAX_CHARACTERS))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _json_line_rows(path: Path, text: str) -> Rows:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(
                f"Line {number} of '{path}' is not JSON: {error.msg} at character {error.pos}. "
                "JSON lines hold one object on every line."
            ) from None
        yield f"line {number}", _object(value, text, f"Line {number} of '{path}'")


def _json_rows(path: Path, text: str) -> Rows:
    """Yield the objects of a JSON list; a file that begins with an object is read as JSON lines."""
    first = next((line.strip() for line in _lines(path) if line.strip()), "")
    if not first.startswith("["):
        yield from _json_line_rows(path, text)
        return
    try:
        values = json.loads("".join(_lines(path)))
    except json.JSONDecodeError as error:
        raise InputError(f"'{path}' is not JSON: {error.msg} on line {error.lineno}.") from None
    for number, value in enumerate(values):
        yield f"entry {number}", _object(value, text, f"Entry {number} of '{path}'")


def _object(value: Any, text: str, where: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {text: value}
    if not isinstance(value, dict):
        raise InputError(f'{where} is {json.dumps(value)[:40]}, not an object such as {{"{text}": "…"}}.')
    return value


def _parquet_rows(path: Path, _text: str) -> Rows:
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    yield f"row {number}", row
                    number += 1
    except arrow.ArrowException as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(f"'{path}' is not a Parquet file that can be read: {reason}.") from None


_READERS: dict[str, Callable[[Path, str], Rows]] = {
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".jsonl": _json_line_rows,
    ".ndjson": _json_line_rows,
    ".json": _json_rows,
    ".parquet": _parquet_rows,
}
