"""manifest.json: the identity of a run, so that it is resumed only with the same model, data and settings.

Hashes of the weights, the settings and the tokenizer of the model, and of the names and contents of all data files are
compared, as are the selection of rows and the settings. Library versions are recorded; if a run is resumed with other
versions, both sets are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sightline.api.model import Model
from sightline.corpus.plan import digest_of, metadata_of
from sightline.corpus.run_storage import MANIFEST, RunFolder
from sightline.corpus.settings import RunSettings
from sightline.corpus.streaming import Selection
from sightline.corpus.tables import SCHEMAS
from sightline.errors import InputError, UsageError
from sightline.files.foreign import first_line, quote
from sightline.models.network import Network
from sightline.models.sentence_models import PooledClassifier
from sightline.models.tasks import TASKS
from sightline.results.records import FileRecord, JsonObject, Listed, Record, Whole, reading
from sightline.text.examples import Example

LARGEST_MANIFEST = 100_000_000
"""Bytes; the labels of a language model are its vocabulary."""
MOST_ROWS = 10**12
MOST_FILES = 10**6
_VERSIONS = ("sightline", "torch", "transformers", "python")
_LIMIT = "selection.limit"
_COMPARED = ("model", "data", "selection", "settings")
_MAY_CHANGE = frozenset(
    {"model.name", "data.source", "data.state", "settings.unit_documents", "settings.unit_characters"}
)
"""Fields that may differ when a run is resumed: a folder may be moved, a file copied, and an existing plan is kept
whatever the size of its units."""
_HASHES = {
    "model.weights": "the weights of the model have changed",
    "model.config": "the settings in its config.json have changed",
    "model.tokenizer": "its tokenizer has changed",
    "data.sha256": "the data were changed, or a file was moved or renamed",
}
"""What the message says instead of two hashes."""
_NOT_COMPUTED = frozenset({"architectures", "dtype", "transformers_version", "_name_or_path", "id2label", "label2id"})
"""Settings of a model that do not change what it computes, or that are compared separately."""


def describe_run(model: Model, data: Mapping[str, Any], selection: Selection, settings: RunSettings) -> dict[str, Any]:
    """Return the manifest of a run that has no plan yet."""
    provenance = model.provenance()
    return {
        **ManifestRecord.header(),
        "model": {
            "name": provenance["model"],
            "type": provenance["model_type"],
            "weights": provenance["weights"],
            "dtype": provenance["dtype"],
            "task": model.task,
            "labels": list(model.labels),
            "max_tokens": model.max_tokens,
            "config": _hash_config(model.network),
            "tokenizer": None if model.tokenizer is None else _hash_tokenizer(model.tokenizer),
        },
        "data": dict(data),
        "selection": asdict(selection),
        "settings": settings.to_dict(),
        "versions": [{name: provenance[name] for name in _VERSIONS}],
        "plan": None,
    }


def describe_data(source: Any, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what identifies a data set: the hash of its content, or the name of a data set on the hub.

    known: the description from an earlier run; files of the same names, sizes and times are not read again.
    """
    if not isinstance(source, str | Path):
        return {"source": None, "sha256": _hash_examples(source)}
    path = Path(source).expanduser()
    if not path.exists():
        return {"source": str(source), "hub": str(source)}
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    names = [file.relative_to(path).as_posix() for file in files]  # "." for a single file
    states = [file.stat() for file in files]
    # A file whose content and time of modification are set, as by a copy, still has another time of change (ctime).
    times = [[state.st_size, state.st_mtime_ns, state.st_ctime_ns] for state in states]
    described = {
        "source": str(path.resolve()),
        "bytes": sum(state.st_size for state in states),
        "state": _hash([names, times]),
    }
    if known is not None and all(known.get(name) == value for name, value in described.items()):
        return dict(known)
    content = hashlib.sha256()
    for name, file in zip(names, files, strict=True):
        content.update(name.encode())
        with file.open("rb") as opened:
            content.update(hashlib.file_digest(opened, "sha256").digest())
    return {**described, "sha256": content.hexdigest()}


def _hash_examples(examples: Iterable[Example]) -> str:
    content = hashlib.sha256()
    for example in examples:
        facts = [digest_of(str(example.text), example.pair), example.label, example.id, metadata_of(example)]
        content.update(json.dumps(facts).encode())
    return content.hexdigest()


def _hash_config(network: Network) -> str:
    """Return a hash of the settings that decide what the network computes from its weights."""
    settings = {name: value for name, value in network.config.to_diff_dict().items() if name not in _NOT_COMPUTED}
    module = network.module
    head = [module.poolings, module.normalises, str(module.head)] if isinstance(module, PooledClassifier) else None
    return _hash([settings, head, network.reference_text])


def _hash_tokenizer(tokenizer: Any) -> str:
    """Return a hash of everything that decides which tokens a text becomes."""
    stored = json.loads(tokenizer.backend_tokenizer.to_str())
    for state in ("truncation", "padding"):  # of its last call
        stored.pop(state, None)
    return _hash([stored, tokenizer.special_tokens_map, tokenizer.model_input_names])


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def read_manifest(folder: RunFolder) -> dict[str, Any] | None:
    """Return the manifest of a folder, None if there is none; raise InputError if it cannot be used."""
    path = f"{folder.path}/{MANIFEST}"
    try:
        content = folder.storage.read(MANIFEST, LARGEST_MANIFEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {first_line(error)}") from None
    name = f"'{path}'"
    with reading(name):
        ManifestRecord.read_file(content, name).require()
        manifest: dict[str, Any] = json.loads(content)
    return manifest


class _Model(Record):
    name: str
    type: str
    weights: str
    dtype: str
    task: str
    labels: Listed[str]
    max_tokens: Whole
    config: str
    tokenizer: str | None


class _Selection(Record):
    text: str
    pair: str
    label: str
    split: str | None
    where: str | None
    limit: Whole | None
    sample: Whole | None
    seed: int


class _PlanRecord(Record):
    hash: str
    units: Whole
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    documents: Whole
    unreadable: Whole
    blocks: Annotated[int, Field(ge=0, le=MOST_FILES)]


class ManifestRecord(FileRecord):
    """The identity of a run."""

    FORMAT = "sightline-corpus"
    CONTENT = "the manifest of a run"

    model: _Model
    data: JsonObject
    selection: _Selection
    settings: JsonObject
    versions: Listed[dict[str, str]] = Field(min_length=1)
    plan: _PlanRecord | None

    def require(self) -> None:
        """Raise ValueError if an entry that is read later is invalid."""
        if self.model.task not in TASKS:
            raise ValueError(f"model.task must be one of {', '.join(TASKS)}, not '{quote(self.model.task)}'")
        if not isinstance(self.data.get("source"), str | None):
            raise ValueError("data.source must be a text")
        methods = self.settings.get("methods")
        taken = {column.casefold() for column in SCHEMAS["tokens"].names}
        if not methods or not isinstance(methods, list) or not all(isinstance(method, str) for method in methods):
            raise ValueError("settings.methods must name methods")
        if not taken.isdisjoint(method.casefold() for method in methods):
            raise ValueError("settings.methods must not contain the name of a column of tokens")
        _check_target(self.settings.get("target"), self.model.labels)
        if any(set(versions) != set(_VERSIONS) for versions in self.versions):
            raise ValueError(f"versions must be those of {', '.join(_VERSIONS)}")
        plan = self.plan
        if plan is not None and max(plan.units, plan.documents, plan.unreadable, plan.blocks) > plan.rows:
            raise ValueError(f"plan.units, documents, unreadable and blocks must be at most its {plan.rows:,} rows")


def _check_target(target: Any, labels: Sequence[str]) -> None:
    """Raise ValueError unless the target is a word, a class or two classes."""
    for part in target if isinstance(target, list) and len(target) == 2 else [target]:
        named = isinstance(part, str) or str(part) in labels  # a number may also be the name of a class
        if not named and (type(part) is not int or not 0 <= part <= max(len(labels) - 1, 0)):
            raise ValueError(f"settings.target must be a class, not {quote(part)}")


def write_manifest(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    """Write the manifest, which makes the plan valid."""
    folder.storage.write(MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())


def is_longer_run(recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> bool:
    """Return whether the requested run has a larger limit, or none, so that its rows begin with the recorded ones."""
    before, now = recorded["selection"]["limit"], requested["selection"]["limit"]
    # A sample of more rows is another sample.
    return requested["selection"]["sample"] is None and before is not None and (now is None or now > before)


def check_same_run(folder: RunFolder, recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> None:
    """Raise UsageError naming every difference if the folder contains another run, rather than a shorter one."""
    may_change = _MAY_CHANGE | {_LIMIT} if is_longer_run(recorded, requested) else _MAY_CHANGE
    differences = {
        name: f"{name}: {_HASHES[name]}"
        if name in _HASHES
        else f"{name}: {_abbreviate(before)} before, {_abbreviate(now)} now"
        for part in _COMPARED
        for name, before, now in _differences(part, recorded[part], json.loads(json.dumps(requested[part])))
        if name not in may_change
    }
    if list(differences) == [_LIMIT] and requested["selection"]["sample"] is None:
        before, now = recorded["selection"]["limit"], requested["selection"]["limit"]
        contained = "without a limit" if before is None else f"with limit {before:,}"
        raise UsageError(
            f"'{folder.path}' contains a run {contained}, which cannot be shortened to {now:,}. A larger limit extends "
            "a run; for a smaller one, choose another folder."
        )
    if differences:
        raise UsageError(
            f"'{folder.path}' contains a different run ({'; '.join(differences.values())}). Choose another folder, or "
            "repeat the original settings."
        )


def add_versions(manifest: dict[str, Any], now: Mapping[str, Any]) -> bool:
    """Add the versions of this run if they are new; return whether they are."""
    new = now["versions"][0] not in manifest["versions"]
    if new:
        manifest["versions"] = [*manifest["versions"], now["versions"][0]]
    return new


def _differences(name: str, before: Any, now: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*before, *now])
        return [row for key in keys for row in _differences(f"{name}.{key}", before.get(key), now.get(key))]
    return [] if before == now else [(name, before, now)]


def _abbreviate(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
