"""`sightline demo`: explain a built-in document with the built-in model; nothing to download or configure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sightline import builtin
from sightline.cli.errors import reports_errors
from sightline.cli.options import Debug
from sightline.cli.output import print_text
from sightline.cli.progress import LateProgress
from sightline.cli.reading import read_text
from sightline.cli.starting import starting, use_free_cores
from sightline.errors import UsageError
from sightline.files.writing import check_writable
from sightline.registry import suggestion

DEMO_METHODS = ("attnlrp", "attcat", "integrated_gradients", "rollout")
DEMO_DOCUMENT = "learned_compilers"


@reports_errors
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.")] = Path(
        "sightline-demo.html"
    ),
    document: Annotated[str, typer.Option(metavar="NAME", help="Which built-in document.")] = DEMO_DOCUMENT,
    debug: Debug = False,
) -> None:
    """Explain a built-in long document and write a page.

    \b
    Examples:
      sightline demo
      sightline demo --document machine_learning -o page.html
    """
    check_writable(output)
    known = builtin.documents()
    if document not in known:
        hint = suggestion(document, list(known))
        raise UsageError(f"There is no built-in document '{document}'.{hint} Known: {', '.join(known)}.")
    text = read_text(str(known[document]))

    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.model import load
            from sightline.results.report import Report

        use_free_cores()
        progress("loading the model", 0, 0)
        report = load().report(text, DEMO_METHODS, progress=progress)
        report.to_html(output)
    print_text(Report.of([report.first]), top=10)
    typer.echo(
        f"\nTo see the whole document, explained by {len(report)} methods, open {output.resolve()} in a browser."
    )
