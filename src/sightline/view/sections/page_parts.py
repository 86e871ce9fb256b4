"""The parts of an inspection's page: sections of pictures, tables and terms, each with a sentence on how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.view.frames import DIGITS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


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


@dataclass(frozen=True)
class Terms:
    """Terms that are explained before they are used."""

    title: str
    meanings: Mapping[str, str]
    """Term -> meaning, in the order of the page."""


@dataclass(frozen=True)
class Links:
    """Numbered sentences, each with a link to the picture that shows it."""

    sentences: tuple[tuple[str, str], ...]
    """(sentence, name of the picture)."""
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
