"""compare: do methods agree with each other, layers of one method, or models about the same words?

Two explanations of the same units are compared by an agreement statistic, document by document; each value is given
with its chance level, the value for the same token scores in shuffled order (`chance_level`). Three questions:

- *methods* (one model): every pair of methods, or every method with a `reference`;
- *layers* (`layers=True`): every pair of layers of each method that scores layers, or every layer with a `reference`
  such as occlusion, as in the tables by layer of Abnar & Zuidema 2020 (`Agreement.by_layer`);
- *models* (several models, or one trained with several seeds): every pair of models, for each method; `consistency`
  keeps to the documents for which both predict the same class, as Ferrando et al. 2022 do. Vocabularies differ, so
  the words that both models read are compared, which do not depend on the tokenizer; tokens (`level="token"`) are
  compared in documents that both models tokenise identically.

Special tokens are left out unless `special=True` asks for all tokens, as the tables of both papers have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from sightline.corpus import read_dataset
from sightline.errors import OptionError, SightlineError
from sightline.evaluation.result import Agreement, Failure, Pair, layer_name
from sightline.evaluation.subject import (
    Missing,
    TargetChoice,
    check_method_options,
    check_model,
    choose_target,
    chosen_methods,
    encode_example,
    explain_by_each,
    label_classes,
    list_names,
    report_document,
    seed_for,
    seeded_options,
)
from sightline.methods import METHODS, Attribution, method_name
from sightline.metrics import METRICS, SightlineWarning, chance_level
from sightline.metrics.chance import TokenScores
from sightline.metrics.score_inputs import without_conventions
from sightline.models.classes import Label, class_named
from sightline.models.classes import list_names as list_classes
from sightline.models.target import Prediction, Quantity, check_quantity
from sightline.passes.forward import Array
from sightline.passes.perturb import removable_units
from sightline.progress import Progress
from sightline.settings.names import MethodName, MetricName
from sightline.settings.values import check_count, check_one_of
from sightline.text import Example
from sightline.text.units import LEVELS, Level, Units, units_of

if TYPE_CHECKING:
    from sightline.api.model import Model

STATISTICS: tuple[MetricName, ...] = ("spearman", "kendall", "cosine", "rbo", "jaccard")
PERMUTATIONS = 100

WordPlace = tuple[int, int, int]
"""Segment and characters of a word, which identify it across models."""


@dataclass(frozen=True)
class Scored:
    """Token scores of one document, and the places of the U units whose scores are sums of them."""

    places: tuple[WordPlace, ...]
    tokens: TokenScores

    @classmethod
    def of(cls, places: tuple[WordPlace, ...], scores: Array, units: Units) -> Scored:
        """Take scores (n,) and the units over which they are summed."""
        return cls(places, TokenScores(scores.astype(np.float64), units))


Group = dict[str, Scored]
"""Explanations of one document to compare with each other, by name."""


def compare(
    models: Model | Sequence[Model] | Mapping[str, Model],
    dataset: str | Path | Iterable[Any],
    methods: MethodName | Literal["all"] | Sequence[MethodName] | None = None,
    metrics: MetricName | Sequence[MetricName] = STATISTICS,
    *,
    level: Level = "word",
    layers: bool = False,
    reference: MethodName | None = None,
    magnitude: bool = False,
    special: bool = False,
    same_prediction: bool = False,
    target: TargetChoice = "predicted",
    quantity: Quantity = "log_odds",
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    limit: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Agreement:
    """Compare explanations of the same documents by methods, by layers of a method, or by models.

    One model compares methods, or with `layers=True` the layers of each method. Several models are compared with each
    other, method by method, on the words that both read.

    models: one model, or several (a list, or a mapping from the names to show). methods: as in `evaluate`. metrics:
    agreement metrics. reference: a method that all others, or all their layers, are compared with instead of with each
    other. magnitude: compare the magnitudes of token scores, for signed scores beside unsigned ones. special: compare
    special tokens too, with level="token"; occlusion then scores them as well. same_prediction: leave out documents for
    which two models predict different classes. target="label": class numbers among the labels are those of the first
    model. Both options match the classes of several models by name, and raise OptionError if the names differ.
    permutations: number of shuffles behind each chance level. The rest as in `evaluate`.

    Examples
    --------
    >>> import sightline as sl
    >>> texts = ["A neural network learns from data.", "The compiler checks types."]
    >>> agreement = sl.compare(sl.load(), texts, methods=["attcat", "rollout"], metrics=["spearman"])
    >>> agreement.summary()[["first", "second", "metric"]].values.tolist()
    [['attcat', 'rollout', 'spearman']]
    """
    named = _name_models(models)
    names = chosen_methods(methods)
    statistics = check_statistics(metrics)
    check_one_of("level", level, LEVELS)
    if special:
        if level != "token":
            raise OptionError("Special tokens belong to no word: special=True needs level='token'.")
        if "occlusion" in (*names, reference):
            options = {**options, "occlusion": {"special": True, **options.get("occlusion", {})}}
    check_one_of("target", target, get_args(TargetChoice))
    reference = None if reference is None else method_name(reference)
    between = _question(named, names, layers, level, reference)
    if same_prediction or target == "label":
        _check_same_classes(named)
    examples = read_dataset(dataset, limit)
    settings: dict[str, Any] = {
        "level": level,
        "target": target,
        "quantity": check_quantity(quantity),
        "reference": reference,
        "magnitude": magnitude,
        "special": special,
        "same_prediction": same_prediction,
        "permutations": check_count("permutations", permutations),
        "seed": check_count("seed", seed, None),
        "options": check_method_options(options, [*names, *([reference] if reference is not None else [])]),
    }
    classes = _classes_of_labels(named, examples) if target == "label" else {name: {} for name in named}
    comparison = _Comparison(named, names, statistics, between, classes, **settings)
    done: list[str] = []
    complete = True
    try:
        for number, example in enumerate(examples):
            comparison.add(example, report_document(progress, number, len(examples)))
            done.append(example.id)
        if progress is not None:
            progress("documents", len(examples), len(examples))
    except KeyboardInterrupt:
        complete = False
    return Agreement(
        pairs=tuple(comparison.pairs),
        between=between,
        documents=tuple(done),
        metrics=tuple(statistics),
        failures=tuple(comparison.failures),
        settings=settings,
        provenance={name: model.provenance() for name, model in named.items()},
        complete=complete,
    )


def consistency(
    models: Sequence[Model] | Mapping[str, Model],
    dataset: str | Path | Iterable[Any],
    methods: MethodName | Literal["all"] | Sequence[MethodName] | None = None,
    metrics: MetricName | Sequence[MetricName] = ("spearman",),
    **options: Any,
) -> Agreement:
    """Compare explanations by models that predict the same class: does a method say the same about models that agree?

    Ferrando et al. 2022 ("ALTI") ask this of models trained with different seeds and of models of different families. A
    pair of models has no value for a document on which their predictions differ. options: as in `compare`.
    """
    if len(_name_models(models)) < 2:
        raise OptionError("Consistency is between models: give two or more.")
    return compare(models, dataset, methods, metrics, **{"same_prediction": True, **options})


def _name_models(models: Any) -> dict[str, Model]:
    """Return the models by unique names."""
    if isinstance(models, Mapping):
        named = {str(name): check_model(model) for name, model in models.items()}
    elif isinstance(models, Sequence) and not isinstance(models, str):
        names = [check_model(model).name for model in models]
        named = {
            name if names.count(name) == 1 else f"{name} ({number})": model
            for number, (name, model) in enumerate(zip(names, models, strict=True), start=1)
        }
    else:
        named = {check_model(models).name: models}
    if not named:
        raise OptionError("No model was given: compare() takes one model or several.")
    return named


def check_statistics(metrics: str | Sequence[str]) -> list[str]:
    """Return the names of agreement metrics as a list; raise OptionError for other metrics."""
    names = list_names(metrics, "metrics")
    if not names:
        raise OptionError(f"No metric was given; name at least one, for example metrics={list(STATISTICS[:2])}.")
    for name in names:
        entry = METRICS.get(name)
        if entry.kind != "agreement":
            raise OptionError(f"The metric '{name}' measures {entry.kind}; compare() is for agreement.")
        if not entry.needs <= {"scores", "other_scores"}:
            raise OptionError(
                f"The metric '{name}' needs more than two explanations ({', '.join(sorted(entry.needs))}); use it in "
                "evaluate() with a reference."
            )
    return names


def _question(
    models: Mapping[str, Model], methods: Sequence[str], layers: bool, level: Level, reference: str | None
) -> Literal["methods", "layers", "models"]:
    if len(models) > 1:
        if reference is not None:
            raise OptionError("Several models are compared with each other; leave out reference=, or give one model.")
        if layers:
            raise OptionError("layers=True compares the layers of one model; several were given.")
        if level not in ("word", "token"):
            raise OptionError("Models are compared with level='word', or level='token' if their tokens are identical.")
        return "models"
    if layers:
        return "layers"
    if not set(methods) - {reference} or (reference is None and len(methods) < 2):
        raise OptionError("One method has no other to agree with: name two methods, several models, or layers=True.")
    return "methods"


@dataclass
class _Comparison:
    models: Mapping[str, Model]
    methods: Sequence[str]
    statistics: Sequence[str]
    between: Literal["methods", "layers", "models"]
    classes: Mapping[str, Mapping[Label, int | None]]
    """By model: the class that each label of the data set stands for."""
    level: Level
    target: TargetChoice
    quantity: Quantity
    reference: str | None
    magnitude: bool
    special: bool
    same_prediction: bool
    permutations: int
    seed: int
    options: Mapping[str, Mapping[str, Any]]

    def __post_init__(self) -> None:
        self.pairs: list[Pair] = []
        self.failures: list[Failure] = []

    def add(self, example: Example, progress: Progress | None) -> None:
        """Explain one document and compare its explanations; an interrupted document leaves no results."""
        groups: dict[str, Group] = {}
        failures: list[Failure] = []
        predictions: dict[str, Prediction] = {}
        for name, model in self.models.items():
            self._explain(name, model, example, groups, failures, predictions, progress)
        new_pairs = []
        for heading, group in groups.items():
            for first, second in self._couples(group):
                differ = self.same_prediction and _predict_differently(predictions.get(first), predictions.get(second))
                for statistic in self.statistics:
                    if differ:
                        where = (example.id, heading, first, second, statistic)
                        new_pairs.append(Pair(*where, None, None, "The models predict different classes."))
                    else:
                        new_pairs.append(
                            self._pair(example.id, heading, (first, group[first]), (second, group[second]), statistic)
                        )
        self.pairs += new_pairs
        self.failures += failures

    def _couples(self, group: Group) -> Iterable[tuple[str, str]]:
        """Return the pairs to compare: each explanation with the reference if there is one, else all pairs."""
        if self.reference is None:
            return combinations(group, 2)
        others = [name for name in group if name != self.reference] if self.reference in group else []
        return [(name, self.reference) for name in others]

    def _explain(
        self,
        model_name: str,
        model: Model,
        example: Example,
        groups: dict[str, Group],
        failures: list[Failure],
        predictions: dict[str, Prediction],
        progress: Progress | None,
    ) -> None:
        """Add the scores of one model to the groups that are compared: a single one, or one per method."""
        names = list(dict.fromkeys([*self.methods, *([self.reference] if self.reference is not None else [])]))
        try:
            encoding = encode_example(model, example)
            chosen = choose_target(model, example, encoding, self.target, self.classes[model_name])
            trace = model.trace(encoding, chosen, quantity=self.quantity)
            target, predictions[model_name] = trace.target, trace.prediction
            units = (
                units_of(encoding, "token", special=True)
                if self.special
                else removable_units(encoding, target, self.level)
            )
        except (Missing, SightlineError) as error:
            failures += [Failure(example.id, model_name, name, str(error)) for name in names]
            return
        places = tuple((unit.segment, unit.start, unit.end) for unit in units)

        def explain(name: str) -> Attribution:
            options = seeded_options(name, self.options.get(name, {}), self.seed, example.id)
            return METHODS.get(name)(model.trace(encoding, target), **options)

        attributions, reasons = explain_by_each(names, explain, progress)
        if self.between == "layers":
            unlayered = [name for name in self.methods if name in attributions and attributions[name].layers is None]
            reasons |= dict.fromkeys(unlayered, "The method does not score layers.")
        failures += [Failure(example.id, model_name, name, reasons[name]) for name in names if name in reasons]
        for name, attribution in attributions.items():
            whole = Scored.of(places, self._measure(attribution.scores), units)
            if self.between == "methods":
                groups.setdefault("", {})[name] = whole
            elif self.between == "models":
                groups.setdefault(name, {})[model_name] = whole
            elif name in self.methods and attribution.layers is not None:
                rows = enumerate(self._measure(attribution.layers))
                groups[name] = {layer_name(number): Scored.of(places, row, units) for number, row in rows}
        if self.between == "layers" and self.reference in attributions:
            scores = self._measure(attributions[self.reference].scores)
            for group in groups.values():
                group[self.reference] = Scored.of(places, scores, units)

    def _measure(self, scores: Array) -> Array:
        return np.abs(scores) if self.magnitude else scores

    def _pair(
        self, document: str, heading: str, first: tuple[str, Scored], second: tuple[str, Scored], statistic: str
    ) -> Pair:
        where = (document, heading, first[0], second[0], statistic)
        try:
            a, b = _align(first[1], second[1])
            with without_conventions():
                value = METRICS.get(statistic).compute({"scores": a.sums(), "other_scores": b.sums()}.__getitem__)
                seed = seed_for(self.seed, *where)
                chance = chance_level(
                    statistic, a.sums(), b.sums(), permutations=self.permutations, seed=seed, tokens=b
                )
            return Pair(*where, value, chance.mean)
        except (Missing, SightlineWarning) as reason:
            return Pair(*where, None, None, str(reason))


def _check_same_classes(models: Mapping[str, Model]) -> None:
    """Raise OptionError unless, for every two models, the classes of the smaller one are classes of the other."""
    closed = {name: model.labels for name, model in models.items() if model.network.task.has_named_classes}
    for pair in combinations(closed, 2):
        few, many = sorted(pair, key=lambda name: len(closed[name]))
        for label in closed[few]:
            if class_named(label, closed[many]) is None:
                raise OptionError(
                    f"The classes of the models cannot be matched: '{label}' of '{few}' is not a class of '{many}' "
                    f"({list_classes(closed[many])}). Give the models the same names of classes (id2label in "
                    "config.json), or compare what each predicts for all documents (same_prediction=False, "
                    "--all-documents)."
                )


def _classes_of_labels(models: Mapping[str, Model], examples: Sequence[Example]) -> dict[str, dict[Label, int | None]]:
    """Return the class of each label by model; classes of the other models are matched by name."""
    names = list(models)
    classes = {names[0]: label_classes(models[names[0]], examples)}
    for name in names[1:]:
        labels = models[name].labels
        classes[name] = {
            label: None if index is None else class_named(models[names[0]].labels[index], labels)
            for label, index in classes[names[0]].items()
        }
    return classes


def _predict_differently(first: Prediction | None, second: Prediction | None) -> bool:
    """Return whether two models predict different classes, which are matched by name."""
    if first is None or second is None or first.label == second.label:
        return False
    index = None if second.label in first.labels else class_named(second.label, first.labels)
    return index is None or first.labels[index] != first.label


def _align(first: Scored, second: Scored) -> tuple[TokenScores, TokenScores]:
    """Return the scores of the common units, in document order; tokens only if all of them agree."""
    if first.places == second.places:  # tokens of one character share its position
        matches = [(index, index) for index in range(len(first.places))]
    elif first.tokens.units.level == "token":
        raise Missing("The two models cut the document into different tokens; compare them with level='word'.")
    else:
        where = {place: index for index, place in enumerate(second.places)}
        matches = [(index, where[place]) for index, place in enumerate(first.places) if place in where]
    if len(matches) < 2:
        raise Missing("The two explanations have fewer than two words in common.")
    return first.tokens.select([index for index, _ in matches]), second.tokens.select([index for _, index in matches])
