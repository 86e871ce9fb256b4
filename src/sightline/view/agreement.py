"""An agreement between explanations as text, and as a folder with a page, tables and figures.

out/index.html           the page
out/tables/…             means with intervals and chance, tables by layer, every pair, failures: CSV, LaTeX, Markdown
out/figures/…            one figure of all comparisons, or one curve over layers per metric: SVG, PNG
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.metrics import METRICS
from sightline.view import plots
from sightline.view.frames import Form, to_format, to_records, to_text
from sightline.view.sections.pages import Part, Picture, Section, Table, describe_facts, write_sections
from sightline.view.words.phrases import count

if TYPE_CHECKING:
    import pandas as pd

    from sightline.evaluation.result import Agreement
    from sightline.progress import Progress

AGREEMENT = "a comparison"
"""The content type in the folder's record."""

_SUBJECTS = {"methods": "methods", "layers": "the layers of each method", "models": "models"}


def agreement_text(agreement: Agreement, form: Form = "text") -> str:
    """Return sentences and tables for a person, or the summary in another form for a program."""
    if form != "text":
        return to_format(agreement.summary(), form, _content(agreement))
    blocks = ["\n".join(sentences(agreement)) + "\n"]
    for metric in agreement.metrics:
        heading = f"{metric}: {METRICS.get(metric).summary}\n"
        chance = _chance_sentence(agreement, metric) if _by_layer(agreement) else ""
        blocks.append(heading + to_text(_table(agreement, metric)) + (f"{chance}\n" if chance else ""))
    return "\n".join(blocks)


def write_agreement(
    agreement: Agreement,
    folder: Path | str,
    *,
    title: str = "How far explanations agree",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write page, tables and figures into `folder` and return the path of the page.

    A folder with other content raises UsageError unless `overwrite`, which replaces files of the same names.
    """
    sections = [Section("agreement", "Agreement", tuple(sentences(agreement)), tuple(_parts(agreement)))]
    if agreement.failures:
        import pandas as pd

        frame = pd.DataFrame([vars(failure) for failure in agreement.failures])
        table = Table("failures", "Explanations that could not be made, and why", frame)
        sections.append(Section("failures", "What went wrong", (), (table,)))
    return write_sections(
        Path(folder),
        AGREEMENT,
        title,
        sections,
        describe_facts(agreement.settings, agreement.provenance, documents=len(agreement.documents)),
        overwrite=overwrite,
        progress=progress,
    )


def sentences(agreement: Agreement) -> list[str]:
    """Return what was compared, on which documents, and what chance means here."""
    reference = agreement.settings.get("reference")
    subject = _SUBJECTS[agreement.between] + (f" with {reference}" if reference else "")
    lines = [
        f"Compares {subject} on {count(len(agreement.documents), 'document')}; means with bootstrap 95 % intervals.",
        "Chance is what the same scores give after they were shuffled among the tokens.",
    ]
    if agreement.between == "models":
        differ = len({pair.document for pair in agreement.pairs if pair.error.startswith("The models predict")})
        if agreement.settings.get("same_prediction"):
            lines.append(
                f"Two models are compared on the documents for which they predict the same class; for {differ:,} "
                "of the documents at least two of the models differ."
            )
        else:
            lines.append("Documents count whether or not the models predict the same class.")
    if not agreement.complete:
        lines.append("The run was stopped: documents that were not finished are missing.")
    if agreement.failures:
        lines.append(f"{len(agreement.failures):,} explanations could not be made.")
    return lines


def _by_layer(agreement: Agreement) -> bool:
    return agreement.between == "layers" and agreement.settings.get("reference") is not None


def _table(agreement: Agreement, metric: str) -> pd.DataFrame:
    """Return layers × methods against a reference, else one row per comparison."""
    if _by_layer(agreement):
        return agreement.by_layer(metric).reset_index()
    summary = agreement.summary()
    rows = summary[summary["metric"] == metric].drop(columns="metric")
    return rows.drop(columns="method") if not rows["method"].any() else rows


def _chance_sentence(agreement: Agreement, metric: str) -> str:
    """Return a sentence with the range of chance levels of a table by layer; nothing if it has no value."""
    chance = agreement.by_layer(metric, "chance").to_numpy(dtype=float)
    measured = chance[np.isfinite(chance)]
    if not measured.size:
        return ""
    low, high = (f"{value:z.2f}".replace("-", "−") for value in (measured.min(), measured.max()))
    return f"Chance levels lie between {low} and {high}."


def _parts(agreement: Agreement) -> list[Part]:
    parts: list[Part] = []
    if not agreement.pairs:
        return parts
    if _by_layer(agreement):
        reference = agreement.settings["reference"]
        for metric in agreement.metrics:
            means, chance = (agreement.by_layer(metric, column) for column in ("mean", "chance"))
            parts += [
                Picture(
                    f"{metric}-by-layer",
                    f"{metric} by layer",
                    f"Agreement of every layer with {reference}; layer 0 is the lowest.",
                    partial(
                        plots.layer_curves,
                        {name: means[name].to_numpy() for name in means},
                        chance={name: chance[name].to_numpy() for name in chance},
                        unit=metric,
                        title=f"Agreement of layers with {reference}",
                    ),
                ),
                Table(
                    f"{metric}-by-layer",
                    f"{metric} of every layer with {reference}",
                    means.reset_index(),
                    _chance_sentence(agreement, metric),
                ),
            ]
    else:
        summary = agreement.summary()
        parts.append(
            Picture(
                "agreement",
                "All comparisons",
                "A dot is the mean over documents, a line its interval, a grey mark the chance level.",
                partial(plots.similarity_dots, _measures(summary), title="Agreement beside chance"),
            )
        )
    parts.append(Table("summary", "Means over documents", agreement.summary()))
    parts.append(Table("pairs", "Every comparison of every document", agreement.to_frame()))
    return parts


def _measures(summary: pd.DataFrame) -> dict[str, Sequence[plots.Measured]]:
    measures: dict[str, list[plots.Measured]] = {}
    for row in summary.itertuples():
        name = f"{row.first} – {row.second}"
        group = f"{row.method}: {name}" if row.method else name
        if math.isfinite(row.mean):
            measured = plots.Measured(group, row.mean, row.low, row.high, row.chance, row.chance, row.chance)
            measures.setdefault(row.metric, []).append(measured)
    return dict(measures)


def _content(agreement: Agreement) -> dict[str, Any]:
    return {
        "between": agreement.between,
        "documents": len(agreement.documents),
        "complete": agreement.complete,
        "summary": to_records(agreement.summary()),
        "failures": [vars(failure) for failure in agreement.failures],
        "settings": dict(agreement.settings),
        "provenance": dict(agreement.provenance),
    }
