"""`sightline inspect`: what happens inside the model on one document, or over a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.errors import reports_errors
from sightline.cli.options import (
    AllowPickle,
    AllowRandom,
    Debug,
    GlobalTokens,
    LabelField,
    MethodNames,
    MethodOptions,
    ModelSource,
    Pair,
    Seed,
    Split,
    TextField,
)
from sightline.cli.progress import LateProgress
from sightline.cli.reading import read_texts
from sightline.cli.starting import starting
from sightline.cli.threads import use_free_cores
from sightline.cli.values import listed, method_options, parsed_positions, parsed_target
from sightline.defaults import DEFAULT_METHODS
from sightline.errors import UsageError

if TYPE_CHECKING:
    from sightline.view.inspect.report import DataSetInspection, Inspection

KEEP_STOP_WORDS = "none"


@reports_errors
def inspect(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|-", help="The text to look into, UTF-8; - for standard input.", show_default=False
        ),
    ] = None,
    pair: Pair = None,
    model: ModelSource = None,
    method: MethodNames = None,
    option: MethodOptions = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="LABEL|INDEX|A:B", help="What to explain: a class, or A against B. [default: predicted]"),
    ] = None,
    stop_words: Annotated[
        str, typer.Option(metavar="LANGUAGE", help="Leave out the stop words of this language; 'none' keeps all words.")
    ] = "en",
    top_k: Annotated[
        int, typer.Option(min=1, metavar="N", help="Partners of a token that are counted, and rows of lists.")
    ] = 10,
    layer: Annotated[int | None, typer.Option(metavar="N", help="Look at one layer. [default: all]")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Look at one head. [default: all]")] = None,
    position: Annotated[
        int | None,
        typer.Option(metavar="N", help="Token to follow through all heads. [default: the one that receives most]"),
    ] = None,
    head_importance: Annotated[
        bool, typer.Option("--head-importance/--no-head-importance", help="Compute how much each head matters.")
    ] = True,
    scaled: Annotated[
        bool, typer.Option("--scaled/--unscaled", help="Weigh heads by their importance in totals and counts.")
    ] = False,
    similarity: Annotated[
        bool, typer.Option("--similarity", help="Print attention against attribution, beside chance.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA", help="Data set to look at as well: CSV, JSON lines, Parquet, a folder, hf://name."
        ),
    ] = None,
    text: TextField = "text",
    label: LabelField = "label",
    split: Split = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Documents of the data set that are looked at, at most.")
    ] = 20,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Write all pictures and tables here, with an index page."
        ),
    ] = None,
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
      sightline inspect letter.txt -o folder            all pictures and tables; open folder/index.html
      sightline inspect letter.txt --similarity --method integrated_gradients
      sightline inspect letter.txt --layer 3 --head 1 --stop-words de -o folder
      sightline inspect --data letters.csv --limit 50 --similarity
    """
    # Cheap checks first: whatever can be wrong with the request is said before a model is loaded.
    if file is None and data is None:
        raise UsageError("There is nothing to look into: name a text file, or a data set with --data.")
    if pair is not None and file is None:
        raise UsageError("--pair goes with a text file; a data set holds its own pairs.")
    if scaled and not head_importance:
        raise UsageError("--scaled needs the importance of the heads; leave out --no-head-importance.")
    texts = None if file is None else read_texts(file, pair)
    positions = parsed_positions(global_tokens)

    with LateProgress() as progress:
        with starting(progress):
            from sightline.corpus import read_examples
            from sightline.model import load
            from sightline.view.inspect.report import Settings, check_folder, gather, gather_dataset, write_gathered

        methods = tuple(listed(method or DEFAULT_METHODS))
        settings = Settings(
            methods=methods,
            options=method_options(option or [], methods, seed),
            stop_words=None if stop_words.casefold() == KEEP_STOP_WORDS else stop_words,
            top_k=top_k,
            layer=layer,
            head=head,
            position=position,
            scaled=scaled,
            head_importance=head_importance,
            seed=seed,
        )
        if output is not None:
            check_folder(output)
        examples = None
        if data is not None:
            progress("reading the data set", 0, 0)
            examples = read_examples(data, text=text, label=label, split=split, limit=limit)
        use_free_cores()
        progress("loading the model", 0, 0)
        loaded = load(model, allow_pickle=allow_pickle, allow_random=allow_random)
        inspected = over_all = page = None
        if texts is not None:
            encoding = loaded.encode(*texts, global_tokens=positions)
            asked = parsed_target(target, loaded.labels)
            inspected = gather(loaded, encoding, settings, target=asked, progress=progress)
        if examples is not None:
            over_all = gather_dataset(loaded, examples, settings, progress=progress)
        if output is not None:
            page = write_gathered(output, loaded, inspected, over_all, progress=progress)
    if page is None or similarity:
        _print(inspected, over_all, similarity)
    if page is not None:
        typer.echo(f"Wrote {page}", err=True)


def _print(document: Inspection | None, dataset: DataSetInspection | None, similarity: bool) -> None:
    """Print the summary, or only the tables of similarity."""
    from sightline.view.inspect.summary import dataset_summary, document_summary, similarity_text

    blocks = []
    if document is not None:
        blocks.append(similarity_text(document) if similarity else document_summary(document))
    if dataset is not None:
        blocks.append(similarity_text(dataset) if similarity else dataset_summary(dataset))
    # Bytes, so that a pipe gets UTF-8 whatever the locale.
    typer.echo("\n".join(blocks).encode(), nl=False)
