"""Text of an HTML page: what a reader of the page sees, without scripts, styles and mark-up."""

from __future__ import annotations

import re
from html import unescape

from sightline.text.documents.parts import Extracted, ExtractionError, Paragraphs

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
_RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
"""Elements whose content is no mark-up, and where it ends."""
_NO_ELEMENT = re.compile(r"<[!?]|</[^A-Za-z]")
"""What begins a declaration or something that browsers treat as a comment."""
_MARK_UP = re.compile(r"<[A-Za-z/!?]")
_TAG = re.compile(
    r"""<(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]*+)"""
    r"""(?P<rest>(?:[^>"'=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|[="'])*+)>"""
)
"""A tag; `>` may be part of a quoted value. No repetition gives back what it took, so a match takes one pass."""
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?\s*([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_ENCODINGS = {"iso-8859-1": "cp1252", "windows-1252": "cp1252", "us-ascii": "cp1252", "iso-8859-15": "iso-8859-15"}
"""Encodings besides UTF-8 that a page may declare; browsers read Latin-1 as Windows-1252, too."""


def extract_html(content: bytes) -> Extracted:
    """Return the visible text, one paragraph per block element."""
    reader = _Reader()
    reader.read(_decode(content))
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


class _Reader:
    """Collects the visible text of a page, as browsers read it.

    Every step goes on from where the last one ended and nothing is looked for twice, so that the time is proportional
    to the length of the page, however damaged it is. (`html.parser` reads the rest of the page again after every tag
    that is not closed.)
    """

    def __init__(self) -> None:
        self.paragraphs = Paragraphs()
        self._parts: list[str] = []
        self._hidden: list[str] = []
        """Open elements with hidden content, outermost first, each name once."""
        self._preformatted = 0

    def read(self, page: str) -> None:
        """Read the whole page; what follows a comment or a script that does not end is part of it."""
        place = 0
        while (mark := _MARK_UP.search(page, place)) is not None:
            start = mark.start()
            self._add(page[place:start])
            if page.startswith("<!--", start):
                place = _after(page, "-->", start + 2)
            elif _NO_ELEMENT.match(page, start):
                place = _after(page, ">", start + 2)
            elif (tag := _TAG.match(page, start)) is not None:
                place = self._read_tag(page, tag)
            else:  # it is not closed, and neither is any that follows
                place = start
                break
        self._add(page[place:])
        self._end_block()

    def _read_tag(self, page: str, tag: re.Match[str]) -> int:
        """Handle one tag and return where the text goes on: for scripts and styles, at their end."""
        name = tag["name"].lower()
        if tag["slash"]:
            self._end(name)
        elif name not in _HIDDEN:
            self._start(name)
        elif not tag["rest"].endswith("/"):
            if name not in self._hidden:
                self._hidden.append(name)
            if name in _RAW:
                end = _RAW[name].search(page, tag.end())
                return len(page) if end is None else end.start()
        return tag.end()

    def _start(self, name: str) -> None:
        if name == "br":
            self._parts.append("\n")
        elif name in _CELLS:
            self._parts.append("\t")
        elif name in _BLOCKS:
            self._end_block()
            self._preformatted += name == "pre"

    def _end(self, name: str) -> None:
        if name in self._hidden:
            del self._hidden[self._hidden.index(name) :]
        elif name in _BLOCKS:
            self._end_block()
            if name == "pre":
                self._preformatted = max(0, self._preformatted - 1)

    def _end_block(self) -> None:
        self.paragraphs.add("".join(self._parts))
        self._parts = []

    def _add(self, text: str) -> None:
        if text and not self._hidden:
            text = unescape(text)
            self._parts.append(text if self._preformatted else re.sub(r"\s+", " ", text))


def _after(page: str, mark: str, start: int) -> int:
    """Return the place after the next `mark`, or the end of the page."""
    place = page.find(mark, start)
    return len(page) if place < 0 else place + len(mark)
