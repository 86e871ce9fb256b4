"""Read the Parquet files of a run, which may come from strangers: nothing is decoded or used before it is checked.

Before decoding, the footer of every file is checked: columns and their types, rows, and bytes. A table that is queried
is checked once, when its footers are read anyway. While reading, every block of values is checked: ranges, missing
values, numbers that are not finite, names that the manifest does not know.

Honest files compress well too, but only so far: the decoded values of a table may take `ALLOWANCE` bytes plus
`EXPANSION` times its size on disk. Columns of strings are read as dictionaries, so that a long string that is repeated
many times is counted before it is copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from sightline.corpus import tables
from sightline.corpus.run_storage import Storage
from sightline.corpus.tables import dataset, pa, parquet, pc
from sightline.errors import InputError
from sightline.files.foreign import first_line, quote
from sightline.results.check import Matters
from sightline.results.records import ABOVE_ONE
from sightline.results.verdict import VerdictLevel

ALLOWANCE = 64_000_000
EXPANSION = 200
LARGEST_FILE = 1_000_000_000
"""Bytes of one Parquet file on disk."""
MOST_ROWS = 10_000_000
"""Of one Parquet file."""
DIGEST = r"^[0-9a-f]{32}$"
UNIT = r"^[0-9]{6,10}-[0-9a-f]{10}$"
"""Form of a unit's name, which is part of its file names."""
_MAY_BE_MISSING = frozenset(
    {"id", "label", "error", "metadata", "pair", "windows", "type", "written", "received", "attended", "attending"}
    | {"special_share", "matters", "p_value", "fall", "random_mean", "check"}
)


class _Rule(NamedTuple):
    """Constraints on the values of a column."""

    low: float = -math.inf
    high: float = math.inf
    choices: pa.Array | None = None
    pattern: str | None = None


_COUNT, _PROBABILITY = _Rule(0), _Rule(0, 1 + ABOVE_ONE)


@dataclass
class TableReader:
    """Reads the tables of one run; its fields are what manifest and plan say about their values."""

    storage: Storage
    characters: float = math.inf
    """Characters of the longest unit."""
    methods: tuple[str, ...] = ()
    score_names: tuple[str, ...] = ()
    """Names that columns of scores may have."""
    classes: float = math.inf
    """Classes of the model."""
    problem: str = field(default="", init=False)
    """Why the last table could not be read; kept here because DuckDB raises an error of its own."""

    def open(self, table: str, names: Sequence[str]) -> CheckedTable:
        """Return a table made of the named files, which are checked when it is scanned."""
        sizes = self.storage.file_sizes(names)
        if large := [name for name in names if sizes[name] > LARGEST_FILE]:
            raise self.damaged(large[0], f"it is larger than {LARGEST_FILE // 1_000_000:,} MB.")
        schema = _schema_of(table)
        strings = [_path(column) for column in schema if _is_text(column.type)]
        layout = dataset.ParquetFileFormat(
            read_options=dataset.ParquetReadOptions(dictionary_columns=strings),
            default_fragment_scan_options=dataset.ParquetFragmentScanOptions(page_checksum_verification=True),
        )
        filesystem, root = self.storage.arrow_place()
        files = [f"{root}/{name}" for name in names]
        try:
            plain = dataset.dataset(files, schema=schema, format=layout, filesystem=filesystem)
            fragments = list(plain.get_fragments())
            if table == "tokens":
                for column in self._score_columns(names[0], fragments[0].physical_schema):
                    schema = schema.append(column)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self.damaged(names[0], first_line(error)) from None
        checked = CheckedTable(fragments, schema, layout, plain.filesystem)
        checked.prepare(self, table, {name: sizes[name] for name in names})
        return checked

    def read(self, table: str, name: str) -> pa.Table:
        """Return the content of one file; raise InputError if it is damaged."""
        return self.open(table, [name]).scanner().to_reader().read_all()

    def damaged(self, name: str, reason: str) -> InputError:
        """Return an InputError about a damaged file or table, and remember its message."""
        self.problem = f"'{self.storage.path}/{quote(name)}' is damaged: {reason}"
        return InputError(self.problem)

    def rules(self, table: str) -> Mapping[str, _Rule]:
        """Return the rules for the columns of a table; all other columns only have to be finite and not missing."""
        # Row numbers count the rows of the data set, of which a selection contains only some.
        document = {"document": _COUNT, "digest": _Rule(pattern=DIGEST)}
        methods = _Rule(choices=pa.array(self.methods, pa.string()))
        of_table: dict[str, dict[str, _Rule]] = {
            "rows": {"row": _COUNT},
            "units": {"unit": _Rule(pattern=UNIT), "documents": _COUNT, "characters": _COUNT},
            "documents": {
                **dict.fromkeys(("tokens", "words", "dropped"), _COUNT),
                **dict.fromkeys(("probability", "probabilities"), _PROBABILITY),
                "class": _Rule(0, self.classes - 1),
            },
            "tokens": {
                **dict.fromkeys(("position", "id", "type_id", "start", "instances", "attended", "attending"), _COUNT),
                "segment": _Rule(-1, 1),
                "end": _Rule(0, self.characters),
                "word": _Rule(-1),
            },
            "explanations": {
                "method": methods,
                "column": _Rule(choices=pa.array(self.score_names, pa.string())),
                "verdict": _Rule(choices=pa.array(get_args(VerdictLevel), pa.string())),
                "matters": _Rule(choices=pa.array(get_args(Matters), pa.string())),
                "p_value": _PROBABILITY,
            },
            "heads": dict.fromkeys(("layer", "head"), _COUNT),
            "similarity": {"method": methods},
        }
        return {**document, **of_table.get(table, {})}

    def _score_columns(self, name: str, schema: pa.Schema) -> list[pa.Field]:
        """Return the score columns of a tokens file; each belongs to a method, or to a method and a class."""
        known = set(tables.SCHEMAS["tokens"].names)
        columns = [column for column in schema if column.name not in known]
        if wrong := {column.name for column in columns}.difference(self.score_names):
            raise self.damaged(name, f"the run has no scores '{quote(min(wrong))}'.")
        missing = [m for m in self.methods if not any(c.name == m or c.name.startswith(f"{m}:") for c in columns)]
        if missing:
            raise self.damaged(name, f"there are no scores of '{quote(missing[0])}'.")
        return [pa.field(column.name, pa.float32()) for column in columns]


class CheckedTable(dataset.FileSystemDataset):  # type: ignore[misc]  # Arrow has no types
    """An Arrow data set that DuckDB scans; every read goes through `scanner`."""

    def prepare(self, reader: TableReader, table: str, sizes: Mapping[str, int]) -> None:
        """Set what is checked; Arrow defines the constructor."""
        self._reader, self._table, self._sizes = reader, table, sizes
        self._rules = reader.rules(table)
        self._footers_checked = False

    def scanner(self, **choices: Any) -> _CheckedScanner:
        """Return a scanner for the chosen columns and rows, after the footers of all files were checked once."""
        if not self._footers_checked:
            for fragment, (name, size) in zip(self.get_fragments(), self._sizes.items(), strict=True):
                try:
                    self._check_footer(fragment, name, size)
                except (OSError, ValueError, pa.ArrowException) as error:
                    raise self._reader.damaged(name, first_line(error)) from None
            self._footers_checked = True
        return _CheckedScanner(self, super().scanner(**choices))

    def _check_footer(self, fragment: Any, name: str, size: int) -> None:
        """Check columns, rows and bytes of a file before its values are decoded."""
        columns = {column.name: column.type for column in fragment.physical_schema}
        if len(columns) != len(fragment.physical_schema):
            raise self._reader.damaged(name, "two columns have the same name.")
        for expected in self.schema:
            given = columns.pop(expected.name, None)
            if given is None:
                raise self._reader.damaged(name, f"there is no column '{quote(expected.name)}'.")
            if not _same_type(given, expected.type):
                raise self._reader.damaged(name, f"the column '{quote(expected.name)}' has the wrong type.")
        if columns:
            raise self._reader.damaged(name, f"there is an unknown column '{quote(min(columns))}'.")
        footer = fragment.metadata
        groups = range(footer.num_row_groups)
        stated = sum(footer.row_group(number).total_byte_size for number in groups)
        too_many = f"{footer.num_rows:,} rows are too many for {size:,} bytes."
        if not 0 <= footer.num_rows <= MOST_ROWS or stated > _most_bytes(size):
            raise self._reader.damaged(name, too_many)
        _check_columns(fragment)
        values = footer.num_rows * footer.num_columns
        if any(pa.types.is_list(column.type) for column in self.schema):
            columns_of_groups = [(number, place) for number in groups for place in range(footer.num_columns)]
            values = sum(footer.row_group(number).column(place).num_values for number, place in columns_of_groups)
        if not 0 <= 8 * values <= _most_bytes(size):
            raise self._reader.damaged(name, too_many)

    def blocks(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of a scan after checking their values."""
        left = _most_bytes(sum(self._sizes.values()))
        try:
            for block in reader:
                if not block.num_rows:  # a condition skipped this file
                    continue
                for name, values in zip(block.schema.names, block.columns, strict=True):
                    left -= _decoded_bytes(values)
                    if left < 0:
                        raise self._reader.damaged(self._table, "its values are too large for its size on disk.")
                    if (wrong := self._find_wrong(name, values)) is not None:
                        raise self._reader.damaged(self._table, f"'{quote(name)}' {wrong}.")
                yield block
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._reader.damaged(self._table, first_line(error)) from None

    def _find_wrong(self, name: str, values: pa.Array) -> str | None:
        """Return what is wrong with values of a column, None if nothing is."""
        optional = name in _MAY_BE_MISSING or (name == "document" and self._table == "rows")
        if values.null_count and not optional:
            return "has missing values"
        if pa.types.is_list(values.type):
            values = values.flatten()
            if values.null_count:
                return "has missing values"
        rule = self._rules.get(name, _Rule())
        if pa.types.is_dictionary(values.type):
            return _find_wrong_text(rule, values.dictionary)
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return None
        if pa.types.is_floating(values.type) and not pc.all(pc.is_finite(values), min_count=0).as_py():
            return "has values that are not finite numbers"
        if rule.low > -math.inf or rule.high < math.inf:
            ends = pc.min_max(values).as_py()
            if ends["min"] is not None and not (rule.low <= ends["min"] and ends["max"] <= rule.high):
                return f"must be from {rule.low:,} to {rule.high:,}" if rule.high < math.inf else "must not be negative"
        return None


def _check_columns(fragment: Any) -> None:
    """Raise OSError if the footer contradicts itself about a column, by reading the first row of every row group.

    Arrow then checks what the footer says. Where the footer alone is asked, by us or by DuckDB, it ends the process.
    """
    with fragment.open() as source:
        file = parquet.ParquetFile(source, metadata=fragment.metadata)
        for number in range(file.num_row_groups):
            next(file.iter_batches(batch_size=1, row_groups=[number]), None)


class _CheckedScanner:
    """The part of the scanner interface that DuckDB uses."""

    def __init__(self, table: CheckedTable, scanner: dataset.Scanner) -> None:
        self._table, self._scanner = table, scanner

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of checked blocks."""
        reader = self._scanner.to_reader()
        return pa.RecordBatchReader.from_batches(reader.schema, self._table.blocks(reader))


def _find_wrong_text(rule: _Rule, texts: pa.Array) -> str | None:
    if rule.choices is not None and not pc.all(pc.is_in(texts, rule.choices), min_count=0).as_py():
        return "has a value that does not belong to the run"
    if rule.pattern is not None and not pc.all(pc.match_substring_regex(texts, rule.pattern), min_count=0).as_py():
        return "has a value in an unexpected format"
    return None


def _schema_of(table: str) -> pa.Schema:
    """Return the schema in which a table is read: its strings as dictionaries."""
    known = {"rows": tables.ROWS, "texts": tables.TEXTS, "units": tables.UNITS, **tables.SCHEMAS}
    return pa.schema([pa.field(column.name, _read_type(column.type)) for column in known[table]])


def _read_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_read_type(kind.value_type))
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return pa.dictionary(pa.int32(), pa.string()) if is_text else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind.value_type if pa.types.is_list(kind) else kind))


def _path(column: pa.Field) -> str:
    """Return the path of a column's values inside a Parquet file."""
    return f"{column.name}.list.element" if pa.types.is_list(column.type) else str(column.name)


def _same_type(given: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_list(expected):  # the name of the inner column may differ
        return bool(pa.types.is_list(given) and given.value_type == expected.value_type)
    return bool(given == expected)


def _most_bytes(size: int) -> int:
    """Return the bytes that the values of a table of this size on disk may take."""
    return ALLOWANCE + EXPANSION * size


def _decoded_bytes(values: pa.Array) -> int:
    """Return the bytes that values take when every string is copied."""
    if pa.types.is_list(values.type):
        values = values.flatten()
    if not pa.types.is_dictionary(values.type):
        return int(values.nbytes)
    lengths = pc.binary_length(values.dictionary)
    return 8 * len(values) + (pc.sum(pc.take(lengths, values.indices)).as_py() or 0)
