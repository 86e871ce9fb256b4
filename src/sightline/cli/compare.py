"""`sightline compare`: do methods, layers or models agree about the words of the same documents?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sightline.cli.errors import STOPPED, one_line, reports_errors
from sightline.cli.evaluate import LevelChoice, SummaryFormat, TargetChoice, TargetOption
from sightline.cli.options import (
    NO_FOLDER,
    AllowPickle,
    AllowRandom,
    Debug,
    LabelField,
    Limit,
    ModelSources,
    OptionsOfMethods,
    Overwrite,
    PairField,
    Sample,
    Seed,
    Split,
    TextField,
    Where,
)
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting, use_free_cores
from sightline.cli.values import method_options
from sightline.errors import UsageError
from sightline.settings.arguments import refuse_unused
from sightline.settings.values import split_assignments, split_names

DEFAULT_METHODS = ("raw_attention", "rollout", "gradient", "attcat", "alti")
DEFAULT_METRICS = ("spearman",)


@reports_errors
def compare(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="CSV, TSV, JSON lines (also .gz), Parquet, a folder, or hf://name.")
    ],
    model: ModelSources = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            "--method",
            metavar="NAME,…",
            help=f"Methods to compare; may be repeated. [default: {', '.join(DEFAULT_METHODS)}]",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", "--metric", metavar="NAME,…", help="Agreement metrics; may be repeated. [default: spearman]"
        ),
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Compare the layers of each method, with --reference if it is given.")
    ] = False,
    reference: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare with this method only, for example occlusion.")
    ] = None,
    magnitude: Annotated[
        bool, typer.Option("--magnitude", help="Compare magnitudes: for signed scores beside unsigned ones.")
    ] = False,
    special: Annotated[
        bool, typer.Option("--special", help="Compare special tokens too ([CLS], [SEP]), with --level token.")
    ] = False,
    all_documents: Annotated[
        bool,
        typer.Option(
            "--all-documents", help="Compare models also on documents for which they predict different classes."
        ),
    ] = False,
    option: OptionsOfMethods = None,
    text: TextField = "text",
    pair: PairField = "text_pair",
    label: LabelField = "label",
    split: Split = None,
    where: Where = None,
    limit: Limit = None,
    sample: Sample = None,
    level: Annotated[LevelChoice, typer.Option(help="What is compared.")] = LevelChoice.word,
    target: TargetOption = TargetChoice.predicted,
    seed: Seed = 0,
    format: Annotated[SummaryFormat, typer.Option(help="Form of what is printed.")] = SummaryFormat.text,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Write tables and pictures here, with a page."),
    ] = None,
    overwrite: Overwrite = False,
    allow_pickle: AllowPickle = False,
    allow_random: AllowRandom = False,
    debug: Debug = False,
) -> None:
    """Compare explanations with each other: methods, layers or models.

    With several models, each method is compared between models, on the documents for which they predict the same class.

    \b
    Examples:
      sightline compare reviews.csv --model my-model --methods attcat,gradient,occlusion
      sightline compare reviews.csv --model my-model --layers --reference occlusion --methods raw_attention,rollout,flow
      sightline compare reviews.csv --model seed-1 --model seed-2 --methods alti,rollout -o out/
    """
    names = split_names(methods) if methods else list(DEFAULT_METHODS)
    sources: list[str | None] = [*model] if model else [None]
    if len(sources) > 1 and (layers or reference is not None):
        raise UsageError("Several models are compared with each other; leave out --layers and --reference.")
    if len(sources) < 2:
        refuse_unused({"--all-documents": all_documents}, "applies to several models: give --model at least twice.")
    if output is None:
        refuse_unused({"--overwrite": overwrite}, NO_FOLDER)
    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.model import load
            from sightline.corpus.streaming import Selection, read_selection
            from sightline.evaluation.comparison import check_statistics
            from sightline.evaluation.comparison import compare as run
            from sightline.files.ownership import check_output_folder
            from sightline.view.agreement import AGREEMENT, agreement_text, write_agreement
            from sightline.view.plots.style import require_matplotlib

        statistics = check_statistics(split_names(metrics) if metrics else list(DEFAULT_METRICS))
        asked = [*names, *([reference] if reference is not None and reference not in names else [])]
        options = method_options(split_assignments(option or []), asked, None)
        if output is not None:
            require_matplotlib()
            check_output_folder(output, AGREEMENT, overwrite=overwrite, inputs=[data, *sources])
        progress("reading the data set", 0, 0)
        rows = Selection(text, pair, label, split=split, where=where, limit=limit, sample=sample, seed=seed)
        examples = read_selection(data, rows)
        use_free_cores()
        progress("loading the model", 0, 0)
        loaded = [load(source, allow_pickle=allow_pickle, allow_random=allow_random) for source in sources]
        agreement = run(
            loaded if len(loaded) > 1 else loaded[0],
            examples,
            names,
            statistics,
            level=_level(level),
            layers=layers,
            reference=reference,
            magnitude=magnitude,
            special=special,
            same_prediction=len(loaded) > 1 and not all_documents,
            target=target.value,
            seed=seed,
            progress=progress,
            **options,
        )
        if not agreement.documents:
            raise KeyboardInterrupt
        page = None
        if output is not None:
            page = write_agreement(agreement, output, overwrite=overwrite, progress=progress)
    # Bytes, so that a pipe gets UTF-8 whatever the locale.
    typer.echo(agreement_text(agreement, format.value).encode(), nl=False)
    if page is not None:
        typer.echo(f"Wrote {one_line(str(page))}", err=True)
    if not agreement.complete:
        typer.echo(f"Stopped; the {len(agreement.documents)} documents that were finished are above.", err=True)
        raise typer.Exit(STOPPED)
    if not any(pair.value is not None for pair in agreement.pairs):
        typer.echo("Error: Nothing could be compared; the reasons are above.", err=True)
        raise typer.Exit(1)


def _level(level: LevelChoice) -> Literal["word", "token"]:
    return level.value
