"""Where the files of a run are: a folder of this machine, or an object store that fsspec can reach.

    storage_at("explained")            a folder; `file://` URIs are folders, too
    storage_at("s3://bucket/explained")

A run relies on one guarantee: a file is complete or absent. A folder gives it by renaming (`files.writing`), an object
store because an object appears only when its upload is complete. Other file systems (SFTP, HTTP, archives) give no such
guarantee through fsspec and are refused. Only a folder can be locked: no object store has locks that end with the
process.

The layout of the folder (`RunFolder`):

    DIR/manifest.json          what the run is: model, data, settings, plan; written first, it marks the folder as ours
    DIR/plan/units.parquet     one row per work unit
    DIR/plan/rows/*.parquet    one row per row of the data set: which document it is, its label
    DIR/texts/UNIT.parquet     the documents of a unit, written by the plan
    DIR/TABLE/UNIT.parquet     what was computed for them (`tables.RESULTS`)

A unit is finished if its file in `documents/` exists: it is written last, so that all other tables of the unit are
complete by then. Only files of units of the plan are read, replaced or deleted; whatever else is in the folder is left
alone.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sightline.corpus.tables import FINISHED, RESULTS
from sightline.errors import InputError, UsageError
from sightline.files.foreign import regular_file
from sightline.files.ownership import foreign_names, own_folder, own_path, remove_own_file
from sightline.files.writing import lock_file, remove_parts, write_whole
from sightline.settings.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory")
"""Protocols whose files appear in one step, when their upload is complete."""
MEMORY = "memory"
TABLE_SUFFIX = ".parquet"
OWN_TABLE = {b"sightline": b"run"}
"""In the schema of every table that a run writes."""
_LOCK = ".lock"
_ATTEMPTS = "attempts"
_T = TypeVar("_T")


def storage_at(path: str | Path) -> Storage:
    """Return the storage at a path or URI."""
    protocol, separator, rest = str(path).partition("://")
    if not separator:
        return LocalFolder(Path(path))
    if protocol in ("file", "local"):
        return LocalFolder(Path(rest))
    if protocol not in OBJECT_STORES:
        raise UsageError(
            f"Results cannot be stored at '{path}': only folders and object stores ({', '.join(OBJECT_STORES)}) "
            "guarantee that a file is complete or absent. Mount it as a folder, or choose another place."
        )
    return ObjectStore(str(path))


class LocalFolder:
    """A folder that all workers see under this path."""

    path: Path | str

    def __init__(self, path: Path) -> None:
        self.path = self._folder = path.expanduser().absolute()

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        try:
            with os.scandir(self._folder / folder) as entries:
                return [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a regular file inside the folder."""
        path = regular_file(self._folder, name, InputError)
        if path is None:
            raise FileNotFoundError(name)
        with path.open("rb") as file:
            size = min(path.stat().st_size, limit)  # a buffer of the limit would be reserved otherwise
            return _check_length(file.read(size + 1), limit, f"{self.path}/{name}")

    def file_sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Return the sizes of regular files inside the folder; a run may have a hundred thousand of them."""
        sizes: dict[str, int] = {}
        for folder in {str(PurePosixPath(name).parent) for name in names}:
            # Behind a link, every file is checked individually. A loop of links is a RuntimeError before Python 3.13.
            with suppress(OSError, RuntimeError):
                if (self._folder / folder).resolve() != self._folder.resolve() / folder:
                    continue
            with suppress(OSError), os.scandir(self._folder / folder) as entries:
                plain = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
                sizes |= {f"{folder}/{entry.name}": entry.stat(follow_symlinks=False).st_size for entry in plain}
        return {name: sizes[name] if name in sizes else self._file_size(name) for name in names}

    def _file_size(self, name: str) -> int:
        path = regular_file(self._folder, name, InputError)
        return _require_file(path, f"{self.path}/{name}").stat().st_size

    def write(self, name: str, content: bytes) -> None:
        """Write a file under a temporary name and rename it; raise UsageError if that would replace a foreign table.

        A run that was killed while it planned leaves tables that no record names; these are replaced.
        """
        path = own_path(self._folder, name)
        if path.suffix == TABLE_SUFFIX and path.exists() and not _is_own_table(path):
            raise UsageError(f"'{path}' was not written by Sightline and would be replaced. Name another folder.")
        write_whole(path, content)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        remove_own_file(self._folder, name)

    def make_folders(self, folders: Sequence[str]) -> None:
        """Create folders."""
        for name in (*folders, _ATTEMPTS):
            own_folder(self._folder, name)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for this process; the system releases the lock when the process ends, however it ends.

        Where there are no locks (Windows, some network drives), nothing keeps two runs apart.
        The holder of the lock removes half-written files of killed processes, of earlier runs and its own.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = own_path(self._folder, _LOCK)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"Cannot use '{self.path}' as output folder: {reason}. Choose another folder.") from None
        try:
            if lock_file(descriptor) is False:
                raise UsageError(
                    f"Another run is writing to '{self.path}'. Wait until it ends, or choose another folder."
                )
            self._remove_parts()
            yield
            self._remove_parts()
        finally:
            os.close(descriptor)

    def _remove_parts(self) -> None:
        for folder, _, _ in os.walk(self._folder):
            remove_parts(Path(folder))

    def foreign_names(self) -> list[str]:
        """Return what is in the folder besides the lock, which a run makes first."""
        return foreign_names(self._folder, own=(_LOCK,))

    def attempt_log(self, run: str, unit: str) -> Path:
        """Return the path of a log in the folder, where all workers of all machines see it.

        It has the same name in every run, so that a log left by a killed run is replaced.
        """
        return own_path(self._folder, f"{_ATTEMPTS}/{unit}.log")

    def arrow_place(self) -> tuple[Any, str]:
        """Return the file system in which Arrow finds the files, and the path of the folder there.

        DuckDB could read the files itself, but what it may read it may also overwrite: COPY can be hidden in a SELECT.
        """
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), str(self._folder)


class ObjectStore:
    """A prefix of an object store. Nothing keeps two runs apart there; `memory://` exists in one process only."""

    def __init__(self, uri: str) -> None:
        url_to_fs = require("fsspec.core", "corpus", "An object store").url_to_fs
        self.path: Path | str = uri.rstrip("/")
        try:
            # Other processes add files, so a listing is never remembered.
            self._filesystem, self._root = url_to_fs(self.path, use_listings_cache=False)
        except ImportError as error:
            raise UsageError(f"Results cannot be stored at '{uri}': {str(error).rstrip('.')}.") from None

    def list_names(self, folder: str) -> list[str]:
        """Return the names below a prefix; none if there are none."""
        try:
            with self._named_errors("list", folder):
                entries = self._filesystem.ls(self._at(folder), detail=False)
        except FileNotFoundError:
            return []
        return [str(entry).rstrip("/").rpartition("/")[2] for entry in entries]

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of an object."""
        with self._named_errors("read", name):
            content = bytes(self._filesystem.cat_file(self._at(name), end=limit + 1))
        return _check_length(content, limit, f"{self.path}/{name}")

    def file_sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Return the sizes of objects, from the listings of their prefixes."""
        sizes: dict[str, int] = {}
        for prefix in {self._at(name).rpartition("/")[0] for name in names}:
            with suppress(FileNotFoundError), self._named_errors("list", prefix):
                entries = self._filesystem.ls(prefix, detail=True)
                sizes |= {entry["name"].strip("/"): entry["size"] for entry in entries if entry["type"] == "file"}
        found = {name: sizes.get(self._at(name).strip("/")) for name in names}
        return {name: _require_file(size, f"{self.path}/{name}") for name, size in found.items()}

    def write(self, name: str, content: bytes) -> None:
        """Upload an object, which appears when the upload is complete."""
        with self._named_errors("write", name):
            self._filesystem.pipe_file(self._at(name), content)

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        with suppress(FileNotFoundError), self._named_errors("remove", name):
            self._filesystem.rm_file(self._at(name))

    def make_folders(self, folders: Sequence[str]) -> None:
        """Do nothing: an object store has no folders."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Do nothing: a lock that does not end with its process would block a run that was killed."""
        yield

    def foreign_names(self) -> list[str]:
        """Return what is below the prefix."""
        return sorted(self.list_names(""))

    def attempt_log(self, run: str, unit: str) -> Path:
        """Return the path of a log on this machine, because objects cannot be appended to."""
        return Path(tempfile.gettempdir()) / f"sightline-attempt-{run}-{unit}"

    def arrow_place(self) -> tuple[Any, str]:
        """Return the file system of the store; Arrow reads the needed columns of the objects."""
        return self._filesystem, self._root

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    @contextmanager
    def _named_errors(self, verb: str, name: str) -> Iterator[None]:
        """Turn every exception of the store's client into a UsageError, except for a missing object."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:  # each client has its own exceptions
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise UsageError(f"Cannot {verb} '{self.path}/{name}': {reason}.") from error


def _is_own_table(path: Path) -> bool:
    """Return whether a table was written by a run, which its schema records."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return path.is_file() and OWN_TABLE.items() <= (parquet.read_schema(path).metadata or {}).items()
    except (OSError, pa.ArrowException):
        return False


def _check_length(content: bytes, limit: int, path: str) -> bytes:
    """Return the content; raise InputError if it is longer than `limit` (the read requested one byte more)."""
    if len(content) > limit:
        raise InputError(f"'{path}' is larger than {limit:,} bytes.")
    return content


def _require_file(found: _T | None, path: str) -> _T:
    if found is None:
        raise InputError(f"'{path}' is missing. Start the run again, or restore the file.")
    return found


TEXTS = "texts"
PLAN = "plan"
ROWS = f"{PLAN}/rows"
UNITS = f"{PLAN}/units.parquet"
MANIFEST = "manifest.json"
_FOLDERS = (TEXTS, ROWS, *RESULTS)
_ENCODINGS = {"int32": "DELTA_BINARY_PACKED", "int64": "DELTA_BINARY_PACKED", "float": "BYTE_STREAM_SPLIT"}
"""By type of column."""


Storage: TypeAlias = LocalFolder | ObjectStore
"""Reads and writes the files of a run; names are relative to its folder and use `/`."""


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

        # Positions rise in small steps, so they are stored as differences; floating-point numbers compress better with
        # bytes of equal significance together. A dictionary, best for all other columns, would list each of them once.
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
