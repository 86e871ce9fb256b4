"""`sightline explain --continuation`: the words behind every word of a generated text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sightline.cli.errors import one_line
from sightline.cli.output import Format
from sightline.files.writing import write_whole

if TYPE_CHECKING:
    from sightline.results.continuation import ContinuationExplanation
    from sightline.text.units import Level


def emit_continuation(
    continuations: Mapping[str, ContinuationExplanation], chosen: Format, output: Path | None, top: int, level: Level
) -> None:
    """Write or print the explanations of one generated text, by method."""
    content = render(continuations, chosen, top, level)
    if output is None:
        typer.echo(content.encode(), nl=False)
        return
    write_whole(output, content)
    if chosen is Format.html:
        typer.echo(render(continuations, Format.text, top, level).encode(), nl=False)
    typer.echo(f"Wrote {one_line(str(output))}", err=True)


def render(continuations: Mapping[str, ContinuationExplanation], chosen: Format, top: int, level: Level) -> str:
    """Return the explanations in one format.

    JSON is that of `combine_records`. CSV has one row per pair of a generated and an earlier unit of `level`.
    """
    if chosen is Format.html:
        from sightline.view.continuation import render_continuation

        return render_continuation(list(continuations.values()))
    if chosen is Format.json:
        from sightline.results.continuation import combine_records

        return json.dumps(combine_records(continuations), allow_nan=False) + "\n"
    if chosen is Format.csv:
        import pandas as pd

        from sightline.view.frames import to_csv

        frames = []
        for method, continuation in continuations.items():
            frame = continuation.to_frame(level)
            frame.insert(0, "method", method)
            frames.append(frame)
        return to_csv(pd.concat(frames))
    from sightline.view.continuation import describe_continuation

    return "\n".join(describe_continuation(continuation, top) for continuation in continuations.values())
