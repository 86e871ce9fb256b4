"""Text of a PDF file, through pypdf.

A PDF knows lines on pages, not paragraphs. Lines are put together again: a line that ends well before the usual width
ends a paragraph, a hyphen before a lower-case letter is removed together with the line break (unless the word has its
hyphen inside a line as well), ligatures are written as the letters they stand for, and lines that return at the top or
bottom of most pages (running titles, page numbers) are left out.
"""

from __future__ import annotations

import io
import logging
import re
import unicodedata
from collections import Counter

from sightline.settings.extras import require
from sightline.text.documents.parts import Extracted, ExtractionError, Paragraphs

MOST_PAGES = 5_000
_SHORT_LINE = 0.75
"""A line shorter than this share of the usual width is the last one of its paragraph."""
_REPEATED = 3
"""Pages on which a line must return to be a running title; it must also return on half of all pages."""
_LIGATURES = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
"""Fonts draw "fi" as one sign, U+FB01, which is not in the vocabulary of most models."""


def extract_pdf(content: bytes) -> Extracted:
    """Return the text of all pages."""
    pages, notices = _read_pages(content), []
    pages, removed = remove_running_lines(pages)
    if removed:
        notices.append(f"The text leaves out {removed:,} running titles and page numbers.")
    empty = sum(not page for page in pages)
    if empty and empty < len(pages):
        notices.append(f"{empty:,} of {len(pages):,} pages contain no text; they may be scanned pictures.")
    paragraphs = Paragraphs()
    paragraphs.extend(join_lines([line for page in pages for line in page]))
    text = paragraphs.join()
    if not text.strip():
        raise ExtractionError("contains no text: it may be a scan, which has to go through text recognition first.")
    return Extracted(text, notices)


def _read_pages(content: bytes) -> list[list[str]]:
    """Return the lines of every page."""
    require("pypdf", "pdf", "is a PDF, which", error=ExtractionError)
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, WrongPasswordError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(content))
        if len(reader.pages) > MOST_PAGES:
            raise ExtractionError(f"has {len(reader.pages):,} pages, more than {MOST_PAGES:,}: give it in parts.")
        return [_lines(page.extract_text()) for page in reader.pages]
    except (FileNotDecryptedError, WrongPasswordError, DependencyError):
        raise ExtractionError("is encrypted: save it without a password.") from None
    except (ExtractionError, MemoryError):
        raise
    except Exception as error:
        # pypdf raises errors of many types on damaged files, and none of them means anything but that.
        raise ExtractionError(f"is damaged: pypdf cannot read it ({type(error).__name__}).") from None


def _lines(page: str) -> list[str]:
    # Lone surrogates come from broken font tables; they are no text.
    text = page.encode("utf-8", errors="replace").decode("utf-8").replace("\0", "").translate(_LIGATURES)
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def remove_running_lines(pages: list[list[str]]) -> tuple[list[list[str]], int]:
    """Return the pages without lines that return at their top or bottom, digits aside, and how many were removed.

    Below a running title there may be another one, or the page number: pages are stripped until nothing returns.
    """
    before = _count_lines(pages)
    least = max(_REPEATED, len(pages) / 2)
    while True:
        keys = Counter(key for page in pages if page for key in {_running_key(page[0]), _running_key(page[-1])})
        running = {key for key, pages_with_it in keys.items() if pages_with_it >= least}
        if not running:
            return pages, before - _count_lines(pages)
        pages = [_strip_running(page, {*running, ""}) for page in pages]


def _count_lines(pages: list[list[str]]) -> int:
    """Return the number of lines that are not blank."""
    return sum(bool(line) for page in pages for line in page)


def _strip_running(page: list[str], running: set[str]) -> list[str]:
    start, end = 0, len(page)
    while start < end and _running_key(page[start]) in running:
        start += 1
    while end > start and _running_key(page[end - 1]) in running:
        end -= 1
    return page[start:end]


def _running_key(line: str) -> str:
    return re.sub(r"\d+", "#", line)


def join_lines(lines: list[str]) -> list[str]:
    """Return the paragraphs that the lines make up."""
    widths = sorted(len(line) for line in lines if line)
    usual = widths[int(0.8 * len(widths))] if widths else 0
    compounds = {word.lower() for line in lines for word in re.findall(r"\w+-\w+", line)}
    paragraphs: list[str] = []
    current = ""
    for line in lines:
        if not line:
            paragraphs.append(current)
            current = ""
        elif (half := re.search(r"(\w+)[-\u00ad\u2010]$", current[-100:])) and line[0].islower():
            first_word = re.split(r"\W", line, maxsplit=1)[0]
            whole = f"{half[1]}-{first_word}".lower()
            current = (current if whole in compounds else current[:-1]) + line
        else:
            current = f"{current} {line}" if current else line
        if line and len(line) < _SHORT_LINE * usual:
            paragraphs.append(current)
            current = ""
    return [paragraph for paragraph in [*paragraphs, current] if paragraph]
