"""Read the text to explain from a document file or from standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from sightline.cli.progress_bar import LateProgress
from sightline.errors import UsageError
from sightline.files.foreign import printable


def read_texts(file: str, pair: str | None, *, plain_text: bool = False) -> tuple[str, str | None]:
    """Return the text and its pair, if there is one, after the checks that need no model."""
    if file == pair == "-":
        raise UsageError("Only one of the two texts can come from standard input.")
    text = read_text(file, plain_text=plain_text)
    second = None if pair is None else read_text(pair, plain_text=plain_text)

    from sightline.text import check_text

    check_text(text)
    if second is not None:
        check_text(second, "second text")
    return text, second


def read_text(source: str, *, plain_text: bool = False) -> str:
    """Return the text of the document `source`, or of standard input for "-"; print what is left out."""
    from sightline.text.documents import decode_document

    name = "Standard input" if source == "-" else f"The file '{source}'"
    content = _read_standard_input() if source == "-" else _read_file(source)
    with LateProgress() as progress:
        progress("reading the document", 0, 0)
        document = decode_document(content, name, suffix=Path(source).suffix, plain_text=plain_text)
    for notice in document.notices:
        typer.echo(notice, err=True)
    return document.text


def _read_file(path: str) -> bytes:
    from sightline.text.documents import read_content

    with LateProgress() as progress:
        return read_content(
            Path(path),
            alternative=", or - for standard input",
            on_pipe=lambda: progress.announce(f"Waiting for another program to write to '{printable(path)}'."),
        )


def _read_standard_input() -> bytes:
    from sightline.text.documents import MOST_BYTES

    if sys.stdin.isatty():
        typer.echo("Type or paste the text, then press Ctrl-D on an empty line.", err=True)
    return sys.stdin.buffer.read(MOST_BYTES + 1)
