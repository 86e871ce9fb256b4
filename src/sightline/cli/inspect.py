"""`sightline inspect`: what happens inside the model on one document or over a data set."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.errors import one_line, reports_errors
from sightline.cli.options import (
    NO_FOLDER,
    AllowPickle,
    AllowRandom,
    Debug,
    GlobalTokens,
    InspectMethodNames,
    LabelField,
    MethodOptions,
    ModelSource,
    Overwrite,
    Pair,
    PlainText,
    Seed,
    Split,
    TextField,
)
from sightline.cli.output import print_utf8
from sightline.cli.progress import LateProgress
from sightline.cli.reading import read_texts
from sightline.cli.starting import starting, use_free_cores
from sightline.cli.values import method_options
from sightline.errors import UsageError
from sightline.settings.arguments import refuse_unused
from sightline.settings.defaults import INSPECT_METHODS
from sightline.settings.values import parse_positions, split_assignments, split_names

if TYPE_CHECKING:
    from sightline.analysis import DataSetInspection, Inspection

KEEP_STOP_WORDS = "none"


class RuleChoice(StrEnum):
    """What `--rule` may be."""

    mean_present = "mean-present"
    mean_all = "mean-all"


class CountChoice(StrEnum):
    """What `--count` may be."""

    tokens = "tokens"
    pairs = "pairs"


@reports_errors
def inspect(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|-",
            help="Document to inspect: plain text, HTML, .docx, .odt or .pdf; - for standard input.",
            show_default=False,
        ),
    ] = None,
    pair: Pair = None,
    plain_text: PlainText = False,
    model: ModelSource = None,
    method: InspectMethodNames = None,
    option: MethodOptions = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="LABEL|INDEX|A:B", help="What to explain: a class, or A against B. [default: predicted]"),
    ] = None,
    stop_words: Annotated[
        str, typer.Option(metavar="LANGUAGE", help="Leave out the stop words of this language; 'none' keeps all words.")
    ] = "en",
    top_k: Annotated[int, typer.Option(min=1, metavar="N", help="Partners counted per token, and rows per list.")] = 10,
    layer: Annotated[
        int | None, typer.Option(metavar="N", help="Show the words and the map of one layer, from 0. [default: all]")
    ] = None,
    head: Annotated[
        int | None, typer.Option(metavar="N", help="Show those of one head, from 0. [default: all]")
    ] = None,
    count: Annotated[
        CountChoice | None,
        typer.Option(
            help="Count each querying token once over layers and heads, or each (layer, head, token). "
            "[default: tokens; pairs with --scaled]"
        ),
    ] = None,
    word: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Word whose instances are listed. [default: the most attended one]"),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(metavar="N", help="Token to follow through all heads. [default: the most attended token]"),
    ] = None,
    head_importance: Annotated[
        bool, typer.Option("--head-importance/--no-head-importance", help="Compute the importance of each head.")
    ] = True,
    scaled: Annotated[
        bool, typer.Option("--scaled/--unscaled", help="Weight heads by their importance in totals and counts.")
    ] = False,
    similarity: Annotated[
        bool,
        typer.Option("--similarity", help="Print how similar attention and attribution are, with chance levels."),
    ] = False,
    anisotropy: Annotated[
        bool, typer.Option("--anisotropy", help="Also show whether representations point the same way, by layer.")
    ] = False,
    effective: Annotated[
        bool, typer.Option("--effective", help="Also show how much attention has no effect, because values cancel.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare the explanation with random orders of the words.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA", help="Data set to inspect as well: CSV, JSON lines, Parquet, a folder, hf://name."
        ),
    ] = None,
    rule: Annotated[
        RuleChoice | None,
        typer.Option(
            help="With --data: average a word's scores over the documents that contain it, or over all documents. "
            "[default: mean-all with --target, else mean-present]"
        ),
    ] = None,
    text: TextField = "text",
    label: LabelField = "label",
    split: Split = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Inspect at most N documents of the data set.")] = 20,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write figures and tables here, with an index page and the page of the text.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    global_tokens: GlobalTokens = None,
    allow_pickle: AllowPickle = False,
    allow_random: AllowRandom = False,
    debug: Debug = False,
) -> None:
    """Look inside a model: heads, attention, relations.

    \b
    Examples:
      sightline inspect letter.txt                      a short summary
      sightline inspect letter.txt -o folder            figures and all tables; open folder/index.html
      sightline inspect letter.txt --similarity --method integrated_gradients
      sightline inspect letter.txt --layer 3 --head 1 --stop-words de -o folder
      sightline inspect letter.txt --word compiler --count pairs
      sightline inspect letter.txt --method alti -o folder
      sightline inspect --data letters.csv --limit 50 --target positive --similarity
    """
    # Mistakes in the request are reported before a model is loaded.
    if file is None and data is None:
        raise UsageError("There is nothing to inspect: name a text file, or a data set with --data.")
    if file is None:
        refuse_unused({"--pair": pair}, "needs a text file; a data set has a field for the second text.")
        refuse_unused({"--check": check}, "needs a text file; to check methods on a data set, use sightline evaluate.")
        of_document = {
            "--plain-text": plain_text,
            "--layer": layer,
            "--head": head,
            "--count": count,
            "--word": word,
            "--position": position,
            "--scaled": scaled,
            "--effective": effective,
            "--global-tokens": global_tokens,
        }
        refuse_unused(of_document, "needs a text file: it applies to one document.")
    if data is None:
        refuse_unused({"--rule": rule, "--split": split}, "needs a data set; add --data DATA.")
    if rule is RuleChoice.mean_all and target is None:
        raise UsageError("--rule mean-all needs a class that all documents are explained for; add --target CLASS.")
    if output is None:
        refuse_unused({"--overwrite": overwrite}, NO_FOLDER)
    if scaled and count is CountChoice.tokens:
        raise UsageError("--scaled weights every list of partners; leave out --count tokens.")
    if scaled and not head_importance:
        raise UsageError("--scaled needs the importance of the heads; leave out --no-head-importance.")
    texts = None if file is None else read_texts(file, pair, plain_text=plain_text)
    positions = None if global_tokens is None else parse_positions(global_tokens)

    with LateProgress() as progress:
        with starting(progress):
            from sightline.analysis import InspectionSettings, inspect_dataset, inspect_document
            from sightline.api.model import load
            from sightline.corpus import read_examples
            from sightline.files.ownership import check_output_folder
            from sightline.view.inspect.summary import INSPECTION, write_inspection
            from sightline.view.plots.style import require_matplotlib

        methods = tuple(split_names(method or INSPECT_METHODS))
        settings = InspectionSettings(
            methods=methods,
            options=method_options(split_assignments(option or []), methods, seed),
            stop_words=None if stop_words.casefold() == KEEP_STOP_WORDS else stop_words,
            top_k=top_k,
            layer=layer,
            head=head,
            position=position,
            count=None if count is None else count.value,
            word=word,
            scaled=scaled,
            head_importance=head_importance,
            anisotropy=anisotropy,
            effective=effective,
            check=check,
            rule=None if rule is None else rule.value,
            seed=seed,
        )
        if output is not None:
            require_matplotlib()
            check_output_folder(output, INSPECTION, overwrite=overwrite, inputs=[file, pair, data, model])
        examples = None
        if data is not None:
            progress("reading the data set", 0, 0)
            examples = read_examples(data, text=text, label=label, split=split, limit=limit)
        use_free_cores()
        progress("loading the model", 0, 0)
        loaded = load(model, allow_pickle=allow_pickle, allow_random=allow_random)
        document = dataset = page = None
        if texts is not None:
            encoding = loaded.encode(*texts, global_tokens=positions, truncate=True)
            document = inspect_document(loaded, encoding, settings, target=target, progress=progress)
        if examples is not None:
            dataset = inspect_dataset(loaded, examples, settings, target=target, progress=progress)
        if output is not None:
            page = write_inspection(output, document, dataset, overwrite=overwrite, progress=progress)
    if page is None or similarity:
        _print_summary(document, dataset, similarity)
    if page is not None:
        typer.echo(f"Wrote {one_line(str(page))}", err=True)


def _print_summary(document: Inspection | None, dataset: DataSetInspection | None, similarity: bool) -> None:
    """Print the summary, or only the tables of similarity."""
    from sightline.view.inspect.summary import dataset_summary, document_summary, similarity_text

    blocks = []
    if document is not None:
        blocks.append(similarity_text(document) if similarity else document_summary(document))
    if dataset is not None:
        blocks.append(similarity_text(dataset) if similarity else dataset_summary(dataset))
    print_utf8("\n".join(blocks))
