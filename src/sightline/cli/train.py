"""`sightline train`: fine-tune a model on texts, or train a small classifier from scratch."""

from __future__ import annotations

import typer

from sightline.cli.declared import command
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.settings.training import TrainSettings

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
            from sightline.lab.train import TrainingSettings
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
