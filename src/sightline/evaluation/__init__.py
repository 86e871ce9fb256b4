"""Measuring explanations over a data set: tables with intervals, comparisons, sanity."""

from sightline.evaluation.agreement import Agreement, Pair
from sightline.evaluation.choice import DEFAULT_METHODS
from sightline.evaluation.comparison import compare, consistency
from sightline.evaluation.data_set import evaluate
from sightline.evaluation.planted import Planted, PlantedResult, plant, planted_shortcuts
from sightline.evaluation.ranking import Ranking
from sightline.evaluation.result import Evaluation, MetricCurve, Record
from sightline.evaluation.sanity import SanityResult, label_permutation, weight_randomisation

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
