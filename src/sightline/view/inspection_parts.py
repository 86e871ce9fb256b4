"""The parts of an inspection's page: sections that hold pictures and tables, each with a sentence on how to read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.view.frames import DIGITS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn when it is written."""

    name: str
    """Of its files, without ending."""
    title: str
    sentence: str
    """What it shows and how to read it."""
    draw: Callable[[], Figure]


@dataclass(frozen=True, eq=False)
class Table:
    """A frame with a title."""

    name: str
    title: str
    frame: pd.DataFrame
    sentence: str = ""
    digits: int = DIGITS


@dataclass(frozen=True, eq=False)
class Section:
    """One question and its answers."""

    anchor: str
    title: str
    sentences: tuple[str, ...]
    parts: tuple[Picture | Table, ...]
