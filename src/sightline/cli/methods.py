"""`sightline methods`: what can explain, in one line each or in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.listing import print_entries
from sightline.cli.options import AsJson, Debug
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting

if TYPE_CHECKING:
    from sightline.methods import Method


@reports_errors
def methods(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these, in full.", show_default=False)
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="Formula, cost, options, citation, when to use it.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the explanation methods.

    \b
    Examples:
      sightline methods
      sightline methods attcat rollout
      sightline methods --long
      sightline methods --json
    """
    with LateProgress() as progress, starting(progress):
        from sightline.methods import METHODS

    found = [METHODS.get(one) for one in name] if name else list(METHODS)
    print_entries(found, _entry if long or name else None, as_json=as_json)


def _entry(method: Method) -> str:
    signs = "signed (for and against)" if method.signed else "unsigned (how much, not in which direction)"
    classes = "depends on the class explained" if method.class_specific else "the same for every class"
    lines = [
        f"{method.name}: {method.summary}",
        f"  formula    {method.formula}",
        f"  scores     {signs}; {classes}",
        f"  cost       {method.cost}",
        f"  use it     {method.use}",
        f"  not        {method.avoid}",
        f"  citation   {method.citation}",
    ]
    for name, option in method.facts()["options"].items():
        default = "none" if option["default"] is None else option["default"]
        lines.append(f"  --option {name}={default}  ({option['values']})")
    return "\n".join(lines)
