"""Rows of data files: CSV, TSV, JSON lines, a JSON list, Parquet; all but Parquet also packed with gzip.

Every reader yields (place, row) one after the other, so that the first rows of a large file cost no more than they
are; the place ("line 7") is what an error message names. Text is UTF-8, with or without a byte-order mark, or UTF-16
with one, as spreadsheets save "Unicode text". Lines end with LF, CR LF, or, in files of old spreadsheets, CR alone.

Nothing here trusts the file: only regular files are read, a line and a JSON list have a largest size, and a packed file
is read only as long as it expands by a factor that texts reach.
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
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from sightline.errors import InputError
from sightline.foreign import JSON_DEPTH, check_regular, depth_exceeds, first_line, printable
from sightline.spreadsheet_cells import restore_text
from sightline.text import MAX_CHARACTERS

Rows: TypeAlias = Iterator[tuple[str, Mapping[str, Any]]]

LONGEST_LINE = 6 * MAX_CHARACTERS + 2_000_000
"""Bytes of a line: the longest text with every character written as \\uXXXX, and other fields beside it."""
LARGEST_LIST = 256_000_000
"""Bytes of a JSON list, which is read as a whole."""
LARGEST_EXPANSION = 200
"""How many times its size a gzip file may grow to; texts reach about ten, the limit of the format is about 1,000."""
FREE_EXPANSION = 100_000_000
"""Bytes that a gzip file may grow to whatever its size."""
MOST_COLUMNS = 100_000
MOST_PARQUET_VALUES = 100_000_000
"""Values of one column in one row group, which Arrow reads as a whole."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BATCH_ROWS = 256
_BUFFER = 1 << 16
_LINE_END = re.compile(rb"\r\n|\r|\n")


def file_rows(path: Path, text: str) -> Rows:
    """Yield the rows of a data file, of a form known by its name; `text` is the field of rows that are bare texts."""
    name = path.name.lower().removesuffix(".gz")
    reader = next((reader for ending, reader in _READERS.items() if name.endswith(ending)), None)
    if reader is None or (reader is _parquet_rows and path.suffix == ".gz"):
        raise InputError(
            f"The form of '{path}' is not known by its name. Known: {', '.join(_READERS)} (text forms also with .gz), "
            "or a folder saved by the datasets library."
        )
    check_regular(path, InputError)
    with _said_in_words(path):
        yield from reader(path, text)


@contextmanager
def _said_in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise InputError(f"'{path}' is not a whole gzip file: it is damaged or cut off.") from None
    except OSError as error:
        raise InputError(
            f"Cannot read '{path}': {first_line(error) if error.strerror is None else f'{error.strerror}.'}"
        ) from None


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, refused when it expands beyond what texts reach."""

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
                f"'{self._path}' expands to more than {self._most // 1_000_000:,} MB: no text packed this small is "
                "that long. Unpack the file first if it is what you expect."
            )
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


def _opened(path: Path) -> io.BufferedReader:
    raw = _Unpacked(path) if path.suffix.lower() == ".gz" else io.FileIO(path)
    return io.BufferedReader(raw, _BUFFER)


def _lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Yield the lines with their ends; a file that is no text is refused, as is a line of more than `longest` bytes."""
    with _opened(path) as file:
        start = file.peek(_BUFFER)
        if start[:2] in _UTF16_MARKS:
            yield from _utf16_lines(path, file, longest, bare_cr=_has_bare_cr(start.decode("utf-16", "ignore")))
        else:
            yield from _utf8_lines(path, file, longest, bare_cr=_has_bare_cr(start.decode("latin-1")))


def _has_bare_cr(start: str) -> bool:
    """Whether a file that begins like this ends its lines with CR alone."""
    return "\r" in start and "\n" not in start


def _utf8_lines(path: Path, file: io.BufferedReader, longest: int, *, bare_cr: bool) -> Iterator[str]:
    """Yield the lines, decoded one by one so that a wrong byte is found on its line."""
    lines = _cr_lines(file, longest) if bare_cr else iter(lambda: file.readline(longest + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > longest:
            raise _too_long(path, number, longest)
        if b"\0" in line:
            raise _no_text(path, number)
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"Line {number} of '{path}' is not UTF-8 text: byte 0x{line[error.start]:02x} at position "
                f"{error.start} is wrong. Save the file as UTF-8."
            ) from None


def _cr_lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield lines that end with CR, LF or both; one that is longer than `longest` is yielded as far as it was read."""
    rest = b""
    while piece := file.read(max(_BUFFER, len(rest))):  # twice as much every time: a long line is searched few times
        rest += piece
        start = 0
        # The last byte waits: if it is CR, an LF may follow.
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
                raise _too_long(path, number, longest)
            if "\0" in line:
                raise _no_text(path, number)
            yield line
    except UnicodeError:
        raise InputError(
            f"'{path}' begins as UTF-16 text does, but does not go on as such: it is damaged, or no text. "
            "Save the data as text in UTF-8."
        ) from None


def _too_long(path: Path, number: int, longest: int) -> InputError:
    return InputError(
        f"Line {number} of '{path}' is longer than {longest // 1_000_000} MB. A row with so long a text cannot be "
        "explained; divide the text."
    )


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
    if first.count(delimiter) >= MOST_COLUMNS:
        raise InputError(f"The header of '{path}' has more than {MOST_COLUMNS:,} columns: it is no table of texts.")
    with _long_cells():
        # Strict: a quote that is never closed would else swallow all rows behind it.
        reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        try:
            header = [restore_text(cell) for cell in next(reader)]
        except csv.Error as error:
            raise InputError(f"The header of '{path}' cannot be read: {_table_problem(error)}.") from None
        while True:
            # Counted from the header on; a quoted cell may go over many lines.
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
                yield place, dict(zip(header, map(restore_text, cells), strict=False))


def _table_problem(error: csv.Error) -> str:
    """Return what is wrong with a row, in the middle of a sentence."""
    message = str(error)
    if "unexpected end" in message:
        return "a quoted cell is never closed"
    if "new-line character" in message:
        return "a cell that is not quoted holds a carriage return"
    if "expected after" in message:
        return "a quoted cell goes on after its closing quote"
    return printable(message.rstrip("."))


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
        value = _parse(line, f"Line {number} of '{path}'", "JSON lines hold one object on every line")
        yield f"line {number}", _object(value, text, f"Line {number} of '{path}'")


def _json_rows(path: Path, text: str) -> Rows:
    """Yield the objects of a JSON list; a file that begins with an object is read as JSON lines."""
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
                "read one by one."
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
        raise InputError(f"{where} holds a number of more than 4,300 digits.") from None
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
    import pyarrow as arrow
    from pyarrow import parquet

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
    except (ValueError, OverflowError) as error:  # a date or time that Python has no value for
        raise InputError(
            f"'{path}' holds a value in row {number} or after it that cannot be read: {first_line(error)}"
        ) from None


def _check_parquet(path: Path, metadata: Any) -> None:
    """Refuse a file with more values in one piece than fit in memory; a few bytes can stand for billions of them."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            values = metadata.row_group(group).column(column).num_values
            if values > MOST_PARQUET_VALUES:
                raise InputError(
                    f"'{path}' holds {values:,} values in one piece, more than the {MOST_PARQUET_VALUES:,} that are "
                    "read. Write it in smaller row groups."
                )


_READERS: dict[str, Callable[[Path, str], Rows]] = {
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".jsonl": _json_line_rows,
    ".ndjson": _json_line_rows,
    ".json": _json_rows,
    ".parquet": _parquet_rows,
}
