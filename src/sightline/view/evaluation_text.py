"""An evaluation in one stream: text for a person, or the summary as CSV, JSON, Markdown or LaTeX for a program."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Literal

from sightline.metrics import METRICS
from sightline.view.evaluation import KINDS
from sightline.view.frames import to_csv, to_latex, to_markdown, to_text

if TYPE_CHECKING:
    import pandas as pd

    from sightline.evaluation.planted import PlantedResult
    from sightline.evaluation.reading import Reading
    from sightline.evaluation.sanity import SanityResult

Form = Literal["text", "csv", "json", "markdown", "latex"]


def evaluation_text(
    reading: Reading, form: Form = "text", *, sanity: SanityResult | None = None, planted: PlantedResult | None = None
) -> str:
    """Return an evaluation as text: sentences and a table for each kind of metric; or its summary in another form.

    JSON also holds what the sanity tests found; the other forms are one table.
    """
    if form == "csv":
        return to_csv(reading.summary)
    if form == "markdown":
        return to_markdown(reading.summary)
    if form == "latex":
        return to_latex(reading.summary)
    if form == "json":
        return _as_json(reading, sanity, planted)
    blocks = ["".join(f"{sentence}\n" for sentence in reading.state_sentences())]
    overview = reading.overview()
    for kind in KINDS:
        metrics = [metric for metric in overview.columns[1:-1] if METRICS.get(metric).kind == kind]
        if not metrics:
            continue
        said = [sentence for metric in metrics for sentence in reading.metric_sentences(metric)]
        table = to_text(overview[["method", *metrics, "seconds"]])
        blocks.append(f"{kind}\n{table}" + ("\n" + "".join(f"{one}\n" for one in said) if said else ""))
    if sanity is not None:
        blocks.append(f"sanity: {sanity.test}\n" + "".join(f"{sentence}\n" for sentence in sanity.sentences()))
    if planted is not None:
        blocks.append("sanity: planted words\n" + "".join(f"{sentence}\n" for sentence in planted.sentences()))
    return "\n".join(blocks)


def _as_json(reading: Reading, sanity: SanityResult | None, planted: PlantedResult | None) -> str:
    evaluation = reading.evaluation
    content: dict[str, Any] = {
        "documents": len(evaluation.documents),
        "complete": evaluation.complete,
        "summary": _rows(reading.summary),
        "paired": {metric: _rows(table) for metric, table in reading.paired.items()},
        "skipped": dict(evaluation.skipped),
        "settings": dict(evaluation.settings),
        "provenance": dict(evaluation.provenance),
    }
    if sanity is not None:
        content["sanity"] = {"test": sanity.test, "verdicts": sanity.verdicts(), "summary": _rows(sanity.summary())}
    if planted is not None:
        content["planted"] = {"accuracy": planted.planted.accuracy, "summary": _rows(planted.summary())}
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows of plain values; JSON has no NaN, so what is absent is null."""
    records = frame.astype(object).to_dict("records")
    return [{name: _plain(value) for name, value in row.items()} for row in records]


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
