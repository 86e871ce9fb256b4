"""manifest.json: the identity of a run, so that it is resumed only with the same model, data and settings.

The hash of the weights, the content of the data file, the selection of rows and the settings are compared. Versions of
libraries are recorded; if a run is resumed with other versions, all of them are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sightline.corpus.folder import MANIFEST, RunFolder
from sightline.corpus.plan import Plan, digest_of, metadata_of
from sightline.corpus.settings import RunSettings
from sightline.corpus.streaming import Selection
from sightline.corpus.tables import VERSION
from sightline.errors import InputError, UsageError
from sightline.model import Model
from sightline.text.examples import Example

FORMAT = "sightline-corpus"
_VERSIONS = ("sightline", "torch", "transformers", "python")
_LIMIT = "selection.limit"
_COMPARED = ("model", "data", "selection", "settings")
_MAY_CHANGE = frozenset(
    {"model.name", "data.source", "data.modified", "settings.unit_documents", "settings.unit_characters"}
)
"""Fields that may differ when a run is resumed: a folder may be moved, a file copied, and the plan that exists is kept
whatever the size of its units."""


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
        },
        "data": dict(data),
        "selection": asdict(selection),
        "settings": settings.to_dict(),
        "versions": [{name: provenance[name] for name in _VERSIONS}],
        "plan": None if plan is None else plan.to_dict(),
    }


def describe_data(source: Any, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what identifies a data set: the hash of its content, or the name of a data set on the hub.

    known: the description from an earlier run; a file of the same size and time is not read again.
    """
    if not isinstance(source, str | Path):
        return {"source": None, "sha256": _hash_examples(source)}
    path = Path(source).expanduser()
    if not path.exists():
        return {"source": str(source)}
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    state = [[file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    described = {
        "source": str(path.resolve()),
        "bytes": sum(size for size, _ in state),
        "modified": max((modified for _, modified in state), default=0),
    }
    if known is not None and all(known.get(name) == value for name, value in described.items()):
        return dict(known)
    content = hashlib.sha256()
    for file in files:
        content.update(file.relative_to(path).as_posix().encode())  # "." for a single file
        with file.open("rb") as opened:
            content.update(hashlib.file_digest(opened, "sha256").digest())
    return {**described, "sha256": content.hexdigest()}


def _hash_examples(examples: Iterable[Example]) -> str:
    content = hashlib.sha256()
    for example in examples:
        facts = [digest_of(str(example.text), example.pair), example.label, example.id, metadata_of(example)]
        content.update(json.dumps(facts).encode())
    return content.hexdigest()


def read_manifest(folder: RunFolder) -> dict[str, Any] | None:
    """Return the manifest of a folder, None if there is none; raise InputError if it cannot be used."""
    try:
        manifest = json.loads(folder.storage.read(MANIFEST))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        raise InputError(f"'{folder.path}/{MANIFEST}' is damaged: it is not JSON.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"'{folder.path}' contains a manifest.json of another program. Choose another folder.")
    if manifest["version"] > VERSION:
        raise InputError(
            f"'{folder.path}' was written by a newer Sightline (format {manifest['version']}, this one reads up to "
            f"{VERSION}). Update Sightline."
        )
    return manifest


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
        name: f"{name}: {_abbreviate(before)} before, {_abbreviate(now)} now"
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
