"""`sightline methods`: list the explanation methods, in one line each or in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.listing import describe_origin, print_descriptions, print_json, print_table
from sightline.cli.options import AsJson, Debug
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting

if TYPE_CHECKING:
    from sightline.methods import Method


@reports_errors
def methods(
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Describe only these, in full.", show_default=False),
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", help="Include formula, options, citation and when to use each.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the explanation methods, with their cost.

    \b
    Examples:
      sightline methods
      sightline methods attcat rollout
      sightline methods --long
      sightline methods --json
    """
    with LateProgress() as progress, starting(progress):
        from sightline.methods import METHODS, group_methods

    entries = [METHODS.get(each) for each in name] if name else list(METHODS)
    if as_json:
        print_json(entries)
    elif long or name:
        print_descriptions(entries, _describe)
    else:
        print_table({kind.capitalize(): group for kind, group in group_methods(entries).items()}, _short_cost)


def _short_cost(method: Method) -> str:
    """Return the cost without the remark in parentheses."""
    return method.cost.partition(" (")[0]


def _describe(method: Method) -> str:
    signs = "signed (for and against)" if method.signed else "unsigned (how much, not in which direction)"
    classes = "different for every class" if method.class_specific else "the same for every class"
    lines = [
        f"{method.name}: {method.title}{describe_origin(method)}",
        f"  {method.summary}",
        *([f"  formula    {method.formula}"] if method.formula else []),
        f"  scores     {signs}; {classes}",
        *([f"  cost       {method.cost}"] if method.cost else []),
        *(f"  {advice}" for advice in (method.use, method.avoid) if advice),
        *([f"  citation   {method.citation}"] if method.citation else []),
    ]
    for name, option in method.facts()["options"].items():
        default = "none" if option["default"] is None else option["default"]
        lines.append(f"  --option {name}={default}  ({option['values']})")
    return "\n".join(lines)
