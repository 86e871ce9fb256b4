"""What everything over a data set shares: its documents, the class to explain, options and seeds of the methods.

Nothing here depends on the other documents or on their order: the seed of a method that draws at random is made of the
seed given, the document's id and the method's name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from sightline.arguments import check_count
from sightline.corpus import read_examples
from sightline.corpus.fields import Columns, example
from sightline.corpus.readers import LABEL, PAIR, TEXT
from sightline.errors import InputError, OptionError, SightlineError
from sightline.methods import METHODS, Method
from sightline.model import Model
from sightline.text import Encoding, Example, as_examples

TargetChoice = Literal["predicted", "label"]
Progress = Callable[[str, int, int], None]


class Missing(Exception):  # noqa: N818 (a signal, not an error)
    """Something that is not defined for this document; the message is the reason."""


def examples_of(dataset: str | Path | Iterable[Any], limit: int | None = None) -> list[Example]:
    """Return the documents of a data set or of a file, the first `limit` of them, each with an id of its own."""
    if isinstance(dataset, str | Path):
        return read_examples(dataset, limit=limit)
    if not isinstance(dataset, Iterable) or isinstance(dataset, Mapping | bytes):
        raise InputError(
            "A data set is a list of texts or rows, a table, or the path of a file; what was given is of type "
            f"{type(dataset).__name__}."
        )
    if limit is not None:
        check_count("limit", limit)
    times: dict[str, int] = {}
    found = []
    for one in as_examples(_read_rows(dataset))[:limit]:
        times[one.id] = times.get(one.id, 0) + 1
        found.append(replace(one, id=f"{one.id}#{times[one.id]}") if times[one.id] > 1 else one)
    return found


def _read_rows(dataset: Iterable[Any]) -> Iterable[Any]:
    """Return the rows, those with fields read as if they stood in a file: rationales and answers in all known forms."""
    if hasattr(dataset, "to_dict") and hasattr(dataset, "columns"):
        dataset = dataset.to_dict("records")
    columns = Columns(TEXT, PAIR, LABEL)
    return [
        example(row, columns, number, f"Row {number} of the data set")
        if isinstance(row, Mapping) and isinstance(row.get(TEXT), str)
        else row
        for number, row in enumerate(dataset)
    ]


def loaded_model(given: Any) -> Model:
    """Return the model; refuse what is none, above all the name of one."""
    if isinstance(given, Model):
        return given
    if isinstance(given, str | Path):
        raise OptionError(f"'{given}' is the name of a model, not a model: load it first, with sl.load('{given}').")
    raise OptionError(f"A model as sl.load() returns it is needed; what was given is of type {type(given).__name__}.")


def given_names(given: Any, option: str) -> list[str]:
    """Return one name or several as a list, each once."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable):
        raise OptionError(f"{option}={given!r} is not possible; give a name, or a list of names.")
    return list(dict.fromkeys(given))


def checked_options(options: Mapping[str, Any], methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options of each method; a wrong one is refused before anything runs."""
    for name, own in options.items():
        if name not in methods or not isinstance(own, Mapping):
            raise OptionError(
                f"Options are given by method, for example {methods[0]}={{...}}; '{name}' is neither an option of the "
                "evaluation nor a method that is evaluated."
            )
        METHODS.get(name).check_options(own)
    return {name: dict(own) for name, own in options.items()}


def watcher(progress: Progress | None, number: int, documents: int) -> Callable[[str, int, int], None] | None:
    """Tell how far the documents are, and within one document what is going on."""
    if progress is None:
        return None
    progress("documents", number, documents)
    where = f"document {number + 1} of {documents}: "
    return lambda stage, done, total: progress(where + stage, done, total)


def encoded(model: Model, example: Example) -> Encoding:
    """Return an example as the model reads it.

    Models that answer questions read the question first; in an example the text is what answers it.
    """
    if isinstance(example.text, Encoding):
        return example.text
    if model.task == "question_answering" and example.pair is not None:
        return model.encode(example.pair, example.text)
    return model.encode(example.text, example.pair)


def wanted(example: Example, choice: TargetChoice) -> int | str | None:
    """Return the class to explain, None for the predicted one."""
    if choice == "label" and example.label is None:
        raise Missing("The document has no label, and the label was to be explained.")
    return example.label if choice == "label" else None


def seed_for(seed: int, *names: str) -> int:
    """Return a seed of its own for a document and method, whatever else is measured beside them."""
    digest = hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def seeded(entry: Method, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the options of a method with a seed, where it takes one and none was given."""
    return {"seed": seed, **options} if "seed" in entry.options else dict(options)


def describe_error(error: Exception) -> str:
    """Return what went wrong: the message of our own errors; others are named."""
    return str(error) if isinstance(error, SightlineError) else f"{type(error).__name__}: {error}"
