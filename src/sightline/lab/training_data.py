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
from sightline.lab.training_tasks import TrainingTask, labels_of
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
    task: TrainingTask = "sequence_classification"

    def classes(self, rows: Sequence[Example]) -> list[list[int]]:
        """Return the numbers of the classes of every row: one, or one per word, or none (`labels_of`)."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return [[numbers[label] for label in labels_of(row, self.task)] for row in rows]

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
    task: TrainingTask = "sequence_classification",
) -> TrainingData:
    """Return the labelled rows of a file, folder, hub id or list; a masked_lm needs texts only.

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
    train, held_out, test = (
        _keep_labelled(rows, name, label, task) for rows in (train, splits["validation"], splits["test"])
    )
    if not held_out:
        train, held_out = _hold_out(train, validation, seed, by_class=task == "sequence_classification")
    labels = () if task == "masked_lm" else _label_names(train, held_out, test, name, task)
    return TrainingData(name, tuple(train), tuple(held_out), tuple(test), labels, task)


def _read_split(data: str | Path, split: str, columns: dict[str, str], limit: int | None) -> list[Example] | None:
    """Return the rows of one split, or None if the data set does not have it."""
    try:
        return read_examples(data, **columns, split=split, limit=limit)
    except InputError:
        # A wrong path or field fails again, and is reported, when the data set is read as a whole.
        return None


def _keep_labelled(rows: Sequence[Example], name: str, field: str, task: TrainingTask) -> list[Example]:
    with_text = [row for row in rows if isinstance(row.text, str) and row.text.strip()]
    if task == "masked_lm":
        return with_text
    labelled = [row for row in with_text if row.label is not None]
    if rows and not labelled:
        raise InputError(f"No row of '{name}' has a label in the field '{field}'. Say which field holds it (label).")
    return labelled


def _hold_out(rows: list[Example], share: float, seed: int, *, by_class: bool) -> tuple[list[Example], list[Example]]:
    """Return training and validation rows: of every class the same share, and at least one where it has two or more."""
    if len(rows) < FEWEST_ROWS:
        raise InputError(f"{len(rows)} labelled rows are too few to train on; at least {FEWEST_ROWS} are needed.")
    generator = np.random.default_rng(seed)
    chosen: set[int] = set()
    groups = [str(row.label) if by_class else "" for row in rows]
    for label in sorted(set(groups)):
        places = [place for place, group in enumerate(groups) if group == label]
        if len(places) > 1:
            chosen.update(generator.permutation(places)[: max(1, round(share * len(places)))].tolist())
    return (
        [row for place, row in enumerate(rows) if place not in chosen],
        [row for place, row in enumerate(rows) if place in chosen],
    )


def _label_names(
    train: Sequence[Example],
    validation: Sequence[Example],
    test: Sequence[Example],
    name: str,
    task: TrainingTask,
) -> tuple[str, ...]:
    """Return the labels of the training rows: numbers in order, names by the alphabet."""
    counts = Counter(label for row in train for label in labels_of(row, task))
    if len(counts) < 2:
        raise InputError(
            f"All training rows of '{name}' have the label '{next(iter(counts), '')}'; a classifier needs two classes."
        )
    numbered = all(isinstance(row.label, int) for row in train)
    labels = tuple(sorted(counts, key=int if numbered else str))
    for split, rows in (("validation", validation), ("test", test)):
        for row in rows:
            unknown = next((label for label in labels_of(row, task) if label not in counts), None)
            if unknown is not None:
                raise InputError(f"The label '{unknown}' of row {row.id or '?'} ({split}) is not in the training rows.")
    return labels
