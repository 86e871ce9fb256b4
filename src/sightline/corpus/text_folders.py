"""Rows of a folder of text, HTML, Word, OpenDocument and PDF files: one per file, its label the name of its sub-folder.

    letters/complaints/a.txt  →  {"text": …, "label": "complaints", "id": "complaints/a.txt"}

Files directly in the folder have no label. Files are read in the order of their names. A document that cannot be read
(a scan without text, a link that leads out of the folder) is a row that holds the error instead of a text, so that the
others are explained. Devices, pipes and hidden files are passed over. A warning says how many other files there are.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from sightline.corpus.data_files import Rows
from sightline.errors import InputError
from sightline.files.foreign import quote, regular_file
from sightline.text.documents import read_document

SUFFIXES = (".txt", ".html", ".htm", ".xhtml", ".docx", ".odt", ".pdf")
_HIDDEN = (".", "~$")
"""How the names of hidden files begin, and of the lock files that word processors leave beside an open document."""


_MOST_LISTED = 5


def is_text_folder(path: Path) -> bool:
    """Return whether the folder, or one of its sub-folders, holds a document."""
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
        if file.suffix.lower() in SUFFIXES and _is_visible_file(file):
            yield file


def _is_visible_file(file: Path) -> bool:
    return not file.name.startswith(_HIDDEN) and file.is_file()


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
    kinds = [f"{count:,} {quote(suffix) or 'without a suffix'}" for suffix, count in suffixes.most_common(_MOST_LISTED)]
    if others := sum(suffixes.values()) - sum(count for _, count in suffixes.most_common(_MOST_LISTED)):
        kinds.append(f"{others:,} of other kinds")
    if deep:
        kinds.append(f"{deep:,} more than one folder down")
    if not kinds:
        return ""
    total = sum(suffixes.values()) + deep
    files = "1 file is" if total == 1 else f"{total:,} files are"
    return f"{files} not read: {', '.join(kinds)}. Documents end in {', '.join(SUFFIXES)}."
