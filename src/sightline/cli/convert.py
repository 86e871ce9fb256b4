"""`sightline convert`: make a short model read long documents, or give its heads sparse attention."""

from __future__ import annotations

import typer

from sightline.cli.declared import command
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.settings.training import ConvertSettings


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
