"""Labelled rows for training: read, split and checked before any model is loaded."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sightline.corpus import read_examples
from sightline.errors import InputError, OptionError
from sightline.lab.training_tasks import WITHOUT_CLASSES, TrainingTask, labels_of
from sightline.models.classes import fold_label
from sightline.settings.values import refuse_unused
from sightline.text import Example, as_examples, check_text
from sightline.text.examples import EVERY_SPLIT, SPLITS, Columns
from sightline.text.words import has_visible_character

MISSING = frozenset({"nan", "na", "n/a", "none", "null"})
"""Spellings of a missing label where all other labels are numbers."""
VALIDATION = 0.1
"""Default share of the rows that is held out."""
FEWEST_ROWS = 4
"""With fewer rows, no validation split can be held out."""


@dataclass(frozen=True)
class TrainingData:
    """Rows of each split, and the names of the classes in the order of their numbers."""

    name: str
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    labels: tuple[str, ...]
    task: TrainingTask = "sequence_classification"
    left_out: int = 0
    """Rows without text or label, or without question or answers."""
    notes: tuple[str, ...] = ()
    """Sentences on how the rows were divided, and on rows with equal texts."""

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
                digest.update(repr((row.text, row.pair, str(row.label), row.answer)).encode())
        return digest.hexdigest()


def read_training_data(
    data: str | Path | Iterable[Any],
    *,
    text: str = "text",
    pair: str = "text_pair",
    label: str = "label",
    validation: float | None = None,
    limit: int | None = None,
    seed: int = 0,
    task: TrainingTask = "sequence_classification",
) -> TrainingData:
    """Return the labelled rows of a file, folder, hub id or list; a masked_lm needs texts only.

    A data set with splits, or with a field `split`, keeps them: train or training; validation, valid, val or dev; test;
    in any case. Other names are refused. Without validation rows, the share `validation` (0.1) of the training rows is
    held out, of every class alike; rows with equal texts, and questions with equal contexts, are held out together.
    Test rows are never trained on. limit: draw this many training rows by the seed, stratified by class.
    """
    if task in WITHOUT_CLASSES:
        refuse_unused({f"label={label!r}": label != "label"}, f"has no effect: the task {task} has no labels.")
    columns = Columns(text, pair, label)
    if isinstance(data, str | Path):
        name = Path(str(data)).name
        rows = read_examples(data, text=text, pair=pair, label=label, split=EVERY_SPLIT)
    else:
        name = "rows given in Python"
        rows = as_examples(data, text=text, pair=pair, label=label)
    spellings = {} if task in WITHOUT_CLASSES else _other_spellings(rows, task)
    rows = [_respell(row, spellings, task) for row in rows]
    train, held_out, test = (
        _keep_labelled(part, name, columns, task) for part in _divide_by_split(rows, name).values()
    )
    left_out = len(rows) - len(train) - len(held_out) - len(test)
    if limit is not None and limit < len(train):
        train = _draw(train, limit, seed, name, by_class=task == "sequence_classification")
    source = "as the data set says"
    if held_out:
        refuse_unused({"validation": validation}, f"has no effect: '{name}' has validation rows. Leave it out.")
    else:
        train, held_out = _hold_out(train, VALIDATION if validation is None else validation, seed, task)
        source = "drawn from the training rows"
    labels = () if task in WITHOUT_CLASSES else _label_names(train, held_out, test, name, task)
    sizes = f"{len(train):,} for training, {len(held_out):,} for validation ({source}), {len(test):,} for test"
    notes = (f"Rows: {sizes}.", *_spelling_notes(spellings), *_repetition_notes(train, held_out, test))
    return TrainingData(name, tuple(train), tuple(held_out), tuple(test), labels, task, left_out, notes)


def _divide_by_split(rows: Sequence[Example], name: str) -> dict[str, list[Example]]:
    """Return the rows of train, validation and test; all are for training if no row names a split."""
    counts = Counter(row.split for row in rows)
    if set(counts) == {None}:
        return {"train": list(rows), "validation": [], "test": []}
    listed = ", ".join(f"{split or 'empty'} ({count:,} rows)" for split, count in counts.items())
    if counts.keys() - SPLITS.keys():
        raise InputError(
            f"The splits of '{name}' are {listed}. Every row must be in one of train, validation (valid, val, dev) and "
            "test: rename the others, or leave out their rows."
        )
    if "train" not in counts:
        raise InputError(f"No row of '{name}' is in the split train. Its splits: {listed}.")
    return {split: [row for row in rows if row.split == split] for split in SPLITS}


def _other_spellings(rows: Sequence[Example], task: TrainingTask) -> dict[str, str]:
    """Return the most frequent spelling of each label that has several, which differ only in case or blanks."""
    counts = Counter(label for row in rows if row.label is not None for label in _written_labels(row, task))
    usual: dict[str, str] = {}
    for label, _ in counts.most_common():
        usual.setdefault(fold_label(label), label)
    return {label: usual[fold_label(label)] for label in counts if usual[fold_label(label)] != label}


def _written_labels(row: Example, task: TrainingTask) -> list[str]:
    """Return the labels of a row, one per word of a tagged text, without checking their number."""
    return str(row.label).split() if task == "token_classification" else [str(row.label)]


def _respell(row: Example, spellings: Mapping[str, str], task: TrainingTask) -> Example:
    """Return the row with the usual spelling of its labels."""
    if row.label is None or not any(label in spellings for label in _written_labels(row, task)):
        return row
    return replace(row, label=" ".join(spellings.get(label, label) for label in _written_labels(row, task)))


def _spelling_notes(spellings: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for every class whose label is written in several ways."""
    for usual in dict.fromkeys(spellings.values()):
        others = ", ".join(f"'{label}'" for label, name in spellings.items() if name == usual)
        yield f"Labels read as '{usual}', from which they differ only in case or blanks: {others}."


def _keep_labelled(rows: Sequence[Example], name: str, columns: Columns, task: TrainingTask) -> list[Example]:
    """Return the rows that have a text and a label; raise InputError if there are none."""
    with_text = [row for row in rows if isinstance(row.text, str) and has_visible_character(row.text)]
    for row in with_text:
        _check_characters(row)
    if rows and not with_text:
        raise InputError(f"No row of '{name}' has a text in the field '{columns.text}'. Name the field that holds it.")
    if task == "masked_lm":
        return with_text
    if task == "question_answering":
        return _keep_answered(with_text, name, columns.pair)
    labelled = [row for row in with_text if row.label is not None]
    if any(isinstance(row.label, int) for row in labelled):
        named = {str(row.label).strip().lower() for row in labelled if not isinstance(row.label, int)}
        if named <= MISSING:  # tables write a missing number like this
            labelled = [row for row in labelled if isinstance(row.label, int)]
    if rows and not labelled:
        raise InputError(
            f"No row of '{name}' has a label in the field '{columns.label}'. Say which field holds it (label)."
        )
    return labelled


def _check_characters(row: Example) -> None:
    """Raise InputError if a text of the row cannot be given to a tokenizer."""
    try:
        check_text(row.text)
        if row.pair and has_visible_character(row.pair):
            check_text(row.pair, "second text")
    except InputError as error:
        raise InputError(f"Row {row.id or '?'}: {error}") from None


def _keep_answered(rows: Sequence[Example], name: str, question: str) -> list[Example]:
    """Return the rows with a question and a list of answers, which is empty if the context does not answer it."""
    asked = [row for row in rows if row.pair and has_visible_character(row.pair)]
    if rows and not asked:
        raise InputError(
            f"No row of '{name}' has a question in the field '{question}'. Say which field holds it (pair=, --pair); "
            "the text is the context."
        )
    answered = [row for row in asked if row.answer is not None]
    if rows and not answered:
        raise InputError(
            f"No row of '{name}' has answers. They are read from the field 'answers' as in SQuAD, "
            '{"text": [...], "answer_start": [...]}, or from \'answer\', [[start, end], ...] in characters of the text.'
        )
    return answered


def _draw(rows: list[Example], count: int, seed: int, name: str, *, by_class: bool) -> list[Example]:
    """Return `count` of the rows in their order, drawn by the seed and stratified: at least one row per class."""
    places_of = _by_group([str(row.label) if by_class else "" for row in rows])
    if count < len(places_of):
        raise OptionError(
            f"limit={count} is too few: the training rows of '{name}' have {len(places_of)} classes, and one row of "
            "each is needed."
        )
    sizes = np.array([len(places) for places in places_of])
    wanted = sizes * count / len(rows)
    # One row per class, then one at a time to the class that is furthest below its share; ties go to the first.
    taken = np.ones(len(sizes), dtype=np.int64)
    for _ in range(count - len(sizes)):
        taken[int(np.argmax(np.where(taken < sizes, wanted - taken, -np.inf)))] += 1
    generator = np.random.default_rng(seed)
    drawn = [generator.permutation(places)[:number] for places, number in zip(places_of, taken, strict=True)]
    return [rows[place] for place in sorted(np.concatenate(drawn).tolist())]


def _by_group(groups: Sequence[str]) -> list[list[int]]:
    """Return the places of every group, groups in alphabetical order."""
    places_of: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        places_of.setdefault(group, []).append(place)
    return [places_of[group] for group in sorted(places_of)]


def _hold_out(rows: list[Example], share: float, seed: int, task: TrainingTask) -> tuple[list[Example], list[Example]]:
    """Return training and validation rows.

    The same share of every class, at least one row if a class has two or more; for questions, whole contexts. Rows with
    equal texts stay together.
    """
    if len(rows) < FEWEST_ROWS:
        raise InputError(f"{len(rows)} labelled rows are too few to train on; at least {FEWEST_ROWS} are needed.")
    generator = np.random.default_rng(seed)
    chosen: set[int] = set()
    if task == "question_answering":
        contexts = _by_group([_content(row)[0] for row in rows])
        if len(contexts) < 2:
            raise InputError(
                "All questions have the same context, so none can be held out for validation. Give rows of another "
                "context, in the split 'validation' if the data set has splits."
            )
        # A model that has seen a context in training answers further questions on it better than on a new one.
        for number in generator.permutation(len(contexts))[:-1]:
            if chosen and len(chosen) >= round(share * len(rows)):
                break
            chosen.update(contexts[number])
    else:
        labels = [str(row.label) if task == "sequence_classification" else "" for row in rows]
        # Rows are held out individually only where no class has a second text.
        chosen = _choose_texts([_content(row) for row in rows], labels, share, generator) or _choose_texts(
            range(len(rows)), labels, share, generator
        )
        if not chosen:
            raise InputError(
                "Every row has a class of its own, so none can be held out for validation. Give more rows per class, "
                "or rows in the split 'validation'."
            )
    return (
        [row for place, row in enumerate(rows) if place not in chosen],
        [row for place, row in enumerate(rows) if place in chosen],
    )


def _choose_texts(
    texts: Sequence[Hashable], labels: Sequence[str], share: float, generator: np.random.Generator
) -> set[int]:
    """Return the indices of the held-out rows: a share of every class, equal texts together, some left to train on."""
    places_of: dict[Hashable, list[int]] = {}
    for place, text in enumerate(texts):
        places_of.setdefault(text, []).append(place)
    remaining = Counter(labels)
    chosen: set[int] = set()
    for places in _by_group(labels):
        firsts = [place for place in places if places_of[texts[place]][0] == place]
        label = labels[places[0]]
        enough = remaining[label] - max(1, round(share * len(places)))
        for first in generator.permutation(firsts).tolist():
            moved = Counter(labels[place] for place in places_of[texts[first]])
            if remaining[label] > enough and all(remaining[name] > count for name, count in moved.items()):
                chosen.update(places_of[texts[first]])
                remaining -= moved
    return chosen


def _content(row: Example) -> tuple[str, ...]:
    """Return the texts of a row without regard to case and blanks; rows with equal content stay in one split."""
    return tuple(" ".join(str(text or "").casefold().split()) for text in (row.text, row.pair))


def _repetition_notes(
    train: Sequence[Example], validation: Sequence[Example], test: Sequence[Example]
) -> Iterator[str]:
    """Yield sentences on texts that occur more than once, and on those that were also trained on."""
    counts = Counter(_content(row) for row in chain(train, validation, test))
    if repeated := counts.total() - len(counts):
        yield f"{repeated:,} rows repeat the text of another row."
    learnt = {_content(row) for row in train}
    for split, rows in (("validation", validation), ("test", test)):
        if known := sum(_content(row) in learnt for row in rows):
            yield (
                f"{known:,} of {len(rows):,} {split} rows have a text that is also trained on, so the results on them "
                "are optimistic."
            )


def _label_names(
    train: Sequence[Example],
    validation: Sequence[Example],
    test: Sequence[Example],
    name: str,
    task: TrainingTask,
) -> tuple[str, ...]:
    """Return the labels of the training rows: numbers in ascending order, names alphabetically."""
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
