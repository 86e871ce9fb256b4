"""The other fields of a data set as columns of the view `documents`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sightline.corpus.tables import quote

if TYPE_CHECKING:
    import duckdb

MOST_FIELDS = 1_000
"""Fields that become columns; each is read once to see whether it holds numbers."""
_WHOLE = r"[+-]?(0|[1-9]\d{0,17})"
_NUMBER = rf"{_WHOLE}(\.\d*)?([eE][+-]?\d{{1,3}})?"
"""As in `streaming`: leading zeros belong to a name."""


def metadata_columns(connection: duckdb.DuckDBPyConnection, taken: Sequence[str]) -> str:
    """Return the SQL for one column per field of `rows.metadata`, each after a comma; "" if there are none.

    A column whose values are all numbers holds numbers, with missing ones for empty cells. A field of a name that is
    taken is preceded by "data_".
    """
    names = {name.casefold() for name in taken}
    keys = connection.execute(
        "SELECT json_keys(metadata) AS keys FROM rows WHERE metadata IS NOT NULL AND json_type(metadata) = 'OBJECT' "
        "GROUP BY keys ORDER BY min(row)"
    ).fetchall()
    parts = []
    for field in islice(dict.fromkeys(key for (group,) in keys for key in group), MOST_FIELDS):
        name = field
        while name.casefold() in names:
            name = f"data_{name}"
        names.add(name.casefold())
        pointer = "/" + field.replace("~", "~0").replace("/", "~1").replace("'", "''")
        value = f"json_extract_string(r.metadata, '{pointer}')"
        whole, number = connection.execute(
            f"""SELECT bool_and(regexp_full_match(cell, $1)), bool_and(regexp_full_match(cell, $2))
                FROM (SELECT {value} AS cell FROM rows r) WHERE cell != ''""",
            [_WHOLE, _NUMBER],
        ).fetchall()[0]
        if number:
            value = f"TRY_CAST(nullif({value}, '') AS {'BIGINT' if whole else 'DOUBLE'})"
        parts.append(f", {value} AS {quote(name)}")
    return "".join(parts)
