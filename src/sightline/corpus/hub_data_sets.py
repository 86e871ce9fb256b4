"""Rows of data sets of the Hugging Face `datasets` library: a saved folder, or a hub id written as hf://name.

The library is an optional extra and only provides rows. Only hf:// uses the network, and no code that comes with a data
set is run (the library no longer does so). A saved folder is read only if the files it names are inside it, and its
rows are read as stored: images and sounds, which rows name by path, are not opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from sightline.corpus.data_files import MissingSplitError, Rows
from sightline.errors import InputError
from sightline.files.foreign import first_line, quote, read_json, regular_file
from sightline.settings.extras import require
from sightline.text.examples import EVERY_SPLIT, class_label_fields, split_name, without_missing_classes

HUB = "hf://"
_SPLITS, _FILES = "dataset_dict.json", "state.json"
_LARGEST_RECORD = 10_000_000


def folder_rows(path: Path, split: str | None) -> Rows:
    """Yield the rows of a folder written by `save_to_disk`; if it has several splits, one (or all) must be chosen."""
    if not any((path / name).is_file() for name in (_SPLITS, _FILES)):
        raise InputError(
            f"'{path}' is a folder, but not a data set saved by the datasets library (save_to_disk). "
            "Give such a folder or a single file."
        )
    library = _import_library(f"Reading the folder '{path}'")
    _check_saved(path)
    name = f"The data set in '{path}'"
    loaded = _call_library(lambda: library.load_from_disk(str(path)), name)
    for part, chosen in _choose_splits(loaded, split, str(path)):
        class_labels = class_label_fields(chosen.features)
        for place, table in _iterate_rows(_call_library(partial(chosen.with_format, "arrow"), name), name):
            row = _call_library(partial(_single_row, table), name)
            yield place, {**without_missing_classes(row, class_labels), **part}


def hub_rows(source: str, split: str | None, limit: int | None) -> Rows:
    """Yield the rows of hf://name, hf://owner/name or hf://name:configuration; with a limit, no more are fetched."""
    name, _, configuration = source.removeprefix(HUB).partition(":")
    if not name:
        raise InputError("hf:// needs the name of a data set on the hub, for example hf://owner/name.")
    library = _import_library(f"Reading '{source}'")
    title = f"The data set '{name}' of the hub"
    loaded = _call_library(
        lambda: library.load_dataset(name, configuration or None, streaming=limit is not None), title
    )
    for part, rows in _choose_splits(loaded, split, source):
        class_labels = class_label_fields(rows.features)
        for place, row in _iterate_rows(rows if limit is None else islice(rows, limit), title):
            yield place, {**without_missing_classes(row, class_labels), **part}


def _check_saved(path: Path) -> None:
    """Raise InputError if a saved folder names files or splits outside itself."""
    folders = [path]
    if (path / _SPLITS).exists():
        names = _read_list(path, _SPLITS, "splits")
        folders = [path / str(name) for name in names]
        if any(not isinstance(name, str) or Path(name).name != name or name == ".." for name in names):
            raise InputError(f"'{_SPLITS}' in '{path}' must name folders beside it.")
    for folder in folders:
        for entry in _read_list(folder, _FILES, "_data_files"):
            name = entry.get("filename") if isinstance(entry, Mapping) else None
            if not isinstance(name, str) or regular_file(folder, name, InputError) is None:
                raise InputError(f"'{_FILES}' in '{folder}' names a file that is missing: {quote(name)}.")


def _read_list(folder: Path, name: str, field: str) -> list[Any]:
    path = regular_file(folder, name, InputError)
    if path is None:
        raise InputError(f"There is no '{name}' in '{folder}': the data set is not complete.")
    content = read_json(path, limit=_LARGEST_RECORD, error=InputError, name=f"'{folder / name}'")
    entries = content.get(field) if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise InputError(f"'{folder / name}' has no list '{field}': it was not written by the datasets library.")
    return entries


def _import_library(purpose: str) -> Any:
    return require("datasets", "datasets", purpose, instead="or save the rows as JSON lines or Parquet")


def _call_library(question: Callable[[], Any], what: str) -> Any:
    try:
        return question()
    except Exception as error:  # the library raises many kinds of exceptions for missing or damaged data
        raise InputError(f"{what} could not be read: {first_line(error)}") from error


def _choose_splits(loaded: Any, split: str | None, source: str) -> list[tuple[dict[str, str], Any]]:
    """Return the chosen parts of a data set, each with the field 'split' of its rows if the data set has parts."""
    if not isinstance(loaded, Mapping):
        return [({}, loaded)]
    known = ", ".join(map(quote, loaded))
    if split is None and len(loaded) > 1:
        raise InputError(f"'{source}' has several splits ({known}): choose one with split=.")
    names = [
        name
        for name in loaded
        if split in (None, EVERY_SPLIT, name) or (split not in loaded and split_name(name) == split_name(split))
    ]
    if not names:
        raise MissingSplitError(f"'{source}' has no split '{split}'. Its splits: {known}.")
    return [({"split": str(name)}, loaded[name]) for name in names]


def _single_row(table: Any) -> Mapping[str, Any]:
    """Return the row of a table of one row, after a check that its offsets stay within its buffers.

    Arrow maps a file without looking at it, and following damaged offsets would end the process.
    """
    table.validate(full=True)
    row: Mapping[str, Any] = table.to_pylist()[0]
    return row


def _iterate_rows(rows: Any, what: str) -> Iterator[tuple[str, Any]]:
    iterator = iter(rows)
    for number in count():
        row = _call_library(lambda: next(iterator, None), what)
        if row is None:
            return
        yield f"row {number}", row
