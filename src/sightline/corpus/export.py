"""Export tables as bytes for files and pipes: CSV, JSON, Parquet or aligned text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

from sightline.files.spreadsheet_cells import protect_text

if TYPE_CHECKING:
    import pandas as pd

TableFormat = Literal["table", "csv", "json", "parquet"]


def export_table(frame: pd.DataFrame, form: TableFormat) -> bytes:
    """Return a table in the given format; text is UTF-8 and ends with a line break."""
    if form == "parquet":
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return buffer.getvalue()
    if form == "csv":
        return bytes(_protect_texts(frame).to_csv(index=False).encode())
    if form == "json":
        return bytes((frame.to_json(orient="records", force_ascii=False, default_handler=str) + "\n").encode())
    return (_align_columns(frame) + "\n").encode()


def _protect_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with names and texts that a spreadsheet would run as formulas protected."""

    def protect(value: object) -> object:
        return protect_text(value) if isinstance(value, str) else value

    return frame.rename(columns=protect).map(protect)


def _align_columns(frame: pd.DataFrame) -> str:
    import pandas as pd

    if frame.empty:
        return "No rows."
    with pd.option_context("display.width", None, "display.max_columns", None, "display.max_colwidth", 60):
        return str(frame.to_string(index=False, na_rep=""))
