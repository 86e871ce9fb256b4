"""`sightline query`: query the results of `sightline run`, in SQL or with ready-made aggregates."""

from __future__ import annotations

import io
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.options import Debug
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.errors import UsageError
from sightline.files.spreadsheet_cells import protect_text
from sightline.settings.arguments import refuse_unused

if TYPE_CHECKING:
    import pandas as pd

    from sightline.corpus.slices import SliceRule


class TableFormatChoice(StrEnum):
    """Values of `--format`."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


class ByChoice(StrEnum):
    """Values of `--by`."""

    word = "word"
    type = "type"
    position = "position"


class RuleChoice(StrEnum):
    """Values of `--rule`."""

    mean_present = "mean-present"
    mean_all = "mean-all"
    sum = "sum"


@reports_errors
def query(
    folder: Annotated[str, typer.Argument(metavar="DIR|URI", help="Folder of a run (`sightline run --out DIR`).")],
    sql: Annotated[
        str | None,
        typer.Argument(
            metavar="SQL",
            help="Query on documents, words, tokens, explanations, heads, similarity, errors, rows, texts.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        ByChoice | None, typer.Option(help="Instead of SQL: scores over the data set by word, word type or position.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --by: the method. [default: the first]")
    ] = None,
    class_: Annotated[
        str | None, typer.Option("--class", metavar="LABEL|INDEX", help="With --by: the class that the scores explain.")
    ] = None,
    rule: Annotated[
        RuleChoice | None,
        typer.Option(
            help="With --by: mean over the documents that contain a word, mean over all, or sum. "
            "[default: mean-present; mean-all with --against]"
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="With --by: an SQL condition on documents.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="With --by: compare the documents of --where with those of this slice."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --by: the N largest and the N smallest scores.")
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="With --by: add bootstrap intervals over documents.")
    ] = False,
    format: Annotated[TableFormatChoice, typer.Option(help="Format of the output.")] = TableFormatChoice.table,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead of printing.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Query the results of a run.

    \b
    Examples:
      sightline query explained "SELECT label, count(*) FROM documents WHERE NOT correct GROUP BY label"
      sightline query explained --by word --class spam --rule mean-all --top 20
      sightline query explained --by word --where "correct" --against "NOT correct" --format csv -o changed.csv
    """
    if (sql is None) == (by is None):
        raise UsageError('Give either a query, for example "SELECT * FROM documents", or --by.')
    if sql is not None:
        of_aggregates = {"--method": method, "--class": class_, "--rule": rule, "--where": where, "--against": against}
        refuse_unused(
            {**of_aggregates, "--top": top, "--interval": interval}, "goes with --by: write it into the query."
        )
    if against is not None:
        refuse_unused({"--interval": interval}, "is left out with --against, whose table always has intervals.")
    if against is not None and where is None:
        raise UsageError("--against compares with the documents of --where: give both.")
    if format is TableFormatChoice.parquet and output is None:
        raise UsageError("Parquet output cannot be printed: name a file with -o.")
    with LateProgress() as progress:
        with starting(progress):
            from sightline.corpus.slices import compare_slices
            from sightline.corpus.store import open_run
            from sightline.files.writing import check_writable, write_whole

        if output is not None:
            check_writable(output, [folder])
        progress("querying the store", 0, 0)
        store = open_run(folder)
        if sql is not None:
            frame = store.sql(sql)
        elif against is not None and where is not None and by is not None:
            averaging = cast("SliceRule", (rule or RuleChoice.mean_all).value)  # checked by the comparison
            comparison = compare_slices(
                store, where, against, by=by.value, method=method, class_=class_, rule=averaging, top=top
            )
            frame = comparison.to_frame()
        else:
            assert by is not None
            rule = rule or RuleChoice.mean_present
            frame = store.aggregate(by.value, method, class_, rule.value, where=where, top=top, interval=interval)
        content = export_table(frame, format.value)
    if output is None:
        typer.echo(content, nl=False)
    else:
        write_whole(output, content)
        typer.echo(f"Wrote {output}", err=True)


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
