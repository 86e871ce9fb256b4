"""A page of sections as a folder: pictures (SVG, PNG), tables (CSV, LaTeX, Markdown), and a page that shows them.

A section holds pictures, tables and terms, each with a sentence on how to read it; the page has no script. Pictures are
in `figures/` beside it, tables for other programs in `tables/`.

Files are written one by one, each complete or absent, the page last: a page never links to a missing picture. When a
folder is written again, the files that only the previous page needed are removed; files of others are left alone
(`sightline.files.ownership`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.files.ownership import claim_folder, keep_only
from sightline.files.writing import write_whole
from sightline.progress import Progress
from sightline.view import colours
from sightline.view.frames import DIGITS, TABLE_SUFFIXES, first_rows, to_html, write_table
from sightline.view.plots.style import require_matplotlib, save_figure
from sightline.view.sections.shell import Shell, read_source, render_facts, to_html_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SHOWN_ROWS = 20
"""Rows of a table that are visible at once; the others unfold."""
MOST_ROWS = 2000
"""Rows of one table on the page, so that browsers stay responsive; the CSV file has all of them."""
LONGEST_TITLE = 90
_MARKS = "".join(f"mark.level-{level}{{background:var(--plain-{level})}}" for level in range(1, colours.LEVELS + 1))
# Firefox does not match file: URLs with 'self'
_SHELL = Shell(read_source("sections.css") + _MARKS, images="'self' file:")
_TABLE_FILES = {"csv": "CSV", "tex": "LaTeX", "md": "Markdown"}
PAGE = "index.html"
FIGURES, TABLES = "figures", "tables"
_FIGURE_SUFFIXES = (".svg", ".png")
NARROW = 544
"""Pixels up to which a picture is never made wider than it is; others keep this width on a phone, and scroll."""
CSS_PIXELS = 96
"""Pixels per inch of a figure on the page."""


@dataclass(frozen=True)
class Picture:
    """A figure, drawn when it is written."""

    name: str
    """The name of its files, without extension."""
    title: str
    sentence: str
    """What it shows and how to read it."""
    draw: Callable[[], Figure]


@dataclass(frozen=True, eq=False)
class Table:
    """A frame with a title."""

    name: str
    """The name of its files, without extension; empty for a table that is on the page only."""
    title: str
    frame: pd.DataFrame
    sentence: str = ""
    digits: int = DIGITS
    shown: pd.DataFrame | None = None
    """What the page shows in place of the frame, for example numbers with their intervals; the files have the frame."""
    folded: bool = False
    """Whether the page shows it on request only."""


@dataclass(frozen=True)
class Terms:
    """Terms that are explained before they are used."""

    title: str
    meanings: Mapping[str, str]
    """Term -> meaning, in the order of the page."""


@dataclass(frozen=True)
class Links:
    """Numbered sentences, each with a link to the picture or the page that shows it."""

    sentences: tuple[tuple[str, str], ...]
    """(sentence, name of the picture, or file of the page)."""
    title: str = "In short"


@dataclass(frozen=True)
class ColouredText:
    """A document with coloured words."""

    title: str
    sentence: str
    segments: tuple[tuple[tuple[str, int, str], ...], ...]
    """By segment: pieces of the text, each with its level of colour (0 for none) and what the pointer shows."""


@dataclass(frozen=True)
class Texts:
    """Documents side by side: one text coloured in two ways."""

    title: str
    sentence: str
    columns: tuple[ColouredText, ...]


Part = Picture | Table | Terms | Links | Texts


@dataclass(frozen=True, eq=False)
class Section:
    """One question about the model and the parts that answer it."""

    anchor: str
    title: str
    sentences: tuple[str, ...]
    parts: tuple[Part, ...]


def render_index(
    title: str, sections: Sequence[Section], facts: Mapping[str, str], sizes: Mapping[str, tuple[int, int]]
) -> str:
    """Return the page; `sizes` holds width and height in pixels of each picture, so that nothing moves on loading."""
    entries = "".join(
        f'<li><a href="#{to_html_text(section.anchor)}">{to_html_text(section.title)}</a></li>' for section in sections
    )
    body = "\n".join(_section(section, sizes) for section in sections)
    return _SHELL.render(
        title,
        f"""<nav aria-label="Sections"><p class="brand">Sightline</p>
<ol>{entries}<li><a href="#settings">Settings</a></li></ol></nav>
<main>
<h1 dir="auto">{to_html_text(title)}</h1>
{body}
<section id="settings"><h2>Settings and provenance</h2>{render_facts(facts)}</section>
</main>""",
    )


def document_title(text: str) -> str:
    """Return the first non-empty line of a document, shortened."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "Document")
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1].rstrip() + "…"


def _section(section: Section, sizes: Mapping[str, tuple[int, int]]) -> str:
    parts = [_part(part, sizes) for part in section.parts]
    sentences = "".join(f"<p>{to_html_text(sentence)}</p>" for sentence in section.sentences)
    return (
        f'<section id="{to_html_text(section.anchor)}"><h2>{to_html_text(section.title)}</h2>{sentences}\n'
        + "\n".join(parts)
        + "</section>"
    )


def _part(part: Part, sizes: Mapping[str, tuple[int, int]]) -> str:
    if isinstance(part, Picture):
        return _picture(part, sizes)
    if isinstance(part, Links):
        return _links(part, sizes)
    if isinstance(part, Texts):
        return _texts(part)
    return _table(part) if isinstance(part, Table) else _terms(part)


def _links(links: Links, sizes: Mapping[str, tuple[int, int]]) -> str:
    rows = "".join(
        f"<li>{to_html_text(sentence)}{_link(shown_in, sizes)}</li>" for sentence, shown_in in links.sentences
    )
    return f'<ol class="takeaways">{rows}</ol>'


def _link(shown_in: str, sizes: Mapping[str, tuple[int, int]]) -> str:
    target = to_html_text(shown_in)
    if shown_in.endswith(".html"):
        return f' <a href="{target}">Page</a>'
    return f' <a href="#figure-{target}">Figure</a>' if shown_in in sizes else ""


def _texts(texts: Texts) -> str:
    columns = "".join(_coloured_text(column) for column in texts.columns)
    return (
        f"<figure><figcaption><h3>{to_html_text(texts.title)}</h3><p>{to_html_text(texts.sentence)}</p></figcaption>"
        f'<div class="texts">{columns}</div></figure>'
    )


def _coloured_text(text: ColouredText) -> str:
    blocks = []
    for segment in text.segments:
        pieces = [
            f'<mark class="level-{level}" title="{to_html_text(note)}">{to_html_text(piece)}</mark>'
            if level
            else to_html_text(piece)
            for piece, level, note in segment
        ]
        blocks.append(f'<p dir="auto">{"".join(pieces)}</p>')
    return (
        f'<article><h4>{to_html_text(text.title)}</h4><div class="document" tabindex="0">{"".join(blocks)}</div>'
        f'<p class="quiet">{to_html_text(text.sentence)}</p></article>'
    )


def _terms(terms: Terms) -> str:
    title = to_html_text(terms.title)
    return f'<h3 class="apart">{title}</h3>' + render_facts(terms.meanings, ' class="terms"')


def _picture(picture: Picture, sizes: Mapping[str, tuple[int, int]]) -> str:
    name = to_html_text(picture.name)
    width, height = sizes[picture.name]
    small = ' class="small"' if width < NARROW else ""
    sentence = f"<p>{to_html_text(picture.sentence)}</p>" if picture.sentence else ""
    return (
        f'<figure id="figure-{name}"><figcaption><h3>{to_html_text(picture.title)}</h3>{sentence}</figcaption>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{to_html_text(picture.title)}">'
        f'<img{small} src="figures/{name}.svg" width="{width}" height="{height}" decoding="async" '
        f'alt="{to_html_text(f"{picture.title}. {picture.sentence}")}"></div>'
        f'<p class="quiet"><a href="figures/{name}.svg">SVG</a> · <a href="figures/{name}.png">PNG</a></p></figure>'
    )


def _table(table: Table) -> str:
    name = to_html_text(table.name)
    whole = table.frame if table.shown is None else table.shown
    sentence = f"<p>{to_html_text(table.sentence)}</p>" if table.sentence else ""
    files = " · ".join(f'<a href="tables/{name}.{end}">{label}</a>' for end, label in _TABLE_FILES.items() if name)
    links = f'<p class="quiet">{files}</p>'
    if table.folded:
        return _folded(table, whole, to_html_text(table.title), sentence, links)
    frame, title = first_rows(whole, table.title, SHOWN_ROWS)
    rest = ""
    if len(frame) < len(whole):
        which = "All" if len(whole) <= MOST_ROWS else f"First {MOST_ROWS:,} of"
        rest = _folded(table, whole, f"{which} {len(whole):,} rows")
    return (
        f"<figure><figcaption><h3>{to_html_text(title)}</h3>{sentence}</figcaption>"
        f"{_rows(table, frame, table.title)}{rest}{links}</figure>"
    )


def _folded(table: Table, whole: pd.DataFrame, summary: str, before: str = "", after: str = "") -> str:
    """Return the whole table, collapsed, in a scrolling box."""
    frame, title = first_rows(whole, table.title, MOST_ROWS)
    return f"<details><summary>{summary}</summary>{before}{_rows(table, frame, title)}{after}</details>"


def _rows(table: Table, frame: pd.DataFrame, title: str) -> str:
    shown = to_html(frame, digits=table.digits) if len(frame) else '<p class="quiet">Nothing to list.</p>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{to_html_text(title)}">{shown}</div>'


def write_sections(
    folder: Path,
    content: str,
    title: str,
    sections: Sequence[Section],
    facts: dict[str, str],
    *,
    others: Mapping[str, Callable[[Path], object]] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the pictures and tables of the sections, then the page; remove files that only the previous page needed.

    content: what the folder holds, by `files.ownership`. others: further files by name, and what writes each to its
    path.
    """
    parts = [part for section in sections for part in section.parts if isinstance(part, Picture | Table)]
    others = others or {}
    if any(isinstance(part, Picture) for part in parts):
        require_matplotlib()
    names = [*others, *(name for part in parts for name in _file_names(part)), PAGE]
    claim_folder(folder, content, names, overwrite=overwrite)
    for name, write in others.items():
        write(folder / name)
    sizes: dict[str, tuple[int, int]] = {}
    for number, part in enumerate(parts):
        if progress is not None:
            progress("writing pictures and tables", number, len(parts))
        if isinstance(part, Table):
            write_table(part.frame, folder / TABLES, part.name, part.title, digits=part.digits)
        else:
            sizes[part.name] = _draw(part, folder / FIGURES)
    write_whole(folder / PAGE, render_index(title, sections, facts, sizes))
    keep_only(folder, names)
    return folder / PAGE


def _file_names(part: Picture | Table) -> list[str]:
    if isinstance(part, Table):
        return [f"{TABLES}/{part.name}{suffix}" for suffix in TABLE_SUFFIXES]
    return [f"{FIGURES}/{part.name}{suffix}" for suffix in _FIGURE_SUFFIXES]


def _draw(picture: Picture, folder: Path) -> tuple[int, int]:
    figure = picture.draw()
    for suffix in _FIGURE_SUFFIXES:
        save_figure(figure, folder / f"{picture.name}{suffix}")
    wide, high = figure.get_size_inches()
    return round(wide * CSS_PIXELS), round(high * CSS_PIXELS)


def describe_facts(*facts: Mapping[str, Any], **others: Any) -> dict[str, str]:
    """Return settings and provenance as a page lists them: names in words, values that are not texts as JSON."""
    return {
        str(name).replace("_", " "): value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, default=str)
        for group in (*facts, others)
        for name, value in group.items()
    }
