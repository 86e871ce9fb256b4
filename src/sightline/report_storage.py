"""One report, one file: a zip archive of `report.json` and plain NumPy arrays; nothing in it is executed when read.

`report.json` holds the records of the explanations (`storage.to_record`), each encoding once; `inside/NAME.npy` holds
the arrays seen inside the model. Every number is written in full, so that `read(write(x))` gives x bit for bit.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline import storage
from sightline.analysis.internals import Inside, Relations
from sightline.attention.protocol import TopK
from sightline.errors import InputError, ModelError, UsageError
from sightline.explanation import Explanation
from sightline.files import replacing

if TYPE_CHECKING:
    from sightline.report import Report

SUFFIX = ".zip"
_RECORD = "report.json"
_NUMBERS = ("tokens", "layers", "heads", "k")
_ARRAYS = ("received", "thumbnails", "images", "importance")
_DIRECTIONS = ("attended", "attending")


def inside_record(inside: Inside) -> dict[str, Any]:
    """Return the numbers of `Inside` that other programs use as plain values: importance and relations."""
    relations = {
        name: {
            direction: {"partners": lists.indices.tolist(), "weights": lists.values.tolist()}
            for direction, lists in zip(_DIRECTIONS, pair, strict=True)
        }
        for name, pair in inside.relations.items()
    }
    importance = None if inside.importance is None else inside.importance.tolist()
    return {**{name: getattr(inside, name) for name in _NUMBERS}, "importance": importance, "relations": relations}


def write(report: Report, path: Path) -> None:
    """Write a report to a `.zip` file, wholly or not at all."""
    _check_suffix(path)
    encodings: dict[int, int] = {}
    encoding_records: list[dict[str, Any]] = []
    explanations = []
    for method, label, explanation in report.entries():
        record = storage.to_record(explanation)
        encoding_record = {"tokens": record.pop("tokens"), "encoding": record.pop("encoding")}
        if id(explanation.encoding) not in encodings:
            encodings[id(explanation.encoding)] = len(encoding_records)
            encoding_records.append(encoding_record)
        document = encodings[id(explanation.encoding)]
        explanations.append({"method": method, "label": label, "document": document, "explanation": record})
    inside = report.inside
    content = {
        "format": "sightline-report",
        "version": 1,
        "documents": encoding_records,
        "explanations": explanations,
        "seconds": report.seconds,
        "inside": None
        if inside is None
        else {**{name: getattr(inside, name) for name in _NUMBERS}, "relations": list(inside.relations)},
    }
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_RECORD, json.dumps(content, allow_nan=False))
        if inside is not None:
            for name, array in _inside_arrays(inside).items():
                buffer = io.BytesIO()
                np.save(buffer, array, allow_pickle=False)
                archive.writestr(f"inside/{name}.npy", buffer.getvalue())


def read(path: Path) -> dict[str, Any]:
    """Return the arguments of the `Report` in a file, or raise InputError saying why it cannot be read."""
    _check_suffix(path)
    try:
        with zipfile.ZipFile(path) as archive:
            if _RECORD not in archive.namelist():
                raise InputError(f"'{path}' is not a report saved by Sightline.")
            content = json.loads(archive.read(_RECORD))
            if not isinstance(content, dict) or content.get("format") != "sightline-report":
                raise InputError(f"'{path}' is not a report saved by Sightline.")
            if content.get("version") != 1:
                raise InputError(
                    f"'{path}' was written by a newer Sightline (format {content.get('version')}, this one reads 1). "
                    "Update Sightline to read it."
                )
            inside = None if content["inside"] is None else _read_inside(archive, content["inside"])
            return {"explanations": _read_explanations(content), "inside": inside, "seconds": dict(content["seconds"])}
    except FileNotFoundError:
        raise InputError(f"There is no file '{path}'.") from None
    except OSError as error:
        raise InputError(f"Cannot read '{path}': {(error.strerror or 'it is damaged').lower()}.") from None
    except KeyError as error:
        raise InputError(f"'{path}' is damaged: {str(error).strip(chr(34))} is missing.") from None
    except (zipfile.BadZipFile, EOFError, TypeError, ValueError, AttributeError, IndexError, ModelError) as error:
        raise InputError(f"'{path}' is damaged: {str(error).rstrip('.')}.") from None


def _read_explanations(content: Mapping[str, Any]) -> dict[str, Any]:
    """Rebuild the explanations by method, and by label if they have one; those of one document share its encoding."""
    by_method: dict[str, Any] = {}
    shared: dict[int, Any] = {}
    for entry in content["explanations"]:
        number = entry["document"]
        record = {**entry["explanation"], **content["documents"][number]}
        explanation = Explanation.from_record(record, encoding=shared.get(number))
        shared[number] = explanation.encoding
        if entry["label"] is None:
            by_method[entry["method"]] = explanation
        else:
            by_method.setdefault(entry["method"], {})[entry["label"]] = explanation
    return by_method


def _inside_arrays(inside: Inside) -> dict[str, NDArray[Any]]:
    arrays = {name: getattr(inside, name) for name in _ARRAYS if getattr(inside, name) is not None}
    for name, pair in inside.relations.items():
        for direction, lists in zip(_DIRECTIONS, pair, strict=True):
            arrays[f"{name}.{direction}.partners"] = lists.indices
            arrays[f"{name}.{direction}.weights"] = lists.values
    return arrays


def _read_inside(archive: zipfile.ZipFile, record: Mapping[str, Any]) -> Inside:
    def array(name: str) -> NDArray[Any]:
        return np.asarray(np.load(io.BytesIO(archive.read(f"inside/{name}.npy")), allow_pickle=False))

    def lists(name: str, direction: str) -> TopK:
        return TopK(array(f"{name}.{direction}.weights"), array(f"{name}.{direction}.partners"))

    stored = set(archive.namelist())
    return Inside(
        **{name: int(record[name]) for name in _NUMBERS},
        relations={
            name: Relations(*(lists(name, direction) for direction in _DIRECTIONS)) for name in record["relations"]
        },
        received=array("received"),
        thumbnails=array("thumbnails"),
        images=array("images"),
        importance=array("importance") if "inside/importance.npy" in stored else None,
    )


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() != SUFFIX:
        raise UsageError(f"A report is saved in a .zip file, not '{path.name}'.")
