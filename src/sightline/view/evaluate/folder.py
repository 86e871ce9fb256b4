"""Write an evaluation as a folder: records for programs, tables and figures for papers, a page for readers.

    out/index.html               the results in sentences, tables and figures
    out/tables/…                 summary, overview of each kind, every metric, paired, failures: CSV, LaTeX, Markdown
    out/figures/…                curves, faithfulness against cost, the cascade: SVG, PNG
    out/records.csv, .parquet    one row per document, method and metric
    out/evaluation.json          settings, provenance; with the two Parquet files what `Evaluation.load` reads

Files are written one at a time, each completely or not at all, the page last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.errors import InputError
from sightline.evaluation.evaluation_storage import EVALUATION, writers
from sightline.evaluation.ranking import Ranking
from sightline.evaluation.result import MODEL
from sightline.files.writing import write_whole
from sightline.metrics import METRICS
from sightline.metrics.registry import MetricKind
from sightline.view.evaluate.plots import (
    Dot,
    Panel,
    Priced,
    cascade_lines,
    overview_chart,
    perturbation_curves,
    worth_against_cost,
)
from sightline.view.evaluate.table import KINDS, ONE_AT_A_TIME, floor_name, interval_tables, ranked_methods, with_arrow
from sightline.view.frames import to_csv
from sightline.view.sections.pages import Part, Picture, Section, Table, Terms, describe_facts, write_sections
from sightline.view.words.evaluation import (
    metric_sentences,
    opening_sentences,
    planted_sentences,
    sanity_sentences,
    state_sentences,
    table_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sightline.evaluation.planted import PlantedResult
    from sightline.evaluation.result import Evaluation
    from sightline.evaluation.sanity import SanityResult
    from sightline.progress import Progress

SHOWN = ("method", "mean", "low", "high", "floor", "reference", "documents", "missing", "failed", "seconds", "calls")


def write_evaluation(
    evaluation: Evaluation | Ranking,
    folder: Path | str,
    *,
    sanity: SanityResult | None = None,
    planted: PlantedResult | None = None,
    title: str = "Which explanation to believe",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write everything into `folder` and return the path of the page; `title` is its heading.

    A folder with other content raises UsageError unless `overwrite`, which replaces files of the same names.
    """
    ranking = evaluation if isinstance(evaluation, Ranking) else Ranking(evaluation)
    evaluation = ranking.evaluation
    if progress is not None:
        progress("comparing methods in pairs", 0, 0)
    sections = [
        _summary_section(ranking),
        *_kind_sections(ranking),
        _numbers_section(ranking),
        *_sanity_sections(sanity, planted),
        *_failure_section(evaluation),
    ]
    return write_sections(
        Path(folder),
        EVALUATION,
        title,
        sections,
        describe_facts(evaluation.settings, evaluation.provenance, documents=len(evaluation.documents)),
        others=writers(evaluation) | {"records.csv": lambda path: write_whole(path, to_csv(evaluation.to_frame()))},
        overwrite=overwrite,
        progress=progress,
    )


def _summary_section(ranking: Ranking) -> Section:
    overviews = [part for kind in KINDS for part in _overview(ranking, kind)]
    sentences = (*opening_sentences(ranking), *state_sentences(ranking)[1:])
    return Section(
        "summary", "Summary", sentences, (*_overview_pictures(ranking), *overviews, *_cost_pictures(ranking))
    )


def plot_overview(evaluation: Evaluation) -> Figure:
    """Return the chart of all methods by all metrics that rank methods."""
    ranking = Ranking(evaluation)
    metrics = [name for name in evaluation.metrics if len(ranking.ranked(name))]
    if not metrics:
        raise InputError("There is nothing to draw: no metric of this evaluation ranks its methods.")
    return _draw_overview(ranking, metrics)


def _overview_pictures(ranking: Ranking) -> list[Picture]:
    """Return the chart of all metrics that can rank methods, or nothing if there are none."""
    metrics = [name for name in ranking.evaluation.metrics if len(ranking.ranked(name))]
    if not metrics:
        return []
    return [
        Picture(
            "overview",
            "All methods by all metrics",
            "Methods in the order of the first metric, best first; every metric has its own scale. An arrow says which "
            "side is better. A hollow dot is not clearly better than chance.",
            partial(_draw_overview, ranking, metrics),
        )
    ]


def _draw_overview(ranking: Ranking, metrics: Sequence[str]) -> Figure:
    floors, references = ranking.floors(metrics), ranking.references(metrics)
    panels = []
    for metric in metrics:
        by_method = METRICS.get(metric).kind == "agreement"
        dots = {
            str(row.method): Dot(
                row.mean,
                row.low,
                row.high,
                row.floor if by_method and row.floor == row.floor else None,
                ranking.better_than_floor(str(row.method), metric),
            )
            for row in ranking.ranked(metric).itertuples()
        }
        panels.append(
            Panel(with_arrow(metric), dots, None if by_method else floors.get(metric), references.get(metric))
        )
    return overview_chart(
        panels,
        [method for method in ranked_methods(ranking, metrics) if method != MODEL],
        title="All methods by all metrics",
        caption="↑ higher is better, ↓ lower is better.",
    )


def _overview(ranking: Ranking, kind: MetricKind) -> list[Terms | Table]:
    """Describe the metrics of one kind, then show their means side by side."""
    import pandas as pd

    table = ranking.overview()
    metrics = [name for name in table.columns[1:-1] if METRICS.get(name).kind == kind]
    if not metrics:
        return []
    question, _ = KINDS[kind]
    floors, references = ranking.floors(metrics), ranking.references(metrics)
    levels = [] if kind == "agreement" else [(floor_name(metrics), floors), (ONE_AT_A_TIME, references)]
    below = [{"method": name, **values} for name, values in levels if values]
    measured = (
        table[["method", *metrics, "seconds"]].set_index("method").loc[ranked_methods(ranking, metrics)].reset_index()
    )
    frame = pd.concat([measured, pd.DataFrame(below)], ignore_index=True) if below else measured
    sentence = f"{' '.join(table_legend(ranking, metrics))} Seconds are those of one explanation."
    (intervals,) = interval_tables(ranking, metrics, widest=None)
    return [
        Terms(question, {name: f"{METRICS.get(name).summary} {_direction(name)}".strip() for name in metrics}),
        Table(f"overview_{kind}", f"Means of {kind}", frame, sentence, shown=intervals.map(str.strip)),
    ]


def _direction(metric: str) -> str:
    higher = METRICS.get(metric).higher_is_better
    return "" if higher is None else f"{'Higher' if higher else 'Lower'} is better."


def _cost_pictures(ranking: Ranking) -> list[Picture]:
    if not ranking.faithful():
        return []
    metric = ranking.faithful()[0]
    side = "upper" if METRICS.get(metric).higher_is_better else "lower"
    return [
        Picture(
            "cost",
            f"Faithfulness ({metric}) against cost",
            f"Methods at the {side} left are faithful and fast.",
            partial(_draw_cost, ranking, metric),
        )
    ]


def _draw_cost(ranking: Ranking, metric: str) -> Figure:
    rows = ranking.of_metric(metric)
    rows = rows[rows["documents"] > 0]
    priced = [Priced(row.method, row.seconds, row.mean, row.low, row.high) for row in rows.itertuples()]
    floor = float(rows["floor"].mean())
    return worth_against_cost(
        priced,
        floor=floor if floor == floor else None,
        metric=metric,
        better="higher" if METRICS.get(metric).higher_is_better else "lower",
        title=f"Faithfulness ({metric}) against cost",
        caption=f"Mean over {int(rows['documents'].max())} documents with bootstrap 95 % intervals.",
    )


def _kind_sections(ranking: Ranking) -> list[Section]:
    evaluation = ranking.evaluation
    sections = []
    for kind, (title, sentence) in KINDS.items():
        parts: list[Part] = []
        for metric in evaluation.metrics:
            entry = METRICS.get(metric)
            if entry.kind != kind:
                continue
            explanation = " ".join(
                filter(None, [entry.summary, _direction(metric), *metric_sentences(ranking, metric)])
            )
            rows = ranking.of_metric(metric)[list(SHOWN)]
            silent = [name for name in ("missing", "failed", "calls") if not rows[name].sum()]
            shown = rows.drop(columns=silent).dropna(axis="columns", how="all")
            parts.append(Table(f"metric_{metric}", metric, shown, explanation))
            if any(key[2] == metric for key in evaluation.curves_by):
                parts.append(_curve_picture(ranking, metric))
        if parts:
            sections.append(Section(kind, title, (sentence,), tuple(parts)))
    return sections


def _curve_picture(ranking: Ranking, metric: str) -> Picture:
    return Picture(
        f"curves_{metric}",
        f"{metric}: the curves",
        "Blue: the method, with its bootstrap 95 % interval. Dotted: random orders. Dashed: the words in the order of "
        "their own effects. Grey: the other methods.",
        partial(_draw_curves, ranking, metric),
    )


def _draw_curves(ranking: Ranking, metric: str) -> Figure:
    evaluation = ranking.evaluation
    unit = f"{evaluation.settings.get('level', 'word')}s"
    entry = METRICS.get(metric)
    direction = "remove" if entry.plan is None else entry.plan.direction
    frames = {
        method: frame
        for method in ranking.of_metric(metric)["method"]
        if method != MODEL and len(frame := evaluation.curves(method, metric))
    }
    return perturbation_curves(
        frames,
        share=f"{unit} {'removed' if direction == 'remove' else 'kept'}, %",
        quantity=metric if entry.curve is None else entry.curve.label,
        title=f"{metric}, by share of {unit}",
        caption=f"Mean over {len(evaluation.documents)} documents. {entry.summary}",
    )


def _numbers_section(ranking: Ranking) -> Section:
    parts = [
        Table("summary", "All means", ranking.summary, "With bootstrap 95 % intervals over documents."),
    ]
    if ranking.paired:
        import pandas as pd

        frame = pd.concat(ranking.paired, names=["metric", None]).reset_index(level="metric")
        explanation = (
            "difference: method − other, mean over the documents both have a value for, with its bootstrap 95 % "
            "interval. p: sign-flip permutation test; p holm: corrected for the number of pairs of the metric."
        )
        parts.append(
            Table(
                "paired", "All pairs of methods, surest first", frame.sort_values("p_holm", kind="stable"), explanation
            )
        )
    return Section("numbers", "All numbers", (), tuple(parts))


def _sanity_sections(sanity: SanityResult | None, planted: PlantedResult | None) -> list[Section]:
    sections = []
    if sanity is not None:
        summary = sanity.summary()
        parts: tuple[Part, ...] = (
            Picture(
                "cascade",
                "Similarity to the original explanation",
                "From left to right, one part of the model after the other is made random. An explanation that depends "
                "on what the model has learnt falls to the grey band of chance.",
                partial(
                    cascade_lines,
                    summary,
                    sanity.stages,
                    title="Explanations while the model loses its weights",
                    caption="Spearman's ρ of the magnitudes of word scores, mean over documents.",
                ),
            ),
            Table("sanity", f"Sanity test: {sanity.test}", summary),
        )
        sections.append(
            Section("sanity", "Does it depend on what the model has learnt?", tuple(sanity_sentences(sanity)), parts)
        )
    if planted is not None:
        frame = planted.summary().sort_values("precision", ascending=False, kind="stable")
        table = Table("planted", "Share of planted words ranked first", frame)
        sentence = (
            "A tiny model was trained on a task whose deciding words are known; this says something about the methods, "
            "and nothing about the model of this evaluation."
        )
        sections.append(
            Section(
                "planted",
                "Does it find words that are known to decide?",
                (sentence, *planted_sentences(planted)[:2]),
                (table,),
            )
        )
    return sections


def _failure_section(evaluation: Evaluation) -> list[Section]:
    failures = evaluation.failures()
    if failures.empty:
        return []
    table = Table("failures", "What has no value, and why", failures)
    return [Section("failures", "What went wrong", (), (table,))]
