"""The `sightline` command and its sub-commands."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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

GROUP = "sightline.commands"
_MODULES = {
    "explain": "explain",
    "inspect": "inspect",
    "evaluate": "evaluate",
    "compare": "evaluate",
    "run": "run",
    "query": "query",
    "methods": "listing",
    "metrics": "listing",
    "demo": "explain",
    "train": "lab",
    "convert": "lab",
    "adversary": "lab",
    "serve": "serve",
}
"""The module of each command, in the order of the help."""


@cache
def _entries() -> dict[str, EntryPoint]:
    """Return where each command is, those of other packages last; `study` is one."""
    own = [EntryPoint(name, f"sightline.cli.{module}:{name}", GROUP) for name, module in _MODULES.items()]
    return {entry.name: entry for entry in (*own, *entry_points(group=GROUP))}


class Commands(TyperGroup):
    """All commands; the module of a command is imported when the command is asked for."""

    def list_commands(self, context: Any) -> list[str]:
        """Return the names of all commands."""
        return list(_entries())

    def get_command(self, context: Any, name: str) -> Any:
        """Return the command, or None if there is none of this name or the package that has it is broken."""
        if name not in _entries():
            for known in _entries():  # typer suggests names among the commands that are loaded
                self.get_command(context, known)
        elif name not in self.commands:
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
            entry = _entries()[name]
            try:
                single.command(name)(entry.load())
                self.commands[name] = typer.main.get_command(single)
            except Exception as error:  # whatever a plug-in does, the other commands work
                warnings.warn(f"The command '{name}' ({entry.value}) cannot be loaded: {error}", stacklevel=1)
        return self.commands.get(name)


app = typer.Typer(
    name="sightline",
    cls=Commands,
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
