"""The `sightline` command and its sub-commands."""

from __future__ import annotations

from typing import Annotated

import typer

from sightline.cli.convert import convert
from sightline.cli.demo import demo
from sightline.cli.evaluate import evaluate
from sightline.cli.explain import explain
from sightline.cli.inspect import inspect
from sightline.cli.methods import methods
from sightline.cli.metrics import metrics
from sightline.cli.query import query
from sightline.cli.run import run
from sightline.cli.serve import serve
from sightline.cli.study import study
from sightline.cli.train import train

EXAMPLES = """\b
Examples:
  sightline demo                                  explain a built-in document and write a page
  sightline explain letter.txt -o page.html       explain your own text with the built-in model
  sightline explain letter.txt --model my-model --method rollout --method attcat
  sightline inspect letter.txt -o folder          heads, attention, relations: all pictures and tables
  sightline evaluate data.csv -o folder           which explanation to believe: methods compared on a data set
  sightline run tickets.csv --out explained       every document of a data set: resumable, for SQL afterwards
  sightline train data.csv --model my-bert -o new-model      fine-tune a classifier on labelled texts
  sightline convert my-bert -o my-longformer      make a short model read long documents
  sightline study attcat --out folder             run one of five papers again, beside its published numbers
  sightline serve --open                          the same in a browser, and for other programs by HTTP
  sightline methods --long                        what each method computes and when to use it
"""

app = typer.Typer(
    name="sightline",
    help="Why a Transformer decided what it decided about a document: which words, and how far to trust it.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # markdown runs the lines of the examples together, rich takes "[default: …]" for markup
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from sightline import __version__

        typer.echo(f"sightline {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Why a Transformer decided what it decided about a document: which words, and how far to trust it."""


app.command()(explain)
app.command()(inspect)
app.command()(evaluate)
app.command()(run)
app.command()(query)
app.command()(methods)
app.command()(metrics)
app.command()(demo)
app.command()(train)
app.command()(convert)
app.command()(study)
app.command()(serve)
