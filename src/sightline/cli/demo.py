"""`sightline demo`: a built-in document, the built-in model, a few methods, a page; nothing to download or to set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sightline import builtin
from sightline.cli.errors import reports_errors
from sightline.cli.options import Debug
from sightline.cli.output import Format, emit
from sightline.cli.progress import LateProgress
from sightline.cli.reading import read_text
from sightline.cli.starting import starting
from sightline.cli.threads import use_free_cores
from sightline.errors import UsageError
from sightline.files import check_writable, write_whole
from sightline.registry import suggestion

DEMO_METHODS = ("attcat", "integrated_gradients", "rollout", "gradient")
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
            from sightline.analysis.internals import inside
            from sightline.model import load
            from sightline.view.page.html import render_page

        use_free_cores()
        progress("loading the model", 0, 0)
        model = load()
        trace = model.trace(text)
        trace.require("attentions")
        explanations = list(model.explain(trace, methods=DEMO_METHODS, check=True, progress=progress).values())
        seen = inside(trace, progress=progress)
        write_whole(output, render_page(explanations, inside=seen))
    emit(explanations[:1], Format.text, None, top=10)
    typer.echo(f"\nThe whole document, by {len(explanations)} methods: open {output.resolve()} in a browser.")
