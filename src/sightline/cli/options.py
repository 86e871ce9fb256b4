"""Arguments and options that several commands share, so that they have the same names, help and rules everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from sightline.settings.defaults import DEFAULT_METHODS, INSPECT_METHODS


class AggregationChoice(StrEnum):
    """Values of `--windows`."""

    mean = "mean"
    max = "max"
    first = "first"


NO_FOLDER = "needs a folder to write to; add -o FOLDER."
"""Why `--overwrite` alone is refused."""
BUILT_IN = "[default: the built-in demonstration model]"
MODEL = "Model folder, or a hub model as owner/name or hf://name"

Pair = Annotated[str | None, typer.Option(metavar="FILE|-", help="The second text, for models that read pairs.")]
PlainText = Annotated[
    bool, typer.Option("--plain-text", help="Read the file as plain text, whatever it is: HTML with its mark-up.")
]
ModelSource = Annotated[str | None, typer.Option(metavar="PATH", help=f"{MODEL}. {BUILT_IN}")]
ModelSources = Annotated[list[str] | None, typer.Option(metavar="PATH", help=f"{MODEL}; may be repeated. {BUILT_IN}")]


def _method_names(default: tuple[str, ...]) -> Any:
    text = f"Method, or several with commas; may be repeated. [default: {', '.join(default)}]"
    return typer.Option("--method", "--methods", metavar="NAME,…", help=text)


MethodNames = Annotated[list[str] | None, _method_names(DEFAULT_METHODS)]
InspectMethodNames = Annotated[list[str] | None, _method_names(INSPECT_METHODS)]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Option of the method, or METHOD.KEY=VALUE; may be repeated."),
]
OptionsOfMethods = Annotated[
    list[str] | None, typer.Option(metavar="METHOD.KEY=VALUE", help="Option of a method; may be repeated.")
]
GlobalTokens = Annotated[
    str | None, typer.Option(metavar="0,17,…", help="Token positions with global attention (Longformer).")
]
TaskName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What the model's head does. [default: inferred from its architecture]"),
]
Truncate = Annotated[
    bool,
    typer.Option("--truncate", help="Cut off what the model cannot read at once, instead of reading windows."),
]
WindowRule = Annotated[
    AggregationChoice,
    typer.Option("--windows", help="How the class scores of the windows of a long text are combined."),
]
MaxWindows = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Read at most N windows of a long text. [default: 32,768 tokens, at least 8]"
    ),
]
TextField = Annotated[str, typer.Option(metavar="FIELD", help="Field of the data set that holds the text.")]
LabelField = Annotated[str, typer.Option(metavar="FIELD", help="Field of the data set that holds the label.")]
Split = Annotated[str | None, typer.Option(metavar="NAME", help="Use the rows of this split of the data set.")]
PairField = Annotated[str, typer.Option(metavar="FIELD", help="Field of the data set that holds the second text.")]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Use the first N rows.")]
Sample = Annotated[int | None, typer.Option(min=1, metavar="N", help="Use N rows drawn at random (see --seed).")]
Where = Annotated[
    str | None, typer.Option(metavar="CONDITION", help="Use the rows for which an SQL condition on their fields holds.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="Random seed.")]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Read pickle weights, which can run code: only if you trust them.")
]
AllowRandom = Annotated[
    bool, typer.Option("--allow-random", help="Accept missing weights; every result is marked as untrained.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Write into a folder of other files; those of the same names are replaced.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback when something fails.")]
