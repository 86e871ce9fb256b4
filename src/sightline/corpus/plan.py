"""The plan of a run: the data set divided into work units, which depends only on the data and the settings.

The rows are read once, in blocks that fit in memory. Within a block, documents are sorted by length and divided into
units, so that the documents of a unit cost about the same; a row that repeats an earlier text adds no document. The
texts of each unit are written to a separate file, so that workers only need the name of a unit.

A unit is named by its number and the hash of its documents, the plan by the hash of its units. Memory: one block, and
16 bytes per document for its digest.

A plan can be extended by the rows that follow it: they are divided into further units, and nothing written before
changes. Until the manifest records the longer plan, the shorter one is valid.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from sightline.corpus import tables
from sightline.corpus.checked_tables import TableReader
from sightline.corpus.run_storage import ROWS, TEXTS, UNITS, RunFolder
from sightline.corpus.settings import RunSettings
from sightline.corpus.streaming import Row
from sightline.corpus.tables import pa
from sightline.errors import InputError
from sightline.text import Example

BLOCK_DOCUMENTS = 4096
BLOCK_CHARACTERS = 32_000_000
SMALL_BLOCK_UNITS = 32
"""A block of few documents is divided into about this many units, so that all workers get an equal share."""
LEAST_DOCUMENTS = 8
"""A unit may be full with fewer documents than `unit_documents`, but not with fewer than this."""


class PlannedDocument(NamedTuple):
    """One distinct text of the data set."""

    document: int
    """The number of the first row with this text."""
    digest: str
    text: str
    pair: str | None

    @property
    def characters(self) -> int:
        """The length of both texts."""
        return len(self.text) + len(self.pair or "")


@dataclass(frozen=True)
class Plan:
    """The work units of a run, and the size of the data set."""

    units: tuple[str, ...]
    sizes: tuple[int, ...]
    """Documents per unit."""
    characters: tuple[int, ...]
    """Characters per unit."""
    rows: int
    unreadable: int
    """Rows that could not be read."""
    blocks: int
    """Files of the table of rows."""

    @property
    def documents(self) -> int:
        """How many distinct documents there are."""
        return sum(self.sizes)

    def to_dict(self) -> dict[str, Any]:
        """Return what the manifest records."""
        digest = hashlib.sha256("\n".join(self.units).encode()).hexdigest()[:16]
        return {
            "hash": digest,
            "units": len(self.units),
            "rows": self.rows,
            "documents": self.documents,
            "unreadable": self.unreadable,
            "blocks": self.blocks,
        }


def write_plan(folder: RunFolder, rows: Iterable[Row], settings: RunSettings, before: Plan | None = None) -> Plan:
    """Read all rows, write the texts of each unit and the list of units, and return the plan.

    before: a plan of the first rows, in the same folder, which is extended by the rest.
    """
    if before is None:
        before = Plan((), (), (), rows=0, unreadable=0, blocks=0)
        characters: list[int] = []
    else:
        characters = list(before.characters)
    names, sizes = list(before.units), list(before.sizes)
    first_rows = {
        bytes.fromhex(document.digest): document.document
        for unit in before.units
        for document in read_documents(folder, unit)
    }
    count, unreadable, blocks = before.rows, before.unreadable, before.blocks
    for block in _blocks(islice(rows, before.rows, None)):
        documents: list[PlannedDocument] = []
        records = []
        for row in block:
            record = _record(row, first_rows, documents)
            records.append(record)
            unreadable += record["document"] is None
        count += len(records)
        folder.write_table(pa.Table.from_pylist(records, schema=tables.ROWS), folder.file(ROWS, block_name(blocks)))
        blocks += 1
        for unit in _cut(documents, settings):
            digest = hashlib.sha256("".join(document.digest for document in unit).encode()).hexdigest()[:10]
            names.append(f"{len(names):06d}-{digest}")
            sizes.append(len(unit))
            characters.append(sum(document.characters for document in unit))
            folder.write_table(
                pa.Table.from_pylist([document._asdict() for document in unit], schema=tables.TEXTS),
                folder.file(TEXTS, names[-1]),
            )
    if not count:
        raise InputError("The data set is empty: no row is selected.")
    units = pa.table({"unit": names, "documents": sizes, "characters": characters}).cast(tables.UNITS)
    folder.write_table(units, UNITS)
    return Plan(tuple(names), tuple(sizes), tuple(characters), count, unreadable, blocks)


def read_plan(folder: RunFolder, recorded: Mapping[str, Any]) -> Plan:
    """Return the plan in the folder; raise InputError if it is not the one recorded in the manifest.

    Files left by an interrupted extension are ignored.
    """
    units = TableReader(folder.storage).read("units", UNITS)[: recorded["units"]]
    names, sizes, characters = (tuple(units[name].to_pylist()) for name in ("unit", "documents", "characters"))
    plan = Plan(names, sizes, characters, recorded["rows"], recorded["unreadable"], recorded["blocks"])
    if plan.to_dict() != recorded:
        raise InputError(f"The plan in '{folder.path}' was changed: remove the folder and run again.")
    return plan


def block_name(number: int) -> str:
    """Return the name of one of the files of the table of rows."""
    return f"{number:06d}"


def read_documents(folder: RunFolder, unit: str) -> list[PlannedDocument]:
    """Return the documents of a unit."""
    table = TableReader(folder.storage).read("texts", folder.file(TEXTS, unit))
    return [PlannedDocument(**record) for record in table.to_pylist()]


def digest_of(text: str, pair: str | None) -> str:
    """Return the hash of a document's content."""
    content = json.dumps([text, pair], ensure_ascii=True).encode()
    return hashlib.sha256(content).hexdigest()[:32]


def _record(row: Row, first_rows: dict[bytes, int], documents: list[PlannedDocument]) -> dict[str, object]:
    """Return the row of the table of rows, and add its document if it is new."""
    example = row.example
    if example is None or not isinstance(example.text, str):
        error = row.error or "The row contains an encoding; a run needs the text."
        return {"row": row.number, "document": None, "id": str(row.number), "label": None, "error": error}
    text, pair = _storable(example.text), None if example.pair is None else _storable(example.pair)
    digest = digest_of(text, pair)
    key = bytes.fromhex(digest)
    if key not in first_rows:
        first_rows[key] = row.number
        documents.append(PlannedDocument(row.number, digest, text, pair))
    label = None if example.label is None else str(example.label)
    return {
        "row": row.number,
        "document": first_rows[key],
        "id": example.id,
        "label": label,
        "metadata": _storable(metadata_of(example)),
    }


def metadata_of(example: Example) -> str:
    """Return the other fields of a row as JSON, with null for numbers that are not finite."""
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in example.metadata.items()
    }
    return json.dumps(finite, ensure_ascii=False, default=str)


def _storable(text: str) -> str:
    """Return the text with unpaired surrogates, which no file can store, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass").decode(errors="replace")
    return text


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists of bounded length and size."""
    block: list[Row] = []
    characters = 0
    for row in rows:
        block.append(row)
        if row.example is not None and isinstance(row.example.text, str):
            characters += len(row.example.text) + len(row.example.pair or "")
        if len(block) >= BLOCK_DOCUMENTS or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _cut(documents: list[PlannedDocument], settings: RunSettings) -> Iterator[list[PlannedDocument]]:
    """Yield units of documents of similar length, each in the order of the data set."""
    most = min(settings.unit_documents, max(LEAST_DOCUMENTS, math.ceil(len(documents) / SMALL_BLOCK_UNITS)))
    unit: list[PlannedDocument] = []
    characters = 0
    for document in sorted(documents, key=lambda document: (document.characters, document.document)):
        full = characters + document.characters > settings.unit_characters or len(unit) >= most
        if unit and full:
            yield sorted(unit)
            unit, characters = [], 0
        unit.append(document)
        characters += document.characters
    if unit:
        yield sorted(unit)
