"""Text of an HTML page: what a reader of the page sees, without scripts, styles and mark-up."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from sightline.documents.parts import Extracted, ExtractionError, Paragraphs

# fmt: off
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
    "header", "hr", "html", "legend", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table",
    "tbody", "tfoot", "thead", "tr", "ul",
})
# fmt: on
_CELLS = frozenset({"td", "th"})
_HIDDEN = frozenset({"title", "script", "style", "template", "noscript", "svg", "select", "iframe", "object"})
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?\s*([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_ENCODINGS = {"iso-8859-1": "cp1252", "windows-1252": "cp1252", "us-ascii": "cp1252", "iso-8859-15": "iso-8859-15"}
"""Encodings besides UTF-8 that a page may declare; browsers read Latin-1 as Windows-1252, too."""


def extract_html(content: bytes) -> Extracted:
    """Return the visible text, one paragraph per block element."""
    reader = _Reader()
    reader.feed(_decode(content))
    reader.close()
    reader.end_block()
    return Extracted(reader.paragraphs.join())


def _decode(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        declared = _CHARSET.search(content[:2048])
        encoding = _ENCODINGS.get(declared[1].decode().lower()) if declared else None
        if encoding is None:
            raise ExtractionError(f"is not UTF-8: position {error.start:,} is wrong. Save it as UTF-8.") from None
        return content.decode(encoding, errors="replace")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.paragraphs = Paragraphs()
        self._parts: list[str] = []
        self._hidden: list[str] = []
        """Open elements whose content nobody sees, outermost first."""
        self._preformatted = 0

    def end_block(self) -> None:
        self.paragraphs.add("".join(self._parts))
        self._parts = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden.append(tag)
        elif tag == "br":
            self._parts.append("\n")
        elif tag in _CELLS:
            self._parts.append("\t")
        elif tag in _BLOCKS:
            self.end_block()
            self._preformatted += tag == "pre"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _HIDDEN:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        elif tag in _BLOCKS:
            self.end_block()
            if tag == "pre":
                self._preformatted = max(0, self._preformatted - 1)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data if self._preformatted else re.sub(r"\s+", " ", data))
