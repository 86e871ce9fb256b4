"""A study as a folder with a page, Markdown, tables and figures.

    out/index.html       published, measured and verdict of every claim; tables; figures; what differs from the paper
    out/study.md         the same as Markdown
    out/tables/…         CSV, LaTeX, Markdown
    out/figures/…        SVG, PNG

The study's stored results (`out/results/`, `out/models/`) stay untouched.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.files.writing import write_whole
from sightline.metrics.statistics import FEWEST_DOCUMENTS
from sightline.progress import Progress
from sightline.view.frames import MISSING, first_rows, format_value, markdown, to_markdown
from sightline.view.plots import (
    Measured,
    attention_graphs,
    attention_grid,
    head_importance_map,
    instance_counts,
    layer_heat_map,
    relevance_matrices,
    similarity_dots,
    text_overlay,
    text_overlays,
)
from sightline.view.plots.style import CATEGORIES, GRID, in_house_style, new_figure, to_label
from sightline.view.sections.pages import Links, Part, Picture, Section, Table, Terms, write_sections
from sightline.view.words.phrases import count, format_number, format_range
from sightline_studies.study import (
    Curves,
    Dots,
    Drawing,
    Figure,
    Graphs,
    HeadMap,
    HeadMaps,
    InstanceCounts,
    LayerMap,
    MatrixMaps,
    Overlays,
    StudyTable,
    in_words,
    minus_control,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawn

    from sightline_studies.study import Difference, Finding, StudyResult

MARKDOWN = "study.md"
MARKDOWN_ROWS = 100
DIGITS = 2
"""Significant digits of the numbers on the page; the CSV files hold all."""
MEANINGS = {
    "confirmed": "the measured interval supports the claim, and so does the difference to the control, if there is one",
    "contradicted": "the measured interval speaks against the claim, in at least one of these models and data sets",
    "undecided": "the documents are too few, or the effect or its difference to the control too small, to tell",
    "artefact": "the effect is there, and as large where its cause is absent: it comes from the measure or the data",
    "not measured": "the data or the model it needs were not given, or the model has not learnt its task",
}
"""Verdict -> what it says."""
CLAIMS = (
    "measured: mean over documents with its 95 % interval, of the number that the rule names. difference: measured "
    "minus published. control: the same number where the effect cannot be there, such as random weights. holds in: "
    "for claims about several models or comparisons, in how many the claim is confirmed; the number is from the one "
    "that supports it least."
)
"""Caption of the table of claims."""
FEW_DOCUMENTS = 16
FEW = (
    f"With fewer than {FEW_DOCUMENTS} documents the intervals are wide, and with fewer than {FEWEST_DOCUMENTS} "
    "there are none: most claims stay undecided."
)
TRIAL = "This is a trial on a handful of documents; its verdicts mean nothing."
"""For studies of size tiny."""
LONGEST_LABEL = 24
"""Characters of the label of a token."""
MOST_TICKS = 12
"""Labels on the horizontal axis; of more places, every second or third is labelled."""


def write_study(
    result: StudyResult, folder: Path | str, *, overwrite: bool = False, progress: Progress | None = None
) -> Path:
    """Write page, Markdown, tables and figures into `folder` and return the path of the page."""
    sections = study_sections(result)
    return write_sections(
        Path(folder),
        result.study.content,
        result.study.title,
        sections,
        dict(result.facts),
        others={MARKDOWN: lambda path: write_whole(path, study_markdown(result.study.title, sections, result))},
        overwrite=overwrite,
        progress=progress,
    )


def claims_frame(result: StudyResult) -> pd.DataFrame:
    """Return one row per claim: verdict, published, measured with its interval, difference, control, holds in."""
    import pandas as pd

    rows = []
    for finding in result.outcome.findings:
        published = None if finding.published is None else finding.published.value
        measured, control = finding.measured, finding.control
        rows.append(
            {
                "claim": finding.claim.name,
                "verdict": finding.verdict,
                "published": "not given here" if published is None else format_number(published, "g"),
                "measured": None if measured is None else measured.value,
                "low": None if measured is None else measured.low,
                "high": None if measured is None else measured.high,
                "difference": None if measured is None or published is None else measured.value - published,
                "control": None if control is None else control.value,
                "holds_in": None if finding.tally is None else f"{finding.tally.held} of {len(finding.tally.known)}",
            }
        )
    numbers = ("measured", "low", "high", "difference", "control")
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, "float64"))


def join_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with every mean and the ends of its interval in one column: "0.41 (0.38 to 0.44)".

    The ends of x are the columns x_low and x_high; those of a mean or of the measured number are low and high.
    """
    import pandas as pd

    pairs = _intervals(frame)
    ends = {end for pair in pairs.values() for end in pair}
    columns: dict[str, Any] = {}
    for name in frame.columns:
        if name in pairs:
            cells = zip(*(frame[key].tolist() for key in (name, *pairs[name])), strict=True)
            columns[name] = [_with_ends(*cell) for cell in cells]
        elif name not in ends:
            columns[name] = frame[name].tolist()
    return pd.DataFrame(columns)


def _intervals(frame: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return the columns that have an interval, each with the columns that hold its ends."""
    names = list(frame.columns)
    pairs = {name: (f"{name}_low", f"{name}_high") for name in names if f"{name}_low" in names}
    first = next((name for name in ("measured", "mean") if name in names and "low" in names), None)
    return pairs if first is None else {first: ("low", "high"), **pairs}


def _with_ends(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return MISSING
    return f"{format_value(value, DIGITS)} ({format_range(low, high, lambda end: format_value(end, DIGITS))})"


def study_sections(result: StudyResult) -> list[Section]:
    """Return the sections of the page: claims, tables, figures, what differs."""
    outcome = result.outcome
    claims: list[Part] = [
        _table(StudyTable("claims", "Published beside measured", claims_frame(result), CLAIMS)),
        Terms("Evidence", {finding.claim.name: finding_sentence(finding) for finding in outcome.findings}),
        Terms("Verdicts", MEANINGS),
    ]
    tables: list[Part] = [_table(table) for table in outcome.tables]
    pictures: list[Part] = [
        Picture(figure.name, figure.title, figure.sentence, partial(draw_figure, figure)) for figure in outcome.figures
    ]
    differences = {difference.subject: difference_sentence(difference) for difference in outcome.differences}
    return [
        Section("claims", "Claims", opening_sentences(result), tuple(claims)),
        Section("tables", "Tables", (), tuple(tables)),
        Section("figures", "Figures", (), tuple(pictures)),
        Section(
            "differences",
            "What differs from the paper",
            tuple(f"Left out: {part}" for part in outcome.left_out),
            (Terms("Differences", differences),),
        ),
    ]


def _table(table: StudyTable) -> Table:
    """Return a table as the page shows it; its files hold every number in a column of its own."""
    shown = join_intervals(table.frame)
    return Table(table.name, table.title, table.frame, table.sentence, digits=DIGITS, shown=shown)


def study_markdown(title: str, sections: Sequence[Section], result: StudyResult) -> str:
    """Return the page as Markdown; figures are linked in `figures/`."""
    lines = [f"# {markdown(title)}", ""]
    for section in sections:
        lines += [f"## {markdown(section.title)}", ""]
        for sentence in section.sentences:
            lines += [markdown(sentence), ""]
        for part in section.parts:
            lines += [f"### {markdown(part.title)}", ""]
            if isinstance(part, Terms):
                lines += [f"- **{markdown(name)}**: {markdown(meaning)}" for name, meaning in part.meanings.items()]
            elif isinstance(part, Links):
                lines += [f"- {markdown(sentence)}" for sentence, _ in part.sentences]
            elif isinstance(part, Table):
                whole = part.frame if part.shown is None else part.shown
                frame, caption = first_rows(whole, part.sentence, MARKDOWN_ROWS)
                lines += [to_markdown(frame, caption, digits=part.digits).rstrip()]
            elif isinstance(part, Picture):
                lines += [f"![{markdown(part.title)}](figures/{part.name}.png)", "", markdown(part.sentence)]
            lines.append("")
    lines += ["## Settings and provenance", ""]
    lines += [f"- {markdown(name)}: {markdown(value)}" for name, value in result.facts.items()]
    return "\n".join(lines) + "\n"


def opening_sentences(result: StudyResult) -> tuple[str, ...]:
    """Return the paper, the question and how the verdicts are divided."""
    verdicts = Counter(finding.verdict for finding in result.outcome.findings)
    divided = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    sentences = [f"{result.study.paper}.", result.study.question, f"{count(verdicts.total(), 'claim')}: {divided}."]
    return (*sentences, *warnings(result))


def warnings(result: StudyResult) -> list[str]:
    """Return a sentence if too few documents were measured for a verdict."""
    if result.size == "tiny":
        return [TRIAL]
    counts = [finding.measured.documents for finding in result.outcome.findings if finding.measured is not None]
    return [FEW] if counts and min(counts) < FEW_DOCUMENTS else []


def finding_sentence(finding: Finding) -> str:
    """Return verdict, statement of the paper, evidence, where the published number is from, and rule."""
    sentences = [f"{finding.verdict.capitalize()}.", finding.claim.sentence, finding.evidence]
    measured, control = finding.measured, finding.control
    if measured is not None and control is not None:
        sentences.append(f"Measured minus control: {in_words(minus_control(measured, control))}.")
    if (published := finding.published) is not None:
        sentences.append(f"Published: {format_number(published.value, 'g')} ({published.where}).")
    return " ".join([*sentences, f"Rule: {finding.claim.rule}"])


def difference_sentence(difference: Difference) -> str:
    """Return what the paper has, what this run has, and why."""
    return f"Paper: {difference.paper}. Here: {difference.here}. Reason: {difference.why}."


def draw_figure(figure: Figure) -> Drawn:
    """Return the drawn figure of a study."""
    return _draw(figure.drawing, figure.title, figure.sentence)


def _draw(drawing: Drawing, title: str, caption: str) -> Drawn:
    if isinstance(drawing, Curves):
        return setting_curves(drawing, title=title, caption=caption)
    if isinstance(drawing, Dots):
        return similarity_dots(
            {
                panel: [
                    Measured(group, mean.value, mean.low, mean.high, chance, chance, chance)
                    for group, mean, chance in rows
                ]
                for panel, rows in drawing.panels.items()
            },
            title=title,
            caption=caption,
        )
    if isinstance(drawing, LayerMap):
        return layer_heat_map(
            drawing.layers,
            _short(drawing.labels),
            kind=drawing.kind,
            signed=drawing.signed,
            title=title,
            caption=caption,
        )
    if isinstance(drawing, MatrixMaps):
        return relevance_matrices(drawing.matrices, _short(drawing.labels), title=title, caption=caption)
    if isinstance(drawing, Graphs):
        return attention_graphs(
            drawing.graphs, _short(drawing.labels), readout=drawing.readout, title=title, caption=caption
        )
    if isinstance(drawing, HeadMap):
        return head_importance_map(drawing.values, title=title, caption=caption)
    if isinstance(drawing, HeadMaps):
        return attention_grid(
            drawing.maps, tokens=drawing.tokens, importance=drawing.importance, title=title, caption=caption
        )
    if isinstance(drawing, InstanceCounts):
        return instance_counts(drawing.positions, drawing.counts, drawing.tokens, title=title, caption=caption)
    if isinstance(drawing, Overlays):
        return text_overlays(drawing.explanations, title=title, caption=caption)
    return text_overlay(
        drawing.explanation, true_label=drawing.true_label, total=drawing.total, title=title, caption=caption
    )


def _short(labels: Sequence[str]) -> list[str]:
    """Return the labels of tokens, shortened: a text from a file may have words of thousands of characters."""
    return [label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…" for label in labels]


@in_house_style
def setting_curves(drawing: Curves, *, title: str, caption: str = "") -> Drawn:
    """Lines over layers or settings, with their intervals as bands; dashed where they are published or a control.

    A dashed line "raw, published" has the colour of the line "raw".
    """
    figure = new_figure(7.0, 3.9, title, caption)
    axes = figure.add_subplot()
    places = np.arange(len(drawing.places))
    colours: dict[str, str] = {}
    for curve in drawing.curves:
        shared = colours.get(curve.name.partition(",")[0]) if curve.dashed else None
        colour = colours[curve.name] = shared or CATEGORIES[len(colours) % len(CATEGORIES)]
        style = "--" if curve.dashed else "-"
        axes.plot(places, curve.values, style, color=colour, marker="o", markersize=3.5, label=to_label(curve.name))
        if len(curve.low):
            axes.fill_between(places, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
    every = -(-len(places) // MOST_TICKS)
    axes.set_xticks(places[::every], [to_label(place) for place in drawing.places[::every]])
    axes.set_xlabel(to_label(drawing.horizontal))
    axes.set_ylabel(to_label(drawing.vertical))
    axes.axhline(0, color=GRID, linewidth=0.8, zorder=0)
    axes.grid(axis="y", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    figure.legend(loc="outside right center")  # long titles reach the corner above it
    return figure
