"""Rows of a folder of plain-text files: one document per `.txt` file, its label the name of its sub-folder.

    letters/complaints/a.txt  →  {"text": …, "label": "complaints", "id": "complaints/a.txt"}

Files directly in the folder have no label. Files are read in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sightline.corpus.data_files import Rows
from sightline.errors import InputError

SUFFIX = ".txt"


def is_text_folder(path: Path) -> bool:
    """Return whether the folder, or one of its sub-folders, holds a `.txt` file."""
    return next(_files(path), None) is not None


def text_folder_rows(path: Path, text: str, label: str) -> Rows:
    """Yield one row per `.txt` file, with the fields `text`, `label` and `id`."""
    for file in sorted(_files(path)):
        name = file.relative_to(path).as_posix()
        try:
            content = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"The file '{file}' is not UTF-8 text: byte {error.start} is wrong. Save it as UTF-8."
            ) from None
        except OSError as error:
            raise InputError(f"Cannot read '{file}': {(error.strerror or str(error)).lower()}.") from None
        parent = file.relative_to(path).parent.as_posix()
        yield f"file {name}", {text: content, label: None if parent == "." else parent, "id": name}


def _files(path: Path) -> Iterator[Path]:
    yield from path.glob(f"*{SUFFIX}")
    yield from path.glob(f"*/*{SUFFIX}")
