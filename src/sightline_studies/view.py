"""A study as a folder with a page, Markdown, tables and figures.

    out/index.html       verdict of every claim; tables beside the printed ones; figures; settings; appendix
    out/study.md         the same as Markdown
    out/tables/…         CSV, LaTeX, Markdown
    out/figures/…        SVG, PNG

The study's stored results (`out/results/`, `out/models/`) stay untouched.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from sightline.files.writing import write_whole
from sightline.metrics.statistics import FEWEST_DOCUMENTS
from sightline.progress import Progress
from sightline.view.frames import MISSING, first_rows, format_value, markdown, to_markdown
from sightline.view.plots import Measured as Dot
from sightline.view.plots import (
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
    Setting,
    StudyTable,
)
from sightline_studies.tables import read_published
from sightline_studies.verdicts import Measured, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawn

    from sightline_studies.study import StudyResult
from sightline_studies.verdicts import Finding

MARKDOWN = "study.md"
MARKDOWN_ROWS = 100
DIGITS = 2
"""Significant digits of the numbers on the page; the CSV files hold all."""
MEANINGS = {
    "agrees": "most deciding cases lie, with their 95 % interval, on the side that the paper names, none on the other",
    "disagrees": "some lie on the other side, and at least as many as on the paper's",
    "cannot tell": "the intervals allow both, cases contradict each other, or nothing could be measured",
    "could show": "the smallest effect that this sample would have shown with a probability of 80 %; of a claim, the "
    "largest of its cases, set aside or not if none decides",
    "artefact": "the effect is as large where its cause is absent, such as in a model with random weights; tested is "
    "the difference to that control. An artefact disagrees with no claim",
    "set aside": "does not count for the verdict, for the reason in the last column but one",
}
"""Term in the tables -> meaning."""
CLAIMS = (
    "agrees, disagrees, cannot tell: number of cases. artefact: in how many the control shows it too. reason: why the "
    "claim cannot be told."
)
"""Caption of the table of claims."""
CASES = "measured: mean over documents with its 95 % interval, in the quantity that the paper prints."
FEW_DOCUMENTS = 16
FEW = (
    f"With fewer than {FEW_DOCUMENTS} documents the intervals are wide, and with fewer than {FEWEST_DOCUMENTS} "
    "there are none: most claims cannot be told."
)
TRIAL = "This is a trial: documents are few and models hardly trained, so do not rely on its verdicts."
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
    """Return one row per claim: verdict, number of cases by verdict, artefact, the difference that would have shown."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "claim": finding.claim.name,
                "where": finding.claim.where,
                "verdict": finding.verdict,
                **{name.replace(" ", "_"): finding.tally[name] for name in get_args(Verdict)},
                "artefact": finding.artefact,
                "could_show": finding.detectable,
                "reason": finding.reason or "–",
            }
            for finding in result.outcome.findings
        ]
    )


def cases_frame(result: StudyResult) -> pd.DataFrame:
    """Return one row per case of a claim: what the paper printed, what was measured, the verdict, and the control."""
    import pandas as pd

    rows = []
    for finding in result.outcome.findings:
        for case in finding.cases:
            control = case.control
            rows.append(
                {
                    "claim": finding.claim.name,
                    "case": case.name,
                    "published": _range(case.published),
                    **case.measured.columns("measured"),
                    "verdict": "set aside" if case.set_aside else case.verdict,
                    "could_show": case.measured.detectable,
                    **(Measured.of([]) if control is None else control).columns("control"),
                    "artefact": case.artefact,
                    "reason": case.reason or "–",
                    "documents": case.measured.documents,
                }
            )
    return pd.DataFrame(rows)


def _range(values: Sequence[float]) -> str:
    """Return one number, or the smallest and largest of several; the paper may print none."""
    ends = [format_number(end, "g") for end in sorted({min(values), max(values)})] if values else ["not printed"]
    return " to ".join(ends)


def join_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with every mean, deviation and interval in one column: "0.41 ± 0.2 (0.38 to 0.44)".

    Those of x are the columns x_std, x_low and x_high; those of a mean are std, low and high. Printed numbers
    (`tables.tabulate`) keep all their digits.
    """
    import pandas as pd

    names, printed = list(frame.columns), frame.attrs.get("printed", ())
    columns: dict[str, Any] = {}
    joined: set[str] = set()
    for name in names:
        keys = [key if name == "mean" else f"{name}_{key}" for key in ("std", "low", "high")]
        found = [key if key in names else None for key in keys]
        if any(found) or name in printed:
            joined |= {key for key in found if key}
            parts = [frame[key] if key else [math.nan] * len(frame) for key in (name, *found)]
            show = _in_full if name in printed else _shortened
            columns[name] = [_join(show, *cell) for cell in zip(*parts, strict=True)]
        else:
            columns[name] = frame[name].tolist()
    return pd.DataFrame({name: values for name, values in columns.items() if name not in joined})


def _in_full(value: float) -> str:
    return format_number(value, "g")


def _shortened(value: float) -> str:
    return str(format_value(value, DIGITS))


def _join(show: Callable[[float], str], value: float, std: float, low: float, high: float) -> str:
    if math.isnan(value):
        return MISSING
    spread = "" if math.isnan(std) else f" ± {show(std)}"
    ends = "" if math.isnan(low) else f" ({format_range(low, high, show)})"
    return f"{show(value)}{spread}{ends}"


def study_sections(result: StudyResult) -> list[Section]:
    """Return the sections of the page: claims, tables, figures, settings, and the appendix."""
    outcome = result.outcome
    claims: list[Part] = [
        _table(StudyTable("claims", "Verdicts", claims_frame(result), CLAIMS)),
        _table(StudyTable("cases", "Published beside measured", cases_frame(result), CASES)),
    ]
    tables, appendix = ([_table(table) for table in outcome.tables if table.appendix == last] for last in (False, True))
    pictures: list[Part] = [
        Picture(figure.name, figure.title, figure.sentence, partial(draw_figure, figure)) for figure in outcome.figures
    ]
    differing = [setting for setting in outcome.settings if setting.why_at_paper_size]
    settings = [
        StudyTable("settings", "Row by row", settings_frame(outcome.settings)),
        StudyTable("differences", "What still differs at size paper, and why", differences_frame(differing)),
    ]
    facts = StudyTable("facts", "Settings and results that the paper states", facts_frame(result.study.name))
    statements = {finding.claim.name: finding_sentence(finding) for finding in outcome.findings}
    return [
        Section("claims", "Claims", opening_sentences(result), tuple(claims)),
        Section("tables", "Tables", (), tuple(tables)),
        Section("figures", "Figures", (), tuple(pictures)),
        Section(
            "settings",
            "Settings of the paper and of this run",
            tuple(f"Left out: {part}" for part in outcome.left_out),
            tuple(_table(table) for table in settings if len(table.frame)),
        ),
        Section(
            "appendix",
            "Appendix",
            (),
            (Terms("Statements", statements), Terms("Words of the tables", MEANINGS), *appendix, _table(facts)),
        ),
    ]


def settings_frame(settings: Sequence[Setting]) -> pd.DataFrame:
    """Return the table of the settings of the paper and of this run."""
    import pandas as pd

    names = {"subject": "setting", "paper": "paper", "here": "here", "why": "reason"}
    return pd.DataFrame([{title: getattr(row, name) or "–" for name, title in names.items()} for row in settings])


def facts_frame(name: str) -> pd.DataFrame:
    """Return what a paper states besides its tables, as it is printed, with its place."""
    import pandas as pd

    rows = [
        {"fact": row["name"].replace("_", " "), "printed": row["value"], "where": row["source"]}
        for row in read_published(f"{name}_facts")
    ]
    return pd.DataFrame(rows)


def differences_frame(settings: Sequence[Setting]) -> pd.DataFrame:
    """Return the table of what `--size paper` still has in place of the paper's settings."""
    import pandas as pd

    names = {"subject": "setting", "paper": "paper", "at_paper_size": "size_paper", "why_at_paper_size": "reason"}
    return pd.DataFrame([{title: getattr(row, name) for name, title in names.items()} for row in settings])


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
    """Return the paper, the question, how the verdicts are divided, and what this size cannot judge."""
    study = result.study
    verdicts = Counter(finding.verdict for finding in result.outcome.findings)
    divided = ", ".join(f"{verdicts[name]} {name}" for name in get_args(Verdict) if verdicts[name])
    sentences = [f"{study.paper}.", study.question, f"{count(verdicts.total(), 'claim')}: {divided}."]
    limits = study.cannot_judge.get(result.size)
    return (*sentences, *([f"Size {result.size}: {limits}"] if limits else []), *warnings(result))


def warnings(result: StudyResult) -> list[str]:
    """Return a sentence if too few documents were measured for a verdict."""
    if result.size == "tiny":
        return [TRIAL]
    counts = [case.measured.documents for finding in result.outcome.findings for case in finding.deciding]
    return [FEW] if counts and min(counts) < FEW_DOCUMENTS else []


def finding_sentence(finding: Finding) -> str:
    """Return verdict, statement of the paper, compared quantity, and notes as one sentence."""
    claim = finding.claim
    sentences = [f"{finding.verdict.capitalize()}.", claim.sentence, f"Quantity: {claim.quantity} ({claim.where})."]
    return " ".join([*sentences, *([finding.evidence] if finding.evidence else [])])


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
                    Dot(group, mean.value, mean.low, mean.high, chance, chance, chance) for group, mean, chance in rows
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
