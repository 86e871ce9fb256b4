"""The accuracy of a study's models, measured on more documents than are explained, since predictions are cheap.

Whether a model has learnt its task may depend on a few percent, for which the explained documents are too few. A model
that has not learnt it counts neither for a claim nor against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sightline.errors import ModelError
from sightline.evaluation.subject import label_classes
from sightline.text import Example
from sightline_studies.data import DataSet
from sightline_studies.verdicts import Accuracy
from sightline_studies.workbench import Subject, Workbench

CAPTION = (
    "accuracy: share of the test documents that are classified correctly. largest class: accuracy of always naming the "
    "most frequent class. learnt: whether the interval of the accuracy is above that. Models that have not learnt the "
    "task count neither for a claim nor against it."
)
"""Of a table with `accuracy_columns`."""


def readable(bench: Workbench, subject: Subject, data: DataSet, left_out: list[str]) -> list[Example]:
    """Return the test documents that a model can read; `left_out` gets a sentence about the others, if any.

    A model with its own vocabulary cannot read documents most of whose words it does not know.
    """

    def try_out(part: Sequence[Example]) -> Iterator[bool]:
        for example in part:
            try:
                subject.model.encode(str(example.text), example.pair, truncate=True)
            except ModelError:
                yield False
            else:
                yield True

    known = bench.measure_documents(
        f"readable-{data.name}", {"model": subject.identity}, data.test, try_out, at_once=1000
    )
    if not all(known):
        left_out.append(
            f"{data.name}: {known.count(False)} of {len(known):,} test documents, because {subject.name} does not know "
            "most of their words."
        )
    return [example for example, kept in zip(data.test, known, strict=True) if kept]


def measure_accuracy(
    bench: Workbench,
    subject: Subject,
    examples: Sequence[Example],
    name: str,
    *,
    identity: Mapping[str, Any] | None = None,
    read: Callable[[Example], str] = lambda example: str(example.text),
    numbered: bool = False,
) -> list[dict[str, Any]]:
    """Return the predicted and the true label of every document or pair of texts that has a label.

    identity: what determines the texts besides the examples, if `read` shortens them. numbered: labels are the numbers
    of the classes, or their names.
    """

    def predict(part: Sequence[Example]) -> Iterator[dict[str, Any]]:
        model = subject.model
        classes: dict[Any, int | None] = label_classes(model, labelled)
        encodings = [model.encode(read(example), example.pair, truncate=True) for example in part]
        for example, logits in zip(part, model.network.run_many(encodings), strict=True):
            number, index = int(logits.argmax()), classes.get(example.label)
            if numbered:
                yield {"predicted": number, "label": example.label if index is None else index}
            else:
                label = example.label if index is None else model.labels[index]
                yield {"predicted": model.labels[number], "label": label}

    whole = {"model": subject.identity, **(identity or {})}
    labelled = [example for example in examples if example.label is not None]
    return bench.measure_documents(f"accuracy-{name}", whole, labelled, predict, at_once=100)


def has_learnt(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether a model is right more often than always naming the largest class, with the 95 % interval."""
    return Accuracy.of(entries).gain.above_zero


def accuracy_columns(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of a table of accuracies."""
    accuracy = Accuracy.of(entries)
    return {
        **accuracy.measured.columns("accuracy"),
        "largest_class": accuracy.majority,
        "learnt": "yes" if has_learnt(entries) else "no",
        "documents": len(entries),
    }
