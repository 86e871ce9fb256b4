"""Options of commands that have no settings class, so that they have the same names and help everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from sightline.settings.explain import BUILT_IN, MODEL, PICKLE

ModelSources = Annotated[list[str] | None, typer.Option(metavar="PATH", help=f"{MODEL}; may be repeated. {BUILT_IN}")]
Seed = Annotated[int, typer.Option(metavar="N", help="Random seed.")]
AllowPickle = Annotated[bool, typer.Option("--allow-pickle", help=PICKLE)]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Write into a folder of other files; those of the same names are replaced.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback when something fails.")]
