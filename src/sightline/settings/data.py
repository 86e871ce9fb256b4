"""Settings of capabilities that read a data set: which rows, what is compared, and where results go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from sightline.settings.options import OptionRule, Settings, option, unused
from sightline.settings.values import LARGEST_SEED

TableFormat = Literal["text", "csv", "json", "markdown", "latex"]
OVERWRITE = "Write into a folder of other files; those of the same names are replaced."
DATA = "CSV, TSV, JSON lines (also .gz), Parquet, a folder, or hf://name."


@dataclass(frozen=True, kw_only=True)
class SeedSettings(Settings):
    """The seed of everything that is drawn at random."""

    seed: int = option(0, low=0, high=LARGEST_SEED, metavar="N", help="Random seed.")


@dataclass(frozen=True, kw_only=True)
class FieldSettings(SeedSettings):
    """Which fields of a data set are read."""

    text: str = option("text", metavar="FIELD", help="Field of the data set that holds the text.")
    label: str = option("label", metavar="FIELD", help="Field of the data set that holds the label.")


@dataclass(frozen=True, kw_only=True)
class PairFieldSettings(FieldSettings):
    """The same for data sets that may have pairs of texts."""

    pair: str = option("text_pair", metavar="FIELD", help="Field of the data set that holds the second text.")


@dataclass(frozen=True, kw_only=True)
class Selection(PairFieldSettings):
    """Which fields and which rows of a data set are used; rows are chosen by `where`, then `limit`, then `sample`."""

    split: str | None = option(None, metavar="NAME", help="Use the rows of this split of the data set.")
    where: str | None = option(
        None, metavar="CONDITION", help="Use the rows for which an SQL condition on their fields holds."
    )
    limit: int | None = option(None, low=1, metavar="N", help="Use the first N rows.")
    sample: int | None = option(None, low=1, metavar="N", help="Use N rows drawn at random (see --seed).")


@dataclass(frozen=True, kw_only=True)
class SelectionSettings(Selection):
    """A data set, and which of its rows are used."""

    data: str = option(positional=True, metavar="DATA", help=DATA)


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Settings):
    """A folder that results are written to."""

    output: Path | None = option(
        None, flag=("--output", "-o"), metavar="FOLDER", help="Write a page, tables, figures and all records here."
    )
    overwrite: bool = option(False, help=OVERWRITE)

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "overwrite",
            when=lambda settings: settings.output is None,
            reason="needs a folder to write to; add -o FOLDER.",
        ),
    )
