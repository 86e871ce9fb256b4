"""Measurements of explanations over a data set: tables with intervals, comparisons, sanity tests."""

from sightline.evaluation.comparison import compare, consistency
from sightline.evaluation.data_set import evaluate
from sightline.evaluation.planted import Planted, PlantedResult, plant, planted_shortcuts
from sightline.evaluation.ranking import Ranking
from sightline.evaluation.result import Agreement, Evaluation, MetricCurve, Pair, Record
from sightline.evaluation.sanity import SanityResult, label_permutation, weight_randomisation
from sightline.evaluation.subject import DEFAULT_METHODS

__all__ = [
    "DEFAULT_METHODS",
    "Agreement",
    "Evaluation",
    "MetricCurve",
    "Pair",
    "Planted",
    "PlantedResult",
    "Ranking",
    "Record",
    "SanityResult",
    "compare",
    "consistency",
    "evaluate",
    "label_permutation",
    "plant",
    "planted_shortcuts",
    "weight_randomisation",
]
