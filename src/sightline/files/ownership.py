"""Which files are Sightline's own: it never overwrites or deletes foreign files in an output folder.

A folder with pages, tables or stored results carries a record, `.sightline.json`, which is written before anything
else: what the folder contains, and the name of every file that Sightline writes into it. The rules follow from it:

- A folder that has no record and is not empty is somebody else's and is refused.
- A file may be replaced or deleted if it is in the record; any other file of the same name is refused by name.
- Nothing is written or deleted through a link below the folder. (The folder itself may be named by a link.)

The folder of a corpus run has `manifest.json` as its record instead, that of a training run `run.json`: the names of
their files follow from these. They use the same checks of single files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sightline.errors import InputError, UsageError
from sightline.files.foreign import quote, read_json
from sightline.files.writing import check_writable, is_part, is_within, write_whole

RECORD = ".sightline.json"
FORMAT = "sightline-folder"
_LARGEST_RECORD = 50_000_000


@dataclass(frozen=True)
class _Record:
    content: str
    """What the folder holds, as messages name it: "an evaluation"."""
    files: frozenset[str]
    """Names relative to the folder, with `/`."""


def check_output_folder(
    folder: Path | str, content: str, *, overwrite: bool | None = None, inputs: Iterable[Path | str | None] = ()
) -> Path:
    """Return the folder; raise UsageError now, before the work, if it cannot be written or is not Sightline's own.

    Nothing is created yet. For a folder that does not exist, the nearest existing folder above it is tried.

    content: what is written, such as "an evaluation"; a folder that holds something else is refused.
    overwrite: accept any folder; files of the same names are replaced, all others are left alone. None where users
    cannot ask for that.
    inputs: what the command reads; a file or folder inside `folder` is refused.
    """
    folder = Path(folder)
    inside, place = RECORD, folder
    try:
        while not place.exists():
            inside, place = place.name, place.parent
    except OSError as error:
        raise _cannot_make(folder, error) from None
    if not place.is_dir():
        which = "it" if place == folder else f"'{place}'"
        raise UsageError(f"Cannot write into '{folder}': {which} is a file. Name a folder.")
    if place == folder:
        record = _read_record(folder)
        if not overwrite:
            _check_content(folder, record, content, offers_overwrite=overwrite is not None)
        for source in inputs:
            if source is not None and is_within(source, folder):
                raise UsageError(f"'{source}' is read by this command and inside the output folder. Name another one.")
    check_writable(place / inside)
    return folder


def claim_folder(folder: Path, content: str, names: Collection[str] = (), *, overwrite: bool | None = None) -> None:
    """Create the folder and record that Sightline writes the files `names` into it; raise UsageError if it may not."""
    check_output_folder(folder, content, overwrite=overwrite)
    record = _read_record(folder)
    known: frozenset[str] = frozenset() if record is None or record.content != content else record.files
    for name in names:
        path = own_path(folder, name)
        if name not in known and not overwrite and path.exists():
            raise UsageError(f"'{path}' was not written by Sightline and would be replaced. Name another folder.")
    make_folder(folder)
    if record is None or record.content != content or not known.issuperset(names):
        _write_record(folder, _Record(content, known.union(names)))
    # Last, or a process that is killed here would leave a folder that is neither empty nor recorded.
    for parent in sorted({(folder / name).parent for name in names}):
        make_folder(parent)


def keep_only(folder: Path, names: Collection[str]) -> None:
    """Delete the files of the record that are not in `names`, and record these."""
    record = _read_record(folder)
    if record is not None and record.files != set(names):
        for name in record.files.difference(names):
            remove_own_file(folder, name)
        _write_record(folder, _Record(record.content, frozenset(names)))


def own_path(folder: Path, name: str) -> Path:
    """Return the path of a file that Sightline reads, writes or deletes in its folder; raise UsageError at a link."""
    path = folder
    for part in PurePosixPath(name).parts:
        path /= part
        if path.is_symlink():
            raise UsageError(f"'{path}' is a link, through which Sightline does not write. Remove it.")
    return path


def own_folder(folder: Path, name: str) -> Path:
    """Return a folder inside Sightline's own, created if it is missing; raise UsageError if it is a link."""
    path = own_path(folder, name)
    make_folder(path)
    return path


def remove_own_file(folder: Path, name: str) -> None:
    """Delete a file that Sightline wrote, if it is there; a link, and what a link leads to, is left alone."""
    try:
        own_path(folder, name).unlink(missing_ok=True)
    except (UsageError, IsADirectoryError, NotADirectoryError, PermissionError):
        return


def foreign_names(folder: Path, own: Collection[str] = ()) -> list[str]:
    """Return what is in a folder, in order, besides some names and temporary files of Sightline."""
    try:
        names = [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if name not in own and not is_part(name))


def not_empty(folder: Path | str, names: Collection[str]) -> str:
    """Return the beginning of a message about a folder that contains files of others."""
    others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"'{folder}' is not empty ('{quote(min(names))}'{others}) and was not written by Sightline"


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(folder, error) from None


def _check_content(folder: Path, record: _Record | None, content: str, *, offers_overwrite: bool) -> None:
    if record is None and (names := foreign_names(folder)):
        otherwise = ", or add --overwrite to replace files of the same names" if offers_overwrite else ""
        raise UsageError(f"{not_empty(folder, names)}. Name a new or empty folder{otherwise}.")
    if record is not None and record.content != content:
        raise UsageError(f"'{folder}' holds {record.content}, which would be replaced. Name another folder.")


def _read_record(folder: Path) -> _Record | None:
    """Return the record of a folder, None if it has none; raise InputError if it is damaged."""
    path = folder / RECORD
    if path.is_symlink() or not path.is_file():
        return None
    stored = read_json(path, limit=_LARGEST_RECORD, error=InputError, name=f"'{path}' is damaged and")
    match stored:
        case {"format": str(form), "content": str(content), "files": list(names)} if form == FORMAT:
            if all(isinstance(name, str) and _is_inside(name) for name in names):
                return _Record(content, frozenset(names))
    raise InputError(
        f"'{path}' is damaged, so it is unknown which files Sightline wrote. Name another folder, or delete it."
    )


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\\" not in name


def _write_record(folder: Path, record: _Record) -> None:
    stored = {"format": FORMAT, "content": record.content, "files": sorted(record.files)}
    write_whole(own_path(folder, RECORD), json.dumps(stored, indent=1, ensure_ascii=False) + "\n")


def _cannot_make(folder: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"Cannot create the folder '{folder}': {reason}. Choose another place.")
