"""`sightline demo`: explain a built-in document with the built-in model; nothing to download or configure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from sightline import builtin
from sightline.cli.declared import command
from sightline.cli.input_texts import read_text
from sightline.cli.output import print_text
from sightline.cli.progress_bar import LateProgress
from sightline.cli.starting import starting, use_free_cores
from sightline.errors import UsageError
from sightline.files.writing import check_writable
from sightline.registry import suggestion
from sightline.settings.options import Settings, option

DEMO_METHODS = ("attnlrp", "attcat", "integrated_gradients", "rollout")


@dataclass(frozen=True, kw_only=True)
class DemoCommand(Settings):
    """Options of `sightline demo`."""

    output: Path = option(
        Path("sightline-demo.html"), flag=("--output", "-o"), metavar="FILE", help="Where to write the page."
    )
    document: str = option("library_report", metavar="NAME", help="Which built-in document.")


@command
def demo(settings: DemoCommand) -> None:
    """Explain a built-in long document and write a page.

    \b
    Examples:
      sightline demo
      sightline demo --document machine_learning -o page.html
    """
    output, document = settings.output, settings.document
    check_writable(output)
    known = builtin.documents()
    if document not in known:
        hint = suggestion(document, list(known))
        raise UsageError(f"There is no built-in document '{document}'.{hint} Known: {', '.join(known)}.")
    text = read_text(str(known[document]))

    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.load import load
            from sightline.results.report import Report

        use_free_cores()
        progress("loading the model", 0, 0)
        report = load().report(text, DEMO_METHODS, progress=progress)
        report.to_html(output)
    print_text(Report.of([report.first]), top=10)
    typer.echo(
        f"\nTo see the whole document, explained by {len(report)} methods, open {output.resolve()} in a browser."
    )
