"""`sightline train`: fine-tune a model on texts, or train a small classifier from scratch."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.options import Debug, LabelField, PairField, Seed, TextField
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting


class TaskChoice(StrEnum):
    """Values of `--task`."""

    sequence_classification = "sequence_classification"
    token_classification = "token_classification"
    masked_lm = "masked_lm"
    question_answering = "question_answering"


ANSWERS = TaskChoice.question_answering
METRICS = {"accuracy": "accuracy", "exact_match": "exact match", "f1": "F1"}
"""Metrics with an interval, and how they are written."""


class UnitChoice(StrEnum):
    """Values of `--units`."""

    words = "words"
    subwords = "subwords"


class PrecisionChoice(StrEnum):
    """Values of `--precision`."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


class BestChoice(StrEnum):
    """Values of `--best`."""

    loss = "loss"
    accuracy = "accuracy"


@reports_errors
def train(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="CSV, TSV, JSON lines (also .gz), Parquet, a folder, or hf://name.")
    ],
    out: Annotated[Path, typer.Option("--out", "--output", "-o", metavar="FOLDER", help="New folder for the model.")],
    model: Annotated[
        str,
        typer.Option(metavar="PATH|new-…", help="Model to fine-tune, or new-bilstm, new-transformer or new-encoder."),
    ] = "new-bilstm",
    task: Annotated[
        TaskChoice,
        typer.Option(help="What is learnt: the class of a text, of each of its words, hidden tokens, or answers."),
    ] = TaskChoice.sequence_classification,
    text: TextField = "text",
    pair: PairField = "text_pair",
    label: LabelField = "label",
    validation: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Share of rows held out if the data set has no validation split. [default: 0.1]"
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Draw N of the training rows at random, of every class its share (see --seed)."
        ),
    ] = None,
    projection: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Attention of a new model: softmax, sparsemax, entmax15, sparsegen0.5 …"),
    ] = None,
    units: Annotated[
        UnitChoice | None,
        typer.Option(help="What a new model reads: whole words, or also pieces of rare words. [default: words]"),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="N", help="Largest number of words or subwords a new model knows. [default: 20000]"
        ),
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Dropout of a new model. [default: 0.1]")
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(metavar="N", help="Passes over the training rows. [default: 3, for new models 10 to 20]"),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Rows per step. [default: 16, for new models 32]")
    ] = None,
    accumulate: Annotated[int, typer.Option(min=1, metavar="N", help="Steps whose gradients are accumulated.")] = 1,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="X", help="Peak learning rate. [default: 5e-5, for new models 1e-3 or 5e-4]")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Truncate texts to N tokens. [default: what the model reads]"),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Stop after N validations without improvement; 0 never stops. [default: 3 or 5]"
        ),
    ] = None,
    best: Annotated[
        BestChoice,
        typer.Option(help="Which weights are kept: those of the best validation loss or accuracy (exact match)."),
    ] = BestChoice.loss,
    class_weights: Annotated[
        bool, typer.Option("--class-weights", help="Weight classes by the inverse of their frequency.")
    ] = False,
    gradient_checkpointing: Annotated[
        bool, typer.Option("--gradient-checkpointing", help="Recompute activations to save memory.")
    ] = False,
    weight_decay: Annotated[float, typer.Option(min=0.0, metavar="X", help="Weight decay.")] = 0.01,
    precision: Annotated[
        PrecisionChoice, typer.Option(help="Number type of the forward pass; weights stay in float32.")
    ] = PrecisionChoice.float32,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint.")] = False,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Train a classifier on labelled texts, a model that answers questions, or a masked language model.

    Writes the model with the best validation loss (or accuracy), its tokenizer, a model card and the training curve.

    \b
    Examples:
      sightline train contracts.csv --model my-bert --out contracts-model
      sightline train reviews.jsonl --model new-bilstm --projection sparsemax --out reviews-model
      sightline train contracts.csv --model my-bert --out contracts-model --resume
      sightline train papers.csv --model my-longformer --max-tokens 2048 --epochs 2 --batch 1 --accumulate 4
        --learning-rate 2e-5 --weight-decay 0.01 --gradient-checkpointing --precision float16 --out papers-model
      sightline train names.csv --task token_classification --model my-bert --out names-model
      sightline train squad.jsonl --task question_answering --text context --pair question --model my-bert --out answers
    """
    given = {"epochs": epochs, "batch": batch, "learning_rate": learning_rate, "patience": patience}
    # What is not given depends on the model.
    by_model: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if patience == 0:
        by_model["patience"] = None
    with LateProgress() as progress:
        with starting(progress):
            from sightline.lab.card import metric_with_interval
            from sightline.lab.train import train as run

        progress("reading the data set", 0, 0)
        result = run(
            data,
            model,
            out=out,
            task=task.value,
            text=text,
            pair=pair,
            label=label,
            validation=validation,
            limit=limit,
            projection=projection,
            resume=resume,
            progress=progress,
            units=None if units is None else units.value,
            vocabulary=vocabulary,
            dropout=dropout,
            accumulate=accumulate,
            max_tokens=max_tokens,
            best=best.value,
            class_weights=class_weights,
            gradient_checkpointing=gradient_checkpointing,
            weight_decay=weight_decay,
            precision=precision.value,
            seed=seed,
            **by_model,
        )
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
        missing = "question or answer, or with an answer that no window holds" if task is ANSWERS else "label"
        count = "1 row" if result.left_out == 1 else f"{result.left_out:,} rows"
        typer.echo(f"Note: left out {count} without text or {missing}.", err=True)
    if result.cut:
        typer.echo(f"Note: {result.cut:,} training texts are longer than the model reads and were truncated.", err=True)
