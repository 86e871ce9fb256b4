"""Model folders that are either complete or absent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import logging as library_logging

from sightline.errors import UsageError
from sightline.files.foreign import quote
from sightline.files.ownership import foreign_names
from sightline.files.writing import check_writable, new_folder

_TORCH_WRITER = ("inline_container", "PytorchStreamWriter")
"""Parts of torch's native code that write files, as its errors name them."""


def check_new_folder(out: str | Path, suffix: str = "") -> Path:
    """Return the folder to write to; raise UsageError if it is not empty, or if it cannot be written.

    suffix: something of the same name with this ending is written beside it.
    """
    folder = Path(out).expanduser()
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or foreign_names(folder)):
        held = f" ('{quote(foreign_names(folder)[0])}')" if folder.is_dir() and foreign_names(folder) else ""
        raise UsageError(f"'{out}' exists and is not an empty folder{held}. Name a new one for the model.")
    written = folder.with_name(f"{folder.name}{suffix}")
    check_writable(written.with_name(".part") if _is_folder(written) else written)
    return folder


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long, which is reported when it is tried out
        return False


def write_model(module: Any, tokenizer: Any, folder: Path, texts: Mapping[str, str] | None = None) -> None:
    """Write model, tokenizer and further texts by file name under a temporary name, then rename the folder."""
    try:
        with new_folder(folder) as part:
            with quiet_bars():
                module.save_pretrained(part)
                if tokenizer is not None:
                    tokenizer.save_pretrained(part)
            for name, text in (texts or {}).items():
                (part / name).write_text(text, encoding="utf-8")
    except (OSError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"Cannot write '{folder}': {writing_failure(error)}.") from error


def writing_failure(error: Exception) -> str:
    """Return why files of a model could not be written; raise the error again if it is about something else.

    torch and safetensors write in native code and do not raise OSError when a disk is full.
    """
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    if isinstance(error, SafetensorError) or any(sign in str(error) for sign in _TORCH_WRITER):
        return "a file could not be written completely; the disk may be full"
    raise error


@contextmanager
def quiet_bars() -> Iterator[None]:
    """Switch the library's progress bars off inside the block."""
    shown = library_logging.is_progress_bar_enabled()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            library_logging.enable_progress_bar()
