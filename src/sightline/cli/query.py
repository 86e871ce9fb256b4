"""`sightline query`: query the results of `sightline run`, in SQL or with ready-made aggregates."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import typer

from sightline.cli.declared import command
from sightline.cli.progress_bar import LateProgress, starting
from sightline.errors import UsageError
from sightline.files.spreadsheet_cells import protect_text
from sightline.settings.options import OptionRule, Settings, option, unused

if TYPE_CHECKING:
    import pandas as pd

TableFormat = Literal["table", "csv", "json", "parquet"]


@dataclass(frozen=True, kw_only=True)
class QueryCommand(Settings):
    """Options of `sightline query`."""

    folder: str = option(positional=True, metavar="DIR|URI", help="Folder of a run (`sightline run --out DIR`).")
    sql: str | None = option(
        None,
        positional=True,
        metavar="SQL",
        help="Query on documents, words, tokens, explanations, heads, similarity, errors, rows, texts.",
    )
    by: Literal["word", "type", "position"] | None = option(
        None, help="Instead of SQL: scores over the data set by word, word type or position."
    )
    method: str | None = option(None, metavar="NAME", help="With --by: the method. [default: the first]")
    class_: str | None = option(
        None, flag="--class", metavar="LABEL|INDEX", help="With --by: the class that the scores explain."
    )
    rule: Literal["mean-present", "mean-all", "sum"] | None = option(
        None,
        help="With --by: mean over the documents that contain a word, mean over all, or sum. "
        "[default: mean-present; mean-all with --against]",
    )
    where: str | None = option(None, metavar="CONDITION", help="With --by: an SQL condition on documents.")
    against: str | None = option(
        None,
        metavar="CONDITION",
        help="With --by: compare the documents of --where with those of this slice.",
    )
    top: int | None = option(None, low=1, metavar="N", help="With --by: the N largest and the N smallest scores.")
    interval: bool = option(False, help="With --by: add bootstrap intervals over documents.")
    format: TableFormat = option("table", help="Format of the output.")
    output: Path | None = option(
        None, flag=("--output", "-o"), metavar="FILE", help="Write to a file instead of printing."
    )

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            *("method", "class_", "rule", "where", "against", "top", "interval"),
            when=lambda settings: settings.sql is not None,
            reason="goes with {by}: write it into the query.",
        ),
        unused(
            "interval",
            when=lambda settings: settings.against is not None,
            reason="is left out with {against}, whose table always has intervals.",
        ),
    )


@command
def query(settings: QueryCommand) -> None:
    """Query the results of a run.

    \b
    Examples:
      sightline query explained "SELECT label, count(*) FROM documents WHERE NOT correct GROUP BY label"
      sightline query explained --by word --class spam --rule mean-all --top 20
      sightline query explained --by word --where "correct" --against "NOT correct" --format csv -o changed.csv
    """
    sql, by, output, form = settings.sql, settings.by, settings.output, settings.format
    if (sql is None) == (by is None):
        raise UsageError('Give either a query, for example "SELECT * FROM documents", or --by.')
    if settings.against is not None and settings.where is None:
        raise UsageError("--against compares with the documents of --where: give both.")
    if form == "parquet" and output is None:
        raise UsageError("Parquet output cannot be printed: name a file with -o.")
    with LateProgress() as progress:
        with starting(progress):
            from sightline.corpus.aggregation import compare_slices
            from sightline.corpus.store import open_run
            from sightline.files.writing import check_writable, write_whole

        if output is not None:
            check_writable(output, [settings.folder])
        progress("querying the store", 0, 0)
        store = open_run(settings.folder)
        if sql is not None:
            frame = store.sql(sql)
        elif settings.where is not None and settings.against is not None:
            chosen = settings.keywords(compare_slices) | {"rule": settings.rule or "mean-all"}
            frame = compare_slices(store, settings.where, settings.against, **chosen).to_frame()
        else:
            chosen = settings.keywords(store.aggregate) | {"rule": settings.rule or "mean-present"}
            frame = store.aggregate(**chosen)
        content = export_table(frame, form)
    if output is None:
        typer.echo(content, nl=False)
    else:
        write_whole(output, content)
        typer.echo(f"Wrote {output}", err=True)


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
