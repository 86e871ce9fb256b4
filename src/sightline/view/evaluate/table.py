"""An evaluation as text: sentences and tables for the terminal; or its summary as CSV, JSON, Markdown or LaTeX.

In a table, several metrics stand side by side, above the floor (chance) and a reference:

    method                     aopc ↑                 log odds ↓             seconds
    attcat                     0.426 [0.179, 0.672]   −1.54 [−2.73, −0.44]     0.024
    random                     0.151 [0.012, 0.290]*  −1.00 [−2.08, −0.12]*  0.00031
    random orders (floor)      0.147                  −1.01
    one at a time (reference)  0.444                  −1.60
    documents                  6                      6

An arrow says which direction is better, a star that a method is not clearly better than the floor. Numbers of a column
have as many places as its largest needs to show three digits; all digits are in the summary.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.evaluation.ranking import Ranking
from sightline.metrics import METRICS
from sightline.metrics.registry import MetricKind
from sightline.view.frames import MISSING, Form, format_value, to_format, to_records, to_text
from sightline.view.words.evaluation import (
    ORDERS,
    REFERENCE,
    best_sentences,
    chance_name,
    opening_sentences,
    planted_sentences,
    sanity_sentences,
    state_sentences,
    table_legend,
)
from sightline.view.words.phrases import format_number

if TYPE_CHECKING:
    import pandas as pd

    from sightline.evaluation.planted import PlantedResult
    from sightline.evaluation.ranking import Ranking
    from sightline.evaluation.sanity import SanityResult

KINDS: dict[MetricKind, tuple[str, str]] = {
    "faithfulness": (
        "Does removing the words it names change the prediction?",
        f"Each value stands beside a floor, the mean of random orders, and a reference. {ORDERS} {REFERENCE}",
    ),
    "confidence": (
        "Does it tell the classes apart?",
        "Rank correlation between the explanations of different classes: an explanation that is the same for every "
        "class cannot say why the model chose one.",
    ),
    "plausibility": (
        "Does it agree with what people marked?",
        "Agreement with human rationales, which justify the given label: --target label explains that. A faithful "
        "explanation of a model that is right for the wrong reasons is not plausible, so this is no measure of "
        "faithfulness. The floor is the expected value of random scores.",
    ),
    "retrieval": ("Does it find the answer?", "How much of the answer is among the words that score highest."),
    "agreement": (
        "Does it agree with the reference?",
        "Similarity to the explanations of the reference method. The floor is chance: the same after the scores of the "
        "tokens were shuffled.",
    ),
    "dispersion": (
        "Where does it put its weight?",
        "These describe an explanation. Much weight on special tokens says little about the text.",
    ),
}
"""Title and sentence of each kind of metric, in the order of the page."""

ONE_AT_A_TIME, DOCUMENTS = "one at a time (reference)", "documents"
WIDEST = 110
"""Characters per line; further metrics go into another table."""

Column = tuple[str, list[str]]
"""Heading and cells, from top to bottom."""


def interval_tables(ranking: Ranking, metrics: Sequence[str], *, widest: int | None = WIDEST) -> list[pd.DataFrame]:
    """Return the tables of some metrics of one kind, all with the same rows, each at most `widest` wide (None: any).

    Methods are in the order of the first metric, best first. Cells are texts, padded so that numbers are aligned.
    """
    import pandas as pd

    methods = ranked_methods(ranking, metrics)
    own_floors = all(METRICS.get(metric).kind == "agreement" for metric in metrics)
    below = (
        {} if own_floors else {floor_name(metrics): ranking.floors(metrics), ONE_AT_A_TIME: ranking.references(metrics)}
    )
    below = {name: values for name, values in below.items() if values}
    first: Column = ("method", [*methods, *below, DOCUMENTS])
    last: Column = ("seconds", _seconds(ranking, methods) + [""] * (len(below) + 1))
    groups = []
    for metric in metrics:
        under = [values.get(metric) for values in below.values()]
        group = [(with_arrow(metric), _cells(ranking, methods, metric, under))]
        if own_floors:
            group.append(("by chance", [*_chance(ranking, methods, metric), ""]))
        groups.append(group)
    tables = []
    while groups:
        columns = [first, *groups.pop(0)]
        while groups and (widest is None or _width([*columns, *groups[0], last]) <= widest):
            columns += groups.pop(0)
        names, cells = zip(*columns, last, strict=True)
        tables.append(pd.DataFrame(list(zip(*cells, strict=True)), columns=list(names)))
    return tables


def floor_name(metrics: Sequence[str]) -> str:
    """Return what the floors of some metrics are: "random orders (floor)", "random scores (floor)"."""
    return f"{' or '.join(dict.fromkeys(map(chance_name, metrics)))} (floor)"


def with_arrow(metric: str) -> str:
    """Return the name of a metric with the direction that is better: "aopc ↑"."""
    return metric + {True: " ↑", False: " ↓", None: ""}[METRICS.get(metric).higher_is_better]


def ranked_methods(ranking: Ranking, metrics: Sequence[str]) -> list[str]:
    """Return every method that one of the metrics has a row for, in the order of the first one, best first."""
    methods: dict[str, None] = {}
    for metric in metrics:
        methods |= dict.fromkeys(ranking.of_metric(metric)["method"])
    return list(methods)


def _cells(ranking: Ranking, methods: Sequence[str], metric: str, under: Sequence[float | None]) -> list[str]:
    """Return "0.426 [0.179, 0.672]" for each method, then the numbers below the methods, then how many documents."""
    rows = ranking.of_metric(metric).set_index("method")
    numbers = [
        [float(rows.loc[method, name]) for name in ("mean", "low", "high")] if method in rows.index else [math.nan] * 3
        for method in methods
    ]
    form = _form([number for row in [*numbers, under] for number in row if number is not None])
    parts = [[MISSING if number != number else format_number(number, form) for number in row] for row in numbers]
    bare = ["" if number is None else format_number(number, form) for number in under]
    ends = [max(len(part[place]) for part in parts) for place in (1, 2)]
    width = max(len(text) for text in [*(part[0] for part in parts), *bare])
    stars = [ranking.better_than_floor(method, metric) is False for method in methods]
    cells = [
        part[0].rjust(width)
        if part[0] == MISSING
        else f"{part[0]:>{width}}"
        + f" [{part[1]:>{ends[0]}}, {part[2]:>{ends[1]}}]" * (part[1] != MISSING)
        + "*" * star
        for part, star in zip(parts, stars, strict=True)
    ]
    counts = [int(number) for number in rows["documents"] if number]
    fewest, most = min(counts, default=0), max(counts, default=0)
    return [*cells, *(text.rjust(width) for text in bare), str(most) if fewest == most else f"{fewest} to {most}"]


def _chance(ranking: Ranking, methods: Sequence[str], metric: str) -> list[str]:
    floors = ranking.of_metric(metric).set_index("method")["floor"]
    numbers = [float(floors.get(method, math.nan)) for method in methods]
    form = _form(numbers)
    return _right([MISSING if number != number else format_number(number, form) for number in numbers])


def _seconds(ranking: Ranking, methods: Sequence[str]) -> list[str]:
    seconds = ranking.seconds()
    return _right([format_value(seconds[method], 2) if method in seconds else "" for method in methods])


def _form(values: Sequence[float]) -> str:
    largest = max((abs(number) for number in values if math.isfinite(number)), default=0.0)
    return f".{min(4, max(0, 2 - math.floor(math.log10(largest)))) if largest else 3}f"


def _right(cells: list[str]) -> list[str]:
    width = max(map(len, cells), default=0)
    return [cell.rjust(width) for cell in cells]


def _width(columns: Sequence[Column]) -> int:
    return sum(max(map(len, [heading, *cells])) + 2 for heading, cells in columns) - 2


def evaluation_text(
    ranking: Ranking, form: Form = "text", *, sanity: SanityResult | None = None, planted: PlantedResult | None = None
) -> str:
    """Return an evaluation as text: sentences and tables for each kind of metric; or its summary in another format.

    JSON also contains the results of the sanity tests; the other formats are one table.
    """
    if form != "text":
        return to_format(ranking.summary, form, _content(ranking, sanity, planted))
    blocks = [_lines([*opening_sentences(ranking), *state_sentences(ranking)])]
    for kind, (question, _) in KINDS.items():
        metrics = [metric for metric in ranking.evaluation.metrics if METRICS.get(metric).kind == kind]
        if metrics:
            blocks += _kind_blocks(ranking, f"{kind}: {question}", metrics)
    if sanity is not None:
        blocks.append(f"sanity: {sanity.test}\n" + _lines(sanity_sentences(sanity)))
    if planted is not None:
        blocks.append("sanity: planted words\n" + _lines(planted_sentences(planted)))
    return "\n".join(blocks)


def _kind_blocks(ranking: Ranking, heading: str, metrics: Sequence[str]) -> list[str]:
    """Describe the metrics of one kind, their tables, and which methods do best."""
    names = {metric: f"  {with_arrow(metric)}  " for metric in metrics}
    column = max(map(len, names.values()))
    terms = [
        textwrap.fill(
            METRICS.get(metric).summary,
            WIDEST,
            initial_indent=name.ljust(column),
            subsequent_indent=" " * column,
        )
        for metric, name in names.items()
    ]
    legend = table_legend(ranking, metrics)
    conclusions = [" ".join(sentences) for metric in metrics if (sentences := best_sentences(ranking, metric))]
    tables = [to_text(table) for table in interval_tables(ranking, metrics)]
    return [_lines([heading, *terms]), *tables, _lines([" ".join(legend), *conclusions])]


def _lines(sentences: Sequence[str]) -> str:
    return "".join(f"{sentence}\n" for sentence in sentences)


def _content(ranking: Ranking, sanity: SanityResult | None, planted: PlantedResult | None) -> dict[str, Any]:
    evaluation = ranking.evaluation
    content: dict[str, Any] = {
        "documents": len(evaluation.documents),
        "complete": evaluation.complete,
        "summary": to_records(ranking.summary),
        "paired": {metric: to_records(table) for metric, table in ranking.paired.items()},
        "skipped": dict(evaluation.skipped),
        "settings": dict(evaluation.settings),
        "provenance": dict(evaluation.provenance),
    }
    if sanity is not None:
        content["sanity"] = {
            "test": sanity.test,
            "verdicts": sanity.verdicts(),
            "summary": to_records(sanity.summary()),
        }
    if planted is not None:
        content["planted"] = {"accuracy": planted.planted.accuracy, "summary": to_records(planted.summary())}
    return content
