"""`sightline explain`: why the model decided what it decided about one text."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sightline.cli.errors import Debug, reports_errors
from sightline.cli.options import method_options, parsed_positions, parsed_target
from sightline.cli.output import Format, check_terminal, chosen_format, emit, in_one_list
from sightline.cli.progress import LateProgress
from sightline.cli.reading import read_text
from sightline.cli.threads import use_free_cores
from sightline.errors import UsageError
from sightline.files import check_writable

DEFAULT_METHOD = "attcat"


class QuantityChoice(StrEnum):
    """What `--quantity` may be."""

    logit = "logit"
    probability = "probability"
    log_probability = "log_probability"
    margin = "margin"


@reports_errors
def explain(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The text to explain, UTF-8; - for standard input.")],
    pair: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="The second text, for models that read pairs.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="PATH", help="Model folder or hub id. [default: the built-in model]")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Method; repeat it for several. [default: attcat]")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Option of the method, or METHOD.KEY=VALUE; may be repeated."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL|INDEX|A:B|all",
            help="What to explain: a class, A against B, or every class by itself. [default: predicted]",
        ),
    ] = None,
    quantity: Annotated[
        QuantityChoice | None,
        typer.Option(help="Which number is explained. [default: logit; probability where words are removed]"),
    ] = None,
    position: Annotated[int | None, typer.Option(help="Token to explain, for models that score single tokens.")] = None,
    format: Annotated[
        Format | None, typer.Option(help="Form of the result. [default: by the name of the output file, else text]")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many words to list in text output.")] = 10,
    check: Annotated[
        bool, typer.Option("--check", help="Compare each explanation with 20 random ones on the model itself.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed for methods that draw random numbers.")] = None,
    global_tokens: Annotated[
        str | None, typer.Option(metavar="0,17,…", help="Token positions with global attention (Longformer).")
    ] = None,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read pickle weights, which can run code: only if you trust them.")
    ] = False,
    allow_random: Annotated[
        bool, typer.Option("--allow-random", help="Accept missing weights; every result is marked as untrained.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Explain what a model decides about a text.

    \b
    Examples:
      sightline explain letter.txt
      sightline explain letter.txt -o page.html --method attcat --method rollout --check
      cat letter.txt | sightline explain - --format json > letter.json
      sightline explain premise.txt --pair hypothesis.txt --model my-nli-model --target entailment:contradiction
      sightline explain letter.txt --method integrated_gradients --option baseline=mask
      sightline explain letter.txt --target all -o page.html
    """
    # Cheap checks first: whatever can be wrong with the request is said before a model is loaded.
    chosen = chosen_format(format, output)
    if output is not None:
        check_writable(output)
    check_terminal(chosen, output)
    if file == "-" and pair == "-":
        raise UsageError("Only one of the two texts can come from standard input.")
    texts = [read_text(source) for source in (file, pair) if source is not None]
    positions = parsed_positions(global_tokens)

    from sightline.text import check_text

    for text, name in zip(texts, ("text", "second text"), strict=False):
        check_text(text, name)
    methods = list(dict.fromkeys(method or [DEFAULT_METHOD]))
    options = method_options(option or [], methods, seed)

    from sightline.model import load

    use_free_cores()
    with LateProgress() as progress:
        progress("loading the model", 0, 0)
        loaded = load(model, allow_pickle=allow_pickle, allow_random=allow_random)
        encoding = loaded.encode(*texts, global_tokens=positions)
        by_method = loaded.explain(
            encoding,
            methods=methods,
            target=parsed_target(target, loaded.labels),
            quantity=None if quantity is None else quantity.value,
            position=position,
            progress=progress,
            check=check,
            **options,
        )
        seen = None
        if chosen is Format.html:
            from sightline.analysis.inside import inside

            seen = inside(loaded.trace(encoding, position=position), progress=progress)
    emit(in_one_list(by_method), chosen, output, top, inside=seen)
