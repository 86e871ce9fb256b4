"""Does a method find words that are known to decide?

`planted_shortcuts` makes a task whose answer is known and trains a tiny model on it (`planted_task.py`), checks on new
documents that the model's answers are nearly optimal and that removing the planted words changes its prediction, and
measures for every method precision@k: of the k words it scores highest for the predicted class, k the number of planted
words, how many were planted. Chance is k/n exactly, n the number of words.

This test has a known truth, but short texts and a tiny model: a method that fails it should not be trusted, and one
that passes it must still be tested on the model at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sightline.api.model import Model
from sightline.errors import OptionError
from sightline.evaluation.planted_task import BATCH, PlantedDocument, PlantedTask, predict_classes, train
from sightline.evaluation.result import frame_of
from sightline.evaluation.subject import describe_error, seeded_options
from sightline.methods import METHODS
from sightline.metrics import precision_at_k
from sightline.metrics.statistics import SIGNIFICANCE, holm, mean_interval, sign_flip_p
from sightline.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

MOST_REGRET = 0.05
"""A model whose accuracy is at most this much below the best possible has learnt the task."""
STEPS = 300
HELD_OUT = 300
SUMMARY_COLUMNS = ("method", "precision", "low", "high", "chance", "better_than_chance", "documents", "failed")


@dataclass(frozen=True)
class Planted:
    """A trained model, new documents whose deciding words are known, and how well the model knows them."""

    model: Model
    documents: tuple[PlantedDocument, ...]
    """New documents with planted words of one list."""
    task: PlantedTask
    seed: int
    steps: int
    accuracy: float
    """Share of right answers to expect on held-out documents: mean of P(the model's answer | document)."""
    decisive: float
    """Share of `documents` whose prediction changes when their planted words are removed."""
    attainable: float = 1.0
    """The same share for the best answers: mean of max P(label | document). Below 1, since labels are drawn."""

    @property
    def learnt(self) -> bool:
        """Whether the model's answers are nearly as good as the best possible ones."""
        return self.accuracy > self.attainable - MOST_REGRET


@dataclass(frozen=True)
class PlantedFinding:
    """How many of the planted words of one document a method ranks first."""

    document: int
    method: str
    precision: float | None
    chance: float
    error: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class PlantedResult:
    """Precision@k of each method on documents whose deciding words are known."""

    findings: tuple[PlantedFinding, ...]
    methods: tuple[str, ...]
    planted: Planted

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each document and method."""
        return frame_of(self.findings, PlantedFinding, numbers=("precision",))

    def summary(self) -> pd.DataFrame:
        """Return one row per method: mean precision@k with its bootstrap 95 % interval, beside chance."""
        import pandas as pd

        rows, p_values = [], self._beat_chance()
        for method in self.methods:
            here = [finding for finding in self.findings if finding.method == method]
            values = [finding.precision for finding in here if finding.precision is not None]
            mean, low, high = mean_interval(values, seed=self.planted.seed, within=(0.0, 1.0))
            chance = float(np.mean([finding.chance for finding in here]))
            better = p_values[method] < SIGNIFICANCE
            rows.append((method, mean, low, high, chance, better, len(values), len(here) - len(values)))
        return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))

    def _beat_chance(self) -> dict[str, float]:
        """Return by method the one-sided p-value of a precision above chance, after Holm's correction."""
        p_values = []
        for method in self.methods:
            here = [f for f in self.findings if f.method == method and f.precision is not None]
            gains = np.array([[f.precision - f.chance] for f in here if f.precision is not None]).reshape(-1, 1)
            p_values += sign_flip_p(gains, alternative="greater", seed=self.planted.seed).tolist()
        return dict(zip(self.methods, holm(p_values), strict=True))

    def __repr__(self) -> str:
        heading = f"Planted words, {len(self.methods)} methods"
        return f"{heading}\n{self.summary().round(3).to_string(index=False)}"


def plant(
    seed: int = 0,
    *,
    documents: int = 60,
    shortest: int = 12,
    longest: int = 24,
    planted: int = 2,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> Planted:
    """Make a planted task, train a tiny model on it, and check on new documents what it has learnt."""
    if documents < 1 or steps < 1:
        raise OptionError(f"documents={documents} and steps={steps} are not possible; both must be at least 1.")
    task = PlantedTask(shortest, longest, planted)
    training = task.documents(steps * BATCH, np.random.default_rng(seed))
    model = train(training, [document.label for document in training], steps=steps, seed=seed, progress=progress)
    # Another random stream: no document is used both for training and for measuring, except by coincidence.
    generator = np.random.default_rng([seed, 1])
    held_out = [document.text for document in task.documents(HELD_OUT, generator)]
    truth = np.stack([task.probabilities(text) for text in held_out])
    accuracy = truth[np.arange(HELD_OUT), predict_classes(model, held_out)].mean()
    measured = task.clear_documents(documents, generator)
    with_them = predict_classes(model, [document.text for document in measured])
    without = predict_classes(model, [remove_planted(document) for document in measured])
    decisive = np.not_equal(with_them, without).mean()
    best = truth.max(axis=1).mean()
    return Planted(model, tuple(measured), task, seed, steps, float(accuracy), float(decisive), float(best))


def planted_shortcuts(
    methods: Sequence[str] | None = None,
    seed: int = 0,
    *,
    documents: int = 60,
    shortest: int = 12,
    longest: int = 24,
    planted: int = 2,
    steps: int = STEPS,
    setting: Planted | None = None,
    progress: Progress | None = None,
) -> PlantedResult:
    """Measure how many of the words that are known to decide each method ranks first (all methods by default).

    documents: how many are explained. shortest, longest: their number of words. planted: deciding words in each.
    steps: of training. setting: what `plant` returned, to measure on it again without training.
    """
    names = METHODS.names() if methods is None else [METHODS.get(name).name for name in dict.fromkeys(methods)]
    if setting is None:
        setting = plant(
            seed,
            documents=documents,
            shortest=shortest,
            longest=longest,
            planted=planted,
            steps=steps,
            progress=progress,
        )
    findings = []
    for number, document in enumerate(setting.documents):
        if progress is not None:
            progress("looking for planted words", number, len(setting.documents))
        findings += [_measure(setting.model, number, document, name, setting.seed) for name in names]
    return PlantedResult(tuple(findings), tuple(names), setting)


def _measure(model: Model, number: int, document: PlantedDocument, method: str, seed: int) -> PlantedFinding:
    words = document.text.split()
    chance = len(document.planted) / len(words)
    # With one seed for all documents, `random` would choose the same positions in each.
    options = seeded_options(method, {}, seed, str(number))
    try:
        explanation = model.explain(document.text, method=method, **options)
    except Exception as error:  # an error in one method must not stop the others
        return PlantedFinding(number, method, None, chance, describe_error(error))
    scores = [word.score for word in explanation.words()]
    spans = [(place, place + 1) for place in document.planted]
    return PlantedFinding(number, method, precision_at_k(scores, spans, k=len(spans)), chance)


def remove_planted(document: PlantedDocument) -> str:
    """Return the text of a document without its planted words."""
    return " ".join(word for place, word in enumerate(document.text.split()) if place not in document.planted)
