"""`sightline metrics`: list the metrics of explanations, in one line each or in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.listing import describe_origin, print_descriptions, print_json, print_table
from sightline.cli.options import AsJson, Debug
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting

if TYPE_CHECKING:
    from sightline.metrics import MetricEntry


@reports_errors
def metrics(
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Describe only these, in full.", show_default=False),
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", help="Also show kind, range, chance level, needs and citation.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the metrics that `sightline evaluate` computes.

    \b
    Examples:
      sightline metrics
      sightline metrics aopc
      sightline metrics --long
    """
    with LateProgress() as progress, starting(progress):
        from sightline.metrics import METRICS

    entries = [METRICS.get(each) for each in name] if name else list(METRICS)
    if as_json:
        print_json(entries)
    elif long or name:
        print_descriptions(entries, _describe)
    else:
        print_table({"": entries})


def _describe(metric: MetricEntry) -> str:
    from sightline.view.words.entries import describe_chance, describe_direction, describe_needs, describe_range

    lines = [
        f"{metric.name}: {metric.summary}{describe_origin(metric)}",
        f"  measures   {metric.kind}; {describe_direction(metric)}",
        f"  range      {describe_range(metric)}",
        f"  chance     {describe_chance(metric)}",
        f"  needs      {describe_needs(metric)}",
        f"  citation   {metric.citation}",
    ]
    if metric.options:
        options = ", ".join(f"{name}={value}" for name, value in metric.options.items())
        lines.insert(-1, f"  options    {options}")
    return "\n".join(lines)
