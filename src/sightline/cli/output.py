"""Where results go: a file, written whole or not at all, a pipe, or a person's terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sightline.errors import UsageError
from sightline.files import write_whole

if TYPE_CHECKING:
    from sightline.analysis.internals import Inside
    from sightline.explanation import Explanation


class Format(StrEnum):
    """What `--format` may be."""

    text = "text"
    json = "json"
    html = "html"
    csv = "csv"


SUFFIXES = {
    "": Format.text,
    ".txt": Format.text,
    ".text": Format.text,
    ".json": Format.json,
    ".html": Format.html,
    ".htm": Format.html,
    ".csv": Format.csv,
}
"""What the name of an output file stands for."""


def chosen_format(asked: Format | None, output: Path | None) -> Format:
    """Return the format asked for, else the one the file's name stands for, else text.

    A name that stands for none of them is refused: whoever writes `page.pdf` does not expect text in it.
    """
    if asked is not None:
        return asked
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"Nothing written here is called '{suffix}': name the file .html, .json, .csv or .txt, "
            "or say with --format what to write."
        )
    return SUFFIXES[suffix]


def check_terminal(chosen: Format, output: Path | None) -> None:
    """Refuse to pour a page into a terminal."""
    from rich.console import Console

    if chosen is Format.html and output is None and Console().is_terminal:
        raise UsageError("A page needs a file or a pipe: add -o page.html.")


def in_one_list(by_method: Mapping[str, Explanation | Mapping[str, Explanation]]) -> list[Explanation]:
    """Return what `Model.explain(methods=…)` gives as a list: method by method, and class by class within a method."""
    found: list[Explanation] = []
    for one in by_method.values():
        found += one.values() if isinstance(one, Mapping) else [one]
    return found


def emit(
    explanations: Sequence[Explanation], chosen: Format, output: Path | None, top: int, *, inside: Inside | None = None
) -> None:
    """Write or print the explanations of one document; a page shows the inside of the model too, if it is given."""
    from rich.console import Console

    console = Console()
    if output is not None:
        write_whole(output, rendered(explanations, chosen, top, inside=inside))
        typer.echo(f"Wrote {output}", err=True)
    elif chosen is Format.text and console.is_terminal:
        from sightline.view.words.terminal import print_report

        print_report(console, explanations, top)
    else:
        # Bytes, so that a pipe gets UTF-8 whatever the locale.
        typer.echo(rendered(explanations, chosen, top, inside=inside).encode(), nl=False)


def rendered(explanations: Sequence[Explanation], chosen: Format, top: int, *, inside: Inside | None = None) -> str:
    """Return the explanations in one format.

    JSON of one explanation is what `Explanation.load` reads; several are an object with a list of such objects.
    """
    if chosen is Format.html:
        from sightline.view.page.html import render_page

        return render_page(explanations, inside=inside)
    if chosen is Format.json:
        from sightline.storage import to_record

        records = [to_record(explanation) for explanation in explanations]
        document = records[0] if len(records) == 1 else {"format": "sightline-explanations", "explanations": records}
        return json.dumps(document, allow_nan=False) + "\n"
    if chosen is Format.csv:
        import pandas as pd

        frames = []
        for explanation in explanations:
            frame = explanation.to_frame()
            frame.insert(0, "method", explanation.method)
            frame.insert(1, "target", explanation.target.name)
            frames.append(frame)
        return str(pd.concat(frames).to_csv(index=False, lineterminator="\n"))
    from sightline.view.words.terminal import plain_report

    return "\n".join(plain_report(explanation, top) for explanation in explanations)
