"""An inspection as a folder: every picture (SVG, PNG), every table (CSV, LaTeX, Markdown), and a page that shows them.

    model = sl.load()
    sl.view.inspection.write_inspection(model, "The text of a document …", "folder")

Files are written one by one, each wholly or not at all, the page last: a page never names a picture that is not there.
A folder that was written before is written anew: pictures and tables that the old page names and the new one does not
are removed, and nothing else is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import UsageError
from sightline.files import check_writable, write_whole
from sightline.view.frames import write_table
from sightline.view.inspect.dataset import DataSetInspection, dataset_section, gather_dataset
from sightline.view.inspect.numbers import Inspection, Settings, gather
from sightline.view.inspect.page import GENERATOR, document_title, render_index
from sightline.view.inspect.parts import Picture, Section, Table, Terms
from sightline.view.inspect.sections import sections
from sightline.view.plots import save_figure

if TYPE_CHECKING:
    from sightline.model import Document, Model, Progress
    from sightline.models import TargetLike
    from sightline.text import Example

__all__ = [
    "DataSetInspection",
    "Inspection",
    "Settings",
    "check_folder",
    "gather",
    "gather_dataset",
    "write_gathered",
    "write_inspection",
    "write_sections",
]

PAGE = "index.html"
_NAMED_FILE = re.compile(r'<a href="((?:figures|tables)/[\w-]+\.(?:svg|png|csv|tex|md))">')
CSS_PIXELS = 96
"""An inch of a figure on the page."""


def write_inspection(
    model: Model,
    document: Document | None,
    folder: Path | str,
    settings: Settings | None = None,
    *,
    target: TargetLike = None,
    dataset: Sequence[Example] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Path:
    """Inspect a document, a data set or both, write everything into `folder`, and return the path of the page.

    settings, or its fields as further options: methods, stop_words, top_k, layer, head, position, scaled …
    """
    if settings is not None and options:
        raise UsageError("Give either settings= or its fields, not both.")
    if document is None and dataset is None:
        raise UsageError("There is nothing to inspect: give a document, a data set, or both.")
    settings = settings or Settings(**options)
    folder = check_folder(folder)
    inspected = None
    if document is not None:
        inspected = gather(model, document, settings, target=target, progress=progress)
    over_all = None if dataset is None else gather_dataset(model, dataset, settings, progress=progress)
    return write_gathered(folder, model, inspected, over_all, progress=progress)


def write_gathered(
    folder: Path,
    model: Model,
    document: Inspection | None,
    dataset: DataSetInspection | None = None,
    *,
    progress: Progress | None = None,
) -> Path:
    """Write what was gathered about a document, a data set or both, and return the path of the page."""
    gathered = document or dataset
    if gathered is None:
        raise UsageError("There is nothing to inspect: give a document, a data set, or both.")
    title = "A data set" if document is None else document_title(document.encoding.text)
    found = [
        *(sections(document) if document is not None else []),
        *([dataset_section(dataset)] if dataset is not None else []),
    ]
    return write_sections(folder, title, found, _facts(model, gathered.settings), progress=progress)


def write_sections(
    folder: Path, title: str, found: Sequence[Section], facts: dict[str, str], *, progress: Progress | None = None
) -> Path:
    """Write the pictures and tables of the sections, then the page that shows them; remove those of the last time."""
    page = folder / PAGE
    old = _named_files(page)
    for name in ("figures", "tables"):
        make_folder(folder / name)
    parts = [part for section in found for part in section.parts if not isinstance(part, Terms)]
    sizes: dict[str, tuple[int, int]] = {}
    for number, part in enumerate(parts):
        if progress is not None:
            progress("writing pictures and tables", number, len(parts))
        if isinstance(part, Table):
            write_table(part.frame, folder / "tables", part.name, part.title, digits=part.digits)
        else:
            sizes[part.name] = _draw(part, folder / "figures")
    write_whole(page, render_index(title, found, facts, sizes))
    for name in old - _named_files(page):
        (folder / name).unlink(missing_ok=True)
    return page


def _named_files(page: Path) -> set[str]:
    """Return the pictures and tables that a page of ours names: figures/name.svg, tables/name.csv …"""
    if not page.is_file():
        return set()
    text = page.read_text(encoding="utf-8", errors="replace")
    return set(_NAMED_FILE.findall(text)) if GENERATOR in text else set()


def check_folder(folder: Path | str) -> Path:
    """Return the folder; refuse a place that cannot be written now rather than after the work. Nothing is made yet.

    Where the folder does not exist, what is tried is the nearest one above it that does.
    """
    folder = Path(folder)
    inside, place = PAGE, folder
    try:
        while not place.exists():
            inside, place = place.name, place.parent
    except OSError as error:
        raise _cannot_make(folder, error) from None
    if not place.is_dir():
        which = "it" if place == folder else f"'{place}'"
        raise UsageError(f"Cannot write into '{folder}': {which} is a file. Name a folder.")
    check_writable(place / inside)
    return folder


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they do not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(folder, error) from None


def _cannot_make(folder: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"Cannot make the folder '{folder}': {reason}. Choose another place.")


def _draw(picture: Picture, folder: Path) -> tuple[int, int]:
    figure = picture.draw()
    for form in ("svg", "png"):
        save_figure(figure, folder / f"{picture.name}.{form}")
    wide, high = figure.get_size_inches()
    return round(wide * CSS_PIXELS), round(high * CSS_PIXELS)


def _facts(model: Model, settings: Settings) -> dict[str, str]:
    shown = {
        "methods": ", ".join(settings.methods),
        "stop words left out": settings.stop_words or "none",
        "top k": str(settings.top_k),
        "layer": "all" if settings.layer is None else str(settings.layer),
        "head": "all" if settings.head is None else str(settings.head),
        "heads weighted by importance": "yes" if settings.scaled else "no",
        "permutations for chance levels": str(settings.permutations),
        "seed": str(settings.seed),
    }
    return shown | {name.replace("_", " "): value for name, value in model.provenance().items()}
