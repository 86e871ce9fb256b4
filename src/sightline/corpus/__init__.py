"""corpus: data sets from files, folders and the hub; runs over whole corpora and the store of their results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sightline.corpus.readers import read_dataset, read_examples

if TYPE_CHECKING:
    from sightline.corpus.runner import run
    from sightline.corpus.settings import ModelSource, RunSettings
    from sightline.corpus.store import Store, open_run
    from sightline.corpus.streaming import Selection, stream_examples

__all__ = [
    "ModelSource",
    "RunSettings",
    "Selection",
    "Store",
    "open_run",
    "read_dataset",
    "read_examples",
    "run",
    "stream_examples",
]

_HOMES = {
    "ModelSource": "settings",
    "RunSettings": "settings",
    "Selection": "streaming",
    "Store": "store",
    "open_run": "store",
    "run": "runner",
    "stream_examples": "streaming",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sightline.corpus.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sightline.corpus' has no attribute '{name}'")
