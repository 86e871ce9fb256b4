"""Rows of a folder of documents: one per `.txt`, `.docx`, `.odt` or `.pdf` file, its label the name of its sub-folder.

    letters/complaints/a.txt  →  {"text": …, "label": "complaints", "id": "complaints/a.txt"}

Files directly in the folder have no label. Files are read in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sightline.corpus.data_files import Rows
from sightline.documents import read_document

SUFFIXES = (".txt", ".docx", ".odt", ".pdf")


def is_text_folder(path: Path) -> bool:
    """Return whether the folder, or one of its sub-folders, holds a document."""
    return next(_files(path), None) is not None


def text_folder_rows(path: Path, text: str, label: str) -> Rows:
    """Yield one row per document, with the fields `text`, `label` and `id`."""
    for file in sorted(_files(path)):
        name = file.relative_to(path).as_posix()
        content = read_document(file).text
        parent = file.relative_to(path).parent.as_posix()
        yield f"file {name}", {text: content, label: None if parent == "." else parent, "id": name}


def _files(path: Path) -> Iterator[Path]:
    for suffix in SUFFIXES:
        yield from path.glob(f"*{suffix}")
        yield from path.glob(f"*/*{suffix}")
