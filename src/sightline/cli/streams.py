"""Read the text to explain, from a file or standard input, and write results to files, a pipe or a terminal.

A file is complete or absent.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from sightline.cli.error_reports import one_line
from sightline.cli.progress_bar import LateProgress
from sightline.errors import UsageError
from sightline.files.foreign import printable
from sightline.files.writing import write_whole

if TYPE_CHECKING:
    from sightline.results.report import Report
    from sightline.text.units import Level

Format = Literal["text", "json", "html", "csv", "svg", "png", "pdf"]
FIGURES = frozenset({"svg", "png", "pdf"})
"""The highlighted text as a figure, for papers and slides."""

SUFFIXES: dict[str, Format] = {
    "": "text",
    ".txt": "text",
    ".text": "text",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
}
"""The format that the suffix of an output file stands for."""


def choose_format(requested: Format | None, output: Path | None) -> Format:
    """Return the requested format, else the one the file's suffix stands for, else text.

    An unknown suffix is an error: nobody expects text in `page.docx`.
    """
    if requested is not None:
        return requested
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"Unsupported output format '{suffix}'. Use .html, .json, .csv, .txt, .svg, .png or .pdf, or choose a "
            "format with --format."
        )
    return SUFFIXES[suffix]


def choose_formats(requested: Format | None, outputs: Sequence[Path]) -> list[tuple[Format, Path | None]]:
    """Return the format of every output file, or of what is printed if there is none."""
    if requested is not None and len(outputs) > 1:
        raise UsageError(
            "--format is for one output. Of several files, each has the format that its suffix stands for."
        )
    return [(choose_format(requested, output), output) for output in outputs or (None,)]


def check_printable(chosen: Format, output: Path | None) -> None:
    """Raise an error if a figure would be printed or cannot be drawn, or if a page would go to a terminal."""
    from rich.console import Console

    if chosen in FIGURES and (output is None or output.suffix.lower() != f".{chosen}"):
        raise UsageError(f"A figure is written to a file with its suffix: use -o figure.{chosen}.")
    if chosen in FIGURES:
        from sightline.view.plots.style import require_matplotlib

        require_matplotlib()
    if chosen == "html" and output is None and Console().is_terminal:
        raise UsageError("A page is not printed to the terminal: write it to a file with -o page.html.")


def emit(
    report: Report,
    wanted: Sequence[tuple[Format, Path | None]],
    top: int,
    level: Level = "token",
    *,
    all_words: bool = False,
    true_label: str | None = None,
) -> None:
    """Write a report to files or print it; with a page or figure, also print prediction, verdict and strongest words.

    true_label: what a figure names beside the prediction.
    """
    if any(output is not None and (chosen == "html" or chosen in FIGURES) for chosen, output in wanted):
        print_text(report, top, passages=False, all_words=all_words)
    for chosen, output in wanted:
        if output is None and chosen == "text":
            print_text(report, top, all_words=all_words)
        elif output is None:
            print_utf8(render(report, chosen, top, level, all_words=all_words))
        else:
            if chosen in FIGURES:
                report.plot(output, true_label=true_label)
            else:
                write_whole(output, render(report, chosen, top, level, all_words=all_words))
            typer.echo(f"Wrote {one_line(str(output))}", err=True)


def print_text(report: Report, top: int, *, passages: bool = True, all_words: bool = False) -> None:
    """Print a report for a person at a terminal, or as tab-separated lines to a pipe.

    `passages` shows the coloured text as well, on a terminal; `all_words` lists stop words, punctuation and artefacts.
    """
    from rich.console import Console

    from sightline.view.words.headline import consensus_sentence
    from sightline.view.words.terminal import print_report

    console = Console()
    if console.is_terminal:
        consensus = consensus_sentence(report)
        print_report(console, list(report), top, passages=passages, consensus=consensus, all_words=all_words)
    else:
        print_utf8(_plain_text(report, top, all_words=all_words))


def render(report: Report, chosen: Format, top: int, level: Level = "token", *, all_words: bool = False) -> str:
    """Return a report in one format.

    The JSON of one explanation is what `Explanation.load` reads; that of several is an object with a list of them. CSV
    has one row per unit of `level`; JSON lists tokens and words, the units of a coarser level beside them, and under
    "strongest" the `top` words that the text output lists, under "notices" what a reader must know first.
    """
    if chosen == "html":
        return report.to_html()
    if chosen == "json":
        from sightline.view.words.headline import headline, list_words
        from sightline.view.words.sentences import notices

        records = [
            {
                "headline": headline(explanation),
                "notices": notices(explanation),
                "strongest": list_words(explanation, top, all_words=all_words).to_dict(),
                **explanation.to_dict(level),
            }
            for explanation in report
        ]
        if len(records) == 1:
            return json.dumps(records[0], allow_nan=False) + "\n"
        consensus = report.consensus
        document = {
            "format": "sightline-explanations",
            "consensus": None if consensus is None else consensus.to_dict(),
            "explanations": records,
        }
        return json.dumps(document, allow_nan=False) + "\n"
    if chosen == "csv":
        import pandas as pd

        from sightline.view.frames import to_csv

        frames = []
        for explanation in report:
            frame = explanation.to_frame(level)
            frame.insert(0, "method", explanation.method)
            frame.insert(1, "target", explanation.target.name)
            frames.append(frame)
        return to_csv(pd.concat(frames))
    return _plain_text(report, top, all_words=all_words)


def _plain_text(report: Report, top: int, *, all_words: bool = False) -> str:
    """Return every explanation as tab-separated lines, then the words that all methods agree on."""
    from sightline.view.words.headline import consensus_sentence
    from sightline.view.words.terminal import plain_report, printable

    consensus = consensus_sentence(report)
    blocks = [plain_report(explanation, top, all_words=all_words) for explanation in report]
    return "\n".join(blocks if consensus is None else [*blocks, f"consensus\t{printable(consensus)}\n"])


def print_utf8(text: str) -> None:
    """Print text as UTF-8 bytes, so that a pipe receives UTF-8 whatever the locale."""
    typer.echo(text.encode(), nl=False)


def read_texts(file: str, pair: str | None, *, plain_text: bool = False) -> tuple[str, str | None]:
    """Return the text and its pair, if there is one, after the checks that need no model."""
    if file == pair == "-":
        raise UsageError("Only one of the two texts can come from standard input.")
    text = read_text(file, plain_text=plain_text)
    second = None if pair is None else read_text(pair, plain_text=plain_text)

    from sightline.text import check_text

    check_text(text)
    if second is not None:
        check_text(second, "second text")
    return text, second


def read_text(source: str, *, plain_text: bool = False) -> str:
    """Return the text of the document `source`, or of standard input for "-"; print what is left out."""
    from sightline.text.documents import decode_document

    name = "Standard input" if source == "-" else f"The file '{source}'"
    content = _read_standard_input() if source == "-" else _read_file(source)
    with LateProgress() as progress:
        progress("reading the document", 0, 0)
        document = decode_document(content, name, suffix=Path(source).suffix, plain_text=plain_text)
    for notice in document.notices:
        typer.echo(notice, err=True)
    return document.text


def _read_file(path: str) -> bytes:
    from sightline.text.documents import read_content

    with LateProgress() as progress:
        return read_content(
            Path(path),
            alternative=", or - for standard input",
            on_pipe=lambda: progress.announce(f"Waiting for another program to write to '{printable(path)}'."),
        )


def _read_standard_input() -> bytes:
    from sightline.text.documents import MOST_BYTES

    if sys.stdin.isatty():
        typer.echo("Type or paste the text, then press Ctrl-D on an empty line.", err=True)
    return sys.stdin.buffer.read(MOST_BYTES + 1)
