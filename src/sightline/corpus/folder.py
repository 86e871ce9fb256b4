"""The layout of the folder of a run, and the lock that keeps a second run out.

    DIR/manifest.json          what the run is: model, data, settings, plan
    DIR/plan/units.parquet     one row per work unit
    DIR/plan/rows/*.parquet    one row per row of the data set: which document it is, its label
    DIR/texts/UNIT.parquet     the documents of a unit, written by the plan
    DIR/TABLE/UNIT.parquet     what was computed for them (`tables.RESULTS`)

A unit is finished if its file in `documents/` exists: it is written last, so that all other tables of the unit are
complete by then. Every file is written under a temporary name and renamed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.corpus.tables import FINISHED, RESULTS
from sightline.errors import UsageError
from sightline.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

TEXTS = "texts"
ROWS = "plan/rows"
UNITS = "plan/units.parquet"
MANIFEST = "manifest.json"
ATTEMPTS = "attempts"
_LOCK = ".lock"
_SUFFIX = ".parquet"
_ENCODINGS = {"int32": "DELTA_BINARY_PACKED", "int64": "DELTA_BINARY_PACKED", "float": "BYTE_STREAM_SPLIT"}
"""By type of column."""


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().absolute()

    def file(self, table: str, unit: str) -> Path:
        """Return the path of one table of one unit."""
        return self.path / table / f"{unit}{_SUFFIX}"

    def finished_units(self) -> set[str]:
        """Return the names of the units whose results are complete."""
        return self._names(FINISHED)

    def units_with(self, table: str) -> list[str]:
        """Return the finished units that have a file for `table`, in the order of their names."""
        return sorted(self._names(table) & self.finished_units())

    def _names(self, table: str) -> set[str]:
        folder = self.path / table
        if not folder.is_dir():
            return set()
        with os.scandir(folder) as entries:
            return {entry.name.removesuffix(_SUFFIX) for entry in entries if entry.name.endswith(_SUFFIX)}

    def make(self) -> None:
        """Create the folders of all tables."""
        for name in (TEXTS, ROWS, ATTEMPTS, *RESULTS):
            (self.path / name).mkdir(parents=True, exist_ok=True)

    def write_unit(self, unit: str, tables: Mapping[str, pa.Table]) -> None:
        """Write the tables of a unit, the one that marks it as finished last; empty tables are left out."""
        for name in RESULTS:
            if name == FINISHED or tables[name].num_rows:
                write_table(tables[name], self.file(name, unit))

    def remove_unit(self, unit: str) -> None:
        """Make a unit unfinished, so that it is computed again."""
        for name in (FINISHED, *RESULTS):
            self.file(name, unit).unlink(missing_ok=True)

    def remove_leftovers(self) -> None:
        """Remove what killed processes left behind: half-written files, and notes on attempts."""
        for name in ("", "plan", TEXTS, ROWS, *RESULTS):
            for part in (self.path / name).glob(".*.part"):
                part.unlink(missing_ok=True)
        for note in (self.path / ATTEMPTS).glob("*"):
            note.unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for this process; the system releases the lock when the process ends, however it ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"Cannot use '{self.path}' as output folder: {reason}. Choose another folder.") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(
                    f"Another run is writing to '{self.path}'. Wait until it ends, or choose another folder."
                ) from None
            yield
        finally:
            os.close(descriptor)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table to a Parquet file, completely or not at all."""
    from pyarrow import parquet

    # Positions rise in small steps, so their differences are short; floating-point numbers compress better with bytes
    # of equal significance together. A dictionary, best for all other columns, would hold every such value once.
    encodings = {field.name: _ENCODINGS[str(field.type)] for field in table.schema if str(field.type) in _ENCODINGS}
    with replacing(path) as part:
        parquet.write_table(
            table,
            part,
            compression="zstd",
            compression_level=7,
            use_dictionary=[name for name in table.schema.names if name not in encodings],
            column_encoding=encodings,
            write_page_checksum=True,
        )
