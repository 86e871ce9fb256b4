"""An evaluation as a folder: records.parquet and curves.parquet for data tools, evaluation.json for the rest.

Floats are kept to the bit. The version number rises when a reader of today could misread the folder; a newer one is
refused with a sentence.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from sightline.errors import InputError, UsageError
from sightline.evaluation.result import Evaluation, MetricCurve, Record
from sightline.files import replacing, write_whole
from sightline.storage import plain

FORMAT = "sightline-evaluation"
VERSION = 1
RECORDS, CURVES, REST = "records.parquet", "curves.parquet", "evaluation.json"

_PLAIN = ("skipped", "settings", "provenance", "calls_requested", "calls_made", "seconds", "complete")
_NAMES = ("documents", "methods", "metrics")


def write(evaluation: Evaluation, folder: Path) -> None:
    """Write the three files, making the folder if needed; the JSON file comes last and completes the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot make the folder '{folder}': {(error.strerror or str(error)).lower()}.") from None
    names = [one.name for one in fields(Record)]
    rows = [asdict(one) for one in evaluation.records]
    _write_table(folder / RECORDS, {name: [row[name] for row in rows] for name in names}, _record_types())
    _write_table(folder / CURVES, _curve_columns(evaluation), _curve_types())
    rest: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    rest |= {name: list(getattr(evaluation, name)) for name in _NAMES}
    rest |= {name: plain(getattr(evaluation, name), name) for name in _PLAIN}
    write_whole(folder / REST, json.dumps(rest, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read(folder: Path) -> Evaluation:
    """Return the evaluation in a folder, or say why it cannot be read."""
    import pyarrow as pa

    try:
        rest = json.loads((folder / REST).read_bytes())
        if not isinstance(rest, dict) or rest.get("format") != FORMAT:
            raise InputError(f"'{folder}' holds no evaluation saved by Sightline.")
        if rest["version"] > VERSION:
            raise InputError(
                f"'{folder}' was written by a newer Sightline (format {rest['version']}, this one reads up to "
                f"{VERSION}). Update Sightline to read it."
            )
        records = tuple(Record(**row) for row in _read_rows(folder / RECORDS))
        arguments: dict[str, Any] = {name: tuple(rest[name]) for name in _NAMES} | {name: rest[name] for name in _PLAIN}
        return Evaluation(records=records, curves_by=_curves(_read_rows(folder / CURVES)), **arguments)
    except FileNotFoundError as error:
        raise InputError(f"'{folder}' holds no complete evaluation: there is no file '{error.filename}'.") from None
    except OSError as error:
        raise InputError(f"Cannot read '{folder}': {(error.strerror or 'it is damaged').lower()}.") from None
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise InputError(f"The evaluation in '{folder}' is damaged: {str(error).rstrip('.')}.") from None


def _curve_columns(evaluation: Evaluation) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in ("document", "method", "metric", *_SERIES)}
    for key, curve in evaluation.curves_by.items():
        for name, part in zip(("document", "method", "metric"), key, strict=True):
            columns[name].append(part)
        for name in _SERIES:
            series = getattr(curve, name)
            columns[name].append(None if series is None else series.tolist())
    return columns


_SERIES = ("ratios", "values", "floor", "ceiling")


def _curves(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], MetricCurve]:
    def curve(row: dict[str, Any]) -> MetricCurve:
        series: dict[str, Any] = {name: None if row[name] is None else np.array(row[name]) for name in _SERIES}
        return MetricCurve(**series)

    return {(row["document"], row["method"], row["metric"]): curve(row) for row in rows}


def _record_types() -> Any:
    import pyarrow as pa

    kinds = {"calls": pa.int64()} | dict.fromkeys(("value", "floor", "ceiling", "seconds"), pa.float64())
    return pa.schema([(one.name, kinds.get(one.name, pa.string())) for one in fields(Record)])


def _curve_types() -> Any:
    import pyarrow as pa

    names = dict.fromkeys(("document", "method", "metric"), pa.string())
    return pa.schema(list(names.items()) + [(name, pa.list_(pa.float64())) for name in _SERIES])


def _write_table(path: Path, columns: dict[str, list[Any]], schema: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with replacing(path) as part:
        # Dictionaries for the names only: among numbers they would fold −0.0 into 0.0.
        names = [one.name for one in schema if one.type == pa.string()]
        table = pa.table(columns, schema=schema)
        pq.write_table(table, part, use_dictionary=names, compression="zstd", write_page_checksum=True)


def _read_rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.ParquetFile(path, page_checksum_verification=True).read().to_pylist()
    return rows
