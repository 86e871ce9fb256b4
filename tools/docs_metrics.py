"""Build docs/metrics.md from the registry: one entry per metric, the same facts as `sightline metrics --long`."""

from __future__ import annotations

from pathlib import Path

from sightline.metrics import MetricEntry, list_metrics
from sightline.registry import BUILT_IN
from sightline.view.words.phrases import describe_chance, describe_direction, describe_needs, describe_range

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
HEAD = """# Metrics

Generated from the registry by `python -m tools.docs`; `sightline metrics --long` prints the same facts.

Each metric turns one explanation into one number per document; `sl.evaluate` averages them and adds intervals. *Chance*
is what scores without information give: compare every value with it. A *unit* is a word, or a token with
`level="token"`; special tokens belong to no unit. [Which explanation should I believe?](guides/which-explanation.md)
shows how to read the metrics together.

| kind | question |
|---|---|
| faithfulness | Does removing the words that score highest change the prediction? |
| confidence | Do the explanations of different classes differ? |
| plausibility | Does the explanation mark what people marked? |
| retrieval | Are the words of the answer among those that score highest? |
| agreement | Do two explanations of the same document agree? |
| dispersion | How are the scores distributed over the document? |
"""


def page() -> str:
    """Return the whole page."""
    metrics = list_metrics()
    rows = "\n".join(
        f"| [`{metric.name}`](#{metric.name}) | {metric.kind} | {metric.summary}{_origin(metric)} | "
        f"{describe_range(metric)} | {_better(metric)} |"
        for metric in metrics
    )
    table = f"| metric | kind | what it measures | range | better |\n|---|---|---|---|---|\n{rows}"
    return "\n\n".join([HEAD.strip(), table, *(_entry(metric) for metric in metrics)]) + "\n"


def _origin(metric: MetricEntry) -> str:
    return "" if metric.origin == BUILT_IN else f" (from {metric.origin})"


def _better(metric: MetricEntry) -> str:
    return {True: "higher", False: "lower", None: "–"}[metric.higher_is_better]


def _entry(metric: MetricEntry) -> str:
    lines = [
        f"## {metric.name}",
        "",
        metric.summary,
        "",
        f"- **Measures:** {metric.kind}; {describe_direction(metric)}",
        f"- **Range:** {describe_range(metric)}",
        f"- **Chance:** {describe_chance(metric)}",
        f"- **Needs:** {describe_needs(metric)}",
        f"- **Citation:** {metric.citation}",
    ]
    if metric.plan is not None:
        shares = ", ".join(f"{100 * ratio:g}" for ratio in metric.plan.ratios)
        how = "deleted" if metric.plan.replacement == "delete" else f"replaced with the {metric.plan.replacement} token"
        which = "the words that score highest" if metric.plan.direction == "remove" else "all other words"
        lines.insert(-1, f"- **Perturbation:** {which} are {how}, for the top {shares} % of the words")
    if metric.options:
        options = ", ".join(f"`{name}={value}`" for name, value in metric.options.items())
        lines.insert(-1, f"- **Options:** {options}")
    return "\n".join(lines)
