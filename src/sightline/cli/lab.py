"""`sightline train`, `convert` and `adversary`: make models, and test the attention of one."""

from __future__ import annotations

import typer

from sightline.cli.declared import command
from sightline.cli.error_reports import one_line
from sightline.cli.progress_bar import LateProgress, starting
from sightline.settings.evaluation import AdversarySettings
from sightline.settings.training import ConvertSettings, TrainingSettings, TrainSettings

METRICS = {"accuracy": "accuracy", "exact_match": "exact match", "f1": "F1"}
"""Metrics with an interval, and how they are written."""


@command
def train(settings: TrainSettings) -> None:
    """Train a classifier on labelled texts, a model that answers questions, or a masked language model.

    Writes the model with the best validation loss (or accuracy), its tokenizer, a model card and the training curve.

    \b
    Examples:
      sightline train contracts.csv --model my-bert --out contracts-model
      sightline train reviews.jsonl --model new-bilstm --projection sparsemax --out reviews-model
      sightline train contracts.csv --model my-bert --out contracts-model --resume
      sightline train names.csv --task token_classification --model my-bert --out names-model
      sightline train papers.csv --model my-longformer --batch 1 --accumulate 4 --precision float16 --out papers-model
      sightline train squad.jsonl --task question_answering --text context --pair question --model my-bert --out answers
    """
    with LateProgress() as progress:
        with starting(progress):
            from sightline.lab.card import metric_with_interval
            from sightline.lab.train import train as run

        progress("reading the data set", 0, 0)
        chosen = settings.keywords(run) | settings.keywords(TrainingSettings)
        given = {name: value for name, value in chosen.items() if value is not None}
        if settings.patience == 0:
            given["patience"] = None
        result = run(**given, progress=progress)
    typer.echo(f"Wrote {result.folder} after {result.steps:,} steps in {result.seconds:.0f} s.")
    for split, values in result.metrics.items():
        shown = [f"{title} {metric_with_interval(values, name)}" for name, title in METRICS.items() if name in values]
        shown += [f"macro F1 {values['macro_f1']:.3f}"] if "macro_f1" in values else []
        typer.echo(f"{split}, {values['rows']:,.0f} rows: {', '.join(shown)}")
    for note in result.notes:
        typer.echo(f"Note: {note}", err=True)
    if result.new_head:
        typer.echo("Note: the starting point has no head that fits, so a new one was trained.", err=True)
    if result.left_out:
        missing = (
            "question or answer, or with an answer that no window holds"
            if settings.task == "question_answering"
            else "label"
        )
        count = "1 row" if result.left_out == 1 else f"{result.left_out:,} rows"
        typer.echo(f"Note: left out {count} without text or {missing}.", err=True)
    if result.cut:
        typer.echo(f"Note: {result.cut:,} training texts are longer than the model reads and were truncated.", err=True)


@command
def convert(settings: ConvertSettings) -> None:
    """Convert a BERT or RoBERTa model to a Longformer.

    The new model is compared with the old one on a short text before it is written.

    \b
    Examples:
      sightline convert my-bert --to longformer --positions 4096 --window 512 --out my-longformer
      sightline convert my-bert --to same --attention entmax15 --out my-sparse-bert
    """
    with LateProgress() as progress:
        with starting(progress):
            from sightline.lab.convert import convert as run

        progress("converting", 0, 0)
        result = run(**settings.keywords(run))
    detail = f"{result.positions:,} positions"
    if result.window is not None:
        detail += f", window {result.window}"
    typer.echo(f"Wrote {result.folder}: {result.architecture}, {detail}, {result.attention} attention.")
    if result.difference is not None:
        typer.echo(f"On a short text its output differs from the original's by at most {result.difference:.0e}.")
    else:
        typer.echo("Its outputs differ from the original's; fine-tune it before use (sightline train).")


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
            from sightline.api.load import load
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
