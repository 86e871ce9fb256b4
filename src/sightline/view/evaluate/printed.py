"""An evaluation as text for the terminal, or its summary as CSV, JSON, Markdown or LaTeX."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.metrics import METRICS
from sightline.view.evaluate.folder import KINDS
from sightline.view.evaluate.table import WIDEST, interval_tables, with_arrow
from sightline.view.frames import Form, to_format, to_records, to_text
from sightline.view.words.evaluation import (
    best_sentences,
    opening_sentences,
    planted_sentences,
    sanity_sentences,
    state_sentences,
    table_legend,
)

if TYPE_CHECKING:
    from sightline.evaluation.planted import PlantedResult
    from sightline.evaluation.ranking import Ranking
    from sightline.evaluation.sanity import SanityResult


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
