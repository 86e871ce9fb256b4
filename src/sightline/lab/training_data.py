"""Labelled rows for training: read, split and checked before any model is loaded."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightline.corpus import read_examples
from sightline.errors import InputError, OptionError
from sightline.text import Example, as_examples

VALIDATION_SPLITS = ("validation", "valid", "dev")
FEWEST_ROWS = 4
"""Below that no validation split can be held out."""


@dataclass(frozen=True)
class TrainingData:
    """Rows of each split, and the names of the classes in the order of their numbers."""

    name: str
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    labels: tuple[str, ...]

    def classes(self, rows: Sequence[Example]) -> list[int]:
        """Return the class number of every row."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return [numbers[str(row.label)] for row in rows]

    @property
    def fingerprint(self) -> str:
        """A digest of all texts and labels, so that a run is not resumed on other data."""
        digest = hashlib.blake2b(digest_size=16)
        for rows in (self.train, self.validation, self.test):
            digest.update(b"split")
            for row in rows:
                digest.update(repr((row.text, row.pair, str(row.label))).encode())
        return digest.hexdigest()


def read_training_data(
    data: str | Path | Iterable[Any],
    *,
    text: str = "text",
    pair: str = "text_pair",
    label: str = "label",
    validation: float = 0.1,
    limit: int | None = None,
    seed: int = 0,
) -> TrainingData:
    """Return the labelled rows of a file, folder, hub id or list.

    A data set with a field `split` keeps its splits (train, validation, test). Otherwise, or if it has no validation
    rows, the share `validation` of the training rows is held out, of every class alike. limit: training rows at most.
    """
    if not 0 < validation < 1:
        raise OptionError(
            f"validation={validation} is not possible; it is the share of rows held out, between 0 and 1."
        )
    splits: dict[str, list[Example]] = {"validation": [], "test": []}
    if isinstance(data, str | Path):
        name = Path(str(data)).name
        columns = {"text": text, "pair": pair, "label": label}
        train = _read_split(data, "train", columns, limit)
        if train is None:
            train = read_examples(data, **columns, limit=limit)
        else:
            candidates = (_read_split(data, split, columns, None) for split in VALIDATION_SPLITS)
            splits["validation"] = next((rows for rows in candidates if rows), [])
            splits["test"] = _read_split(data, "test", columns, None) or []
    else:
        name = "rows given in Python"
        train = as_examples(data, text=text, pair=pair, label=label)[:limit]
    train = _keep_labelled(train, name, label)
    held_out = _keep_labelled(splits["validation"], name, label)
    if not held_out:
        train, held_out = _hold_out(train, validation, seed)
    test = _keep_labelled(splits["test"], name, label)
    labels = _label_names(train, held_out, test, name)
    return TrainingData(name, tuple(train), tuple(held_out), tuple(test), labels)


def _read_split(data: str | Path, split: str, columns: dict[str, str], limit: int | None) -> list[Example] | None:
    """Return the rows of one split, or None if the data set does not have it."""
    try:
        return read_examples(data, **columns, split=split, limit=limit)
    except InputError:
        # A wrong path or field fails again, and is reported, when the data set is read as a whole.
        return None


def _keep_labelled(rows: Sequence[Example], name: str, field: str) -> list[Example]:
    labelled = [row for row in rows if row.label is not None and isinstance(row.text, str) and row.text.strip()]
    if rows and not labelled:
        raise InputError(f"No row of '{name}' has a label in the field '{field}'. Say which field holds it (label).")
    return labelled


def _hold_out(rows: list[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """Return training and validation rows: of every class the same share, and at least one where it has two or more."""
    if len(rows) < FEWEST_ROWS:
        raise InputError(f"{len(rows)} labelled rows are too few to train on; at least {FEWEST_ROWS} are needed.")
    generator = np.random.default_rng(seed)
    chosen: set[int] = set()
    for label in sorted({str(row.label) for row in rows}):
        places = [place for place, row in enumerate(rows) if str(row.label) == label]
        if len(places) > 1:
            chosen.update(generator.permutation(places)[: max(1, round(share * len(places)))].tolist())
    return (
        [row for place, row in enumerate(rows) if place not in chosen],
        [row for place, row in enumerate(rows) if place in chosen],
    )


def _label_names(
    train: Sequence[Example], validation: Sequence[Example], test: Sequence[Example], name: str
) -> tuple[str, ...]:
    """Return the labels of the training rows: numbers in order, names by the alphabet."""
    counts = Counter(str(row.label) for row in train)
    if len(counts) < 2:
        raise InputError(
            f"All training rows of '{name}' have the label '{next(iter(counts), '')}'; a classifier needs two classes."
        )
    numbered = all(isinstance(row.label, int) for row in train)
    labels = tuple(sorted(counts, key=int if numbered else str))
    for split, rows in (("validation", validation), ("test", test)):
        unknown = next((row for row in rows if str(row.label) not in counts), None)
        if unknown is not None:
            raise InputError(
                f"The label '{unknown.label}' of row {unknown.id or '?'} ({split}) is not in the training rows."
            )
    return labels
