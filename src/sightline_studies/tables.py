"""Tables of the studies: one description per table (rows, and what each column holds), from which it is computed.

A row is a mapping of keys, such as {"data": "sst2", "method": "alti"}; a column is a function of them. What it returns
decides what the table shows: one value per document gives mean, interval and, on request, standard deviation; `Printed`
gives a number of the paper with its standard deviation; anything else is shown unchanged.

The numbers that the papers print are CSV files in `published/`, one per table, each row with its source.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline_studies.verdicts import Measured

if TYPE_CHECKING:
    import pandas as pd

Keys = Mapping[str, Any]
Cell = Callable[[Keys], Any]
_FOLDER = Path(__file__).parent / "published"


class Printed(NamedTuple):
    """A number that the paper prints, and its standard deviation; NaN where it prints none."""

    value: float = float("nan")
    std: float = float("nan")


@cache
def read_published(file: str) -> tuple[Mapping[str, str], ...]:
    """Return the rows of a file in `published/`."""
    with (_FOLDER / f"{file}.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(csv.DictReader(stream))


def published(file: str, value: str, **where: Any) -> tuple[float, ...]:
    """Return the printed numbers of a column, of the rows in which other columns have these values."""
    rows = (row for row in read_published(file) if all(row[name] == str(wanted) for name, wanted in where.items()))
    return tuple(float(row[value]) for row in rows if row[value])


def printed(file: str, value: str, std: str | None = None, **where: Any) -> Printed:
    """Return the one printed number of these rows, with its standard deviation if the paper has one."""
    values = published(file, value, **where)
    if len(values) != 1:
        return Printed()
    return Printed(values[0], *(published(file, std, **where) if std else ()))


def rows_of(**keys: Iterable[Any]) -> list[dict[str, Any]]:
    """Return one row for every combination of the keys."""
    return [dict(zip(keys, values, strict=True)) for values in product(*keys.values())]


def tabulate(rows: Iterable[Keys], columns: Mapping[str, Cell], *, std: bool = False, seed: int = 0) -> pd.DataFrame:
    """Return a table with the keys of every row and its columns.

    `attrs["printed"]` names the columns of printed numbers, which are shown with all their digits.
    """
    import pandas as pd

    values = [(row, {name: of(row) for name, of in columns.items()}) for row in rows]
    frame = pd.DataFrame(
        [
            {**row, **{key: cell for name, value in by_name.items() for key, cell in _cells(name, value, std, seed)}}
            for row, by_name in values
        ]
    )
    frame.attrs["printed"] = sorted({n for _, by_name in values for n, v in by_name.items() if isinstance(v, Printed)})
    return frame


def _cells(name: str, value: Any, std: bool, seed: int) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Printed):
        return [(name, value.value), *([(f"{name}_std", value.std)] if std else [])]
    if isinstance(value, Measured):
        return value.columns(name).items()
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        known = np.array(value, dtype=np.float64)
        known = known[np.isfinite(known)]
        spread = [(f"{name}_std", float(known.std(ddof=1)) if known.size > 1 else float("nan"))] if std else []
        return [*Measured.of(known, seed).columns(name).items(), *spread]
    return [(name, value)]
