"""One report, one file: a zip archive of `report.json` and plain NumPy arrays; nothing in it is executed when read.

`report.json` holds the records of the explanations (`explanation_storage.to_record`), each encoding once;
`inside/NAME.npy` holds the arrays seen inside the model. Every number is written in full, so that `read(write(x))`
gives x bit for bit.

A report may come from an untrusted source: the sizes in the archive are limits for what is unpacked, and the header of
an array is compared with the report before the array is read.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sightline.attention.protocol import TopK
from sightline.errors import InputError, SizeError, UsageError
from sightline.files.foreign import check_regular, first_line, printable
from sightline.files.writing import replacing
from sightline.results import explanation_storage
from sightline.results.explanation import Explanation
from sightline.results.explanation_storage import DocumentRecord, ScoresRecord
from sightline.results.inside import Inside, Relations, StraightWindows
from sightline.results.records import LARGEST_FILE, FileRecord, Listed, Record, Size, Whole, reading

if TYPE_CHECKING:
    from sightline.results.report import Report

SUFFIX = ".zip"
LARGEST_ARRAYS = 2_000_000_000
"""Bytes that all arrays of a report take together."""
_RECORD = "report.json"
_MAP_NAME = re.compile(r"all|layer-(\d{1,6})|head-(\d{1,6})-(\d{1,6})")
_MOST_PARTS = 100_000
_HEADER_BYTES = 10_000
_NUMBERS = ("tokens", "layers", "heads", "k")
_ARRAYS = ("received", "thumbnails", "images", "importance")
_DIRECTIONS = ("attended", "attending")


class _Entry(Record):
    """One explanation, and the number of its document."""

    method: str
    label: str | None
    document: Whole
    explanation: ScoresRecord


_Size = Annotated[int, Field(ge=1, le=10**7)]


class _Inside(Record):
    """The sizes of the arrays seen inside the model, and the names of the maps."""

    tokens: _Size
    layers: _Size
    heads: _Size
    k: _Size
    relations: Listed[str] = Field(max_length=_MOST_PARTS)


class ReportRecord(FileRecord):
    """A report without its arrays; explanations of one document share it."""

    FORMAT = "sightline-report"
    CONTENT = "a report"

    documents: Listed[DocumentRecord]
    explanations: Listed[_Entry] = Field(min_length=1)
    seconds: dict[str, Size] = Field(max_length=1_000)
    inside: _Inside | None


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
    """Write a report to a `.zip` file, completely or not at all."""
    _check_suffix(path)
    entries = report.entries()
    documents = {id(entry.explanation.encoding): entry.explanation.encoding for entry in entries}
    numbers = {key: number for number, key in enumerate(documents)}
    inside = report.inside
    content = {
        **ReportRecord.header(),
        "documents": [DocumentRecord.plain(encoding) for encoding in documents.values()],
        "explanations": [
            {
                "method": method,
                "label": label,
                "document": numbers[id(explanation.encoding)],
                "explanation": explanation_storage.to_record(explanation, document=False),
            }
            for method, label, explanation in entries
        ],
        "seconds": report.seconds,
        "inside": None
        if inside is None
        else {**{name: getattr(inside, name) for name in _NUMBERS}, "relations": list(inside.relations)},
    }
    text, arrays = json.dumps(content, allow_nan=False), {} if inside is None else _inside_arrays(inside)
    if len(text) > LARGEST_FILE or sum(array.nbytes for array in arrays.values()) > LARGEST_ARRAYS:
        raise SizeError("The report is too large to be read again. Save fewer methods, or smaller maps of the heads.")
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_RECORD, text)
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(f"inside/{name}.npy", buffer.getvalue())


def read(path: Path) -> dict[str, Any]:
    """Return the arguments of the `Report` in a file, or raise InputError saying why it cannot be read."""
    _check_suffix(path)
    name = f"'{path}'"
    check_regular(path, InputError)
    try:
        with reading(name), zipfile.ZipFile(path) as archive:
            if _RECORD not in archive.namelist():
                raise InputError(f"{name} is not a report saved by Sightline.")
            record = ReportRecord.read_file(_unpack(archive, _RECORD, LARGEST_FILE), name)
            return {
                "explanations": _read_explanations(record),
                "inside": None if record.inside is None else _read_inside(archive, record.inside),
                "seconds": record.seconds,
            }
    except KeyError as error:  # of an archive without this file
        raise InputError(f"{name} is damaged: {first_line(error)}") from None
    except NotImplementedError:
        raise InputError(f"{name} is packed in a way that Sightline does not use.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InputError(f"{name} is damaged: {first_line(error)}") from None


def _unpack(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return one file of the archive if it has no more than `most` bytes, whatever the archive says about it."""
    with archive.open(name) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"'{printable(name)}' has more than {most:,} bytes")
    return content


def _read_explanations(record: ReportRecord) -> dict[str, Any]:
    """Rebuild the explanations by method, and by label if they have one; those of one document share its encoding."""
    by_method: dict[str, Any] = {}
    documents = [document.document() for document in record.documents]
    for place, entry in enumerate(record.explanations):
        if entry.document >= len(documents):
            raise ValueError(f"explanations[{place}].document must be one of the {len(documents)} documents")
        explanation = Explanation(**entry.explanation.arguments(documents[entry.document]))
        if entry.label is None:
            by_method[entry.method] = explanation
            continue
        classes = by_method.setdefault(entry.method, {})
        if not isinstance(classes, dict):
            method = printable(entry.method)
            raise ValueError(f"explanations[{place}] has a label, but an earlier explanation by '{method}' has none")
        classes[entry.label] = explanation
    return by_method


def _inside_arrays(inside: Inside) -> dict[str, NDArray[Any]]:
    arrays = {name: getattr(inside, name) for name in _ARRAYS if getattr(inside, name) is not None}
    if inside.windows is not None:
        arrays |= {f"windows.{name}": array for name, array in inside.windows._asdict().items()}
    for name, pair in inside.relations.items():
        for direction, lists in zip(_DIRECTIONS, pair, strict=True):
            arrays[f"{name}.{direction}.partners"] = lists.indices
            arrays[f"{name}.{direction}.weights"] = lists.values
    return arrays


def _read_inside(archive: zipfile.ZipFile, record: _Inside) -> Inside:
    n, layers, heads, k = record.tokens, record.layers, record.heads, record.k
    maps, stored = record.relations, set(archive.namelist())
    if len(stored) > _MOST_PARTS or "all" not in maps or len(set(maps)) < len(maps):
        raise ValueError("inside.relations must name every map once, 'all' among them")
    room = LARGEST_ARRAYS

    def array(name: str, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        nonlocal room
        values = _read_array(archive, name, dtype, shape, room)
        room -= values.nbytes
        return values

    def lists(name: str, direction: str) -> TopK:
        weights = array(f"{name}.{direction}.weights", "f", (n, None))
        partners = array(f"{name}.{direction}.partners", "i", weights.shape)
        if not 1 <= partners.shape[1] <= k or partners.min() < -1 or partners.max() >= n:
            raise ValueError(f"the partners in '{name}' must be tokens, at most {k} for each")
        return TopK(weights, partners)

    def relations(name: str) -> Relations:
        match = _MAP_NAME.fullmatch(name)
        if match is None or int(match[1] or match[2] or 0) >= layers or int(match[3] or 0) >= heads:
            raise ValueError(f"inside.relations names '{printable(name)}', which does not exist in this model")
        return Relations(*(lists(name, direction) for direction in _DIRECTIONS))

    def pictures(name: str) -> NDArray[Any]:
        maps = array(name, "f", (layers, heads, None, None))
        if maps.shape[2] != maps.shape[3] or not maps.shape[2]:
            raise ValueError(f"the maps in '{name}' must be square")
        return maps

    def windows() -> StraightWindows:
        maps, thumbnails = (
            array(f"windows.{name}", "f", (layers, heads, None, None)) for name in StraightWindows._fields[:2]
        )
        reach = array("windows.reach", "i", (layers,))
        if not maps.size or not thumbnails.size or reach.min() < 0 or reach.max() >= n:
            raise ValueError("the windows must have pixels and stay within the document")
        return StraightWindows(maps, thumbnails, reach)

    return Inside(
        tokens=n,
        layers=layers,
        heads=heads,
        k=k,
        relations={name: relations(name) for name in maps},
        received=array("received", "f", (layers, heads, n)),
        thumbnails=pictures("thumbnails"),
        images=pictures("images"),
        importance=array("importance", "f", (layers, heads)) if "inside/importance.npy" in stored else None,
        windows=windows() if "inside/windows.maps.npy" in stored else None,
    )


def _read_array(
    archive: zipfile.ZipFile, name: str, kind: str, shape: tuple[int | None, ...], room: int
) -> NDArray[Any]:
    """Return an array of this kind ("f" or "i") and shape (None: any length) that takes at most `room` bytes."""
    path = f"inside/{name}.npy"
    with archive.open(path) as file:
        start = io.BytesIO(file.read(_HEADER_BYTES))
    version = np.lib.format.read_magic(start)
    if version != (1, 0):
        raise ValueError(f"'{path}' has a format that is not used for arrays of numbers")
    try:
        lengths, fortran, dtype = np.lib.format.read_array_header_1_0(start)
    except TokenError:  # numpy lets it pass for a header that ends within a bracket
        raise ValueError(f"'{path}' has a damaged header") from None
    if dtype.kind != kind or dtype.itemsize > 8 or dtype.hasobject or fortran:
        raise ValueError(f"'{path}' holds {dtype}, not {'numbers' if kind == 'f' else 'whole numbers'}")
    if len(lengths) != len(shape) or any(
        want is not None and length != want for length, want in zip(lengths, shape, strict=True)
    ):
        raise ValueError(f"'{path}' has the shape {lengths}")
    size = math.prod(lengths) * dtype.itemsize
    if size > room:
        raise ValueError(f"its arrays take more than {LARGEST_ARRAYS:,} bytes")
    content = _unpack(archive, path, start.tell() + size)
    if len(content) != start.tell() + size:
        raise ValueError(f"'{path}' is cut off")
    values: NDArray[Any] = np.frombuffer(content, dtype, offset=start.tell()).reshape(lengths)
    if kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"'{path}' holds numbers that are not finite")
    return values


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() != SUFFIX:
        raise UsageError(f"A report is saved in a .zip file, not '{path.name}'.")
