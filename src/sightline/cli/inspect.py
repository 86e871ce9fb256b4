"""`sightline inspect`: what happens inside the model on one document or over a data set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from sightline.cli.declared import command, method_options
from sightline.cli.error_reports import one_line
from sightline.cli.progress_bar import LateProgress, starting, use_free_cores
from sightline.cli.streams import print_utf8, read_texts
from sightline.errors import UsageError
from sightline.settings.evaluation import FieldSettings, FolderSettings
from sightline.settings.explain import PLAIN_TEXT, LoadSettings, ReadSettings
from sightline.settings.inspection import InspectSettings
from sightline.settings.options import OptionRule, option, unused

if TYPE_CHECKING:
    from sightline.analysis import DataSetInspection, Inspection


@dataclass(frozen=True, kw_only=True)
class InspectCommand(FolderSettings, FieldSettings, InspectSettings, ReadSettings, LoadSettings):
    """Options of `sightline inspect`."""

    file: str | None = option(
        None,
        positional=True,
        metavar="FILE|-",
        help="Document to inspect: plain text, HTML, .docx, .odt or .pdf; - for standard input.",
    )
    plain_text: bool = option(False, help=PLAIN_TEXT)
    target: str | None = option(
        None, metavar="LABEL|INDEX|A:B", help="What to explain: a class, or A against B. [default: predicted]"
    )
    similarity: bool = option(False, help="Print how similar attention and attribution are, with chance levels.")
    data: str | None = option(
        None, metavar="DATA", help="Data set to inspect as well: CSV, JSON lines, Parquet, a folder, hf://name."
    )
    split: str | None = option(None, metavar="NAME", help="Use the rows of this split of the data set.")
    limit: int = option(20, low=1, metavar="N", help="Inspect at most N documents of the data set.")
    output: Path | None = option(
        None,
        flag=("--output", "-o"),
        metavar="FOLDER",
        help="Write figures and tables here, with an index page and the page of the text.",
    )

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "pair",
            when=lambda settings: settings.file is None,
            reason="needs a text file; a data set has a field for the second text.",
        ),
        unused(
            "check",
            when=lambda settings: settings.file is None,
            reason="needs a text file; to check methods on a data set, use sightline evaluate.",
        ),
        unused(
            *("plain_text", "layer", "head", "count", "word", "position", "scaled", "effective", "global_tokens"),
            when=lambda settings: settings.file is None,
            reason="needs a text file: it applies to one document.",
        ),
        unused(
            *("rule", "split", "limit", "text", "label"),
            when=lambda settings: settings.data is None,
            reason="needs a data set; add --data DATA.",
        ),
    )


@command
def inspect(settings: InspectCommand) -> None:
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
    output = settings.output
    if settings.file is None and settings.data is None:
        raise UsageError("There is nothing to inspect: name a text file, or a data set with --data.")
    if settings.rule == "mean-all" and settings.target is None:
        raise UsageError("--rule mean-all needs a class that all documents are explained for; add --target CLASS.")
    texts = None
    if settings.file is not None:
        texts = read_texts(settings.file, settings.pair, plain_text=settings.plain_text)

    with LateProgress() as progress:
        with starting(progress):
            from sightline.analysis import InspectionSettings, inspect_dataset, inspect_document
            from sightline.api.load import load
            from sightline.corpus import read_examples
            from sightline.files.ownership import check_output_folder
            from sightline.view.inspect.summary import INSPECTION, write_inspection
            from sightline.view.plots.style import require_matplotlib

        options = method_options(settings.options, settings.methods, settings.seed)
        chosen = InspectionSettings(**settings.keywords(InspectionSettings) | {"options": options})
        if output is not None:
            require_matplotlib()
            inputs = [settings.file, settings.pair, settings.data, settings.model]
            check_output_folder(output, INSPECTION, overwrite=settings.overwrite, inputs=inputs)
        examples = None
        if settings.data is not None:
            progress("reading the data set", 0, 0)
            fields = settings.keywords(read_examples)
            del fields["pair"]  # a file beside the document, not a field of the data set
            examples = read_examples(settings.data, **fields)
        use_free_cores()
        progress("loading the model", 0, 0)
        loaded = load(settings.model, **settings.keywords(load, without=("output",)))
        document = dataset = page = None
        if texts is not None:
            encoding = loaded.encode(*texts, global_tokens=settings.global_tokens, truncate=True)
            document = inspect_document(loaded, encoding, chosen, target=settings.target, progress=progress)
        if examples is not None:
            dataset = inspect_dataset(loaded, examples, chosen, target=settings.target, progress=progress)
        if output is not None:
            page = write_inspection(output, document, dataset, overwrite=settings.overwrite, progress=progress)
    if page is None or settings.similarity:
        _print_summary(document, dataset, settings.similarity)
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
