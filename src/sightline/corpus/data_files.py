"""Rows of data files: CSV, TSV, JSON lines, a JSON list, Parquet; all but Parquet also compressed with gzip.

Every reader yields (place, row) one at a time, so that reading the first rows of a large file is cheap; error messages
name the place ("line 7"). Text is UTF-8, with or without a byte-order mark, or UTF-16
with one, as spreadsheets save "Unicode text". Lines end with LF, CR LF, or, in files of old spreadsheets, CR alone.

Nothing here trusts the file: only regular files are read, lines and JSON lists have a maximum size, and a compressed
file is read only as long as it expands by a factor that is normal for text.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from sightline.errors import InputError
from sightline.files.foreign import JSON_DEPTH, check_regular, depth_exceeds, first_line, looks_binary, printable
from sightline.settings.extras import require
from sightline.text import MAX_CHARACTERS

Rows: TypeAlias = Iterator[tuple[str, Mapping[str, Any]]]

LONGEST_LINE = 6 * MAX_CHARACTERS + 2_000_000
"""Bytes per line: the longest text with every character written as \\uXXXX, plus other fields."""
LARGEST_LIST = 256_000_000
"""Bytes of a JSON list, which is read as a whole."""
LARGEST_EXPANSION = 200
"""Largest ratio of a gzip file's content to its size; texts reach about 10, the limit of the format is about 1,000."""
FREE_EXPANSION = 100_000_000
"""Bytes to which any gzip file may expand, whatever its size."""
MOST_COLUMNS = 100_000
MOST_PARQUET_VALUES = 100_000_000
"""Values of one column in one row group, which Arrow reads as a whole."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BATCH_ROWS = 256
_BUFFER = 1 << 16
_LINE_END = re.compile(rb"\r\n|\r|\n")


class MissingSplitError(InputError):
    """The data set does not have the split that was asked for."""


def file_rows(path: Path, text: str) -> Rows:
    """Yield the rows of a data file in the format of its suffix; `text` names the field of rows that are bare texts."""
    name = path.name.lower().removesuffix(".gz")
    reader = next((reader for ending, reader in _READERS.items() if name.endswith(ending)), None)
    if reader is None or (reader is _parquet_rows and path.suffix == ".gz"):
        raise InputError(
            f"The format of '{path}' is not known. Use {', '.join(_READERS)} (also with .gz, except for Parquet), or a "
            "folder saved by the datasets library."
        )
    check_regular(path, InputError)
    with _explain_read_errors(path):
        yield from reader(path, text)


@contextmanager
def _explain_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise InputError(f"'{path}' is not a complete gzip file: it is damaged or truncated.") from None
    except OSError as error:
        raise InputError(
            f"Cannot read '{path}': {first_line(error) if error.strerror is None else f'{error.strerror}.'}"
        ) from None


class _BoundedGzip(io.RawIOBase):
    """The content of a gzip file; raises InputError if it expands more than text normally does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = gzip.GzipFile(path)
        self._most = max(FREE_EXPANSION, LARGEST_EXPANSION * path.stat().st_size)
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(len(buffer))
        self._bytes += len(piece)
        if self._bytes > self._most:
            raise InputError(
                f"'{self._path}' expands to more than {self._most // 1_000_000:,} MB, which is unusual "
                "for text. Unpack the file first if that is what you expect."
            )
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


def _open_file(path: Path) -> io.BufferedReader:
    raw = _BoundedGzip(path) if path.suffix.lower() == ".gz" else io.FileIO(path)
    return io.BufferedReader(raw, _BUFFER)


def _lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Yield the lines with their ends; raise InputError if a line is not text or longer than `longest` bytes."""
    with _open_file(path) as file:
        start = file.peek(_BUFFER)
        if start[:2] in _UTF16_MARKS:
            yield from _utf16_lines(path, file, longest, bare_cr=_has_bare_cr(start.decode("utf-16", "ignore")))
        else:
            yield from _utf8_lines(path, file, longest, bare_cr=_has_bare_cr(start.decode("latin-1")))


def _has_bare_cr(start: str) -> bool:
    """Whether a file that begins like this ends its lines with CR alone."""
    return "\r" in start and "\n" not in start


def _utf8_lines(path: Path, file: io.BufferedReader, longest: int, *, bare_cr: bool) -> Iterator[str]:
    """Yield the lines, decoded one at a time so that an error can name the line."""
    lines = _cr_lines(file, longest) if bare_cr else iter(lambda: file.readline(longest + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > longest:
            raise _line_too_long(path, number, longest)
        if _is_binary(line, number):
            raise _not_text(path, number)
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"Line {number} of '{path}' is not UTF-8 text: byte 0x{line[error.start]:02x} at position "
                f"{error.start} is wrong. Save the file as UTF-8."
            ) from None


def _cr_lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield lines that end with CR, LF or both; a line longer than `longest` is yielded incomplete."""
    rest = b""
    while piece := file.read(max(_BUFFER, len(rest))):  # doubling, so that a long line is searched only a few times
        rest += piece
        start = 0
        # The last byte is held back: if it is CR, an LF may follow.
        for match in _LINE_END.finditer(rest, 0, len(rest) - 1):
            if match.end() == len(rest) - 1 and rest[-2:] == b"\r\n":
                break
            yield rest[start : match.end()]
            start = match.end()
        rest = rest[start:]
        if len(rest) > longest:
            yield rest
            return
    yield from rest.splitlines(keepends=True)


def _utf16_lines(path: Path, file: io.BufferedReader, longest: int, *, bare_cr: bool) -> Iterator[str]:
    """Yield the lines of a file that begins with the byte-order mark of UTF-16."""
    text = io.TextIOWrapper(file, encoding="utf-16", newline="" if bare_cr else "\n")
    try:
        for number, line in enumerate(iter(lambda: text.readline(longest + 1), ""), start=1):
            if len(line) > longest:
                raise _line_too_long(path, number, longest)
            if _is_binary(line, number):
                raise _not_text(path, number)
            yield line
    except UnicodeError:
        raise InputError(
            f"'{path}' begins like UTF-16 text but is not: it is damaged, or not text. Save the data as text in UTF-8."
        ) from None


def _line_too_long(path: Path, number: int, longest: int) -> InputError:
    return InputError(
        f"Line {number} of '{path}' is longer than {longest // 1_000_000} MB. No text of that length can be "
        "explained; divide it."
    )


def _is_binary(line: str | bytes, number: int) -> bool:
    """Whether a line cannot belong to a text file; the first, which may be a header, must have no NUL byte at all."""
    return looks_binary(line) or (number == 1 and (b"\0" in line if isinstance(line, bytes) else "\0" in line))


def _not_text(path: Path, number: int) -> InputError:
    return InputError(
        f"'{path}' is not text: line {number} contains NUL bytes, as in workbooks, images and archives. Save the data "
        "as text in UTF-8."
    )


def _table_rows(path: Path, _text: str, *, delimiter: str | None = None) -> Rows:
    """Yield the rows below a header line; by default the delimiter is the most frequent of , ; and tab."""
    lines = _lines(path)
    first = next(lines, "")
    while first and not first.strip():
        first = next(lines, "")
    if not first:
        return
    delimiter = delimiter or max(",;\t", key=first.count)
    if first.count(delimiter) >= MOST_COLUMNS:
        raise InputError(f"The header of '{path}' has more than {MOST_COLUMNS:,} columns: it is not a table of texts.")
    with _long_cells():
        # Strict: otherwise an unclosed quote would swallow all rows after it.
        reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        try:
            header = next(reader)
        except csv.Error as error:
            raise InputError(f"The header of '{path}' cannot be read: {_table_problem(error)}.") from None
        while True:
            # Counted from the header; a quoted cell may span several lines.
            place = f"line {reader.line_num + 1}"
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise InputError(f"'{path}', {place}: {_table_problem(error)}.") from None
            if cells is None:
                return
            if len(cells) > len(header):
                raise InputError(
                    f"'{path}', {place} has {len(cells)} cells, the header {len(header)}: a cell that holds the "
                    'separator must be quoted ("…").'
                )
            if cells:
                yield place, dict(zip(header, cells, strict=False))


def _table_problem(error: csv.Error) -> str:
    """Return what is wrong with a row, as part of a sentence."""
    message = str(error)
    if "unexpected end" in message:
        return "a quoted cell is never closed"
    if "new-line character" in message:
        return "an unquoted cell contains a carriage return"
    if "expected after" in message:
        return "a quoted cell continues after its closing quote"
    return printable(message.rstrip("."))


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow cells to hold whole documents: the csv module limits them to 131,072 characters, for the whole process."""
    before = csv.field_size_limit(max(csv.field_size_limit(), 4 * MAX_CHARACTERS))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _json_line_rows(path: Path, text: str) -> Rows:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        value = _parse(line, f"Line {number} of '{path}'", "In JSON lines, every line is one object")
        yield f"line {number}", _object(value, text, f"Line {number} of '{path}'")


def _json_rows(path: Path, text: str) -> Rows:
    """Yield the objects of a JSON list; a file that does not start with a list is read as JSON lines."""
    first = next((line.strip() for line in _lines(path, LARGEST_LIST) if line.strip()), "")
    if not first.startswith("["):
        yield from _json_line_rows(path, text)
        return
    pieces, size = [], 0
    for line in _lines(path, LARGEST_LIST):
        size += len(line)
        if size > LARGEST_LIST:
            raise InputError(
                f"The list in '{path}' is longer than {LARGEST_LIST // 1_000_000} MB. Save it as JSON lines, which are "
                "read one at a time."
            )
        pieces.append(line)
    for number, value in enumerate(_parse("".join(pieces), f"'{path}'", "Save the data as a JSON list")):
        yield f"entry {number}", _object(value, text, f"Entry {number} of '{path}'")


def _parse(text: str, where: str, advice: str) -> Any:
    """Return the value of a JSON text, or raise InputError with the reason."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"on line {error.lineno}" if error.lineno > 1 else f"at character {error.pos}"
        raise InputError(f"{where} is not JSON: {error.msg} {place}. {advice}.") from None
    except ValueError:
        raise InputError(f"{where} contains a number of more than 4,300 digits.") from None
    except RecursionError:
        value = None
        deep = True
    else:
        deep = depth_exceeds(value)
    if deep:
        raise InputError(f"{where} is nested more than {JSON_DEPTH} levels deep.")
    return value


def _object(value: Any, text: str, where: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {text: value}
    if not isinstance(value, dict):
        raise InputError(f'{where} is {json.dumps(value)[:40]}, not an object such as {{"{text}": "…"}}.')
    return value


def _parquet_rows(path: Path, _text: str) -> Rows:
    arrow = require("pyarrow", "corpus", "Reading Parquet files")
    parquet = require("pyarrow.parquet", "corpus", "Reading Parquet files")
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            _check_parquet(path, file.metadata)
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    yield f"row {number}", row
                    number += 1
    except arrow.ArrowException as error:
        raise InputError(f"'{path}' is not a Parquet file that can be read: {first_line(error)}") from None
    except (ValueError, OverflowError) as error:  # a date or time that Python cannot represent
        raise InputError(
            f"'{path}' has a value in row {number} or later that cannot be read: {first_line(error)}"
        ) from None


def _check_parquet(path: Path, metadata: Any) -> None:
    """Raise InputError for a row group that would not fit in memory; a few bytes can encode billions of values."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            values = metadata.row_group(group).column(column).num_values
            if values > MOST_PARQUET_VALUES:
                raise InputError(
                    f"'{path}' has {values:,} values in one row group, more than the limit of {MOST_PARQUET_VALUES:,}. "
                    "Write it in smaller row groups."
                )


_READERS: dict[str, Callable[[Path, str], Rows]] = {
    ".csv": _table_rows,
    ".tsv": partial(_table_rows, delimiter="\t"),
    ".jsonl": _json_line_rows,
    ".ndjson": _json_line_rows,
    ".json": _json_rows,
    ".parquet": _parquet_rows,
}
