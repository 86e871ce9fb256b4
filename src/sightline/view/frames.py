r"""Tables for files and pages: a DataFrame as CSV, LaTeX, Markdown or HTML, every string escaped, no further package.

CSV keeps every digit and every row, and the columns' own names; text that a spreadsheet would run as a formula gets an
apostrophe in front (`spreadsheet_cells`). The formats for readers round to significant digits and write column names in
words. The index is never written: what matters is a column. Missing values are an en dash for
readers and an empty field in CSV. LaTeX needs `\usepackage{booktabs}`.
"""

from __future__ import annotations

import csv
import html
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sightline.files.spreadsheet_cells import protect_text
from sightline.files.writing import write_whole
from sightline.view.words.terminal import one_line

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["text", "csv", "json", "markdown", "latex"]
TABLE_SUFFIXES = (".csv", ".tex", ".md")
DIGITS = 3
MISSING = "–"
SMALLEST, LARGEST = 1e-4, 1e6
"""Numbers from here to there are written without a power of ten."""
RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "[": "{[}",  # after a line break in a table, a bracket would be read as its option
        "]": "{]}",
        "`": r"\textasciigrave{}",
        "−": r"\ensuremath{-}",
        "×": r"\texttimes{}",
        "⁻": r"\textsuperscript{-}",
        **{raised: rf"\textsuperscript{{{digit}}}" for digit, raised in enumerate(RAISED)},
    }
)
# Characters with a meaning in Markdown or in HTML inside it; a backslash before punctuation makes it literal.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+!|~$&])")


def to_csv(frame: pd.DataFrame) -> str:
    """Return all rows with full precision, every string quoted and protected from being run as a formula.

    Quotation marks keep a cell together in every spreadsheet, also in one that separates cells with semicolons.
    `spreadsheet_cells.restore_text` removes the apostrophe again.
    """
    protected = frame.rename(columns=_protect)
    for place, kind in enumerate(frame.dtypes):
        if kind.kind not in "biuf":  # numbers keep their type, and with it the digits they are written with
            protected.isetitem(place, frame.iloc[:, place].map(_protect))
    text: str = protected.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text


def to_latex(frame: pd.DataFrame, caption: str = "", *, digits: int = DIGITS) -> str:
    """Return a table environment with booktabs rules, numbers to the right."""
    columns = "".join("r" if numeric else "l" for numeric in _numeric(frame))
    lines = [r"\begin{table}", r"\centering"]
    if caption:
        lines.append(rf"\caption{{{latex(caption)}}}")
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines.append(" & ".join(latex(name) for name in headings(frame)) + r" \\")
    lines.append(r"\midrule")
    lines += [" & ".join(row) + r" \\" for row in _cells(frame, digits, latex)]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def to_markdown(frame: pd.DataFrame, caption: str = "", *, digits: int = DIGITS) -> str:
    """Return a table of GitHub's Markdown, numbers to the right, the caption above it."""
    rules = ["--:" if numeric else ":--" for numeric in _numeric(frame)]
    rows = [[markdown(name) for name in headings(frame)], rules, *_cells(frame, digits, markdown)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*([markdown(caption), ""] if caption else []), *lines]) + "\n"


def to_html(frame: pd.DataFrame, caption: str = "", *, digits: int = DIGITS) -> str:
    """Return a <table>; cells with numbers have the class "number"."""
    numeric = _numeric(frame)
    classes = [' class="number"' if is_numeric else "" for is_numeric in numeric]
    directions = ["" if is_numeric else ' dir="auto"' for is_numeric in numeric]
    head = "".join(
        f'<th scope="col"{kind}>{_html(name)}</th>' for name, kind in zip(headings(frame), classes, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}{way}>{cell}</td>" for cell, kind, way in zip(row, classes, directions, strict=True))
        + "</tr>\n"
        for row in _cells(frame, digits, _html)
    )
    title = f"<caption>{_html(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"


def to_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows of plain values; JSON has no NaN and no infinity, so what is absent is None."""
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): _plain(value) for name, value in row.items()} for row in records]


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_format(summary: pd.DataFrame, form: Form, content: Mapping[str, Any]) -> str:
    """Return a result for programs: its summary as one table, or everything in `content` as JSON."""
    if form == "json":
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    return {"csv": to_csv, "markdown": to_markdown, "latex": to_latex}[form](summary)


def to_text(frame: pd.DataFrame, *, digits: int = DIGITS) -> str:
    """Return aligned columns for a terminal or a plain file, two spaces between them."""
    from rich.cells import cell_len

    rows = [headings(frame), *_cells(frame, digits, one_line)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    numeric = _numeric(frame)
    lines = []
    for row in rows:
        padding = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [gap + cell if right else cell + gap for cell, gap, right in zip(row, padding, numeric, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def first_rows(frame: pd.DataFrame, caption: str, most: int) -> tuple[pd.DataFrame, str]:
    """Return the first rows of a frame, with a caption that says so."""
    if len(frame) <= most:
        return frame, caption
    return frame.head(most), f"{caption} (first {most:,} of {len(frame):,} rows)".strip()


def write_table(
    frame: pd.DataFrame, folder: Path, name: str, caption: str = "", *, digits: int = DIGITS, most: int = 100
) -> list[Path]:
    """Write name.csv, name.tex and name.md into a folder, each completely or not at all, and return their paths.

    LaTeX and Markdown contain the first `most` rows and say so; CSV contains all rows.
    """
    cut, full_caption = first_rows(frame, caption, most)
    contents = (
        to_csv(frame),
        to_latex(cut, full_caption, digits=digits),
        to_markdown(cut, full_caption, digits=digits),
    )
    paths = [folder / f"{name}{suffix}" for suffix in TABLE_SUFFIXES]
    for path, content in zip(paths, contents, strict=True):
        write_whole(path, content)
    return paths


def headings(frame: pd.DataFrame) -> list[str]:
    """Return the columns' names in words, with the power of ten of their numbers: "top k", "score (× 10⁻⁶)"."""
    return [
        str(name).replace("_", " ") + (f" (× 10{_raised(power)})" if power else "")
        for name, power in zip(frame.columns, _powers(frame), strict=True)
    ]


def format_value(value: Any, digits: int = DIGITS) -> str:
    """Return one value formatted for readers: 1,234 · 0.0123 · −1.2e-05 · yes · –."""
    if value is None or (isinstance(value, float | np.floating) and not math.isfinite(value)):
        return MISSING
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}".replace("-", "−")
    if isinstance(value, float | np.floating):
        return _significant(float(value), digits)
    return str(value)


def latex(text: str) -> str:
    """Return any text as LaTeX that prints it."""
    return one_line(text).translate(_LATEX)


def markdown(text: str) -> str:
    """Return any text as Markdown that shows it, in one line; entities keep older renderers from reading it as HTML."""
    plain = _MARKDOWN.sub(r"\\\1", one_line(text))
    return plain.replace("\\&", "&amp;").replace("\\<", "&lt;").replace("\\>", "&gt;")


def _protect(value: Any) -> Any:
    return protect_text(value) if isinstance(value, str) else value


def _html(text: str) -> str:
    return html.escape(one_line(text))


def _significant(value: float, digits: int) -> str:
    if value == 0.0:
        return "0"
    if SMALLEST <= abs(value) < LARGEST:
        # Fixed point keeps trailing zeros, so that the numbers of a column have the same precision: 0.50, not 0.5.
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{places}f}"
    else:
        text = f"{value:.{digits - 1}e}"
    return text.replace("-", "−", 1) if value < 0 else text


def _numeric(frame: pd.DataFrame) -> list[bool]:
    return [frame.iloc[:, place].dtype.kind in "iuf" for place in range(frame.shape[1])]


def _cells(frame: pd.DataFrame, digits: int, escape: Callable[[str], str]) -> list[list[str]]:
    columns = [
        [_format_scaled(value, power, digits) for value in frame.iloc[:, place].tolist()]
        for place, power in enumerate(_powers(frame))
    ]
    return [[escape(cell) for cell in row] for row in zip(*columns, strict=True)]


def _powers(frame: pd.DataFrame) -> list[int]:
    """Return the power of ten that the numbers of each column are written with: that of the largest, in threes."""
    powers = []
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        sizes = np.abs(column.to_numpy()) if column.dtype.kind == "f" else np.zeros(0)
        largest = float(sizes[np.isfinite(sizes)].max(initial=0.0))
        powers.append(3 * math.floor(math.log10(largest) / 3) if largest and not SMALLEST <= largest < LARGEST else 0)
    return powers


def _format_scaled(value: Any, power: int, digits: int) -> str:
    """Return a value as a number of a column with a power of ten; what is much smaller than the largest has a bound."""
    if not isinstance(value, float) or not math.isfinite(value):
        return format_value(value, digits)
    scaled = value / 10**power
    if 0.0 < abs(scaled) < SMALLEST:
        return f"< {SMALLEST}" if value > 0 else f"> −{SMALLEST}"
    return format_value(scaled, digits)


def _raised(power: int) -> str:
    return ("⁻" if power < 0 else "") + "".join(RAISED[int(digit)] for digit in str(abs(power)))
