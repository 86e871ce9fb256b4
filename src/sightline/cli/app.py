"""The `sightline` command and its sub-commands."""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points
from typing import Annotated

import typer

from sightline.cli.evaluate import compare, evaluate
from sightline.cli.explain import demo, explain
from sightline.cli.inspect import inspect
from sightline.cli.lab import adversary, convert, train
from sightline.cli.listing import methods, metrics
from sightline.cli.query import query
from sightline.cli.run import run
from sightline.cli.serve import serve

SUMMARY = "Explain the predictions of Transformer text models: which words decided, and how far to trust the answer."
EXAMPLES = """\b
Examples:
  sightline demo                                  explain a built-in document and write a page
  sightline explain letter.txt -o page.html       explain your own text with the built-in model
  sightline explain letter.txt --model my-model --method rollout --method attcat
  sightline inspect letter.txt -o folder          heads, attention, relations: all pictures and tables
  sightline evaluate data.csv -o folder           compare methods on a data set: which explanation to believe
  sightline compare data.csv --model a --model b  do two models look at the same words?
  sightline run tickets.csv --out explained       explain a whole data set; resumable, query it with SQL
  sightline train data.csv --model my-bert -o new-model      fine-tune a classifier on labelled texts
  sightline convert my-bert -o my-longformer      make a short model read long documents
  sightline adversary data.csv --model my-bilstm -o page.html    would other attention weights predict the same?
  sightline study attcat --out folder             reproduce one of five papers, beside its published numbers
  sightline serve --open                          explain texts in a browser, or from other programs over HTTP
  sightline methods --long                        what each method computes and when to use it
"""

app = typer.Typer(
    name="sightline",
    help=SUMMARY,
    epilog=EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # markdown joins the lines of the examples; rich reads "[default: …]" as markup
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Explain the predictions of Transformer text models."""


app.command()(explain)
app.command()(inspect)
app.command()(evaluate)
app.command()(compare)
app.command()(run)
app.command()(query)
app.command()(methods)
app.command()(metrics)
app.command()(demo)
app.command()(train)
app.command()(convert)
app.command()(adversary)
app.command()(serve)
for _entry in entry_points(group="sightline.commands"):  # of other packages; `study` is one
    try:
        app.command(_entry.name)(_entry.load())
    except Exception as error:  # whatever a plug-in does, the other commands work
        warnings.warn(f"The command '{_entry.name}' ({_entry.value}) cannot be loaded: {error}", stacklevel=1)
