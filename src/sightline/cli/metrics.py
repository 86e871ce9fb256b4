"""`sightline metrics`: what can be measured about explanations, in one line each or in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli.errors import Debug, reports_errors

if TYPE_CHECKING:
    from sightline.metrics import MetricEntry

_NEEDS = {
    "scores": "an explanation",
    "other_scores": "a second explanation of the same document (--reference)",
    "class_scores": "explanations of every class",
    "rationale": "human rationales in the data set",
    "answer": "answers in the data set",
    "special": "",
    "model": "calls of the model",
}


@reports_errors
def metrics(
    long: Annotated[bool, typer.Option("--long", help="Kind, needs, options, direction, citation.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """List the metrics of explanations.

    \b
    Examples:
      sightline metrics
      sightline metrics --long
    """
    from sightline.metrics import list_metrics

    found = list_metrics()
    if as_json:
        text = json.dumps([metric_facts(metric) for metric in found], indent=2, ensure_ascii=False)
    elif long:
        text = "\n\n".join(_entry(metric) for metric in found)
    else:
        width = max(len(metric.name) for metric in found)
        text = "\n".join(f"{metric.name:<{width}}  {metric.summary}" for metric in found)
    typer.echo(f"{text}\n".encode(), nl=False)


def metric_facts(metric: MetricEntry) -> dict[str, Any]:
    """Return everything a registered metric says about itself as plain values."""
    return {
        "name": metric.name,
        "summary": metric.summary,
        "kind": metric.kind,
        "higher_is_better": metric.higher_is_better,
        "needs": sorted(metric.needs),
        "options": dict(metric.options),
        "citation": metric.citation,
    }


def _entry(metric: MetricEntry) -> str:
    better = {True: "higher is better", False: "lower is better", None: "neither direction is better"}
    needs = ", ".join(words for need in sorted(metric.needs) if (words := _NEEDS.get(need, need)))
    lines = [
        f"{metric.name}: {metric.summary}",
        f"  measures   {metric.kind}; {better[metric.higher_is_better]}",
        f"  needs      {needs or 'hidden states of the model'}",
        f"  citation   {metric.citation}",
    ]
    if metric.options:
        lines.insert(3, f"  options    {', '.join(f'{name}={value}' for name, value in metric.options.items())}")
    return "\n".join(lines)
