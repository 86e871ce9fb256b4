"""The documents of an evaluation: what is explained of each, with which seeds, and how many run at once.

Seeds depend only on the given seed, the document and the method, so that a number does not depend on what else is
measured, or in which order.

Short documents run in parallel: one thread per core, each with a network that has its own hooks and shares the weights.
Long documents would fill the memory, so they run one after the other; only their perturbed forms run side by side
(`Network.run_many`).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from sightline.errors import SightlineError, TargetError
from sightline.methods import METHODS
from sightline.metrics import tokens_in_characters
from sightline.models.answers import NO_ANSWER
from sightline.models.batching import Send, run_side_by_side
from sightline.models.classes import Label, classes_of, no_class
from sightline.models.target import TargetLike
from sightline.progress import Progress
from sightline.settings.evaluation import TargetChoice as TargetChoice
from sightline.text import Encoding, Example

if TYPE_CHECKING:
    from sightline.api.model import Model

E = TypeVar("E")


class Missing(Exception):  # noqa: N818 (a signal, not an error)
    """Something that is not defined for this document; the message is the reason."""


def encode_example(model: Model, example: Example) -> Encoding:
    """Return an example as the model reads it."""
    if isinstance(example.text, Encoding):
        return example.text
    return model.encode(*model.network.task.reading_order(example.text, example.pair))


def has_gold(model: Model, example: Example) -> bool:
    """Say whether the true class of an example is known, or the true answer for a model that answers questions."""
    return (example.answer if model.task == "question_answering" else example.label) is not None


def label_classes(model: Model, examples: Iterable[Example]) -> dict[Label, int | None]:
    """Return the class of the model that each label of a data set means (`models.classes`); None for no class."""
    named = model.network.task.has_named_classes
    return classes_of((row.label for row in examples), model.labels) if named else {}


def choose_target(
    model: Model,
    example: Example,
    encoding: Encoding,
    choice: TargetChoice,
    classes: Mapping[Label, int | None],
) -> TargetLike:
    """Return what to explain: None for the prediction; for "label" the true class, or the true answer of a question.

    Of several true answers, the first one that the model reads whole is explained; none at all is "no answer".
    classes: the `label_classes` of the data set.
    """
    if choice == "predicted":
        return None
    if model.task == "question_answering":
        return _true_answer(example, encoding)
    if example.label is None:
        raise Missing("The document has no label, and the label was to be explained.")
    if model.network.task.classes_are_tokens:
        return example.label
    index = classes.get(example.label)
    if index is None:
        raise TargetError(no_class(example.label, model.labels))
    return model.labels[index]


def context_segment(model: Model, encoding: Encoding) -> int:
    """Return the segment that marked characters count in: the context of a question, else the text."""
    return int(model.task == "question_answering" and encoding.pair is not None)


def _true_answer(example: Example, encoding: Encoding) -> TargetLike:
    if example.answer is None:
        raise Missing("The document has no answer, and the true answer was to be explained.")
    segment = int(encoding.pair is not None)
    for start, end in example.answer:
        inside = np.flatnonzero(
            tokens_in_characters(encoding.offsets, [(start, end)], segments=encoding.segments, segment=segment)
        )
        if len(inside) and encoding.offsets[inside[-1], 1] >= end:
            return int(inside[0]), int(inside[-1])
    if example.answer:
        raise Missing("The true answer lies outside of what the model reads.")
    return NO_ANSWER


def describe_error(error: Exception) -> str:
    """Return the message of an error; errors that are not Sightline's are preceded by their type."""
    return str(error) if isinstance(error, SightlineError) else f"{type(error).__name__}: {error}"


def seed_for(seed: int, *names: str) -> int:
    """Return the seed of one document, method or metric, by their names."""
    digest = hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def seeded_options(method: str, options: Mapping[str, Any], seed: int, document: str) -> dict[str, Any]:
    """Return the options of a method, with a seed of its own for the document if it takes one and none was given."""
    if "seed" not in METHODS.get(method).options:
        return dict(options)
    return {"seed": seed_for(seed, document, method), **options}


def explain_by_each(
    methods: Iterable[str], explain: Callable[[str], E], progress: Progress | None = None
) -> tuple[dict[str, E], dict[str, str]]:
    """Return what `explain` gives for each method, and the reasons of those that failed: the others continue."""
    names = list(dict.fromkeys(methods))
    explained: dict[str, E] = {}
    failures: dict[str, str] = {}
    for step, name in enumerate(names):
        if progress is not None:
            progress(name, step, len(names))
        try:
            explained[name] = explain(name)
        except Exception as error:  # whatever a method does, the others are measured
            failures[name] = describe_error(error)
    return explained, failures


R = TypeVar("R")
Work = Callable[["Model", Example, Progress | None], R]

FEWEST_DOCUMENTS = 4
"""With fewer documents, a second network does not pay off."""
LONGEST_CHARACTERS = 4000
"""Documents up to here, about 1,000 tokens, run side by side."""


def report_document(progress: Progress | None, number: int, documents: int) -> Progress | None:
    """Report how many documents are done; return a function that reports the stages of the next one."""
    if progress is None:
        return None
    progress("documents", number, documents)
    prefix = f"document {number + 1} of {documents}: "
    return lambda stage, done, total: progress(prefix + stage, done, total)


def each_document(
    model: Model, examples: Sequence[Example], work: Work[R], progress: Progress | None
) -> Iterator[tuple[int, R]]:
    """Yield the number of every document and the result of `work` for it, in the order of completion."""
    threads = torch.get_num_threads()
    short = all(_characters(example) <= LONGEST_CHARACTERS for example in examples)
    if threads > 1 and short and len(examples) >= FEWEST_DOCUMENTS and model.network.device.type == "cpu":
        yield from _run_side_by_side(model, examples, work, progress, min(threads, len(examples) // 2))
        return
    for number, example in enumerate(examples):
        yield number, work(model, example, report_document(progress, number, len(examples)))


def _run_side_by_side(
    model: Model, examples: Sequence[Example], work: Work[R], progress: Progress | None, workers: int
) -> Iterator[tuple[int, R]]:
    # The tokenizer is copied as well: those of the library cannot be used by two threads at once.
    models = [type(model)(model.network.twin(), copy.deepcopy(model.tokenizer)) for _ in range(workers)]

    def run(twin: Model, number: int, send: Send) -> R:
        prefix = f"document {number + 1} of {len(examples)}: "
        return work(twin, examples[number], lambda stage, done, total: send((prefix + stage, done, total)))

    def receive(report: Any) -> None:
        if progress is not None:
            progress(*report)

    try:
        receive(("documents", 0, len(examples)))
        for done, (number, result) in enumerate(run_side_by_side(models, len(examples), run, receive), 1):
            yield number, result
            receive(("documents", done, len(examples)))
    finally:
        for twin in models:
            model.network.count_passes_of(twin.network)


def _characters(example: Example) -> int:
    if isinstance(example.text, Encoding):
        return len(example.text.text) + len(example.text.pair or "")
    return len(example.text) + len(example.pair or "")
