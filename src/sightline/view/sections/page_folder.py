"""An inspection as a folder: every picture (SVG, PNG), every table (CSV, LaTeX, Markdown), and a page that shows them.

    inspection = sl.load().inspect("The text of a document …")
    write_inspection("folder", inspection)

Files are written one by one, each complete or absent, the page last: a page never links to a missing picture. When a
folder is written again, the pictures and tables that only the previous page links to are removed; all other files are
left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sightline.analysis.dataset_inspection import DataSetInspection
from sightline.analysis.inspection import Inspection, InspectionSettings
from sightline.errors import UsageError
from sightline.files import check_writable, write_whole
from sightline.progress import Progress
from sightline.view.frames import write_table
from sightline.view.inspect.dataset import dataset_section
from sightline.view.inspect.sections import document_sections
from sightline.view.plots import save_figure
from sightline.view.sections.page_parts import Picture, Section, Table
from sightline.view.sections.shell import GENERATOR, document_title, render_index

PAGE = "index.html"
_LINKED_FILE = re.compile(r'<a href="((?:figures|tables)/[\w-]+\.(?:svg|png|csv|tex|md))">')
CSS_PIXELS = 96
"""Pixels per inch of a figure on the page."""


def write_inspection(
    folder: Path | str,
    document: Inspection | None = None,
    dataset: DataSetInspection | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the inspection of a document, of a data set or of both into `folder`, and return the path of the page.

    A folder whose page Sightline did not write is refused unless `overwrite`.
    """
    first = document or dataset
    if first is None:
        raise UsageError("There is nothing to write: give the inspection of a document, of a data set, or both.")
    folder = check_folder(folder, overwrite=overwrite)
    title = "Data set" if document is None else document_title(document.encoding.text)
    sections = [
        *(document_sections(document) if document is not None else []),
        *([dataset_section(dataset)] if dataset is not None else []),
    ]
    facts = _facts(first.settings) | {name.replace("_", " "): value for name, value in first.provenance.items()}
    return write_sections(folder, title, sections, facts, progress=progress)


def write_sections(
    folder: Path, title: str, sections: Sequence[Section], facts: dict[str, str], *, progress: Progress | None = None
) -> Path:
    """Write the pictures and tables of the sections, then the page; remove files that only the previous page names."""
    page = folder / PAGE
    previous = _linked_files(page)
    for name in ("figures", "tables"):
        make_folder(folder / name)
    parts = [part for section in sections for part in section.parts if isinstance(part, Picture | Table)]
    sizes: dict[str, tuple[int, int]] = {}
    for number, part in enumerate(parts):
        if progress is not None:
            progress("writing pictures and tables", number, len(parts))
        if isinstance(part, Table):
            write_table(part.frame, folder / "tables", part.name, part.title, digits=part.digits)
        else:
            sizes[part.name] = _draw(part, folder / "figures")
    write_whole(page, render_index(title, sections, facts, sizes))
    for name in previous - _linked_files(page):
        (folder / name).unlink(missing_ok=True)
    return page


def _linked_files(page: Path) -> set[str]:
    """Return the pictures and tables that a page written by Sightline links to: figures/name.svg, tables/name.csv …"""
    text = _read_page(page)
    return set(_LINKED_FILE.findall(text)) if GENERATOR in text else set()


def _read_page(page: Path) -> str:
    return page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""


def check_folder(folder: Path | str, *, overwrite: bool = False) -> Path:
    """Return the folder; raise UsageError now, before the work, if it cannot be written or holds someone else's page.

    Nothing is created yet. For a folder that does not exist, the nearest existing folder above it is tried.
    """
    folder = Path(folder)
    inside, place = PAGE, folder
    try:
        while not place.exists():
            inside, place = place.name, place.parent
        page = folder / PAGE
        foreign = page.exists() and GENERATOR not in _read_page(page)
    except OSError as error:
        raise _cannot_make(folder, error) from None
    if not place.is_dir():
        which = "it" if place == folder else f"'{place}'"
        raise UsageError(f"Cannot write into '{folder}': {which} is a file. Name a folder.")
    if foreign and not overwrite:
        raise UsageError(
            f"'{page}' was not written by Sightline and would be replaced. Name another folder, or add --overwrite."
        )
    check_writable(place / inside)
    return folder


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(folder, error) from None


def _cannot_make(folder: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"Cannot create the folder '{folder}': {reason}. Choose another place.")


def _draw(picture: Picture, folder: Path) -> tuple[int, int]:
    figure = picture.draw()
    for form in ("svg", "png"):
        save_figure(figure, folder / f"{picture.name}.{form}")
    wide, high = figure.get_size_inches()
    return round(wide * CSS_PIXELS), round(high * CSS_PIXELS)


def _facts(settings: InspectionSettings) -> dict[str, str]:
    """Return the settings as the page lists them."""
    return {
        "methods": ", ".join(settings.methods),
        "stop words left out": settings.stop_words or "none",
        "top k": str(settings.top_k),
        "layer": "all" if settings.layer is None else str(settings.layer),
        "head": "all" if settings.head is None else str(settings.head),
        "heads weighted by importance": "yes" if settings.scaled else "no",
        "permutations for chance levels": str(settings.permutations),
        "seed": str(settings.seed),
    }
