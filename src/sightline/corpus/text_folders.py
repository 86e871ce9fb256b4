"""Rows of a folder of text, HTML, Word, OpenDocument and PDF files: one per file, its label the name of its sub-folder.

    letters/complaints/a.txt  →  {"text": …, "label": "complaints", "id": "complaints/a.txt"}

Files directly in the folder have no label. Files are read in the order of their names. A document that cannot be read
(a scan without text, a link that leads out of the folder) is a row that holds the error instead of a text, so that the
others are explained. Devices and pipes are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from sightline.corpus.data_files import Rows
from sightline.documents import read_document
from sightline.errors import InputError
from sightline.foreign import regular_file

SUFFIXES = (".txt", ".html", ".htm", ".xhtml", ".docx", ".odt", ".pdf")
_HIDDEN = (".", "~$")
"""How the names of hidden files begin, and of the lock files that word processors leave beside an open document."""


def is_text_folder(path: Path) -> bool:
    """Return whether the folder, or one of its sub-folders, holds a document."""
    return next(_files(path), None) is not None


def text_folder_rows(path: Path, text: str, label: str) -> Rows:
    """Yield one row per document, with the fields `text` (or the error of reading it), `label` and `id`."""
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
