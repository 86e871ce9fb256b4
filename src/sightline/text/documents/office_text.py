"""Text of Word (.docx) and OpenDocument (.odt) files.

Both are ZIP archives of XML. The XML is read as a stream of events (expat), so neither its size nor its depth costs
memory; a document type declaration, the door of entity attacks, is refused. What a reader of the printed document sees
is kept: paragraphs, tables (one line per row, cells separated by tabs), text boxes, footnotes; of tracked changes, the
new version.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO
from xml.parsers import expat

from sightline.text.documents.parts import Extracted, ExtractionError, Paragraphs

MOST_XML = 400_000_000
"""Most bytes of XML read from one archive; a larger one is treated as an attack."""


@dataclass(frozen=True)
class _Vocabulary:
    """The element names of a format, without their namespaces."""

    paragraph: frozenset[str]
    run: frozenset[str]
    """Elements whose characters are text; empty: all characters inside a paragraph."""
    row: str
    cell: str
    hidden: frozenset[str]
    marks: dict[str, str]
    """Empty elements that stand for characters."""


_WORD = _Vocabulary(
    paragraph=frozenset({"p"}),
    run=frozenset({"t"}),
    row="tr",
    cell="tc",
    # Properties hold tab stops, which are named like tabs; a fallback repeats what stands before it.
    hidden=frozenset({"Fallback", "del", "moveFrom", "pPr", "rPr", "sectPr", "tblPr"}),
    marks={"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"},
)
_ODF = _Vocabulary(
    paragraph=frozenset({"p", "h"}),
    run=frozenset(),
    row="table-row",
    cell="table-cell",
    hidden=frozenset({"tracked-changes", "annotation", "note-citation", "sequence-decls"}),
    marks={"tab": "\t", "line-break": "\n", "s": " "},
)
_WORD_NAMESPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
    "http://schemas.openxmlformats.org/markup-compatibility/2006",
)


def extract_docx(content: bytes) -> Extracted:
    """Return the body, then footnotes and endnotes."""
    with _open_archive(content) as archive:
        names = set(archive.namelist())
        reader = _Reader(_WORD, _WORD_NAMESPACES)
        reader.read(archive, "word/document.xml")
        for part in ("word/footnotes.xml", "word/endnotes.xml"):
            if part in names:
                reader.read(archive, part)
        left_out = []
        if any(name.startswith(("word/header", "word/footer")) for name in names):
            left_out.append("headers and footers")
        if "word/comments.xml" in names:
            left_out.append("comments")
        if any(name.startswith("word/media/") for name in names):
            left_out.append("pictures")
    return Extracted(reader.paragraphs.join(), _describe(left_out, tracked="del" in reader.hidden_elements))


def extract_odt(content: bytes) -> Extracted:
    """Return the body; a footnote follows the paragraph that refers to it."""
    with _open_archive(content) as archive:
        reader = _Reader(_ODF, ("urn:oasis:names:tc:opendocument:xmlns:",))
        reader.read(archive, "content.xml")
        pictures = any(name.startswith("Pictures/") for name in archive.namelist())
    left_out = (["comments"] if "annotation" in reader.hidden_elements else []) + (["pictures"] if pictures else [])
    return Extracted(reader.paragraphs.join(), _describe(left_out, tracked="tracked-changes" in reader.hidden_elements))


def _describe(left_out: list[str], *, tracked: bool) -> list[str]:
    notices = []
    if left_out:
        listed = " and ".join(filter(None, [", ".join(left_out[:-1]), left_out[-1]]))
        notices.append(f"The text leaves out the {listed} of the document.")
    if tracked:
        notices.append("The document has tracked changes: the text is the changed version, without what was deleted.")
    return notices


def _open_archive(content: bytes) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise ExtractionError("is damaged: it is not a complete archive.") from None


class _Reader:
    """Handlers for the events of one format; `paragraphs` grows with every part that is read."""

    def __init__(self, vocabulary: _Vocabulary, namespaces: tuple[str, ...]) -> None:
        self.paragraphs = Paragraphs()
        self.hidden_elements: set[str] = set()
        self._vocabulary = vocabulary
        self._namespaces = namespaces
        self._open: list[list[str]] = []
        """The text so far of every open paragraph; a text box or a footnote opens one inside another."""
        self._inner: list[str] = []
        """Closed paragraphs inside an open one, which they follow in the text."""
        self._rows: list[list[list[str]]] = []
        """The paragraphs so far in the cells of every open table row."""
        self._bytes = 0
        self._hidden = 0
        self._runs = 0

    def read(self, archive: zipfile.ZipFile, part: str) -> None:
        """Read one part of the archive."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = _refuse_doctype
        try:
            with archive.open(part) as file:
                self._feed(parser, file)
        except KeyError:
            raise ExtractionError(f"is damaged: it has no '{part}'.") from None
        except NotImplementedError:  # a RuntimeError, too
            raise ExtractionError(f"is compressed in a way that is not read here ('{part}'): save it again.") from None
        except RuntimeError:
            raise ExtractionError("is encrypted: save it without a password.") from None
        except (expat.ExpatError, zipfile.BadZipFile, zlib.error, EOFError, LookupError, OSError, ValueError):
            raise ExtractionError(f"is damaged: '{part}' cannot be read.") from None

    def _feed(self, parser: expat.XMLParserType, file: IO[bytes]) -> None:
        while data := file.read(1 << 16):
            self._bytes += len(data)
            if self._bytes > MOST_XML:
                limit = f"{MOST_XML // 1_000_000} MB"
                raise ExtractionError(f"unpacks to more than {limit}: it is damaged or made to do harm.")
            parser.Parse(data, False)
        parser.Parse(b"", True)

    def _local(self, name: str) -> str:
        namespace, _, local = name.rpartition(" ")
        return local if namespace.startswith(self._namespaces) else ""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = self._local(name)
        if self._hidden or local in self._vocabulary.hidden:
            self._hidden += 1
            self.hidden_elements.add(local)
        elif local in self._vocabulary.paragraph:
            self._open.append([])
        elif local in self._vocabulary.run:
            self._runs += 1
        elif local == self._vocabulary.row:
            self._rows.append([])
        elif local == self._vocabulary.cell and self._rows:
            self._rows[-1].append([])
        elif local in self._vocabulary.marks and self._open:
            self._open[-1].append(self._vocabulary.marks[local])

    def _end(self, name: str) -> None:
        local = self._local(name)
        if self._hidden:
            self._hidden -= 1
        elif local in self._vocabulary.paragraph and self._open:
            self._close_paragraph("".join(self._open.pop()))
        elif local in self._vocabulary.run:
            self._runs -= 1
        elif local == self._vocabulary.row and self._rows:
            cells = (" ".join(paragraphs).strip().replace("\n", " ") for paragraphs in self._rows.pop())
            self._close_paragraph("\t".join(cells))

    def _close_paragraph(self, text: str) -> None:
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].append(text.rstrip())
        elif self._open:
            self._inner.append(text)
        else:
            self.paragraphs.extend([text, *self._inner])
            self._inner = []

    def _characters(self, data: str) -> None:
        if not self._hidden and self._open and (self._runs or not self._vocabulary.run):
            self._open[-1].append(data)


def _refuse_doctype(*_: object) -> None:
    raise ExtractionError("contains a document type declaration, which no word processor writes: it is refused.")
