"""`sightline evaluate`: which methods explain a model best on a data set, and are they better than chance?"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sightline.cli.errors import STOPPED, one_line, reports_errors
from sightline.cli.options import (
    NO_FOLDER,
    AllowPickle,
    AllowRandom,
    Debug,
    LabelField,
    Limit,
    ModelSource,
    OptionsOfMethods,
    Overwrite,
    PairField,
    Sample,
    Seed,
    Split,
    TextField,
    Where,
)
from sightline.cli.output import print_utf8
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting, use_free_cores
from sightline.cli.values import method_options, parse_counts, parse_shares
from sightline.errors import InputError, UsageError
from sightline.settings.arguments import refuse_unused
from sightline.settings.extras import require
from sightline.settings.values import split_assignments, split_names

if TYPE_CHECKING:
    from sightline.api.model import Model
    from sightline.evaluation.planted import PlantedResult
    from sightline.evaluation.sanity import SanityResult
    from sightline.progress import Progress
    from sightline.text import Example

SANITY_DOCUMENTS = 10
"""Documents used for the cascade of random weights, which explains each of them once per layer."""


class LevelChoice(StrEnum):
    """Values of `--level`."""

    word = "word"
    token = "token"


class TargetChoice(StrEnum):
    """Values of `--target`."""

    predicted = "predicted"
    label = "label"


TargetOption = Annotated[TargetChoice, typer.Option(help="Explain the prediction, or the true label or answer.")]


class ReplacementChoice(StrEnum):
    """Values of `--replacement`."""

    delete = "delete"
    pad = "pad"
    mask = "mask"
    unk = "unk"


class CompatChoice(StrEnum):
    """Values of `--compat`."""

    attcat = "attcat"


class SummaryFormat(StrEnum):
    """Values of `--format`."""

    text = "text"
    csv = "csv"
    json = "json"
    markdown = "markdown"
    latex = "latex"


@reports_errors
def evaluate(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="CSV, TSV, JSON lines (also .gz), Parquet, a folder, or hf://name.")
    ],
    model: ModelSource = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            "--method",
            metavar="NAME,…|all",
            help="Methods to compare; may be repeated. [default: ten, from all groups]",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            "--metric",
            metavar="NAME,…|all",
            help="What to measure; may be repeated. [default: all that the data set allows]",
        ),
    ] = None,
    option: OptionsOfMethods = None,
    text: TextField = "text",
    pair: PairField = "text_pair",
    label: LabelField = "label",
    split: Split = None,
    where: Where = None,
    limit: Limit = None,
    sample: Sample = None,
    level: Annotated[LevelChoice, typer.Option(help="What is ranked and removed.")] = LevelChoice.word,
    target: TargetOption = TargetChoice.predicted,
    replacement: Annotated[
        ReplacementChoice | None,
        typer.Option(help="What takes the place of removed words. [default: as each metric is defined]"),
    ] = None,
    ratios: Annotated[
        str | None,
        typer.Option(
            metavar="0,0.1,…", help="Shares of the words that are removed. [default: as each metric is defined]"
        ),
    ] = None,
    mask_pads: Annotated[
        bool, typer.Option("--mask-pads", help="Exclude pad tokens that replace words from attention.")
    ] = False,
    random_orderings: Annotated[
        int, typer.Option(min=0, metavar="N", help="Random orders of the words; their mean is the floor.")
    ] = 5,
    reference_order: Annotated[
        bool,
        typer.Option(
            "--reference-order/--no-reference-order",
            help="Also measure the order of the words' effects when each is removed alone (a reference).",
        ),
    ] = True,
    compat: Annotated[
        CompatChoice | None,
        typer.Option(help="Measure AOPC, log-odds and confidence as the published AttCAT code does."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="NAME", help="Method that agreement metrics compare the others with.")
    ] = None,
    k: Annotated[
        str | None,
        typer.Option("--k", metavar="5,20,…", help="Values of k for precision, recall and count at k. [default: 20]"),
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, metavar="N", help="Most model calls per document.")] = None,
    sanity: Annotated[
        bool,
        typer.Option("--sanity", help="Also run sanity tests with random weights and with planted words (slow)."),
    ] = False,
    seed: Seed = 0,
    format: Annotated[SummaryFormat, typer.Option(help="Format of the printed table.")] = SummaryFormat.text,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Write a page, tables, figures and all records here."),
    ] = None,
    overwrite: Overwrite = False,
    allow_pickle: AllowPickle = False,
    allow_random: AllowRandom = False,
    debug: Debug = False,
) -> None:
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
    if output is None:
        refuse_unused({"--overwrite": overwrite}, NO_FOLDER)
    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.model import load
            from sightline.corpus.streaming import Selection, read_selection
            from sightline.evaluation.choice import chosen_methods
            from sightline.evaluation.ranking import Ranking
            from sightline.evaluation.runner import evaluate as run
            from sightline.evaluation.storage import EVALUATION
            from sightline.files.ownership import check_output_folder
            from sightline.metrics import METRICS
            from sightline.metrics.faithfulness import plan_of
            from sightline.view.evaluate.report import write_evaluation
            from sightline.view.evaluate.text import evaluation_text

        # Cheap checks first, so that a wrong request fails before a model is loaded.
        names = chosen_methods(_parse_names(methods))
        measures = _parse_names(metrics)
        for name in measures if isinstance(measures, list) else []:
            METRICS.get(name)
        asked = [*names, *([reference] if reference is not None and reference not in names else [])]
        options = method_options(split_assignments(option or []), asked, None)
        shares = parse_shares(ratios)
        depths = parse_counts("--k", k)
        published: Literal["attcat"] | None = None if compat is None else "attcat"
        plan_of("aopc", ratios=shares, compat=published)
        if output is not None:
            for package in ("pyarrow", "matplotlib"):
                require(package, "corpus,plots", "Writing an evaluation")
            check_output_folder(output, EVALUATION, overwrite=overwrite, inputs=[data, model])
        progress("reading the data set", 0, 0)
        rows = Selection(text, pair, label, split=split, where=where, limit=limit, sample=sample, seed=seed)
        examples = read_selection(data, rows)
        if target is TargetChoice.label and all(
            example.label is None and example.answer is None for example in examples
        ):
            raise InputError(f"--target label was given, but no row of '{data}' has a label in the field '{label}'.")

        progress("loading the model", 0, 0)
        loaded = load(model, allow_pickle=allow_pickle, allow_random=allow_random)
        evaluation = run(
            loaded,
            examples,
            names,
            measures,
            level=level.value,
            target=target.value,
            replacement=None if replacement is None else replacement.value,
            ratios=shares,
            mask_pads=mask_pads,
            random_orderings=random_orderings,
            reference_order=reference_order,
            compat=published,
            reference=reference,
            k=depths,
            budget=budget,
            seed=seed,
            progress=progress,
            **options,
        )
        if not evaluation.documents:
            raise KeyboardInterrupt
        tests = (
            _run_sanity_tests(loaded, examples, names, seed, progress)
            if sanity and evaluation.complete
            else (None, None)
        )
        ranking = Ranking(evaluation)
        printed = evaluation_text(ranking, format.value, sanity=tests[0], planted=tests[1])
        page = None
        if output is not None:
            name = "The built-in model" if model is None else loaded.name
            title = f"{name} on {Path(data).name}: which explanation to believe"
            page = write_evaluation(
                ranking,
                output,
                sanity=tests[0],
                planted=tests[1],
                title=title,
                overwrite=overwrite,
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


def _parse_names(given: Sequence[str] | None) -> list[str] | str | None:
    """Return the names from "a,b" and repeated options; "all" alone means all."""
    if given is None:
        return None
    names = list(split_names(given))
    if "all" in names and len(names) > 1:
        raise UsageError("'all' cannot be combined with other names: leave them out.")
    return "all" if names == ["all"] else names


def _run_sanity_tests(
    model: Model, examples: Sequence[Example], names: Sequence[str], seed: int, progress: Progress
) -> tuple[SanityResult, PlantedResult]:
    from sightline.evaluation.planted import planted_shortcuts
    from sightline.evaluation.sanity import weight_randomisation

    use_free_cores()  # unlike the evaluation, which runs one document per core
    cascading = weight_randomisation(model, examples[:SANITY_DOCUMENTS], names, seed=seed, progress=progress)
    return cascading, planted_shortcuts(names, seed, progress=progress)
