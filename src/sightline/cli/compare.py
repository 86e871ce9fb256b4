"""`sightline compare`: do methods, layers or models agree about the words of the same documents?"""

from __future__ import annotations

import typer

from sightline.cli.declared import command
from sightline.cli.errors import STOPPED, one_line
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting, use_free_cores
from sightline.cli.values import method_options
from sightline.settings.evaluation import CompareSettings


@command
def compare(settings: CompareSettings) -> None:
    """Compare explanations with each other: methods, layers or models.

    With several models, each method is compared between models, on the documents for which they predict the same class.

    \b
    Examples:
      sightline compare reviews.csv --model my-model --methods attcat,gradient,occlusion
      sightline compare reviews.csv --model my-model --layers --reference occlusion --methods raw_attention,rollout,flow
      sightline compare reviews.csv --model seed-1 --model seed-2 --methods alti,rollout -o out/
    """
    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.model import load
            from sightline.corpus.streaming import Selection, read_selection
            from sightline.evaluation.comparison import check_statistics
            from sightline.evaluation.comparison import compare as run
            from sightline.files.ownership import check_output_folder
            from sightline.view.agreement import AGREEMENT, agreement_text, write_agreement
            from sightline.view.plots.style import require_matplotlib

        statistics = check_statistics(list(settings.metrics))
        names, reference, output = settings.methods, settings.reference, settings.output
        asked = [*names, *([reference] if reference is not None and reference not in names else [])]
        options = method_options(settings.options, asked, None)
        sources = settings.models or (None,)
        if output is not None:
            require_matplotlib()
            check_output_folder(output, AGREEMENT, overwrite=settings.overwrite, inputs=[settings.data, *sources])
        progress("reading the data set", 0, 0)
        examples = read_selection(settings.data, Selection(**settings.keywords(Selection)))
        use_free_cores()
        progress("loading the model", 0, 0)
        loaded = [load(source, **settings.keywords(load, without=("output",))) for source in sources]
        chosen = settings.keywords(run) | {
            "models": loaded if settings.several else loaded[0],
            "metrics": statistics,
            "same_prediction": settings.several and not settings.all_documents,
            "limit": None,
        }
        agreement = run(dataset=examples, **chosen, progress=progress, **options)
        if not agreement.documents:
            raise KeyboardInterrupt
        page = None
        if output is not None:
            page = write_agreement(agreement, output, overwrite=settings.overwrite, progress=progress)
    # Bytes, so that a pipe gets UTF-8 whatever the locale.
    typer.echo(agreement_text(agreement, settings.format).encode(), nl=False)
    if page is not None:
        typer.echo(f"Wrote {one_line(str(page))}", err=True)
    if not agreement.complete:
        typer.echo(f"Stopped; the {len(agreement.documents)} documents that were finished are above.", err=True)
        raise typer.Exit(STOPPED)
    if not any(pair.value is not None for pair in agreement.pairs):
        typer.echo("Error: Nothing could be compared; the reasons are above.", err=True)
        raise typer.Exit(1)
