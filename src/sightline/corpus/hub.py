"""Rows of data sets of the Hugging Face `datasets` library: a saved folder, or a hub id written as hf://name.

The library is an optional extra and is asked for nothing but rows. Only hf:// reaches for the network, and no code
that comes with a data set is run (the library no longer does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from sightline.corpus.data_files import Rows
from sightline.errors import InputError, UnsupportedError

HUB = "hf://"


def folder_rows(path: Path, split: str | None) -> Rows:
    """Yield the rows of a folder written by `save_to_disk`; of a folder with several splits, one must be chosen."""
    if not any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
        raise InputError(
            f"'{path}' is a folder, and no data set saved by the datasets library (save_to_disk). "
            "Give such a folder or a single file."
        )
    library = _library(f"to read the folder '{path}'")
    found = _asked(lambda: library.load_from_disk(str(path)), f"The data set in '{path}'")
    yield from _rows(_chosen_split(found, split, str(path)))


def hub_rows(source: str, split: str | None, limit: int | None) -> Rows:
    """Yield the rows of hf://name, hf://owner/name or hf://name:configuration; with a limit, only these are fetched."""
    name, _, configuration = source.removeprefix(HUB).partition(":")
    if not name:
        raise InputError("hf:// needs the name of a data set on the hub, for example hf://owner/name.")
    library = _library(f"to read '{source}'")
    found = _asked(
        lambda: library.load_dataset(name, configuration or None, streaming=limit is not None),
        f"The data set '{name}' of the hub",
    )
    rows = _chosen_split(found, split, source)
    yield from _rows(rows if limit is None else islice(rows, limit))


def _library(purpose: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise UnsupportedError(
            f"The datasets library is needed {purpose} and is not installed: pip install 'sightline[datasets]', "
            "or save the rows as JSON lines or Parquet."
        ) from None
    return datasets


def _asked(question: Callable[[], Any], what: str) -> Any:
    try:
        return question()
    except Exception as error:  # the library raises nearly every kind for what is missing or damaged
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"{what} could not be read: {reason}.") from error


def _chosen_split(found: Any, split: str | None, source: str) -> Any:
    if not isinstance(found, Mapping):
        return found
    known = ", ".join(found)
    if split is None and len(found) == 1:
        return next(iter(found.values()))
    if split is None:
        raise InputError(f"'{source}' has several splits ({known}): choose one with split=.")
    if split not in found:
        raise InputError(f"'{source}' has no split '{split}'. Its splits: {known}.")
    return found[split]


def _rows(rows: Any) -> Rows:
    for number, row in enumerate(rows):
        yield f"row {number}", row
