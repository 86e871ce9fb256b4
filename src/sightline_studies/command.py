"""`sightline study`: run one of five papers again, beside its published numbers."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sightline.cli.errors import one_line, reports_errors
from sightline.cli.options import Debug, Overwrite, Seed
from sightline.cli.progress import LateProgress
from sightline.cli.starting import starting
from sightline.errors import UsageError
from sightline.settings.extras import require


class SizeChoice(StrEnum):
    """Values of `--size`."""

    tiny = "tiny"
    small = "small"
    paper = "paper"


@reports_errors
def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="longformer, attcat, alti, flow or sparse.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Folder of the study; an interrupted study in it is continued."
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]PATH",
            help="File, or folder with the study's data sets; may be repeated. [default: generated data]",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="[ROLE=]PATH", help="Model folder or hub id; may be repeated. [default: trained here]"),
    ] = None,
    mlm: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Masked language model, for the pronouns of the study 'flow'."),
    ] = None,
    size: Annotated[
        SizeChoice,
        typer.Option(help="tiny: seconds, to try it; small: minutes on two cores; paper: data and models of the hub."),
    ] = SizeChoice.small,
    documents: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Documents per data set. [default: by size]")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Processes, each with its own models. [default: one per core; tiny: 1]"),
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    debug: Debug = False,
) -> None:
    """Run a paper again: its tables, figures and claims, published beside measured.

    Every result is stored in the folder. A study that is stopped or killed continues when the same command is given
    again; a finished one makes its tables and page again without computing anything. The number of processes does not
    change the results.

    \b
    Examples:
      sightline study attcat --size tiny --out attcat
      sightline study attcat --data sst2.jsonl.gz --model my-sentiment-model --out attcat
      sightline study flow --data my-data-folder --out flow --documents 200
      sightline study attcat --data my-data-folder --model base=my-encoder --out attcat
      sightline study attcat --data sst2=a.csv --data squad=b.json --model sentiment=m --model squad=q --out attcat
      sightline study longformer --size paper --out longformer
    """
    with LateProgress() as progress:
        with starting(progress):
            for package in ("pyarrow", "matplotlib"):
                require(package, "corpus,lab,plots", "A study")
            from sightline.corpus.engines.local import available_cores
            from sightline.files.ownership import claim_folder
            from sightline.view.frames import to_text
            from sightline_studies import estimate, find_study, run_study
            from sightline_studies.view import claims_frame, warnings, write_study

        chosen = find_study(name)
        if mlm is not None and "mlm" not in chosen.models:
            raise UsageError(f"--mlm is for the study 'flow'; '{name}' has no masked language model.")
        given = [*(model or []), *([] if mlm is None else [f"mlm={mlm}"])]
        models = _by_role(given, list(chosen.models), name)
        claim_folder(out, chosen.content, overwrite=overwrite)
        if size is SizeChoice.paper:
            typer.echo(estimate(chosen), err=True)
        stage = [""]

        def report(now: str, done: int, total: int) -> None:
            progress(now, done, total)
            if not sys.stderr.isatty() and now != stage[0]:
                stage[0] = now
                if ": " not in now:  # the steps of a training run would be hundreds of lines
                    typer.echo(one_line(now), err=True)

        result = run_study(
            name,
            out,
            size=size.value,
            data=data or [],
            models=models,
            documents=documents,
            seed=seed,
            workers=workers or (1 if size is SizeChoice.tiny else available_cores()),
            progress=report,
        )
        page = write_study(result, out, overwrite=overwrite, progress=report)
        printed = to_text(claims_frame(result))
    typer.echo(printed.encode(), nl=False)
    for sentence in warnings(result):
        typer.echo(sentence, err=True)
    typer.echo(f"Wrote {one_line(str(page))}", err=True)


def _by_role(given: list[str], roles: list[str], name: str) -> dict[str, str]:
    """Return model sources by role; a source without a role is the study's first model."""
    models = {}
    for source in given:
        role, equals, place = source.partition("=")
        if not roles:
            raise UsageError(f"The study '{name}' trains its own models; leave --model out.")
        if equals and role not in roles and role.isidentifier():
            raise UsageError(f"The study '{name}' has no model '{role}'. It takes: {', '.join(roles)}.")
        role, place = (role, place) if equals and role in roles else (roles[0], source)
        if role in models:
            raise UsageError(
                f"Two models are given for the role '{role}' of the study '{name}': leave one out, or write --model "
                f"ROLE=PATH. Its roles: {', '.join(roles)}."
            )
        models[role] = place
    return models
