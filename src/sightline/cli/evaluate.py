"""`sightline evaluate` and `compare`: which methods explain a model best on a data set, and do they agree?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sightline.cli.declared import command, method_options
from sightline.cli.error_reports import STOPPED, one_line
from sightline.cli.progress_bar import LateProgress, starting, use_free_cores
from sightline.cli.streams import print_utf8
from sightline.errors import InputError
from sightline.settings.evaluation import CompareSettings, EvaluateSettings
from sightline.settings.extras import require
from sightline.settings.names import MethodName

if TYPE_CHECKING:
    from sightline.api.model import Model
    from sightline.evaluation.planted import PlantedResult
    from sightline.evaluation.sanity import SanityResult
    from sightline.progress import Progress
    from sightline.text import Example

SANITY_DOCUMENTS = 10
"""Documents used for the cascade of random weights, which explains each of them once per layer."""


@command
def evaluate(settings: EvaluateSettings) -> None:
    """Compare methods on a data set: which explanation to believe.

    Removes the words that each method ranks highest, and compares the effect with random orders of the words.

    \b
    Examples:
      sightline evaluate reviews.csv --text review --model my-model -o out/
      sightline evaluate reviews.jsonl.gz --split test --limit 50 --methods attcat,rollout,random
      sightline evaluate reviews.csv --where "year >= 2020" --sample 100 --seed 1
      sightline evaluate reviews.csv --methods all --metrics aopc --metrics log_odds --format latex > table.tex
      sightline evaluate reviews.csv --metrics spearman --reference occlusion
      sightline evaluate reviews.csv --ratios 0,5%,10%,20% --random-orderings 20
      sightline evaluate reviews.csv --compat attcat --target label
      sightline evaluate questions.jsonl --model my-qa-model --target label --metrics count_at_k --k 5,10,20
      sightline evaluate reviews.csv --sanity -o out/
    """
    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.load import load
            from sightline.corpus.streaming import Selection, read_selection
            from sightline.evaluation.data_set import evaluate as run
            from sightline.evaluation.evaluation_storage import EVALUATION
            from sightline.evaluation.ranking import Ranking
            from sightline.evaluation.subject import chosen_methods
            from sightline.files.ownership import check_output_folder
            from sightline.metrics import METRICS
            from sightline.metrics.faithfulness import plan_of
            from sightline.view.evaluate.folder import write_evaluation
            from sightline.view.evaluate.table import evaluation_text

        # Cheap checks first, so that a wrong request fails before a model is loaded.
        names = chosen_methods(settings.methods)
        for name in settings.metrics if isinstance(settings.metrics, tuple) else ():
            METRICS.get(name)
        output, reference = settings.output, settings.reference
        asked = [*names, *([reference] if reference is not None and reference not in names else [])]
        options = method_options(settings.options, asked, None)
        plan_of("aopc", ratios=settings.ratios, compat=settings.compat)
        if output is not None:
            for package in ("pyarrow", "matplotlib"):
                require(package, "corpus,plots", "Writing an evaluation")
            inputs = [settings.data, settings.model]
            check_output_folder(output, EVALUATION, overwrite=settings.overwrite, inputs=inputs)
        progress("reading the data set", 0, 0)
        examples = read_selection(settings.data, Selection(**settings.keywords(Selection)))
        if settings.target == "label" and all(example.label is None and example.answer is None for example in examples):
            raise InputError(
                f"--target label was given, but no row of '{settings.data}' has a label in the field "
                f"'{settings.label}'."
            )

        progress("loading the model", 0, 0)
        loaded = load(settings.model, **settings.keywords(load, without=("output",)))
        chosen = settings.keywords(run) | {"model": loaded, "methods": names, "limit": None}
        evaluation = run(dataset=examples, **chosen, progress=progress, **options)
        if not evaluation.documents:
            raise KeyboardInterrupt
        tests = (
            _run_sanity_tests(loaded, examples, names, settings.seed, progress)
            if settings.sanity and evaluation.complete
            else (None, None)
        )
        ranking = Ranking(evaluation)
        printed = evaluation_text(ranking, settings.format, sanity=tests[0], planted=tests[1])
        page = None
        if output is not None:
            name = "The built-in model" if settings.model is None else loaded.name
            title = f"{name} on {Path(settings.data).name}: which explanation to believe"
            page = write_evaluation(
                ranking,
                output,
                sanity=tests[0],
                planted=tests[1],
                title=title,
                overwrite=settings.overwrite,
                progress=progress,
            )
    print_utf8(printed)
    if page is not None:
        typer.echo(f"Wrote {one_line(str(page))}", err=True)
    if not evaluation.complete:
        typer.echo(
            f"Stopped; the table above covers the {len(evaluation.documents)} documents that were finished.", err=True
        )
        raise typer.Exit(STOPPED)
    if not any(record.status == "ok" for record in evaluation.records):
        typer.echo("Error: Nothing could be measured; see the reasons above.", err=True)
        raise typer.Exit(1)


def _run_sanity_tests(
    model: Model, examples: Sequence[Example], names: Sequence[MethodName], seed: int, progress: Progress
) -> tuple[SanityResult, PlantedResult]:
    from sightline.evaluation.planted import planted_shortcuts
    from sightline.evaluation.sanity import weight_randomisation

    use_free_cores()  # unlike the evaluation, which runs one document per core
    cascading = weight_randomisation(model, examples[:SANITY_DOCUMENTS], names, seed=seed, progress=progress)
    return cascading, planted_shortcuts(names, seed, progress=progress)


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
            from sightline.api.load import load
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
