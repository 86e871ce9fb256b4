"""`sightline study`: run one of five papers again, beside its published numbers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from sightline.cli.declared import command
from sightline.cli.error_reports import one_line
from sightline.cli.progress_bar import LateProgress, starting
from sightline.errors import UsageError
from sightline.settings.evaluation import OVERWRITE, SeedSettings
from sightline.settings.extras import require
from sightline.settings.options import option


@dataclass(frozen=True, kw_only=True)
class StudyCommand(SeedSettings):
    """Options of `sightline study`."""

    name: str = option(positional=True, metavar="NAME", help="longformer, attcat, alti, flow or sparse.")
    out: Path = option(
        flag=("--out", "-o"), metavar="DIR", help="Folder of the study; an interrupted study in it is continued."
    )
    data: tuple[str, ...] = option(
        (),
        metavar="[NAME=]PATH",
        help="File, or folder with the study's data sets; may be repeated. [default: generated data]",
    )
    models: tuple[str, ...] = option(
        (),
        flag="--model",
        metavar="[ROLE=]PATH",
        help="Model folder or hub id; may be repeated. [default: trained here]",
    )
    mlm: str | None = option(
        None, metavar="PATH", help="Masked language model: for agreement in the study 'alti', for pronouns in 'flow'."
    )
    size: Literal["tiny", "small", "paper"] = option(
        "small", help="tiny: seconds, to try it; small: minutes on two cores; paper: data and models of the hub."
    )
    documents: int | None = option(None, low=2, metavar="N", help="Documents per data set. [default: by size]")
    workers: int | None = option(
        None, low=1, metavar="N", help="Processes, each with its own models. [default: one per core; tiny: 1]"
    )
    overwrite: bool = option(False, help=OVERWRITE)


@command
def study(settings: StudyCommand) -> None:
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
            from sightline.corpus.engines import available_cores
            from sightline.files.ownership import claim_folder
            from sightline.view.frames import to_text
            from sightline_studies import estimate, find_study, run_study
            from sightline_studies.view import claims_frame, warnings, write_study

        name, out, size = settings.name, settings.out, settings.size
        chosen = find_study(name)
        if settings.mlm is not None and "mlm" not in chosen.models:
            raise UsageError(f"--mlm is for the studies 'alti' and 'flow'; '{name}' has no masked language model.")
        given = [*settings.models, *([] if settings.mlm is None else [f"mlm={settings.mlm}"])]
        models = _by_role(given, list(chosen.models), name)
        claim_folder(out, chosen.content, overwrite=settings.overwrite)
        if size == "paper":
            typer.echo(estimate(chosen), err=True)
        stage = [""]

        def report(now: str, done: int, total: int) -> None:
            progress(now, done, total)
            if not sys.stderr.isatty() and now != stage[0]:
                stage[0] = now
                if ": " not in now:  # the steps of a training run would be hundreds of lines
                    typer.echo(one_line(now), err=True)

        workers = settings.workers or (1 if size == "tiny" else available_cores())
        result = run_study(**settings.keywords(run_study) | {"models": models, "workers": workers}, progress=report)
        page = write_study(result, out, overwrite=settings.overwrite, progress=report)
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
