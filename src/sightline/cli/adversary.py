"""`sightline adversary`: look for other attention weights that give the same prediction."""

from __future__ import annotations

import typer

from sightline.cli.declared import command
from sightline.cli.errors import one_line
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.settings.evaluation import AdversarySettings


@command
def adversary(settings: AdversarySettings) -> None:
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

        output = settings.output
        if output is not None:
            check_writable(output, [settings.data, settings.model])
        tests = check_tests(settings.tests) if settings.tests else list(DEFAULT_TESTS)
        progress("reading the data set", 0, 0)
        rows = read_selection(settings.data, Selection(**settings.keywords(Selection)))
        examples = [row for row in rows if isinstance(row.text, str) and row.text.strip()]
        labels = [row.label for row in examples if row.label is not None]
        progress("loading the model", 0, 0)
        loaded = load(settings.model, allow_pickle=settings.allow_pickle)
        result = run(
            loaded,
            [loaded.encode(str(row.text), row.pair, truncate=True) for row in examples],
            tests=tests,
            strengths=settings.strengths,
            labels=labels if len(labels) == len(examples) else None,
            seed=settings.seed,
            progress=progress,
        )
        if output is not None:
            result.to_html(output)
    typer.echo(to_text(result.table()), nl=False)
    if output is not None:
        typer.echo(f"Wrote {one_line(str(output))}", err=True)
