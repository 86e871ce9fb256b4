"""`sightline methods`: what can explain, in one line each or in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli.errors import Debug, reports_errors

if TYPE_CHECKING:
    from sightline.methods import Method


@reports_errors
def methods(
    long: Annotated[bool, typer.Option("--long", help="Formula, cost, options, citation, when to use it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """List the explanation methods."""
    from sightline.methods import list_methods

    found = list_methods()
    if as_json:
        text = json.dumps([method_facts(method) for method in found], indent=2, ensure_ascii=False)
    elif long:
        text = "\n\n".join(_entry(method) for method in found)
    else:
        width = max(len(method.name) for method in found)
        text = "\n".join(f"{method.name:<{width}}  {method.summary}" for method in found)
    typer.echo(f"{text}\n".encode(), nl=False)


def method_facts(method: Method) -> dict[str, Any]:
    """Return everything a registered method says about itself as plain values."""
    from sightline.methods.registry import describe_type

    return {
        "name": method.name,
        "summary": method.summary,
        "formula": method.formula,
        "signed": method.signed,
        "class_specific": method.class_specific,
        "cost": method.cost,
        "use": method.use,
        "avoid": method.avoid,
        "citation": method.citation,
        "options": {
            name: {"default": default, "values": describe_type(method.option_types[name])}
            for name, default in method.options.items()
        },
    }


def _entry(method: Method) -> str:
    facts = method_facts(method)
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
    for name, option in facts["options"].items():
        default = "none" if option["default"] is None else option["default"]
        lines.append(f"  --option {name}={default}  ({option['values']})")
    return "\n".join(lines)
