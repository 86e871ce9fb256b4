"""`sightline convert`: make a short model read long documents, or give its heads sparse attention."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.options import AllowPickle, Debug
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting


class ArchitectureChoice(StrEnum):
    """Values of `--to`."""

    longformer = "longformer"
    same = "same"


class SeamChoice(StrEnum):
    """Values of `--seam`."""

    smooth = "smooth"
    tile = "tile"
    interpolate = "interpolate"


@reports_errors
def convert(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Model folder, or a hub model as owner/name or hf://name.")
    ],
    out: Annotated[Path, typer.Option("--out", "--output", "-o", metavar="FOLDER", help="New folder for the model.")],
    to: Annotated[
        ArchitectureChoice, typer.Option(help="longformer, or same to change only the attention.")
    ] = ArchitectureChoice.longformer,
    positions: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Length of the longest document, in tokens. [default: 4096]")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Attention window in tokens, both sides together. [default: 512]"),
    ] = None,
    seam: Annotated[
        SeamChoice | None,
        typer.Option(help="How position embeddings continue beyond the original length. [default: smooth]"),
    ] = None,
    attention: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Projection in every head: sparsemax, entmax15 … [default: softmax]"),
    ] = None,
    allow_pickle: AllowPickle = False,
    debug: Debug = False,
) -> None:
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
        result = run(
            source,
            to.value,
            out=out,
            positions=positions,
            window=window,
            seam=None if seam is None else seam.value,
            attention=attention,
            allow_pickle=allow_pickle,
        )
    detail = f"{result.positions:,} positions"
    if result.window is not None:
        detail += f", window {result.window}"
    typer.echo(f"Wrote {result.folder}: {result.architecture}, {detail}, {result.attention} attention.")
    if result.difference is not None:
        typer.echo(f"On a short text its output differs from the original's by at most {result.difference:.0e}.")
    else:
        typer.echo("Its outputs differ from the original's; fine-tune it before use (sightline train).")
