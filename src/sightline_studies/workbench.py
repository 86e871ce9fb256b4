"""Workbench: where a study reads its data and models and stores what it measures, so that no work is done twice.

Every result is a JSON file `results/STEP-IDENTITY.json` in the study's folder, written under a temporary name and
renamed. The identity is a hash of the study, the step, its settings, its documents and its model: another seed or
another file of data never meets a stored result. Work over many documents is stored in parts (`measure_documents`), so
that a killed run loses one part. Results are always used as they are read back from the file: tables made now and
tables made from stored results are equal bit for bit. Several processes may work in one folder (`studies.sharing`).

Models that a study trains are stored beside, under `models/NAME-IDENTITY/`; training itself resumes from its
checkpoints (`lab.train`).
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sightline import builtin
from sightline.api.load import load
from sightline.api.model import Model
from sightline.corpus.readers import HUB
from sightline.errors import InputError, ModelError, OptionError
from sightline.files.ownership import claim_folder, own_folder
from sightline.files.writing import write_whole
from sightline.progress import Progress
from sightline.text import Example
from sightline_studies.data import DataSet, DataSources, describe_rows
from sightline_studies.sharing import BusyError, Turn, claim
from sightline_studies.study import Size, Study

FORMAT = 1
"""Version of stored results; raised when the current code could misread older ones."""
DOCUMENTS_PER_PART = 8
RESULTS, MODELS = "results", "models"
BASE = "base"
"""The role of the model from which others are trained; it is not a subject itself."""
EXPLAINED = ("control", "importance", "attacked")
"""Further numbers of documents, which are capped at "documents" if that is given."""
Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Subject:
    """A model under study, loaded when first needed: a run that finds all results stored never loads it."""

    name: str
    identity: str
    """Identity of its weights: a hash of its files, or of its training data and settings."""
    source: Callable[[], Model] = field(repr=False)

    @cached_property
    def model(self) -> Model:
        """The loaded model."""
        return self.source()


class Workbench:
    """The folder, the settings and the stored results of one run of a study."""

    def __init__(
        self,
        study: Study,
        folder: Path,
        *,
        size: Size = "small",
        data: Sequence[str] = (),
        models: Mapping[str, str] | None = None,
        documents: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        turn: Turn | None = None,
    ) -> None:
        self.study = study
        self.folder = folder
        self.size: Size = size
        self.seed = seed
        self.sources = DataSources(study, data, from_hub=size == "paper")
        self.given_models = dict(models or {})
        unknown = next((role for role in self.given_models if role not in study.models), None)
        if unknown is not None:
            raise OptionError(
                f"The study '{study.name}' has no model '{unknown}'. "
                + (f"It takes: {', '.join(study.models)}." if study.models else "It trains its own.")
            )
        self.settings = dict(study.sizes[size])
        for role, source in self.given_models.items():
            _check_model(role, source)
        if documents is not None:
            smaller = {name: min(self.settings[name], documents) for name in EXPLAINED if name in self.settings}
            self.settings |= smaller | {"documents": documents}
        self.progress: Progress = progress or (lambda stage, done, total: None)
        self.computed = 0
        """Steps and parts that this process computed; the others were stored, or another process computed them."""
        self.turn = turn or Turn()
        self._waits = True
        claim_folder(folder, study.content)

    def number(self, name: str) -> int:
        """Return a number of the chosen size, such as "documents"."""
        return self.settings[name]

    # Stored results ---------------------------------------------------------------------------------------------------

    def step(self, name: str, identity: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Return the stored result of a step, computing it first if there is none."""
        path = self._result_path(name, identity)
        if not path.is_file():
            with self.only_here(path):
                if not path.is_file():
                    self.progress(name, 0, 0)
                    write_whole(path, json.dumps(to_plain(compute()), ensure_ascii=False, allow_nan=False) + "\n")
                    self.computed += 1
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise _damaged(path) from None

    def measure_documents(
        self,
        name: str,
        identity: Mapping[str, Any],
        examples: Sequence[Example],
        measure: Callable[[Sequence[Example]], Iterable[Any]],
        *,
        at_once: int = DOCUMENTS_PER_PART,
    ) -> list[Any]:
        """Return one result per example; `measure` gets `at_once` examples at a time, and each part is stored."""
        parts = [examples[start : start + at_once] for start in range(0, len(examples), at_once)]
        identities = [{**identity, "examples": describe_rows(part)} for part in parts]

        def measure_part(number: int) -> list[Any]:
            results = self.step(name, identities[number], lambda: list(measure(parts[number])))
            if not isinstance(results, list) or len(results) != len(parts[number]):
                raise _damaged(self._result_path(name, identities[number]))
            return results

        missing = [n for n in range(len(parts)) if not self._result_path(name, identities[n]).is_file()]
        with self._without_waiting():
            for done, number in enumerate(self.turn.order(missing)):
                self.progress(name, at_once * (len(parts) - len(missing) + done), len(examples))
                with suppress(BusyError):
                    measure_part(number)
        return [result for number in range(len(parts)) for result in measure_part(number)]

    def each(self, tasks: Mapping[Key, Callable[[], T]]) -> dict[Key, T]:
        """Return the results of tasks that do not depend on each other.

        A task that needs a result in progress elsewhere is postponed, so that the processes work on different tasks.
        """
        results: dict[Key, T] = {}
        if self.turn.processes > 1:
            with self._without_waiting():
                for key in self.turn.order(list(tasks)):
                    with suppress(BusyError):
                        results[key] = tasks[key]()
        return {key: results[key] if key in results else task() for key, task in tasks.items()}

    @contextmanager
    def _without_waiting(self) -> Iterator[None]:
        """Raise BusyError inside the block instead of waiting for another process."""
        waits, self._waits = self._waits, False
        try:
            yield
        finally:
            self._waits = waits

    @contextmanager
    def only_here(self, path: Path) -> Iterator[None]:
        """Lock `path` against other processes; it may exist once the lock is acquired."""
        own_folder(self.folder, path.parent.name)
        with claim(path.with_name(f".{path.name}.lock"), wait=self._waits):
            yield

    def _result_path(self, name: str, identity: Mapping[str, Any]) -> Path:
        return self.folder / RESULTS / f"{name}-{self._digest(name, identity)}.json"

    def _digest(self, name: str, identity: Mapping[str, Any]) -> str:
        whole = {"format": FORMAT, "study": self.study.name, "step": name, "seed": self.seed, **identity}
        return digest_of(whole)

    # Data and models --------------------------------------------------------------------------------------------------

    def read(self, name: str, generate: Callable[[], list[Example]], **options: Any) -> DataSet:
        """Return a data set that was given, or the generated one in its place."""
        self.progress(f"reading {name}", 0, 0)
        return self.sources.read(name, generate, seed=self.seed, **options)

    def given_model(self, role: str) -> Subject | None:
        """Return the model that was given for a role, or None."""
        source = self.given_models.get(role)
        if source is None:
            return None
        folder = Path(source).expanduser()
        identity = hash_files(folder) if folder.is_dir() else source
        name = folder.name if folder.is_dir() else source
        others = [Path(other).name for key, other in self.given_models.items() if key not in (role, BASE)]
        return Subject(f"{name} ({role})" if name in others else name, identity, lambda: load(source))

    def made_model(self, name: str, identity: Mapping[str, Any], make: Callable[[], Model]) -> Subject:
        """Return the model made by a function, which gives the same model for the same identity."""
        return Subject(name, self._digest(name, identity), make)

    def trained_model(self, name: str, rows: Sequence[Example], base: str, **options: Any) -> Subject:
        """Return a model trained with `lab.train` on rows, stored under `models/`; training that was killed resumes.

        base: a folder, a hub id or the name of a new model. options: those of `lab.train`; seed_shift is added to the
        seed of the study.
        """
        start = hash_files(Path(base).expanduser()) if Path(base).expanduser().is_dir() else base
        identity = self._digest(name, {"rows": describe_rows(rows), "base": start, **options})
        folder = self.folder / MODELS / f"{name}-{identity}"
        checkpoints = folder.with_name(f"{folder.name}.training")

        def train_or_load() -> Model:
            from sightline.lab.checkpoints import remove_work_folder

            if not folder.is_dir() or checkpoints.exists():
                with self.only_here(folder):
                    if folder.is_dir():
                        # A run that was killed just after completing the model leaves its checkpoints behind.
                        remove_work_folder(checkpoints)
                    else:
                        train_here()
            try:
                return load(str(folder))
            except ModelError:
                raise ModelError(
                    f"The model '{folder}', which this study trained, is damaged. Delete the folder and run the study "
                    "again."
                ) from None

        def train_here() -> None:
            from sightline.lab import train

            self.progress(f"training {name}", 0, 0)
            train(
                [replace(row, split=None) for row in rows],  # the study has chosen them, from whatever split
                builtin.model_folder() if base == "built-in" else base,
                out=folder,
                seed=self.seed + int(options.get("seed_shift", 0)),
                resume=checkpoints.exists(),
                progress=lambda stage, done, total: self.progress(f"{name}: {stage}", done, total),
                **{option: value for option, value in options.items() if option != "seed_shift"},
            )
            self.computed += 1

        return Subject(name, identity, train_or_load)

    def provenance(self) -> dict[str, str]:
        """Return when and where the run began; stored, so that pages made later say the same."""
        facts: dict[str, str] = self.step("provenance", {}, _describe_machine)
        return facts


def _damaged(path: Path) -> InputError:
    return InputError(f"The stored result '{path}' is damaged. Delete it and run the study again.")


def _check_model(role: str, source: str) -> None:
    """Raise InputError if a model that was given cannot be one, before anything is computed."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not any((folder / name).is_file() for name in ("config.json", "modules.json")):
            raise InputError(f"The folder '{source}', given as model '{role}', holds no model: it has no config.json.")
    elif not source.startswith(HUB) and (folder.exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", source)):
        raise InputError(
            f"There is no model folder '{source}', given as model '{role}'. Give a folder, or a hub id such as "
            "owner/name."
        )


def digest_of(value: Any) -> str:
    """Return 16 hexadecimal digits that identify a plain value."""
    text = json.dumps(to_plain(value), sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def to_plain(value: Any) -> Any:
    """Return a value as JSON holds it: arrays become lists, numbers that are not finite become null."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(entry) for entry in value]
    return value


def hash_files(folder: Path) -> str:
    """Return a hash of the configuration, weights and tokenizer in a model folder."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in (".json", ".safetensors", ".txt", ".model", ".bin"):
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
    return digest.hexdigest()


def _describe_machine() -> dict[str, str]:
    import os

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} × {platform.machine()}, {platform.system()}",
        **{name: version(name) for name in ("sightline-xai", "torch", "transformers", "numpy")},
        "python": platform.python_version(),
    }
