"""`sightline explain`: which words of one text the model based its prediction on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.errors import one_line, reports_errors
from sightline.cli.options import (
    AggregationChoice,
    AllowPickle,
    AllowRandom,
    Debug,
    GlobalTokens,
    MaxWindows,
    MethodNames,
    MethodOptions,
    ModelSource,
    Pair,
    PlainText,
    TaskName,
    Truncate,
    WindowRule,
)
from sightline.cli.output import FIGURES, Format, check_printable, choose_format, emit
from sightline.cli.progress import FEWEST_CALLS, CheckTime, LateProgress
from sightline.cli.reading import read_texts
from sightline.cli.starting import starting, use_free_cores
from sightline.cli.values import method_options, parse_positions, split_names
from sightline.errors import OptionError
from sightline.files.writing import check_writable, write_whole
from sightline.settings.arguments import refuse_unused
from sightline.settings.defaults import DEFAULT_METHODS

if TYPE_CHECKING:
    from sightline.results.continuation import ContinuationExplanation
    from sightline.text.units import Level

EVERY_CLASS = "all"


class QuantityChoice(StrEnum):
    """Values of `--quantity`."""

    log_odds = "log_odds"
    logit = "logit"
    probability = "probability"
    log_probability = "log_probability"
    margin = "margin"


class LevelChoice(StrEnum):
    """Values of `--level`."""

    token = "token"
    word = "word"
    sentence = "sentence"


class ReplacementChoice(StrEnum):
    """Values of `--replacement`."""

    delete = "delete"
    mask = "mask"
    both = "both"


@reports_errors
def explain(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="Document to explain: plain text, HTML, .docx, .odt or .pdf; - for standard input."
        ),
    ],
    pair: Pair = None,
    plain_text: PlainText = False,
    model: ModelSource = None,
    task: TaskName = None,
    similar_to: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Explain how similar FILE is to this text (sentence-transformers models).",
        ),
    ] = None,
    method: MethodNames = None,
    option: MethodOptions = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL|INDEX|A:B|all",
            help="Class to explain, A against B, or every class in turn; 'entities' for every tagged entity; for "
            "answers, their text, the numbers of their first and last token (12:15, 12: or :15), start, end or "
            "'no answer'. [default: what is predicted]",
        ),
    ] = None,
    quantity: Annotated[
        QuantityChoice | None,
        typer.Option(help="What is explained of the class. [default: log_odds]"),
    ] = None,
    position: Annotated[
        int | None, typer.Option(metavar="N", help="Token to explain, for models that score single tokens.")
    ] = None,
    true_label: Annotated[
        str | None, typer.Option(metavar="LABEL|INDEX", help="True class, named in a figure beside the prediction.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Format of the result. [default: by the suffix of the output file, else text]")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result to this file.")
    ] = None,
    level: Annotated[
        LevelChoice,
        typer.Option(help="One CSV row per token, word or sentence; JSON lists the scores of this level as well."),
    ] = LevelChoice.token,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Number of strongest words to list.")] = 10,
    all_words: Annotated[
        bool, typer.Option("--all-words", help="List stop words, punctuation and artefacts as well.")
    ] = False,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Compare each explanation with random words. [default: for a page of one class]",
            show_default=False,
        ),
    ] = None,
    replacement: Annotated[
        ReplacementChoice | None,
        typer.Option(
            help="What the check does with words: delete them, put the mask token in their place, or both. "
            "[default: delete]"
        ),
    ] = None,
    artefacts: Annotated[
        bool | None,
        typer.Option(
            "--artefacts/--no-artefacts",
            help="As part of the check, exchange the strongest words to find scores that belong to their position. "
            "[default: artefacts]",
            show_default=False,
        ),
    ] = None,
    check_calls: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_CALLS,
            metavar="N",
            help="Most model calls for comparing an explanation with random words; one takes as long as a prediction, "
            "and a check is most of the time on long documents. [default: 64; from 1,000 words on 32]",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed for methods that draw random numbers.")] = None,
    continuation: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Explain every word of this text, which follows FILE (language models)."),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Let the model continue FILE by at most N tokens, and explain them."),
    ] = None,
    global_tokens: GlobalTokens = None,
    truncate: Truncate = False,
    windows: WindowRule = AggregationChoice.mean,
    max_windows: MaxWindows = None,
    allow_pickle: AllowPickle = False,
    allow_random: AllowRandom = False,
    debug: Debug = False,
) -> None:
    """Explain what a model decides about a text.

    \b
    Examples:
      sightline explain letter.txt
      sightline explain letter.txt -o page.html --method attcat --method rollout
      sightline explain contract.docx --model my-longformer -o page.html
      sightline explain contract.docx --model my-longformer -o page.html --check-calls 32
      sightline explain letter.txt --check --replacement both
      cat letter.txt | sightline explain - --format json > letter.json
      sightline explain premise.txt --pair hypothesis.txt --model my-nli-model --target entailment:contradiction
      sightline explain letter.txt --method integrated_gradients --option baseline=mask
      sightline explain letter.txt --target all -o page.html
      sightline explain letter.txt --format csv --level word > words.csv
      sightline explain letter.txt --check -o figure.svg
      sightline explain letter.txt --methods attcat,alti,rollout --true-label positive -o figure.svg
      sightline explain prompt.txt --model my-llama --continuation " are on the table" -o page.html
      sightline explain letter.txt --model my-sentence-model --similar-to "refund within 30 days"
      sightline explain prompt.txt --model my-llama --max-new-tokens 40
    """
    # Cheap checks first, so that a wrong request fails before a model is loaded.
    chosen = choose_format(format, output)
    if output is not None:
        check_writable(output, [file, pair, model])
    check_printable(chosen, output)
    continues = continuation is not None or max_new_tokens is not None
    if continues and chosen in FIGURES:
        raise OptionError("Figures of continuations are not supported: write a page with -o page.html.")
    if chosen not in FIGURES:
        refuse_unused({"--true-label": true_label}, "is named in figures only: add -o figure.svg, or leave it out.")
    checks = not continues and (chosen is Format.html and target != EVERY_CLASS if check is None else check)
    if not checks:
        of_check = {
            "--artefacts": artefacts,
            "--no-artefacts": artefacts is False,
            "--replacement": replacement,
            "--check-calls": check_calls,
        }
        refuse_unused(of_check, "belongs to the check, which is not made here: add --check, or leave it out.")
    texts = read_texts(file, pair, plain_text=plain_text)
    positions = parse_positions(global_tokens)

    with LateProgress() as progress:
        with starting(progress):
            from sightline.api.model import load
            from sightline.models.target import class_index

        for_page = chosen is Format.html
        # A page compares; other programs and pipes get one explanation unless they ask for more.
        methods = split_names(method or (DEFAULT_METHODS if for_page else DEFAULT_METHODS[:1]))
        options = method_options(option or [], methods, seed)
        use_free_cores()
        progress("loading the model", 0, 0)
        loaded = load(model, task, allow_pickle=allow_pickle, allow_random=allow_random, similar_to=similar_to)
        if model is None and chosen is Format.csv:  # the other formats have a place for notices
            from sightline.view.words.sentences import DEMONSTRATION

            progress.note(DEMONSTRATION)
        if not method:
            methods = list(loaded.default_methods[: None if for_page else 1])
            options = method_options(option or [], methods, seed)
        if true_label is not None and loaded.task == "sequence_classification" and len(loaded.labels) > 1:
            true_label = loaded.labels[class_index(true_label, loaded.labels)]
        amount = None if quantity is None else quantity.value
        # The line break at the end of a file is not what a language model is to continue.
        texts = (texts[0].removesuffix("\n"), texts[1]) if loaded.task == "causal_lm" else texts
        if continues:
            continuations = loaded.explain(
                texts[0],
                methods=methods,
                target=target,
                position=position,
                pair=texts[1],
                check=bool(check),
                continuation=continuation,
                max_new_tokens=max_new_tokens,
                quantity=amount,
                progress=progress,
                **options,
            )
            emit_continuation(continuations, chosen, output, top, level.value)
            return
        replacements = 2 if replacement is ReplacementChoice.both else 1
        exchanges = artefacts is not False
        watch = CheckTime(progress, replacements=replacements, artefacts=exchanges)
        report = loaded.report(
            loaded.encode(
                *texts,
                global_tokens=positions,
                truncate=truncate,
                aggregation=windows.value,
                max_windows=max_windows,
            ),
            methods,
            target,
            quantity=amount,
            position=position,
            inside=for_page,
            check=checks,
            check_budget=check_calls,
            check_replacement=(replacement or ReplacementChoice.delete).value,
            artefacts=exchanges,
            progress=watch,
            on_explained=watch.explained if checks else None,
            **options,
        )
    emit(report, chosen, output, top, level.value, all_words=all_words, true_label=true_label)


def emit_continuation(
    continuations: Mapping[str, ContinuationExplanation], chosen: Format, output: Path | None, top: int, level: Level
) -> None:
    """Write or print the explanations of one generated text, by method."""
    content = render(continuations, chosen, top, level)
    if output is None:
        typer.echo(content.encode(), nl=False)
        return
    write_whole(output, content)
    if chosen is Format.html:
        typer.echo(render(continuations, Format.text, top, level).encode(), nl=False)
    typer.echo(f"Wrote {one_line(str(output))}", err=True)


def render(continuations: Mapping[str, ContinuationExplanation], chosen: Format, top: int, level: Level) -> str:
    """Return the explanations in one format.

    JSON is that of `combine_records`. CSV has one row per pair of a generated and an earlier unit of `level`.
    """
    if chosen is Format.html:
        from sightline.view.continuation import render_continuation

        return render_continuation(list(continuations.values()))
    if chosen is Format.json:
        from sightline.results.continuation import combine_records

        return json.dumps(combine_records(continuations), allow_nan=False) + "\n"
    if chosen is Format.csv:
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
