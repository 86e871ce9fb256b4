"""write_study: a study as a folder with a page, Markdown, tables and figures.

    out/index.html       published, measured and verdict of every claim; tables; figures; what differs from the paper
    out/study.md         the same as Markdown
    out/tables/…         CSV, LaTeX, Markdown
    out/figures/…        SVG, PNG

The study's stored results (`out/results/`, `out/models/`) stay untouched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.files.writing import write_whole
from sightline.progress import Progress
from sightline.view.frames import MISSING, first_rows, format_value, markdown, to_markdown
from sightline.view.sections.page_folder import write_sections
from sightline.view.sections.page_parts import Links, Part, Picture, Section, Table, Terms
from sightline.view.words.phrases import format_number, format_range
from sightline_studies.study import StudyTable
from sightline_studies.view.drawings import draw_figure
from sightline_studies.view.sentences import CLAIMS, MEANINGS, difference_sentence, finding_sentence, opening_sentences

if TYPE_CHECKING:
    import pandas as pd

    from sightline_studies.study import StudyResult

MARKDOWN = "study.md"
MARKDOWN_ROWS = 100
DIGITS = 2
"""Significant digits of the numbers on the page; the CSV files hold all."""


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
