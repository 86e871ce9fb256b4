"""`sightline run`: explain every document of a data set; resumable."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.options import (
    AllowPickle,
    AllowRandom,
    Debug,
    LabelField,
    Limit,
    MethodNames,
    ModelSource,
    OptionsOfMethods,
    PairField,
    Sample,
    Seed,
    Split,
    TextField,
    Truncate,
    Where,
)
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.cli.values import method_options
from sightline.errors import UsageError
from sightline.settings.arguments import refuse_unused
from sightline.settings.defaults import DEFAULT_METHODS
from sightline.settings.values import split_assignments, split_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.corpus.settings import Measure


UNKNOWN_LABELS = (
    "SELECT count(*) AS number FROM documents WHERE status = 'done' AND label IS NOT NULL AND label_class IS NULL"
)
"""Counts explained rows whose label is no class of the model."""
READ_IN_WINDOWS = "SELECT count(*) AS number FROM results WHERE windows IS NOT NULL"
"""Counts documents longer than the model reads at once."""


class EngineChoice(StrEnum):
    """Values of `--engine`."""

    local = "local"
    ray = "ray"


@reports_errors
def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="CSV, TSV, JSON lines (also .gz), Parquet, a folder of documents, or hf://name."
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR|URI",
            help="Folder of the run, or s3://…, gs://…, az://…; an interrupted run in it is resumed.",
        ),
    ],
    model: ModelSource = None,
    method: MethodNames = None,
    option: OptionsOfMethods = None,
    target: Annotated[
        str,
        typer.Option(
            metavar="LABEL|INDEX|A:B",
            help="Class or contrast to explain in all documents, 'predicted', or 'all' for every class.",
        ),
    ] = "predicted",
    measure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,…|none",
            help="Measures of attention: received, counts, heads, similarity. [default: all]",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare every explanation with random orders of the words, for verdicts."),
    ] = False,
    truncate: Truncate = False,
    text: TextField = "text",
    pair: PairField = "text_pair",
    label: LabelField = "label",
    split: Split = None,
    where: Where = None,
    limit: Limit = None,
    sample: Sample = None,
    seed: Seed = 0,
    engine: Annotated[
        EngineChoice, typer.Option(help="Processes on this machine, or a Ray cluster.")
    ] = EngineChoice.local,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Worker processes. [default: one per core]")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Ray cluster to use. [default: start one here]")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute failed documents again.")] = False,
    page: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the corpus page here when the run is complete.")
    ] = None,
    page_documents: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="With --page: write reading pages for at most N documents. [default: 200]"
        ),
    ] = None,
    allow_pickle: AllowPickle = False,
    allow_random: AllowRandom = False,
    debug: Debug = False,
) -> None:
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

        methods = split_names(method) if method else list(DEFAULT_METHODS)
        options = method_options(split_assignments(option or []), methods, seed)
        measures = MEASURES if measure is None else tuple(name for name in split_names(measure) if name != "none")
        if engine is EngineChoice.local:
            refuse_unused({"--address": address}, "names a Ray cluster; add --engine ray.")
        if page is None:
            refuse_unused({"--page-documents": page_documents}, "needs a page; add --page FOLDER.")
        else:
            require_matplotlib()
            check_output_folder(page, CORPUS_PAGE, inputs=[data, model])
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
        store = run_corpus(
            data,
            Source(model, allow_pickle=allow_pickle, allow_random=allow_random),
            methods if method else None,
            out=out,
            engine=engine.value,
            workers=workers,
            address=address,
            target=target,
            measures=cast("Sequence[Measure]", measures),  # checked by the run
            check=check,
            truncate=truncate,
            selection=Selection(text, pair, label, split, where, limit, sample, seed),
            retry_failed=retry_failed,
            progress=report,
            options=options,
            seed=seed,
        )
        states = dict(store.sql("SELECT status, count(*) FROM documents GROUP BY status").itertuples(index=False))
        unknown = int(store.sql(UNKNOWN_LABELS)["number"].iloc[0])
        windowed = int(store.sql(READ_IN_WINDOWS)["number"].iloc[0]) if measures else 0
        index = None
        if page is not None:
            progress("writing the page", 0, 0)
            index = write_corpus_page(
                store, page, documents=PAGE_DOCUMENTS if page_documents is None else page_documents
            )
    if model is None:
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
