"""The layout of the folder of a run.

    DIR/manifest.json          what the run is: model, data, settings, plan; written first, it marks the folder as ours
    DIR/plan/units.parquet     one row per work unit
    DIR/plan/rows/*.parquet    one row per row of the data set: which document it is, its label
    DIR/texts/UNIT.parquet     the documents of a unit, written by the plan
    DIR/TABLE/UNIT.parquet     what was computed for them (`tables.RESULTS`)

A unit is finished if its file in `documents/` exists: it is written last, so that all other tables of the unit are
complete by then. Every file is complete or absent (`corpus.storage`). Only files of units of the plan are read,
replaced or deleted; whatever else is in the folder is left alone.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.corpus.storage import MEMORY, OWN_TABLE, TABLE_SUFFIX, storage_at
from sightline.corpus.tables import FINISHED, RESULTS

if TYPE_CHECKING:
    import pyarrow as pa

TEXTS = "texts"
PLAN = "plan"
ROWS = f"{PLAN}/rows"
UNITS = f"{PLAN}/units.parquet"
MANIFEST = "manifest.json"
_FOLDERS = (TEXTS, ROWS, *RESULTS)
_ENCODINGS = {"int32": "DELTA_BINARY_PACKED", "int64": "DELTA_BINARY_PACKED", "float": "BYTE_STREAM_SPLIT"}
"""By type of column."""


class RunFolder:
    """The files of one run, in a folder or below the URI of an object store."""

    def __init__(self, path: str | Path) -> None:
        self.storage = storage_at(path)

    @property
    def path(self) -> Path | str:
        """The folder, or its URI."""
        return self.storage.path

    @property
    def only_in_this_process(self) -> bool:
        """Whether other processes cannot see the files."""
        return str(self.path).startswith(f"{MEMORY}://")

    def file(self, table: str, unit: str) -> str:
        """Return the name of the file of one table of one unit."""
        return f"{table}/{unit}{TABLE_SUFFIX}"

    def finished_units(self, units: Collection[str]) -> set[str]:
        """Return which of the units of a plan have complete results."""
        return set(units).intersection(self._list_units(FINISHED))

    def units_with(self, table: str, units: Collection[str]) -> list[str]:
        """Return which of the units of a plan are finished and have a file for `table`, in order."""
        return sorted(self.finished_units(units).intersection(self._list_units(table)))

    def _list_units(self, table: str) -> list[str]:
        return [
            name.removesuffix(TABLE_SUFFIX) for name in self.storage.list_names(table) if name.endswith(TABLE_SUFFIX)
        ]

    def make(self) -> None:
        """Create the folders of all tables."""
        self.storage.make_folders(_FOLDERS)

    def write_unit(self, unit: str, tables: Mapping[str, pa.Table]) -> None:
        """Write the tables of a unit, the one that marks it as finished last; empty tables are left out."""
        for name in RESULTS:
            if name == FINISHED or tables[name].num_rows:
                self.write_table(tables[name], self.file(name, unit))

    def remove_unit(self, unit: str) -> None:
        """Make a unit unfinished, so that it is computed again."""
        for name in (FINISHED, *RESULTS):
            self.storage.remove(self.file(name, unit))

    def write_table(self, table: pa.Table, name: str) -> None:
        """Write a table to a Parquet file, completely or not at all."""
        from pyarrow import parquet

        # Positions rise in small steps, so their differences are short; floating-point numbers compress better with
        # bytes of equal significance together. A dictionary, best for all other columns, would hold every such value
        # once.
        encodings = {field.name: _ENCODINGS[str(field.type)] for field in table.schema if str(field.type) in _ENCODINGS}
        content = io.BytesIO()
        parquet.write_table(
            table.replace_schema_metadata(OWN_TABLE),
            content,
            compression="zstd",
            compression_level=7,
            use_dictionary=[name for name in table.schema.names if name not in encodings],
            column_encoding=encodings,
            write_page_checksum=True,
        )
        self.storage.write(name, content.getvalue())
