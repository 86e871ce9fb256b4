"""The data sets of a study: files that were given, or generated rows in their place.

`--data` is a file, NAME=FILE, or a folder that holds the study's data sets under their names: `sst2.jsonl.gz`, or
`sst2/sst2.csv`. A file in the folder whose rows name a data set in the field "source" serves that one. A file whose
name is no data set of the study serves the study's first one. What is not given is generated, or, at the size of the
paper, read from the hub.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from sightline.corpus.data_files import MissingSplitError
from sightline.corpus.readers import HUB, number_repeated_ids, select_rows
from sightline.errors import InputError, OptionError
from sightline.text.examples import Columns, example_from_row

if TYPE_CHECKING:
    from sightline.text import Example
    from sightline_studies.study import Study

ENDINGS = (".jsonl.gz", ".jsonl", ".json", ".json.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
GENERATED = "generated"
MEASURED_SPLITS = ("test", "validation")
TRAINING_SPLITS = ("train", "validation")


@dataclass(frozen=True, eq=False)
class DataSet:
    """Rows to train on and rows to measure."""

    name: str
    origin: str
    """File name, hub address, or "generated"."""
    train: Sequence[Example]
    test: Sequence[Example]

    @property
    def generated(self) -> bool:
        """Whether the rows were made by the study."""
        return self.origin == GENERATED


class DataSources:
    """Which file serves which data set."""

    def __init__(self, study: Study, given: Sequence[str], *, from_hub: bool = False) -> None:
        self.hub = dict(study.paper_size.data) if from_hub else {}
        self.paths: dict[str, str] = {name: hub.address for name, hub in self.hub.items()}
        names = list(study.data)
        files: set[str] = set()
        """Data sets whose file is given itself; a folder that has another does not replace it."""
        for source in given:
            name, _, place = source.partition("=")
            if name in names:
                self._serve(name, place, files)
                continue
            path = Path(source).expanduser()
            if place and name.isidentifier() and not path.exists():
                raise OptionError(f"The study '{study.name}' has no data set '{name}'. It reads: {', '.join(names)}.")
            if source.startswith(HUB) or not path.is_dir():
                stem = path.name.partition(".")[0]
                self._serve(stem if stem in names else names[0], source, files)
                continue
            inside = {name: _find_file(path, name) for name in names}
            sources = _find_sources(path) if not all(inside.values()) else {}
            inside = {name: file or sources.get(name) for name, file in inside.items()}
            if not any(inside.values()):
                raise InputError(
                    f"The folder '{source}' holds no data set of the study '{study.name}'. It looks for "
                    f"{', '.join(names)}, as files NAME.jsonl, NAME.csv … or in folders of these names."
                )
            for name, file in inside.items():
                if file is not None and name not in files:
                    self._serve(name, str(file))

    def _serve(self, name: str, source: str, files: set[str] | None = None) -> None:
        if not source:
            raise InputError(f"--data {name}= names no file.")
        if files is not None:
            if name in files:
                raise OptionError(f"Two files are given for the data set '{name}': leave one out, or write NAME=PATH.")
            files.add(name)
        if not source.startswith(HUB) and not Path(source).expanduser().exists():
            raise InputError(f"There is no data '{source}'. Give a file, a folder, or hf://name.")
        self.paths[name] = source
        self.hub.pop(name, None)

    def read(
        self,
        name: str,
        generate: Callable[[], list[Example]],
        *,
        documents: int,
        training: int = 0,
        seed: int = 0,
    ) -> DataSet:
        """Return `documents` rows to measure and up to `training` rows to train on.

        A file with a field "split" is measured on its test rows, or else on its validation rows, and trained on its
        training rows, or else on its validation rows. If that leaves nothing to train on, or there are no splits, rows
        are divided at random, and no text serves twice. Of a file whose field "source" names several data sets, the
        rows of this one are read.
        """
        path = self.paths.get(name)
        if path is None:
            rows = generate()
            return DataSet(name, GENERATED, rows[documents:][:training], rows[:documents])
        hub = self.hub.get(name)
        columns = Columns() if hub is None else Columns(hub.text, hub.pair, hub.label)
        origin = path if path.startswith(HUB) else Path(path).name
        source = name if not path.startswith(HUB) and _names_source(path, name) else None
        split, test = _read_split(path, MEASURED_SPLITS if hub is None else (hub.test,), columns, source)
        if split is None:
            test = _read_rows(path, None, columns, source)
        if not draw(test, 1, seed):
            raise InputError(f"No row of '{origin}' has a text to measure.")
        if split is not None and training:
            others = [name for name in TRAINING_SPLITS if name != split]
            found, train = _read_split(path, others, columns, source)
            if found is not None:
                return DataSet(name, origin, draw(train, training, seed), draw(test, documents, seed))
        if not training:
            return DataSet(name, origin, [], draw(test, documents, seed))
        return DataSet(name, origin, *divide(test, documents, training, seed))


def draw(rows: Sequence[Example], count: int, seed: int) -> list[Example]:
    """Return `count` rows in random order, all of them if there are fewer; rows without text are left out.

    A larger count adds rows to those of a smaller one, so that results stored for these serve again.
    """
    usable = [row for row in rows if not isinstance(row.text, str) or row.text.strip()]
    return Random(seed).sample(usable, len(usable))[:count]


def divide(rows: Sequence[Example], documents: int, training: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Return up to `training` rows to train on and up to `documents` rows to measure; no text is on both sides.

    If there are too few rows for both, half of them are measured.
    """
    usable = draw(rows, len(rows), seed)
    enough = len(usable) >= documents + training
    wanted = documents if enough else min(documents, -(-len(usable) // 2))
    measured: Counter[str] = Counter()
    for text, size in Counter(str(row.text) for row in usable).items():
        if measured.total() >= wanted:
            break
        measured[text] = size
    test = [row for row in usable if str(row.text) in measured]
    return [row for row in usable if str(row.text) not in measured][:training], test[:documents]


def describe_rows(rows: Sequence[Example]) -> str:
    """Return a hash of the texts and labels of rows."""
    digest = hashlib.blake2b(digest_size=16)
    for row in rows:
        digest.update(repr((row.id, str(row.text), row.pair, row.label, row.answer)).encode(errors="surrogatepass"))
    return digest.hexdigest()


def _find_file(folder: Path, name: str) -> Path | None:
    places = [folder, folder / name, *folder.glob(f"{name}_*/")]
    candidates = [place / f"{stem}{ending}" for place in places for stem in (name, place.name) for ending in ENDINGS]
    return next((path for path in candidates if path.is_file()), None)


def _find_sources(folder: Path) -> dict[str, Path]:
    """Return the data sets that rows of the files in a folder name in their field "source", with their file."""
    files = sorted(path for ending in ENDINGS for place in ("", "*/") for path in folder.glob(f"{place}*{ending}"))
    sources: dict[str, Path] = {}
    for path in files:
        try:
            rows = select_rows(path, Columns(), None, None)
            first = next(rows)[-1]
            if "source" in first:
                names = {str(row.get("source")) for row in chain([first], (fields for *_, fields in rows))}
                sources = {**dict.fromkeys(names, path), **sources}
        except InputError:  # no data set, or one without texts
            continue
    return sources


def _names_source(path: str, name: str) -> bool:
    """Say whether a row of a file names the data set in its field "source"."""
    if Path(path).expanduser().is_dir():
        return False
    return any(str(fields.get("source")) == name for *_, fields in select_rows(path, Columns(), None, None))


def _read_rows(path: str, split: str | None, columns: Columns, source: str | None) -> list[Example]:
    """Return the rows of a split, and of a source if one is named.

    They no longer name their split: the study says what they are for, and may train on validation rows.
    """
    rows = select_rows(path, columns, split, None)
    return number_repeated_ids(
        replace(example_from_row(fields, columns, number, place), split=None)
        for number, place, fields in rows
        if source is None or str(fields.get("source")) == source
    )


def _read_split(
    path: str, splits: Sequence[str], columns: Columns, source: str | None
) -> tuple[str | None, list[Example]]:
    """Return the first of the splits that the file has, and its rows; None if it has none of them."""
    for split in splits:
        with suppress(MissingSplitError):
            return split, _read_rows(path, split, columns, source)
    return None, []
