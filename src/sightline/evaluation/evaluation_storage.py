"""Store an evaluation as a folder: records.parquet and curves.parquet for data tools, evaluation.json for the rest.

Floats are stored exactly. A folder may come from an untrusted source: everything in it is checked before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sightline.errors import InputError
from sightline.evaluation.result import MODEL, Evaluation, MetricCurve, RecordStatus
from sightline.evaluation.result import Record as Measured
from sightline.files.foreign import check_regular, first_line, quote
from sightline.files.ownership import claim_folder
from sightline.files.writing import replacing, write_whole
from sightline.results.explanation_storage import to_jsonable
from sightline.results.records import FileRecord, JsonObject, Listed, Record, Size, Whole, read_bytes, reading
from sightline.settings.extras import require

EVALUATION = "an evaluation"
"""The content type in the folder's record."""
RECORDS, CURVES, REST = "records.parquet", "curves.parquet", "evaluation.json"

LARGEST_RECORD = 100_000_000
"""Bytes of evaluation.json that are read."""
MOST_ROWS = 50_000_000
_PLAIN = ("skipped", "settings", "provenance", "calls_requested", "calls_made", "seconds", "complete")
_NAMES = ("documents", "methods", "metrics")


def write(evaluation: Evaluation, folder: Path) -> None:
    """Write the three files, making the folder if needed."""
    files = writers(evaluation)
    claim_folder(folder, EVALUATION, files.keys())
    for name, write_to in files.items():
        write_to(folder / name)


def writers(evaluation: Evaluation) -> dict[str, Callable[[Path], None]]:
    """Return the writer of each of the three files, by name; the JSON file is last and completes the folder."""
    require("pyarrow", "corpus", "Writing Parquet files")
    return {
        RECORDS: lambda path: _write_table(path, [asdict(record) for record in evaluation.records], _record_types()),
        CURVES: lambda path: _write_table(path, _curve_rows(evaluation), _curve_types()),
        REST: lambda path: write_whole(path, _rest(evaluation)),
    }


def _rest(evaluation: Evaluation) -> str:
    rest: dict[str, Any] = _Facts.header()
    rest |= {name: list(getattr(evaluation, name)) for name in _NAMES}
    rest |= {name: to_jsonable(getattr(evaluation, name), name) for name in _PLAIN}
    return json.dumps(rest, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


class _Facts(FileRecord):
    """evaluation.json."""

    FORMAT = "sightline-evaluation"
    CONTENT = "an evaluation"

    documents: Listed[str]
    methods: Listed[str]
    metrics: Listed[str]
    skipped: JsonObject
    settings: JsonObject
    provenance: JsonObject
    calls_requested: Whole
    calls_made: Whole
    seconds: Size
    complete: bool

    def require(self) -> None:
        """Raise ValueError if a name occurs twice, or if a value does not fit the tables."""
        for name in _NAMES:
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} must not contain duplicates")
        for name, reason in self.skipped.items():
            if not isinstance(reason, str):
                raise ValueError(f"skipped.{quote(name)} must be a text")
        seed = self.settings.get("seed", 0)
        if type(seed) is not int or not 0 <= seed < 2**32:
            raise ValueError("settings.seed must be a whole number of 32 bits")


class _Row(Record):
    document: str
    method: str
    metric: str

    def require(self, known: Mapping[str, set[str]]) -> None:
        """Raise ValueError unless the row names a document, method and metric of the evaluation."""
        for column, names in known.items():
            if getattr(self, column) not in names:
                raise ValueError(f"a row names a {column} that is not among the {column}s")


class _Measurement(_Row):
    value: float | None
    floor: float | None
    reference: float | None
    calls: Whole
    seconds: Size
    status: RecordStatus
    error: str


class _Curve(_Row):
    ratios: Listed[Annotated[float, Field(ge=0, le=1)]] = Field(min_length=1)
    values: Listed[float]
    floor: Listed[float] | None
    reference: Listed[float] | None


def read(folder: Path) -> Evaluation:
    """Return the evaluation in a folder, or raise InputError saying why it cannot be read."""
    for name in (REST, RECORDS, CURVES):
        check_regular(folder / name, InputError)
        if not (folder / name).exists():
            raise InputError(f"'{folder}' holds no complete evaluation: there is no file '{name}'.")
    require("pyarrow", "corpus", "Reading Parquet files")
    with reading(f"The evaluation in '{folder}'"):
        facts = _Facts.read_file(read_bytes(folder / REST, LARGEST_RECORD), f"The evaluation in '{folder}'")
        facts.require()
        known = {"document": {*facts.documents}, "method": {*facts.methods, MODEL}, "metric": {*facts.metrics}}
        arguments: dict[str, Any] = {name: tuple(getattr(facts, name)) for name in _NAMES}
        return Evaluation(
            records=tuple(_read_record(row, known) for row in _read_rows(folder / RECORDS, _record_types())),
            curves_by=_read_curves(_read_rows(folder / CURVES, _curve_types()), known),
            **arguments | {name: getattr(facts, name) for name in _PLAIN},
        )


def _read_record(values: dict[str, Any], known: Mapping[str, set[str]]) -> Measured:
    """Return one measurement."""
    row = _Measurement.of(values)
    row.require(known)
    if (row.value is not None) != (row.status == "ok"):
        raise ValueError("a record has a value exactly if its status is ok")
    return Measured(**values)


def _curve_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        dict(zip(("document", "method", "metric"), key, strict=True))
        | {name: None if (part := getattr(curve, name)) is None else part.tolist() for name in _SERIES}
        for key, curve in evaluation.curves_by.items()
    ]


_SERIES = ("ratios", "values", "floor", "reference")


def _read_curves(rows: list[dict[str, Any]], known: Mapping[str, set[str]]) -> dict[tuple[str, str, str], MetricCurve]:
    """Return the curves by document, method and metric; all curves of a method and metric have the same points."""
    curves: dict[tuple[str, str, str], MetricCurve] = {}
    points: dict[tuple[str, str], int] = {}
    for values in rows:
        row = _Curve.of(values)
        row.require(known)
        size = points.setdefault((row.method, row.metric), len(row.ratios))
        series = {name: getattr(row, name) for name in _SERIES}
        for name, numbers in series.items():
            if numbers is not None and len(numbers) != size:
                raise ValueError(f"{name} must have {size} entries, not {len(numbers)}")
        if row.ratios != sorted(row.ratios):
            raise ValueError("the ratios of a curve must rise from 0 to 1")
        arrays: dict[str, Any] = {name: None if part is None else np.array(part) for name, part in series.items()}
        curves[row.document, row.method, row.metric] = MetricCurve(**arrays)
    return curves


def _record_types() -> Any:
    import pyarrow as pa

    kinds = {"calls": pa.int64()} | dict.fromkeys(("value", "floor", "reference", "seconds"), pa.float64())
    return pa.schema([(field.name, kinds.get(field.name, pa.string())) for field in fields(Measured)])


def _curve_types() -> Any:
    import pyarrow as pa

    names = dict.fromkeys(("document", "method", "metric"), pa.string())
    return pa.schema(list(names.items()) + [(name, pa.list_(pa.float64())) for name in _SERIES])


def _write_table(path: Path, rows: list[dict[str, Any]], schema: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with replacing(path) as part:
        # Dictionaries for the names only: among numbers they would fold −0.0 into 0.0.
        names = [field.name for field in schema if field.type == pa.string()]
        pq.write_table(
            pa.Table.from_pylist(rows, schema=schema),
            part,
            use_dictionary=names,
            compression="zstd",
            write_page_checksum=True,
        )


def _read_rows(path: Path, schema: Any) -> list[dict[str, Any]]:
    """Return the rows of a table; raise ValueError unless it has exactly the expected columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if not file.schema_arrow.equals(schema):
                raise ValueError(f"'{path.name}' has other columns than those of an evaluation")
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            if any(
                group.column(place).num_values > MOST_ROWS for group in groups for place in range(group.num_columns)
            ):
                raise ValueError(f"'{path.name}' has more than {MOST_ROWS:,} values in a column")
            rows: list[dict[str, Any]] = file.read().to_pylist()
    except pa.ArrowException as error:
        raise ValueError(f"'{path.name}' cannot be read: {first_line(error)}") from None
    return rows
