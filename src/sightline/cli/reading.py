"""Read the text to explain from a file or from standard input, as UTF-8."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from sightline.errors import InputError, UsageError

MOST_BYTES = 40_000_000
"""Nothing beyond this is read: no text is that long, and the input may be an endless stream."""


def read_texts(file: str, pair: str | None) -> tuple[str, str | None]:
    """Return the text and its pair, if there is one, after the checks that need no model."""
    if file == pair == "-":
        raise UsageError("Only one of the two texts can come from standard input.")
    text, second = read_text(file), None if pair is None else read_text(pair)

    from sightline.text import check_text

    check_text(text)
    if second is not None:
        check_text(second, "second text")
    return text, second


def read_text(source: str) -> str:
    """Return the text of the file `source`, or of standard input for "-"; without its byte-order mark."""
    name = "Standard input" if source == "-" else f"The file '{source}'"
    content = _read_standard_input() if source == "-" else _read_file(Path(source))
    if len(content) > MOST_BYTES:
        raise InputError(f"{name} is larger than {MOST_BYTES // 1_000_000} MB: give the text in parts.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(f"{name} is UTF-16, not UTF-8: convert it first.") from None
        raise InputError(
            f"{name} is not UTF-8 text: byte 0x{content[error.start]:02x} at position {error.start:,} is wrong."
        ) from None


def _read_standard_input() -> bytes:
    if sys.stdin.isatty():
        typer.echo("Type or paste the text, then press Ctrl-D on an empty line.", err=True)
    return sys.stdin.buffer.read(MOST_BYTES + 1)


def _read_file(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise InputError(f"'{path}' is a folder: give a text file, or - for standard input.")
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"There is no file '{path}'. Give a text file, or - for standard input.") from None
    except OSError as error:
        raise InputError(f"Cannot read '{path}': {(error.strerror or str(error)).lower()}.") from None
