"""write_study: a study as a folder with a page, Markdown, tables and figures.

    out/index.html       published, measured and verdict of every claim; tables; figures; what differs from the paper
    out/study.md         the same as Markdown
    out/tables/…         CSV, LaTeX, Markdown
    out/figures/…        SVG, PNG

The study's stored results (`out/results/`, `out/models/`) stay untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.files import write_whole
from sightline.progress import Progress
from sightline.view.frames import first_rows, markdown, to_markdown
from sightline.view.inspect.folder import check_folder, write_sections
from sightline.view.inspect.parts import Links, Part, Picture, Section, Table, Terms
from sightline.view.studies.drawings import draw_figure
from sightline.view.words.numbers import format_number
from sightline.view.words.studies import MEANINGS, difference_sentence, finding_sentence, opening_sentences

if TYPE_CHECKING:
    import pandas as pd

    from sightline.studies.study import StudyResult

__all__ = ["check_folder", "claims_frame", "write_study"]

MARKDOWN = "study.md"
MARKDOWN_ROWS = 60


def write_study(
    result: StudyResult, folder: Path | str, *, overwrite: bool = False, progress: Progress | None = None
) -> Path:
    """Write page, Markdown, tables and figures into `folder` and return the path of the page."""
    folder = check_folder(folder, overwrite=overwrite)
    sections = study_sections(result)
    page = write_sections(folder, result.study.title, sections, dict(result.facts), progress=progress)
    write_whole(folder / MARKDOWN, study_markdown(result.study.title, sections, result))
    return page


def claims_frame(result: StudyResult) -> pd.DataFrame:
    """Return one row per claim: published, measured with its interval, difference, control, verdict."""
    import pandas as pd

    rows = []
    for finding in result.outcome.findings:
        published = None if finding.published is None else finding.published.value
        measured, control = finding.measured, finding.control
        rows.append(
            {
                "claim": finding.claim.name,
                "published": "not given here" if published is None else format_number(published, "g"),
                "measured": None if measured is None else measured.value,
                "low": None if measured is None else measured.low,
                "high": None if measured is None else measured.high,
                "difference": None if measured is None or published is None else measured.value - published,
                "control": None if control is None else control.value,
                "verdict": finding.verdict,
            }
        )
    numbers = ("measured", "low", "high", "difference", "control")
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, "float64"))


def study_sections(result: StudyResult) -> list[Section]:
    """Return the sections of the page: claims, tables, figures, what differs."""
    outcome = result.outcome
    claims: list[Part] = [
        Table("claims", "Published beside measured", claims_frame(result)),
        Terms("Evidence", {finding.claim.name: finding_sentence(finding) for finding in outcome.findings}),
        Terms("Verdicts", MEANINGS),
    ]
    tables: list[Part] = [Table(table.name, table.title, table.frame, table.sentence) for table in outcome.tables]
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
                frame, caption = first_rows(part.frame, part.sentence, MARKDOWN_ROWS)
                lines += [to_markdown(frame, caption, digits=part.digits).rstrip()]
            elif isinstance(part, Picture):
                lines += [f"![{markdown(part.title)}](figures/{part.name}.png)", "", markdown(part.sentence)]
            lines.append("")
    lines += ["## Settings and provenance", ""]
    lines += [f"- {markdown(name)}: {markdown(value)}" for name, value in result.facts.items()]
    return "\n".join(lines) + "\n"
