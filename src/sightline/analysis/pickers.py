"""Which documents to look at: by outcome, by confidence, or by chance.

"Positive" is the class one asks about: a false positive is a document of another class that the model takes for it.
Lists by outcome put the most confident first. Equal confidence keeps the order of the data set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.errors import InputError, TargetError, UnsupportedError
from sightline.models.classes import classes_of, no_class
from sightline.models.target import class_index
from sightline.progress import Progress
from sightline.settings.values import check_count
from sightline.text import Encoding, Example, as_examples

if TYPE_CHECKING:
    import pandas as pd

    from sightline.api.model import Model

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pick:
    """One document of a data set and what the model says about it."""

    index: int
    """Its number in the data set."""
    id: str
    label: str | None
    """The true class, if known."""
    predicted: str
    probability: float
    """Of the predicted class."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model predicts for a data set of N documents with C classes."""

    examples: tuple[Example, ...]
    encodings: tuple[Encoding, ...]
    classes: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    """(N,) true classes; -1 where missing."""
    predicted: npt.NDArray[np.int64]
    """(N,)."""
    probabilities: npt.NDArray[np.float64]
    """(N, C)."""

    @property
    def confidence(self) -> npt.NDArray[np.float64]:
        """Probability of the predicted class, (N,)."""
        return self.probabilities[np.arange(len(self.predicted)), self.predicted]

    def true_positives(self, positive: int | str, k: int | None = None) -> tuple[Pick, ...]:
        """Documents of class `positive` predicted as such."""
        return self._outcome(positive, k, is_positive=True, said_positive=True)

    def false_positives(self, positive: int | str, k: int | None = None) -> tuple[Pick, ...]:
        """Documents of another class predicted as `positive`."""
        return self._outcome(positive, k, is_positive=False, said_positive=True)

    def true_negatives(self, positive: int | str, k: int | None = None) -> tuple[Pick, ...]:
        """Documents of another class not predicted as `positive`."""
        return self._outcome(positive, k, is_positive=False, said_positive=False)

    def false_negatives(self, positive: int | str, k: int | None = None) -> tuple[Pick, ...]:
        """Documents of class `positive` not predicted as such."""
        return self._outcome(positive, k, is_positive=True, said_positive=False)

    def most_confident(self, k: int | None = 10) -> tuple[Pick, ...]:
        """Documents of highest probability of the predicted class."""
        return self._picks(np.argsort(-self.confidence, kind="stable"), k)

    def least_confident(self, k: int | None = 10) -> tuple[Pick, ...]:
        """Documents of lowest probability of the predicted class."""
        return self._picks(np.argsort(self.confidence, kind="stable"), k)

    def random(self, k: int | None = 10, seed: int = 0) -> tuple[Pick, ...]:
        """Draw k different documents, the same for the same seed; all of them if there are fewer."""
        return self._picks(np.random.default_rng(seed).permutation(len(self.predicted)), k)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per document: index, id, label, predicted, probability, correct (None without a label)."""
        import pandas as pd

        picks = self._picks(np.arange(len(self.predicted)), None)
        frame = pd.DataFrame([pick.__dict__ for pick in picks], columns=list(Pick.__dataclass_fields__))
        frame["correct"] = [None if pick.label is None else pick.label == pick.predicted for pick in picks]
        return frame

    def _outcome(
        self, positive: int | str, k: int | None, *, is_positive: bool, said_positive: bool
    ) -> tuple[Pick, ...]:
        wanted = class_index(positive, self.classes)
        known = self.labels >= 0
        if not known.any():
            raise InputError(
                "No document of the data set has a label, so nobody knows what is true or false. Give labels, or pick "
                "by confidence or at random."
            )
        chosen = known & ((self.labels == wanted) == is_positive) & ((self.predicted == wanted) == said_positive)
        order = np.argsort(-self.confidence, kind="stable")
        return self._picks(order[chosen[order]], k)

    def _picks(self, order: npt.NDArray[np.int64], k: int | None) -> tuple[Pick, ...]:
        confidence = self.confidence
        return tuple(
            Pick(
                index=int(i),
                id=self.examples[i].id,
                label=None if self.labels[i] < 0 else self.classes[self.labels[i]],
                predicted=self.classes[self.predicted[i]],
                probability=float(confidence[i]),
            )
            for i in (order if k is None else order[: check_count("k", k)])
        )


def predict(model: Model, dataset: Iterable[Any], *, progress: Progress | None = None) -> Predictions:
    """Return what the model predicts for a data set (anything that `as_examples` accepts).

    A text that cannot be read, or a label that the model does not have, is refused with the number of its row. Labels
    may be missing.
    """
    if model.task != "sequence_classification":
        raise UnsupportedError(f"Documents are picked by their class; this model does {model.task.replace('_', ' ')}.")
    examples = as_examples(dataset)
    task = model.network.task
    classes = classes_of((example.label for example in examples), model.labels)
    encodings, labels = [], []
    for number, example in enumerate(examples):
        text = example.text
        try:
            encodings.append(model.encode(text, example.pair) if isinstance(text, str) else text)
        except InputError as error:
            raise InputError(f"Row {number} of the data set: {error}") from None
        index = -1 if example.label is None else classes[example.label]
        if index is None:
            raise TargetError(f"Row {number} of the data set: {no_class(example.label, model.labels)}")
        labels.append(index)
    logits = model.network.run_many(
        encodings, progress=None if progress is None else lambda done, total: progress("predictions", done, total)
    )
    probabilities = np.stack(
        [task.probabilities(task.class_logits(scores, None)).double().cpu().numpy() for scores in logits]
    )
    return Predictions(
        examples=tuple(examples),
        encodings=tuple(encodings),
        classes=model.labels,
        labels=np.array(labels, dtype=np.int64),
        predicted=np.array([int(task.class_logits(scores, None).argmax()) for scores in logits], dtype=np.int64),
        probabilities=probabilities,
    )
