"""Range, direction, chance level and needs of a metric, in words."""

from __future__ import annotations

import math

from sightline.metrics import MetricEntry
from sightline.metrics.registry import NEEDS

_DIRECTIONS = {True: "higher is better", False: "lower is better", None: "neither direction is better"}


def describe_direction(metric: MetricEntry) -> str:
    """Return which direction is better: "higher is better"."""
    return _DIRECTIONS[metric.higher_is_better]


def describe_range(metric: MetricEntry) -> str:
    """Return the lowest and the highest value: "−1 to 1"; "any number" without bounds."""
    if not any(map(math.isfinite, metric.range)):
        return "any number"
    low, high = (f"{bound:.3g}".replace("-", "−").replace("inf", "∞") for bound in metric.range)
    return f"{low} to {high}"


def describe_chance(metric: MetricEntry) -> str:
    """Return what scores without information give: "random scores: the share of answer tokens"."""
    return "not defined" if metric.chance is None else f"{metric.chance.name}: {metric.chance.text}"


def describe_needs(metric: MetricEntry) -> str:
    """Return what has to be supplied, separated by commas."""
    return ", ".join(words for need, words in NEEDS.items() if need in metric.needs)
