"""Tables as bytes for files and pipes: CSV, JSON, Parquet, or aligned text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

TableFormat = Literal["table", "csv", "json", "parquet"]
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def export_table(frame: pd.DataFrame, form: TableFormat) -> bytes:
    """Return a table in the given format; text is UTF-8 and ends with a line break."""
    if form == "parquet":
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return buffer.getvalue()
    if form == "csv":
        return bytes(as_shown_text(frame).to_csv(index=False).encode())
    if form == "json":
        return bytes((frame.to_json(orient="records", force_ascii=False, default_handler=str) + "\n").encode())
    return (_aligned(frame) + "\n").encode()


def as_shown_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with an apostrophe before texts that a spreadsheet would run as a formula (=, +, -, @)."""

    def guard(value: object) -> object:
        return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_SIGNS) else value

    return frame.rename(columns=guard).map(guard)


def _aligned(frame: pd.DataFrame) -> str:
    import pandas as pd

    if frame.empty:
        return "No rows."
    with pd.option_context("display.width", None, "display.max_columns", None, "display.max_colwidth", 60):
        return str(frame.to_string(index=False, na_rep=""))
