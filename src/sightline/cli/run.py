"""`sightline run`: explain every document of a data set; resumable."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import typer

from sightline.cli.declared import command, method_options
from sightline.cli.progress_bar import LateProgress, starting
from sightline.errors import UsageError
from sightline.settings.evaluation import OptionsSettings, SelectionSettings
from sightline.settings.explain import DEFAULT_METHODS, METHODS_HELP, TRUNCATE, LoadSettings
from sightline.settings.options import OptionRule, option, unused
from sightline.settings.values import split_names

UNKNOWN_LABELS = (
    "SELECT count(*) AS number FROM documents WHERE status = 'done' AND label IS NOT NULL AND label_class IS NULL"
)
"""Counts explained rows whose label is no class of the model."""
READ_IN_WINDOWS = "SELECT count(*) AS number FROM results WHERE windows IS NOT NULL"
"""Counts documents longer than the model reads at once."""


@dataclass(frozen=True, kw_only=True)
class RunCommand(SelectionSettings, OptionsSettings, LoadSettings):
    """Options of `sightline run`."""

    data: str = option(
        positional=True,
        metavar="DATA",
        help="CSV, TSV, JSON lines (also .gz), Parquet, a folder of documents, or hf://name.",
    )
    out: str = option(
        flag=("--out", "-o"),
        metavar="DIR|URI",
        help="Folder of the run, or s3://…, gs://…, az://…; an interrupted run in it is resumed.",
    )
    methods: tuple[str, ...] | None = option(
        None, flag=("--method", "--methods"), metavar="NAME,…", read=split_names, help=METHODS_HELP
    )
    target: str = option(
        "predicted",
        metavar="LABEL|INDEX|A:B",
        help="Class or contrast to explain in all documents, 'predicted', or 'all' for every class.",
    )
    measures: tuple[str, ...] | None = option(
        None,
        flag="--measure",
        metavar="NAME,…|none",
        read=split_names,
        help="Measures of attention: received, counts, heads, similarity. [default: all]",
    )
    check: bool = option(False, help="Compare every explanation with random orders of the words, for verdicts.")
    truncate: bool = option(False, help=TRUNCATE)
    engine: Literal["local", "ray"] = option("local", help="Processes on this machine, or a Ray cluster.")
    workers: int | None = option(None, low=1, metavar="N", help="Worker processes. [default: one per core]")
    address: str | None = option(None, metavar="ADDRESS", help="Ray cluster to use. [default: start one here]")
    retry_failed: bool = option(False, help="Compute failed documents again.")
    page: Path | None = option(None, metavar="FOLDER", help="Write the corpus page here when the run is complete.")
    page_documents: int | None = option(
        None,
        low=0,
        metavar="N",
        help="With --page: write reading pages for at most N documents. [default: 200]",
    )

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "address",
            when=lambda settings: settings.engine == "local",
            reason="names a Ray cluster; add {engine} ray.",
        ),
        unused(
            "page_documents",
            when=lambda settings: settings.page is None,
            reason="needs a page; add {page} FOLDER.",
        ),
    )


@command
def run(settings: RunCommand) -> None:
    """Explain every document of a data set.

    Results are stored for `sightline query`. A run that was stopped or killed resumes when the same command is given
    again; a larger --limit extends it.

    \b
    Examples:
      sightline run tickets.csv --text body --label team --model my-model --out explained
      sightline run letters/ --out explained --page page
      sightline run papers.jsonl --method attcat,rollout --target all --out explained --workers 4
      sightline run papers.jsonl --where "year >= 2020" --sample 500 --check --out sample --page page
      sightline run papers.jsonl --model my-model --out /shared/explained --engine ray --address head:6379
    """
    with LateProgress() as progress:
        with starting(progress):
            from sightline.corpus.runner import EveryMinute, RunProgress
            from sightline.corpus.runner import run as run_corpus
            from sightline.corpus.settings import MEASURES
            from sightline.corpus.settings import ModelSource as Source
            from sightline.corpus.streaming import Selection
            from sightline.files.ownership import check_output_folder
            from sightline.view.corpus_page import CORPUS_PAGE, PAGE_DOCUMENTS, write_corpus_page
            from sightline.view.plots.style import require_matplotlib
            from sightline.view.words.sentences import DEMONSTRATION

        page, out = settings.page, settings.out
        options = method_options(settings.options, settings.methods or DEFAULT_METHODS, settings.seed)
        measures = MEASURES if settings.measures is None else tuple(m for m in settings.measures if m != "none")
        if page is not None:
            require_matplotlib()
            check_output_folder(page, CORPUS_PAGE, inputs=[settings.data, settings.model])
            if Path(out).absolute().is_relative_to(page.absolute()):
                raise UsageError(f"The folder of the run is inside '{page}', that of the page. Name another one.")
        print_minutely = EveryMinute(lambda line: typer.echo(line, err=True))

        def report(state: RunProgress) -> None:
            if state.before and not state.done:
                progress.note(state.first_line())
            progress(f"explaining: {state.line()}", state.before + state.done, state.total)
            if not sys.stderr.isatty():
                print_minutely(state)

        progress("reading the data set", 0, 0)
        chosen = settings.keywords(run_corpus) | {
            "model": Source(settings.model, **settings.keywords(Source)),
            "measures": measures,  # checked by the run
            "options": options,
        }
        store = run_corpus(
            **chosen,
            selection=Selection(**settings.keywords(Selection)),
            truncate=settings.truncate,
            seed=settings.seed,
            progress=report,
        )
        states = dict(store.sql("SELECT status, count(*) FROM documents GROUP BY status").itertuples(index=False))
        unknown = int(store.sql(UNKNOWN_LABELS)["number"].iloc[0])
        windowed = int(store.sql(READ_IN_WINDOWS)["number"].iloc[0]) if measures else 0
        index = None
        if page is not None:
            progress("writing the page", 0, 0)
            index = write_corpus_page(
                store, page, documents=PAGE_DOCUMENTS if settings.page_documents is None else settings.page_documents
            )
    if settings.model is None:
        typer.echo(DEMONSTRATION, err=True)
    failed = states.get("failed", 0) + states.get("unreadable", 0)
    typer.echo(
        f"{sum(states.values()):,} rows: {states.get('done', 0):,} explained, {failed:,} failed. Results: {out}",
        err=True,
    )
    if failed:
        typer.echo(
            f'sightline query {out} "SELECT row, id, status, error FROM documents WHERE error IS NOT NULL"', err=True
        )
    if unknown:
        typer.echo(
            f"Note: {unknown:,} labels are not classes of the model; their rows count neither as right nor as wrong.",
            err=True,
        )
    if windowed:
        typer.echo(
            f"Note: {windowed:,} documents are longer than the model reads at once and were read in windows; attention "
            "and heads are not measured in them. --truncate reads their beginnings only.",
            err=True,
        )
    if index is not None:
        typer.echo(f"Wrote {index}", err=True)
    if not states.get("done", 0):
        raise typer.Exit(1)
