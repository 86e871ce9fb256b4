"""read_examples: a data set from a file, a folder or the hub, as a list of examples.

An error is one sentence that names the line. Nothing is fetched from the network unless the source is hf://name.

A folder of text, HTML, Word, OpenDocument and PDF files has one row per file, its label the name of its sub-folder:

    letters/complaints/a.txt  →  {"text": …, "label": "complaints", "id": "complaints/a.txt"}

Files directly in the folder have no label. Files are read in the order of their names. A document that cannot be read
(a scan without text, a link that leads out of the folder) becomes a row with an error instead of a text, so that the
others are explained. Devices, pipes and hidden files are skipped. A warning counts all other files.

Data sets of the Hugging Face `datasets` library are a saved folder, or a hub id written as hf://name. The library is an
optional extra and only provides rows. Only hf:// uses the network, and no code that comes with a data set is run (the
library no longer does so). A saved folder is read only if the files it names are inside it, and its rows are read as
stored: images and sounds, which rows name by path, are not opened."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from sightline.corpus.data_files import MissingSplitError, Rows, file_rows
from sightline.errors import InputError
from sightline.files.foreign import first_line, quote, read_json, regular_file
from sightline.registry import suggestion
from sightline.settings.extras import require
from sightline.settings.values import check_count
from sightline.text import Example, as_examples
from sightline.text.documents import read_document
from sightline.text.examples import (
    EVERY_SPLIT,
    Columns,
    class_label_fields,
    example_from_row,
    split_field,
    split_name,
    without_missing_classes,
)

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
    """Return the row of a one-row table, after checking that its offsets stay within its buffers.

    Arrow maps a file without validating it, and following damaged offsets would crash the process.
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


_MOST_LISTED = 20
TEXT, PAIR, LABEL = Columns.text, Columns.pair, Columns.label
_USUAL_TEXT_FIELDS = (
    "sentence",
    "review",
    "content",
    "document",
    "body",
    "context",
    "premise",
    "sentence1",
    "question1",
)


def read_examples(
    path: str | Path,
    *,
    text: str = TEXT,
    pair: str = PAIR,
    label: str = LABEL,
    split: str | None = None,
    limit: int | None = None,
) -> list[Example]:
    """Return the rows of a data set, the first `limit` of them, as examples.

    Rows without text are kept, so that the caller can report them. Rows without a field 'id' get their number as id; a
    repeated id is followed by "#2", "#3" …

    path: CSV or TSV with a header, JSON lines, a JSON list (each also .gz), Parquet, a folder saved by the datasets
    library, or hf://name for a data set of the hub.
    text, pair, label: the names of the fields. The text field must exist; so must the others if they are not the
    default names.
    split: keep the rows with this value in the field 'split', or this split of a saved data set. "val", "valid", "dev"
    and "validation" are one split, as are "train" and "training", in any case; "*" keeps the rows of all splits.
    """
    if limit is not None:
        check_count("limit", limit)
    columns = Columns(text, pair, label)
    rows = islice(select_rows(path, columns, split, limit), limit)
    return number_repeated_ids(example_from_row(row, columns, number, where) for number, where, row in rows)


def number_repeated_ids(examples: Iterable[Example]) -> list[Example]:
    """Return the examples with "#2", "#3" … appended to repeated ids, skipping ids that a row already has."""
    examples = list(examples)
    taken = {example.id for example in examples}
    numbered: list[Example] = []
    times: Counter[str] = Counter()
    for example in examples:
        times[example.id] += 1
        if times[example.id] > 1:
            while (name := f"{example.id}#{times[example.id]}") in taken:
                times[example.id] += 1
            taken.add(name)
            example = replace(example, id=name)
        numbered.append(example)
    return numbered


def select_rows(
    path: str | Path, columns: Columns, split: str | None, limit: int | None
) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield (number, where, row) of the rows of the split, after checking the fields of the first row."""
    rows, split_by_field = _source(path, columns, split, limit)
    first = next(rows, None)
    if first is None:
        raise InputError(f"The data set '{path}' is empty: it has no rows.")
    fields = [str(field) for field in first[1]]
    _check_columns(path, fields, columns)
    wanted = split_name(split) if split_by_field and split != EVERY_SPLIT else None
    field = split_field(first[1])
    if wanted is not None and field is None:
        raise MissingSplitError(
            f"split='{split}' was requested, but '{path}' has no field 'split'. {_list_fields(fields)}"
        )
    seen: dict[str, str | None] = {}
    for number, (place, row) in enumerate(chain([first], rows)):
        if columns.text not in row:
            raise InputError(f"'{path}', {place} has no field '{columns.text}'. {_list_fields(list(map(str, row)))}")
        if wanted is None:
            yield number, f"'{path}', {place}", row
            continue
        written = str(row.get(field))
        if seen.setdefault(written, split_name(row.get(field))) == wanted:
            yield number, f"'{path}', {place}", row
    if wanted is not None and wanted not in seen.values():
        splits = ", ".join(quote(name) for name in sorted(seen)[:_MOST_LISTED])
        raise MissingSplitError(f"'{path}' has no row in the split '{split}'. Its splits: {splits}.")


def _source(path: str | Path, columns: Columns, split: str | None, limit: int | None) -> tuple[Rows, bool]:
    """Return the rows, and whether they still have to be filtered by the field 'split'."""
    if str(path).startswith(HUB):
        return hub_rows(str(path), split, limit), False
    place = Path(path).expanduser()
    if place.is_dir() and is_text_folder(place):
        return text_folder_rows(place, columns.text, columns.label), True
    if place.is_dir():
        return folder_rows(place, split), False
    if not place.exists():
        raise InputError(
            f"There is no data set '{path}'. Give a file, a folder, or hf://name for a data set of the hub."
        )
    return file_rows(place, columns.text), True


def _check_columns(path: str | Path, fields: list[str], columns: Columns) -> None:
    if columns.text not in fields:
        usual = next((name for name in _USUAL_TEXT_FIELDS if name in fields), None)
        hint = suggestion(columns.text, list(map(quote, fields))) or (f" Did you mean '{usual}'?" if usual else "")
        raise InputError(
            f"'{path}' has no field '{columns.text}'.{hint} {_list_fields(fields)} Name the one that holds the text "
            "(text=, --text)."
        )
    for option, name, usual_name in (("pair", columns.pair, PAIR), ("label", columns.label, LABEL)):
        if name != usual_name and name not in fields:
            raise InputError(
                f"'{path}' has no field '{name}', requested as {option}.{suggestion(name, list(map(quote, fields)))} "
                f"{_list_fields(fields)}"
            )


def _list_fields(fields: list[str]) -> str:
    names = ", ".join(map(quote, fields[:_MOST_LISTED])) + (", …" if len(fields) > _MOST_LISTED else "")
    return f"Its fields: {names or 'none'}."


def read_dataset(dataset: str | Path | Iterable[Any], limit: int | None = None) -> list[Example]:
    """Return the rows of a data set in memory or in a file, the first `limit` of them, each with a unique id."""
    if isinstance(dataset, str | Path):
        return read_examples(dataset, limit=limit)
    if limit is not None:
        check_count("limit", limit)
    return number_repeated_ids(as_examples(dataset)[:limit])


SUFFIXES = (".txt", ".html", ".htm", ".xhtml", ".docx", ".odt", ".pdf")
_HIDDEN = (".", "~$")
"""How the names of hidden files begin, and of the lock files that word processors leave beside an open document."""


_MOST_SUFFIXES = 5


def is_text_folder(path: Path) -> bool:
    """Return whether the folder, or one of its sub-folders, contains a document."""
    return next(_files(path), None) is not None


def text_folder_rows(path: Path, text: str, label: str) -> Rows:
    """Yield one row per document, with the fields `text` (or the error of reading it), `label` and `id`."""
    if sentence := _describe_other_files(path):
        warnings.warn(sentence, stacklevel=2)
    for file in sorted(_files(path)):
        name = file.relative_to(path).as_posix()
        content: str | InputError
        try:
            regular_file(path, name, InputError)
            content = read_document(file).text
        except InputError as error:
            content = error
        parent = file.relative_to(path).parent.as_posix()
        yield f"file {name}", {text: content, label: None if parent == "." else parent, "id": name}


def _files(path: Path) -> Iterator[Path]:
    for file in chain(path.glob("*"), path.glob("*/*")):
        if file.suffix.lower() in SUFFIXES and not file.name.startswith(_HIDDEN) and file.is_file():
            yield file


def _describe_other_files(path: Path) -> str:
    """Return a sentence on the files that are not read, by suffix; an empty string if there are none."""
    suffixes: Counter[str] = Counter()
    deep = 0
    for file in path.rglob("*"):
        if any(part.startswith(_HIDDEN) for part in file.relative_to(path).parts) or not file.is_file():
            continue
        if file.suffix.lower() not in SUFFIXES:
            suffixes[file.suffix.lower()] += 1
        elif len(file.relative_to(path).parts) > 2:
            deep += 1
    kinds = [
        f"{count:,} {quote(suffix) or 'without a suffix'}" for suffix, count in suffixes.most_common(_MOST_SUFFIXES)
    ]
    if others := sum(suffixes.values()) - sum(count for _, count in suffixes.most_common(_MOST_SUFFIXES)):
        kinds.append(f"{others:,} of other kinds")
    if deep:
        kinds.append(f"{deep:,} more than one folder down")
    if not kinds:
        return ""
    total = sum(suffixes.values()) + deep
    files = "1 file is" if total == 1 else f"{total:,} files are"
    return f"{files} not read: {', '.join(kinds)}. Documents end in {', '.join(SUFFIXES)}."
