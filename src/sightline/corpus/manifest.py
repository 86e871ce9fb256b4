"""manifest.json: the identity of a run, so that it is resumed only with the same model, data and settings.

Hashes of the weights, the settings and the tokenizer of the model, and of the names and contents of all data files are
compared, as are the selection of rows and the settings. Versions of libraries are recorded; if a run is resumed with
other versions, all of them are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sightline.api.model import Model
from sightline.corpus.folder import MANIFEST, RunFolder
from sightline.corpus.plan import Plan, digest_of, metadata_of
from sightline.corpus.settings import RunSettings
from sightline.corpus.streaming import Selection
from sightline.corpus.tables import SCHEMAS, VERSION
from sightline.errors import InputError, UsageError
from sightline.files.foreign import first_line, parse_json, printable
from sightline.models.network import Network
from sightline.models.sentence_models import PooledClassifier
from sightline.models.tasks import TASKS
from sightline.results.record_checks import (
    check_choice,
    check_list,
    check_object,
    check_plain,
    check_text,
    check_texts,
    check_whole,
    is_newer,
)
from sightline.text.examples import Example

FORMAT = "sightline-corpus"
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
"""Fields that may differ when a run is resumed: a folder may be moved, a file copied, and the plan that exists is kept
whatever the size of its units."""
_HASHES = {
    "model.weights": "the weights of the model have changed",
    "model.config": "the settings in its config.json have changed",
    "model.tokenizer": "its tokenizer has changed",
    "data.sha256": "the data were changed, or a file was moved or renamed",
}
"""What the message says instead of two hashes."""
_NOT_COMPUTED = frozenset({"architectures", "dtype", "transformers_version", "_name_or_path", "id2label", "label2id"})
"""Settings of a model that do not change what it computes, or that are compared by themselves."""


def describe_run(
    model: Model, data: Mapping[str, Any], selection: Selection, settings: RunSettings, plan: Plan | None = None
) -> dict[str, Any]:
    """Return the manifest of a run."""
    provenance = model.provenance()
    return {
        "format": FORMAT,
        "version": VERSION,
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
        "plan": None if plan is None else plan.to_dict(),
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
    manifest = parse_json(content, error=InputError, name=f"'{path}' is damaged and")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"'{folder.path}' contains a manifest.json of another program. Choose another folder.")
    try:
        if is_newer(manifest["version"], VERSION):
            raise InputError(
                f"'{folder.path}' was written by a newer Sightline (format {manifest['version']}, this one reads up to "
                f"{VERSION}). Update Sightline."
            )
        _check_manifest(manifest)
    except KeyError as error:
        raise InputError(f"'{path}' is damaged: {printable(str(error))} is missing.") from None
    except ValueError as error:
        raise InputError(f"'{path}' is damaged: {first_line(error)}") from None
    return manifest


def _check_manifest(manifest: dict[str, Any]) -> None:
    """Raise KeyError or ValueError if an entry that is read later is missing or not what it must be."""
    check_plain(manifest, "manifest")
    model, settings, plan = check_object(manifest["model"], "model"), manifest["settings"], manifest["plan"]
    for name in ("name", "type", "weights", "dtype"):
        check_text(model[name], f"model.{name}")
    check_choice(model["task"], "model.task", list(TASKS))
    labels = check_texts(model["labels"], "model.labels")
    source = check_object(manifest["data"], "data").get("source")
    if source is not None:
        check_text(source, "data.source")
    selection = check_object(manifest["selection"], "selection")
    for name in ("limit", "sample"):
        if selection[name] is not None:
            check_whole(selection[name], f"selection.{name}")
    methods = check_texts(check_object(settings, "settings")["methods"], "settings.methods")
    taken = {column.casefold() for column in SCHEMAS["tokens"].names}
    if not methods or not taken.isdisjoint(method.casefold() for method in methods):
        raise ValueError("settings.methods must name methods, none of them like a column of the tokens")
    _check_target(settings["target"], labels)
    for number, versions in enumerate(check_list(manifest["versions"], "versions")):
        check_object(versions, f"versions[{number}]", _VERSIONS)
    if not manifest["versions"]:
        raise ValueError("versions must not be empty")
    if plan is not None:
        check_object(plan, "plan", ("hash", "units", "rows", "documents", "unreadable", "blocks"))
        check_text(plan["hash"], "plan.hash")
        rows = check_whole(plan["rows"], "plan.rows", 1, MOST_ROWS)
        for name in ("units", "documents", "unreadable", "blocks"):
            check_whole(plan[name], f"plan.{name}", 0, min(rows, MOST_FILES) if name == "blocks" else rows)


def _check_target(target: Any, labels: Sequence[str]) -> None:
    """Raise ValueError unless the target is a word, a class or two classes."""
    for part in target if isinstance(target, list) and len(target) == 2 else [target]:
        if isinstance(part, str) or str(part) in labels:  # a number may also be the name of a class
            check_text(str(part), "settings.target")
        else:
            check_whole(part, "settings.target", 0, max(len(labels) - 1, 0))


def write_manifest(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    """Write the manifest, which makes the plan valid."""
    folder.storage.write(MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())


def is_longer_run(recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> bool:
    """Say whether a run is requested with a larger limit, or without one: its rows begin with those of the other."""
    before, now = recorded["selection"]["limit"], requested["selection"]["limit"]
    # A sample of more rows is another sample.
    return requested["selection"]["sample"] is None and before is not None and (now is None or now > before)


def check_same_run(folder: RunFolder, recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> None:
    """Raise UsageError that names every difference if the run in the folder is another one, and not just shorter."""
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
