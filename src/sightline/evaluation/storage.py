"""Store an evaluation as a folder: records.parquet and curves.parquet for data tools, evaluation.json for the rest.

Floats are stored exactly. The version number increases when today's code could misread the folder; a newer version is
refused. A folder may come from an untrusted source: everything in it is checked before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from sightline.errors import InputError
from sightline.evaluation.result import MODEL, Evaluation, MetricCurve, Record, Status
from sightline.files.foreign import check_regular, first_line, printable, quote, read_json
from sightline.files.ownership import claim_folder
from sightline.files.writing import replacing, write_whole
from sightline.results.record_checks import (
    check_choice,
    check_flag,
    check_number,
    check_object,
    check_plain,
    check_text,
    check_texts,
    check_whole,
    is_newer,
    read_numbers,
)
from sightline.results.storage import plain
from sightline.settings.extras import require

FORMAT = "sightline-evaluation"
VERSION = 1
EVALUATION = "an evaluation"
"""What the record of the folder says that it holds."""
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
    """Return, by name, what writes each of the three files; the JSON file comes last and completes the folder."""
    require("pyarrow", "corpus", "Writing Parquet files")
    return {
        RECORDS: lambda path: _write_table(path, _record_columns(evaluation), _record_types()),
        CURVES: lambda path: _write_table(path, _curve_columns(evaluation), _curve_types()),
        REST: lambda path: write_whole(path, _rest(evaluation)),
    }


def _record_columns(evaluation: Evaluation) -> dict[str, list[Any]]:
    rows = [asdict(record) for record in evaluation.records]
    return {record.name: [row[record.name] for row in rows] for record in fields(Record)}


def _rest(evaluation: Evaluation) -> str:
    rest: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    rest |= {name: list(getattr(evaluation, name)) for name in _NAMES}
    rest |= {name: plain(getattr(evaluation, name), name) for name in _PLAIN}
    return json.dumps(rest, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def read(folder: Path) -> Evaluation:
    """Return the evaluation in a folder, or raise InputError saying why it cannot be read."""
    for name in (REST, RECORDS, CURVES):
        check_regular(folder / name, InputError)
        if not (folder / name).exists():
            raise InputError(f"'{folder}' holds no complete evaluation: there is no file '{name}'.")
    rest = read_json(folder / REST, limit=LARGEST_RECORD, error=InputError, name=f"'{folder / REST}' is damaged and")
    if not isinstance(rest, dict) or rest.get("format") != FORMAT:
        raise InputError(f"'{folder}' holds no evaluation saved by Sightline.")
    require("pyarrow", "corpus", "Reading Parquet files")
    try:
        if is_newer(rest["version"], VERSION):
            raise InputError(
                f"'{folder}' was written by a newer Sightline (format {rest['version']}, this one reads up to "
                f"{VERSION}). Update Sightline to read it."
            )
        names = {name: check_texts(rest[name], name) for name in _NAMES}
        for name, entries in names.items():
            if len(set(entries)) < len(entries):
                raise ValueError(f"{name} must not name anything twice")
        known = {name: set(entries) for name, entries in names.items()}
        known["methods"].add(MODEL)
        records = tuple(_read_record(row, known) for row in _read_rows(folder / RECORDS, _record_types()))
        curves = _read_curves(_read_rows(folder / CURVES, _curve_types()), known)
        arguments: dict[str, Any] = {name: tuple(entries) for name, entries in names.items()} | _read_facts(rest)
        return Evaluation(records=records, curves_by=curves, **arguments)
    except OSError as error:
        raise InputError(f"Cannot read '{folder}': {(error.strerror or 'it is damaged').lower()}.") from None
    except KeyError as error:
        raise InputError(f"The evaluation in '{folder}' is damaged: {printable(str(error))} is missing.") from None
    except ValueError as error:
        raise InputError(f"The evaluation in '{folder}' is damaged: {first_line(error)}") from None


def _read_facts(rest: dict[str, Any]) -> dict[str, Any]:
    """Return what evaluation.json says besides names."""
    facts = {name: check_plain(rest[name], name) for name in _PLAIN}
    for name in ("skipped", "settings", "provenance"):
        check_object(facts[name], name)
    for name, reason in facts["skipped"].items():
        check_text(reason, f"skipped.{name}")
    for name in ("calls_requested", "calls_made"):
        check_whole(facts[name], name)
    check_whole(facts["settings"].get("seed", 0), "settings.seed", 0, 2**32 - 1)
    check_number(facts["seconds"], "seconds", 0)
    check_flag(facts["complete"], "complete")
    return facts


def _check_names(row: dict[str, Any], names: dict[str, set[str]]) -> None:
    """Raise ValueError unless a row is of a document, method and metric of the evaluation."""
    for column, known in zip(("document", "method", "metric"), _NAMES, strict=True):
        if row[column] not in names[known]:
            raise ValueError(f"a row names a {column} that is not among the {known}: {quote(row[column])}")


def _read_record(row: dict[str, Any], names: dict[str, set[str]]) -> Record:
    """Return one measurement."""
    _check_names(row, names)
    status = check_choice(row["status"], "status", get_args(Status))
    check_text(row["error"], "error")
    check_whole(row["calls"], "calls")
    check_number(row["seconds"], "seconds", 0)
    for name in ("value", "floor", "reference"):
        if row[name] is not None:
            check_number(row[name], name)
    if (row["value"] is not None) != (status == "ok"):
        raise ValueError("a record has a value exactly if its status is ok")
    return Record(**row)


def _curve_columns(evaluation: Evaluation) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in ("document", "method", "metric", *_SERIES)}
    for key, curve in evaluation.curves_by.items():
        for name, part in zip(("document", "method", "metric"), key, strict=True):
            columns[name].append(part)
        for name in _SERIES:
            series = getattr(curve, name)
            columns[name].append(None if series is None else series.tolist())
    return columns


_SERIES = ("ratios", "values", "floor", "reference")


def _read_curves(rows: list[dict[str, Any]], names: dict[str, set[str]]) -> dict[tuple[str, str, str], MetricCurve]:
    """Return the curves by document, method and metric; all curves of a method and metric have the same points."""
    curves: dict[tuple[str, str, str], MetricCurve] = {}
    points: dict[tuple[str, str], int] = {}
    for row in rows:
        _check_names(row, names)
        document, method, metric = row["document"], row["method"], row["metric"]
        size = points.setdefault((method, metric), len(row["ratios"] or ()))
        series: dict[str, Any] = {
            name: None
            if row[name] is None and name in ("floor", "reference")
            else read_numbers(row[name], "<f8", name, size)
            for name in _SERIES
        }
        ratios = series["ratios"]
        if not size or ratios.min() < 0 or ratios.max() > 1 or (np.diff(ratios) < 0).any():
            raise ValueError("the ratios of a curve must rise from 0 to 1")
        curves[document, method, metric] = MetricCurve(**series)
    return curves


def _record_types() -> Any:
    import pyarrow as pa

    kinds = {"calls": pa.int64()} | dict.fromkeys(("value", "floor", "reference", "seconds"), pa.float64())
    return pa.schema([(field.name, kinds.get(field.name, pa.string())) for field in fields(Record)])


def _curve_types() -> Any:
    import pyarrow as pa

    names = dict.fromkeys(("document", "method", "metric"), pa.string())
    return pa.schema(list(names.items()) + [(name, pa.list_(pa.float64())) for name in _SERIES])


def _write_table(path: Path, columns: dict[str, list[Any]], schema: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with replacing(path) as part:
        # Dictionaries for the names only: among numbers they would fold −0.0 into 0.0.
        names = [field.name for field in schema if field.type == pa.string()]
        table = pa.table(columns, schema=schema)
        pq.write_table(table, part, use_dictionary=names, compression="zstd", write_page_checksum=True)


def _read_rows(path: Path, schema: Any) -> list[dict[str, Any]]:
    """Return the rows of a table that has exactly the columns it is written with."""
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
