"""`sightline explain` and `demo`: which words of one text, or of a built-in one, the prediction is based on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import typer

from sightline import builtin
from sightline.cli.declared import command, method_options
from sightline.cli.error_reports import one_line
from sightline.cli.progress_bar import CheckTime, LateProgress, starting, use_free_cores
from sightline.cli.streams import (
    FIGURES,
    Format,
    check_printable,
    choose_formats,
    emit,
    print_text,
    read_text,
    read_texts,
)
from sightline.errors import OptionError, UsageError
from sightline.files.writing import check_writable, write_whole
from sightline.registry import suggestion
from sightline.settings.explain import DEFAULT_METHODS, PLAIN_TEXT, ExplainSettings, LoadSettings
from sightline.settings.names import MethodName
from sightline.settings.options import OptionRule, Settings, option, unused
from sightline.settings.values import refuse_unused

if TYPE_CHECKING:
    from sightline.results.continuation import ContinuationExplanation
    from sightline.text.units import Level

EVERY_CLASS = "all"


@dataclass(frozen=True, kw_only=True)
class ExplainCommand(ExplainSettings, LoadSettings):
    """Options of `sightline explain`."""

    file: str = option(
        positional=True,
        metavar="FILE|-",
        help="Document to explain: plain text, HTML, .docx, .odt or .pdf; - for standard input.",
    )
    plain_text: bool = option(False, help=PLAIN_TEXT)
    task: str | None = option(
        None, metavar="NAME", help="What the model's head does. [default: inferred from its architecture]"
    )
    similar_to: str | None = option(
        None, metavar="TEXT", help="Explain how similar FILE is to this text (sentence-transformers models)."
    )
    true_label: str | None = option(
        None, metavar="LABEL|INDEX", help="True class, named in a figure beside the prediction."
    )
    format: Format | None = option(
        None, help="Format of the result. [default: by the suffix of the output file, else text]"
    )
    output: tuple[Path, ...] = option(
        (), flag=("--output", "-o"), metavar="FILE", help="Write the result to this file; may be repeated."
    )
    level: Literal["token", "word", "sentence"] = option(
        "token", help="One CSV row per token, word or sentence; JSON lists the scores of this level as well."
    )
    top: int = option(10, low=1, metavar="N", help="Number of strongest words to list.")
    all_words: bool = option(False, help="List stop words, punctuation and artefacts as well.")

    @property
    def wanted(self) -> list[tuple[Format, Path | None]]:
        """The formats of the result, each with its file; None to print it."""
        return choose_formats(self.format, self.output)

    def draws(self) -> bool:
        """Whether a figure is drawn."""
        return any(chosen in FIGURES for chosen, _ in self.wanted)

    def only_csv(self) -> bool:
        """Whether the result is CSV, in every place."""
        return all(chosen == "csv" for chosen, _ in self.wanted)

    @property
    def continues(self) -> bool:
        """Whether a continuation of the document is explained."""
        return self.continuation is not None or self.max_new_tokens is not None

    rules: ClassVar[tuple[OptionRule, ...]] = (
        unused(
            "true_label",
            when=lambda settings: not settings.draws(),
            reason="is named in figures only: add -o figure.svg, or leave it out.",
        ),
        unused(
            "top",
            "all_words",
            when=lambda settings: settings.only_csv(),
            reason="is about lists of words; a CSV table holds all rows: leave it out.",
        ),
    )


@command
def explain(settings: ExplainCommand) -> None:
    """Explain what a model decides about a text.

    \b
    Examples:
      sightline explain letter.txt
      sightline explain letter.txt -o page.html --method attcat --method rollout
      sightline explain contract.docx --model my-longformer -o page.html
      sightline explain contract.docx --model my-longformer -o page.html --check-readings 32
      sightline explain letter.txt --methods attnlrp,attcat --check --check-all
      cat letter.txt | sightline explain - --format json > letter.json
      sightline explain premise.txt --pair hypothesis.txt --model my-nli-model --target entailment:contradiction
      sightline explain letter.txt --method integrated_gradients --option baseline=mask
      sightline explain letter.txt --target all -o page.html
      sightline explain letter.txt --format csv --level word > words.csv
      sightline explain letter.txt --check -o page.html -o figure.pdf
      sightline explain letter.txt --methods attcat,alti,rollout --true-label positive -o figure.svg
      sightline explain prompt.txt --model my-llama --continuation " are on the table" -o page.html
      sightline explain letter.txt --model my-sentence-model --similar-to "refund within 30 days"
      sightline explain prompt.txt --model my-llama --max-new-tokens 40
    """
    # Cheap checks first, so that a wrong request fails before a model is loaded.
    outputs = settings.wanted
    for chosen, output in outputs:
        if output is not None:
            check_writable(output, [settings.file, settings.pair, settings.model])
        check_printable(chosen, output)
    if settings.continues and settings.draws():
        raise OptionError("Figures of continuations are not supported: write a page with -o page.html.")
    formats = {chosen for chosen, _ in outputs}
    for_page = "html" in formats
    checks = for_page and settings.target != EVERY_CLASS if settings.check is None else settings.check
    settings = replace(settings, check=checks and not (settings.continues and settings.check is None))
    text, pair = read_texts(settings.file, settings.pair, plain_text=settings.plain_text)
    settings = replace(settings, pair=pair)

    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.load import load
            from sightline.models.target import class_index

        # A page compares; other programs and pipes get one explanation unless they ask for more.
        methods = settings.methods or DEFAULT_METHODS[: None if for_page else 1]
        options = _explain_options(settings, methods)
        use_free_cores()
        progress("loading the model", 0, 0)
        loaded = load(settings.model, **settings.keywords(load, without=("output",)))
        if settings.model is None and formats == {"csv"}:  # the other formats have a place for notices
            from sightline.view.words.sentences import DEMONSTRATION

            progress.note(DEMONSTRATION)
        if settings.methods is None:
            methods = loaded.default_methods[: None if for_page else 1]
            options = _explain_options(settings, methods)
        true_label = settings.true_label
        if true_label is not None and loaded.task == "sequence_classification" and len(loaded.labels) > 1:
            true_label = loaded.labels[class_index(true_label, loaded.labels)]
        # The line break at the end of a file is not what a language model is to continue.
        text = text.removesuffix("\n") if loaded.task == "causal_lm" else text
        if settings.continues:
            wanted = settings.keywords(loaded.explain) | {"methods": methods}
            continuations = loaded.explain(text, progress=progress, **wanted, **options)
            for chosen, output in outputs:
                emit_continuation(continuations, chosen, output, settings.top, settings.level)
            return
        watch = CheckTime(
            progress,
            every=settings.check_all,
            artefacts=settings.artefacts is not False,
        )
        wanted = settings.keywords(loaded.report) | {"pair": None, "truncate": False, "methods": methods}
        report = loaded.report(
            loaded.encode(text, **settings.keywords(loaded.encode)),
            **wanted,
            inside=for_page,
            progress=watch,
            on_explained=watch.explained if settings.check else None,
            **options,
        )
    emit(report, outputs, settings.top, settings.level, all_words=settings.all_words, true_label=true_label)


def _explain_options(settings: ExplainCommand, methods: Sequence[str]) -> dict[str, Any]:
    """Return the options of each method; raise OptionError for a seed if none of them draws numbers."""
    from sightline.methods import METHODS

    options = method_options(settings.options, methods, settings.seed)
    if not any("seed" in METHODS.get(name).options for name in methods):
        refuse_unused({"--seed": settings.seed}, "has no effect: none of the methods draws random numbers.")
    return options


def emit_continuation(
    continuations: Mapping[str, ContinuationExplanation], chosen: Format, output: Path | None, top: int, level: Level
) -> None:
    """Write or print the explanations of one generated text, by method."""
    content = render(continuations, chosen, top, level)
    if output is None:
        typer.echo(content.encode(), nl=False)
        return
    write_whole(output, content)
    if chosen == "html":
        typer.echo(render(continuations, "text", top, level).encode(), nl=False)
    typer.echo(f"Wrote {one_line(str(output))}", err=True)


def render(continuations: Mapping[str, ContinuationExplanation], chosen: Format, top: int, level: Level) -> str:
    """Return the explanations in one format.

    JSON is that of `combine_records`. CSV has one row per pair of a generated and an earlier unit of `level`.
    """
    if chosen == "html":
        from sightline.view.continuation import render_continuation

        return render_continuation(list(continuations.values()))
    if chosen == "json":
        from sightline.results.continuation import combine_records

        return json.dumps(combine_records(continuations), allow_nan=False) + "\n"
    if chosen == "csv":
        import pandas as pd

        from sightline.view.frames import to_csv

        frames = []
        for method, continuation in continuations.items():
            frame = continuation.to_frame(level)
            frame.insert(0, "method", method)
            frames.append(frame)
        return to_csv(pd.concat(frames))
    from sightline.view.continuation import describe_continuation

    return "\n".join(describe_continuation(continuation, top) for continuation in continuations.values())


DEMO_METHODS: tuple[MethodName, ...] = ("attnlrp", "attcat", "integrated_gradients", "rollout")
DEMO_PAGE = Path("sightline-demo.html")


@dataclass(frozen=True, kw_only=True)
class DemoCommand(Settings):
    """Options of `sightline demo`."""

    output: Path | None = option(
        None,
        flag=("--output", "-o"),
        metavar="FILE",
        help=f"Where to write the page. [default: {DEMO_PAGE}]",
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
    output, document = settings.output or DEMO_PAGE, settings.document
    if settings.output is None and output.is_file() and not _is_page(output):
        raise UsageError(f"'{output}' was not written by Sightline and would be replaced. Name a file with -o.")
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


def _is_page(path: Path) -> bool:
    """Say whether a file is a page that Sightline wrote."""
    with path.open("rb") as file:
        return b'<meta name="generator" content="Sightline">' in file.read(2000)
