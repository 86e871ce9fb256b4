"""`sightline adversary`: look for other attention weights that give the same prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sightline.cli.errors import one_line, reports_errors
from sightline.cli.options import (
    AllowPickle,
    Debug,
    LabelField,
    Limit,
    PairField,
    Sample,
    Seed,
    Split,
    TextField,
    Where,
)
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.cli.values import parse_strengths
from sightline.settings.values import split_names


@reports_errors
def adversary(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="CSV, TSV, JSON lines (also .gz), Parquet, a folder, or hf://name.")
    ],
    model: Annotated[str, typer.Option(metavar="PATH", help="Folder of a model with a single attention.")],
    tests: Annotated[
        list[str] | None,
        typer.Option(
            "--tests",
            "--test",
            metavar="NAME,…",
            help="uniform, permuted, frozen, unfrozen; may be repeated. [default: the first three]",
        ),
    ] = None,
    strengths: Annotated[
        str | None,
        typer.Option(
            metavar="X,…",
            help="Values of λ of frozen and unfrozen: how much distance of the weights counts. [default: 0.1,1]",
        ),
    ] = None,
    text: TextField = "text",
    pair: PairField = "text_pair",
    label: LabelField = "label",
    split: Split = None,
    where: Where = None,
    limit: Limit = None,
    sample: Sample = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a page with the documents under both weights."),
    ] = None,
    allow_pickle: AllowPickle = False,
    debug: Debug = False,
) -> None:
    """Look for other attention weights that give the same prediction.

    For models with a single attention, such as those of `sightline train --model new-bilstm`.

    \b
    Examples:
      sightline adversary reviews.csv --model my-bilstm --limit 100 -o page.html
      sightline adversary reviews.csv --model my-bilstm --tests uniform,frozen --strengths 0.1,1,10
    """
    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.model import load
            from sightline.corpus.streaming import Selection, read_selection
            from sightline.files.writing import check_writable
            from sightline.lab.adversary import DEFAULT_TESTS, check_tests
            from sightline.lab.adversary import adversary as run
            from sightline.view.frames import to_text

        if output is not None:
            check_writable(output, [data, model])
        chosen = check_tests(split_names(tests)) if tests else list(DEFAULT_TESTS)
        grid = None if strengths is None else parse_strengths(strengths)
        progress("reading the data set", 0, 0)
        rows = Selection(text, pair, label, split=split, where=where, limit=limit, sample=sample, seed=seed)
        examples = [row for row in read_selection(data, rows) if isinstance(row.text, str) and row.text.strip()]
        labels = [row.label for row in examples if row.label is not None]
        progress("loading the model", 0, 0)
        loaded = load(model, allow_pickle=allow_pickle)
        result = run(
            loaded,
            [loaded.encode(str(row.text), row.pair, truncate=True) for row in examples],
            tests=chosen,
            strengths=grid,
            labels=labels if len(labels) == len(examples) else None,
            seed=seed,
            progress=progress,
        )
        if output is not None:
            result.to_html(output)
    typer.echo(to_text(result.table()), nl=False)
    if output is not None:
        typer.echo(f"Wrote {one_line(str(output))}", err=True)
