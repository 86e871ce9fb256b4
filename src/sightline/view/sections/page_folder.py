"""An inspection as a folder: every picture (SVG, PNG), every table (CSV, LaTeX, Markdown), and a page that shows them.

    inspection = sl.load().inspect("The text of a document …")
    write_inspection("folder", inspection)

Files are written one by one, each complete or absent, the page last: a page never links to a missing picture. When a
folder is written again, the files that only the previous page needed are removed; files of others are left alone
(`sightline.files.ownership`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sightline.analysis.dataset_inspection import DataSetInspection
from sightline.analysis.inspection import Inspection, InspectionSettings
from sightline.errors import UsageError
from sightline.files.ownership import claim_folder, keep_only
from sightline.files.writing import write_whole
from sightline.progress import Progress
from sightline.view.frames import TABLE_SUFFIXES, write_table
from sightline.view.inspect.dataset import dataset_section
from sightline.view.inspect.sections import document_sections
from sightline.view.plots.style import require_matplotlib, save_figure
from sightline.view.sections.page_parts import Picture, Section, Table
from sightline.view.sections.shell import document_title, render_index

PAGE = "index.html"
INSPECTION = "an inspection"
"""What the record of the folder says that it holds."""
FIGURES, TABLES = "figures", "tables"
_FIGURE_SUFFIXES = (".svg", ".png")
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

    A folder that holds anything else is refused unless `overwrite`, which replaces files of the same names.
    """
    first = document or dataset
    if first is None:
        raise UsageError("There is nothing to write: give the inspection of a document, of a data set, or both.")
    title = "Data set" if document is None else document_title(document.encoding.text)
    sections = [
        *(document_sections(document) if document is not None else []),
        *([dataset_section(dataset)] if dataset is not None else []),
    ]
    facts = _facts(first.settings) | {name.replace("_", " "): value for name, value in first.provenance.items()}
    return write_sections(Path(folder), INSPECTION, title, sections, facts, overwrite=overwrite, progress=progress)


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
