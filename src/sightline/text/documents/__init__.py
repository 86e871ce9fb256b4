"""Document files as text: plain text, HTML, Word, OpenDocument and PDF.

The format is recognised by the content of the file; only HTML is also recognised by the suffix. Plain text is decoded
here. Files of every other format can be made to exhaust the machine, so they are read in a child process with limits on
time and memory (`sightline.text.documents.extraction`).

A blank line ends a paragraph in the text that is returned, as everywhere in Sightline (`sightline.text.sentences`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, overload

from sightline.errors import InputError
from sightline.files.children import ask_program
from sightline.files.foreign import looks_binary, printable

Format = Literal["text", "html", "docx", "odt", "pdf"]

MOST_BYTES = 40_000_000
"""Nothing beyond this is read: no text is that long, and the input may be an endless stream."""
MOST_SECONDS = 120
"""Time after which the child process is stopped."""

_LONGEST_NAME = 1_000
"""Characters of a name that an error quotes."""
_EXAMINED = 100_000
"""Bytes of a file that are examined to recognise its format."""
_CONTROLS = [bytes([code]) for code in (*range(9), *range(14, 27), *range(28, 32), 127)]
"""Control characters other than white space, and escape, which begins the colours of a terminal's output."""
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_HTML_SUFFIXES = (".html", ".htm", ".xhtml")
_DOCUMENT_SUFFIXES = (".txt", ".text", ".md", ".docx", ".odt", ".pdf", *_HTML_SUFFIXES)
_HTML_STARTS = (b"<!doctype html", b"<html")


@dataclass(frozen=True)
class DocumentText:
    """The text of a document."""

    text: str
    format: Format
    notices: tuple[str, ...] = ()
    """Parts of the file that the text leaves out, one sentence each."""


_Other = TypeVar("_Other")


@overload
def plain_text_of(document: DocumentText) -> str: ...


@overload
def plain_text_of(document: _Other) -> _Other: ...


def plain_text_of(document: object) -> object:
    """Return the text of a document that was read from a file, and anything else unchanged.

    Whatever takes a text from a user also takes what `read_document` returns: it calls this first.
    """
    return document.text if isinstance(document, DocumentText) else document


def read_document(path: str | Path, *, plain_text: bool = False) -> DocumentText:
    """Return the text of the file at `path`: plain text, HTML, .docx, .odt or .pdf.

    `plain_text` reads the file as it is, whatever it looks like: the source of an HTML page, for example.
    PDF files need the package pypdf (`pip install 'sightline-xai[pdf]'`).
    """
    path = Path(path)
    return decode_document(read_content(path), f"The file '{path}'", suffix=path.suffix, plain_text=plain_text)


def names_document(text: str) -> bool:
    """Return whether a text is nothing but the name of a document file that exists."""
    if len(text) > _LONGEST_NAME or "\n" in text or not text.lower().endswith(_DOCUMENT_SUFFIXES):
        return False
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # a name too long, a NUL character
        return False


def read_content(path: Path, *, alternative: str = "", on_pipe: Callable[[], None] | None = None) -> bytes:
    """Return the bytes of a document, at most one more than `MOST_BYTES`.

    A pipe is read to its end like a file, so that `<(pdftotext …)` and `/dev/stdin` can be given by name; so is a
    terminal. Other devices hold no documents, and `/dev/zero` has no end: they are refused.
    `alternative`: what else can be given, for the sentences of errors (", or - for standard input").
    `on_pipe`: called before a pipe is opened, which waits until another program writes to it.
    """
    shown = printable(str(path), _LONGEST_NAME)
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise InputError(
                f"'{shown}' is a folder: give a document{alternative}. `sightline run` explains whole folders."
            )
        if stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and not _is_terminal(path)):
            raise InputError(f"'{shown}' is a device: give a document{alternative}.")
        if on_pipe is not None and stat.S_ISFIFO(kind):
            on_pipe()
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"There is no file '{shown}'. Give a document{alternative}.") from None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"Cannot read '{shown}': {reason}.") from None


def _is_terminal(device: Path) -> bool:
    descriptor = os.open(device, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)


def decode_document(
    content: bytes, name: str, *, suffix: str = "", plain_text: bool = False, seconds: float = MOST_SECONDS
) -> DocumentText:
    """Return the text of a document given as bytes; `name` begins the sentences of errors ("The file 'a.pdf'").

    `seconds`: how long reading it may take.
    """
    name = printable(name, _LONGEST_NAME)
    if len(content) > MOST_BYTES:
        raise InputError(f"{name} is larger than {MOST_BYTES // 1_000_000} MB: give the text in parts.")
    file_format: Format = "text" if plain_text else _recognise(content, name, suffix.lower())
    if file_format == "text":
        return DocumentText(_decode_text(content, name), "text")
    return _extract(content, name, file_format, seconds)


def _recognise(content: bytes, name: str, suffix: str) -> Format:
    if b"%PDF-" in content[:1024]:
        return "pdf"
    if content.startswith(b"PK\x03\x04"):
        # Both formats name their own parts near the start or in the directory at the end of the archive.
        if b"word/document.xml" in content:
            return "docx"
        if b"application/vnd.oasis.opendocument.text" in content[:200]:
            return "odt"
        raise InputError(f"{name} is a ZIP archive, not a document: give a .docx, .odt or .pdf file, or plain text.")
    if content.startswith(b"{\\rtf"):
        raise InputError(f"{name} is in RTF, which is not read here: save it as .docx or as plain text.")
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(f"{name} is in the old binary format of Office: save it as .docx or as plain text.")
    if suffix in _HTML_SUFFIXES or content[:200].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_HTML_STARTS):
        return "html"
    return "text"


def _decode_text(content: bytes, name: str) -> str:
    if content.startswith(_UTF16_MARKS):
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError as error:
            raise InputError(f"{name} is not valid UTF-16 text: position {error.start:,} is wrong.") from None
    if looks_binary(content):
        raise InputError(
            f"{name} is not text: more than a tenth of it is NUL bytes. If it is a text file, save it as UTF-8."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if _has_many_controls(content):
            raise InputError(
                f"{name} is not a text file: it holds binary data. Give plain text, HTML, .docx, .odt or .pdf."
            ) from None
        raise InputError(
            f"{name} is not UTF-8 text: byte 0x{content[error.start]:02x} at position {error.start:,} is wrong. "
            "Save it as UTF-8."
        ) from None


def _has_many_controls(content: bytes) -> bool:
    """Whether more than one byte in fifty is a control character.

    Images, programs and archives have about one in ten; text has none, in whatever encoding.
    """
    beginning = content[:_EXAMINED]
    return 50 * sum(map(beginning.count, _CONTROLS)) > len(beginning)


def _extract(content: bytes, name: str, file_format: Format, seconds: float) -> DocumentText:
    """Return the text that the child process extracts."""
    arguments = (file_format, str(int(seconds) + 1))
    try:
        answer = ask_program("sightline.text.documents.extraction", arguments, content, seconds)
    except TimeoutError:
        raise InputError(
            f"{name} could not be read within {seconds:g} seconds: save it as plain text and give that."
        ) from None
    if not answer:
        raise InputError(f"{name} cannot be read as {file_format}: save it as plain text and give that.")
    if "error" in answer:
        raise InputError(f"{name} {answer['error']}")
    return DocumentText(answer["text"], file_format, tuple(answer["notices"]))
