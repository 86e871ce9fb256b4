"""run_study: run one of the studies in a folder; the same call again continues it or makes its tables again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from sightline.errors import OptionError, UsageError
from sightline.files.hub import why_unreachable
from sightline.progress import Progress
from sightline.registry import suggestion
from sightline.settings.values import check_count, check_one_of
from sightline_studies.alti import ALTI
from sightline_studies.attcat import ATTCAT
from sightline_studies.data import DataSources
from sightline_studies.flow import FLOW
from sightline_studies.longformer import LONGFORMER
from sightline_studies.sharing import Turn, assistants, one_thread
from sightline_studies.sparse import SPARSE
from sightline_studies.study import Size, Study, StudyResult
from sightline_studies.workbench import Workbench

STUDIES: Mapping[str, Study] = {study.name: study for study in (LONGFORMER, ATTCAT, ALTI, FLOW, SPARSE)}


def find_study(name: str) -> Study:
    """Return the study of that name."""
    if name not in STUDIES:
        raise OptionError(
            f"There is no study '{name}'.{suggestion(name, list(STUDIES))} Studies: {', '.join(STUDIES)}."
        )
    return STUDIES[name]


def estimate(study: Study) -> str:
    """Return what a run at the size of the paper reads and costs, in a sentence."""
    paper = study.paper_size
    ids = list(paper.models.values())
    models = f"the model{'s' * (len(ids) > 1)} {', '.join(ids)}" if ids else "no model, since it trains its own"
    files = "".join(f" Give --data {name}=FILE: {study.data[name]}, not on the hub." for name in paper.not_on_hub)
    return (
        f"The size of the paper reads {', '.join(hub.address for hub in paper.data.values())} and {models}: about "
        f"{paper.gigabytes:g} GB of disk and {paper.hours:g} hours with one graphics card.{files}"
    )


def _check_hub(study: Study, data: Sequence[str], models: Mapping[str, str]) -> None:
    """Raise UsageError if something has to be read from the hub, and the hub is out of reach."""
    from_hub = [hub.address for hub in DataSources(study, data, from_hub=True).hub.values()]
    from_hub += [source for source in models.values() if not Path(source).expanduser().is_dir()]
    unreachable = why_unreachable() if from_hub else None
    if unreachable is not None:
        raise UsageError(
            f"The size of the paper reads {from_hub[0]} from the hub, and {unreachable} Run it where the hub can be "
            "reached, or give all data and models as files with --data and --model."
        )


def run_study(
    name: str,
    out: str | Path,
    *,
    size: Size = "small",
    data: str | Path | Sequence[str | Path] = (),
    models: Mapping[str, str | Path] | None = None,
    documents: int | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> StudyResult:
    """Run a study and store what it measures in the folder `out`; what is stored there already is not computed again.

    size: "tiny" (seconds, to try it), "small" (minutes on two cores) or "paper" (data and models of the hub). data:
    files or folders with the study's data sets; what is missing is generated. models: folders or hub ids by role.
    documents: documents per data set, instead of the size's number. workers: processes, each with one thread; they give
    the same results as one, to the bit. With several, a script needs `if __name__ == "__main__":`.
    """
    study = find_study(name)
    check_one_of("size", size, get_args(Size))
    given = [str(source) for source in ([data] if isinstance(data, str | Path) else data)]
    roles = {role: str(source) for role, source in (models or {}).items()}
    if size == "paper":
        roles = {**study.paper_size.models, **roles}
        _check_hub(study, given, roles)
    options: dict[str, Any] = {
        "size": size,
        "data": given,
        "models": roles,
        "documents": None if documents is None else check_count("documents", documents, 2),
        "seed": check_count("seed", seed, 0),
    }
    bench = Workbench(
        study, Path(out), **options, progress=progress, turn=Turn(processes=check_count("workers", workers))
    )
    missing = [name for name in study.paper_size.not_on_hub if size == "paper" and name not in bench.sources.paths]
    if missing:
        raise UsageError(
            f"The size of the paper needs the data set '{missing[0]}' ({study.data[missing[0]]}), which is not on the "
            f"hub. Give it with --data {missing[0]}=FILE."
        )
    provenance = bench.provenance()
    with one_thread(), assistants(workers, _assist, {"name": name, "folder": Path(out).absolute(), **options}):
        outcome = study.run(bench)
    facts = {
        "size": size,
        **{name.replace("_", " "): f"{value:,}" for name, value in bench.settings.items()},
        "data": ", ".join(f"{key} from {Path(path).name}" for key, path in bench.sources.paths.items()) or "generated",
        "models": ", ".join(f"{role}: {Path(source).name}" for role, source in roles.items()) or "trained here",
        "seed": str(seed),
        **provenance,
    }
    return StudyResult(study, outcome, facts, size, seed)


def _assist(name: str, folder: Path, turn: Turn, **options: Any) -> None:
    """Run a study in a process that assists another one; only what it stores is used."""
    study = find_study(name)
    with one_thread():
        study.run(Workbench(study, folder, **options, turn=turn))
