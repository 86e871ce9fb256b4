"""Ranking: which methods of an evaluation are best by each metric, and which are not clearly better than chance.

"Clearly" is a paired permutation test at 5 % after Holm's correction: of all pairs of methods for "worse than the
best", and, one-sided, of all methods against their floors, document by document, for "better than chance". The floor is
what scores without information give (`metrics.registry.Chance`). `view.words.evaluation` puts it into sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sightline.evaluation.result import MODEL, Evaluation
from sightline.metrics import METRICS
from sightline.metrics.statistics import SIGNIFICANCE, documents_needed, holm, sign_flip_p

if TYPE_CHECKING:
    import pandas as pd


def chance_of_agreement(documents: int) -> float:
    """Return how likely all documents favour the same one of two equal methods: the smallest p-value of a sign test."""
    return float(2.0 ** (1 - documents))


class Standing(NamedTuple):
    """The best method by one metric and where the others stand, each group best first. No method is in two groups."""

    best: str
    best_beats_chance: bool
    """False if the best method is not clearly better than chance itself."""
    close: list[str]
    """Not clearly worse than the best."""
    undecided: list[str]
    """Not clearly worse than the best, and not clearly better than chance either: too few documents to tell."""
    weak: list[str]
    """Clearly worse than the best and not clearly better than chance."""


class Ranking:
    """The tables of one evaluation from which methods are ranked; each is computed once, on first use."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means with intervals, as `Evaluation.summary` gives them."""
        return self.evaluation.summary()

    @cached_property
    def paired(self) -> dict[str, pd.DataFrame]:
        """The paired comparison of methods, for every metric that at least two methods have values for."""
        evaluation = self.evaluation
        return {
            metric: evaluation.paired(metric)
            for metric in evaluation.metrics
            if sum(bool(evaluation.values(method, metric)) for method in evaluation.methods) > 1
        }

    def overview(self) -> pd.DataFrame:
        """Return one row per method: the mean of every metric, then the seconds per explanation."""
        import pandas as pd

        rows = self.summary[self.summary["method"] != MODEL]
        table = rows.pivot(index="method", columns="metric", values="mean")
        metrics = [metric for metric in self.evaluation.metrics if metric in table.columns]
        table = table.reindex(index=list(self.evaluation.methods), columns=metrics)
        table["seconds"] = pd.Series(self.seconds())
        return table.rename_axis(index=None, columns=None).reset_index(names="method")

    def of_metric(self, metric: str) -> pd.DataFrame:
        """Return the summary of one metric, best first where a direction is better."""
        rows = self.summary[self.summary["metric"] == metric]
        higher = METRICS.get(metric).higher_is_better
        return rows if higher is None else rows.sort_values("mean", ascending=not higher, kind="stable")

    def faithful(self) -> list[str]:
        """Return the faithfulness metrics that have values."""
        names = [name for name in self.evaluation.metrics if METRICS.get(name).kind == "faithfulness"]
        return [name for name in names if self.of_metric(name)["documents"].sum()]

    def floors(self, metrics: Sequence[str]) -> dict[str, float]:
        """Return the floor of each metric that has one, averaged over documents."""
        return self._level("floor", metrics)

    def references(self, metrics: Sequence[str]) -> dict[str, float]:
        """Return the reference of each metric that has one, averaged over documents."""
        return self._level("reference", metrics)

    def _level(self, name: Literal["floor", "reference"], metrics: Sequence[str]) -> dict[str, float]:
        """Return means over documents; all methods of a document share its floor and reference, so it counts once."""
        levels: dict[str, dict[str, list[float]]] = {}
        for record in self.evaluation.records:
            value = getattr(record, name)
            if record.metric in metrics and value is not None:
                levels.setdefault(record.metric, {}).setdefault(record.document, []).append(value)
        return {metric: fmean(map(fmean, values.values())) for metric, values in levels.items()}

    def seconds(self) -> dict[str, float]:
        """Return the seconds per explanation of each method, averaged over documents."""
        rows = self.summary[self.summary["method"] != MODEL]
        return {str(name): float(mean) for name, mean in rows.groupby("method")["seconds"].mean().items()}

    def better_than_floor(self, method: str, metric: str) -> bool | None:
        """Return whether a method is clearly better than chance; None if the metric has no floor or no direction."""
        p_value = self._floor_tests[metric].get(method)
        return None if p_value is None else p_value < SIGNIFICANCE

    @cached_property
    def _floor_tests(self) -> dict[str, dict[str, float]]:
        """Return the p-values of `_test_floors` by metric."""
        return {metric: self._test_floors(metric) for metric in self.evaluation.metrics}

    def _test_floors(self, metric: str) -> dict[str, float]:
        """Return by method the p-value of being better than the floor, one-sided, after Holm's correction."""
        higher = METRICS.get(metric).higher_is_better
        differences: dict[str, list[float]] = {}
        for record in self.evaluation.records:
            if record.metric == metric and record.value is not None and record.floor is not None:
                gain = record.value - record.floor
                differences.setdefault(record.method, []).append(gain if higher else -gain)
        if higher is None:
            return {}
        seed = self.evaluation.seed
        p_values = [
            float(sign_flip_p(np.array(gains)[:, None], alternative="greater", seed=seed)[0])
            for gains in differences.values()
        ]
        return dict(zip(differences, holm(p_values), strict=True))

    def documents_needed(self, metric: str) -> int | None:
        """Return how many documents could show a method to be worse than the best, if there are too few; else None."""
        pairs = self.paired.get(metric)
        if pairs is None:
            return None
        needed = documents_needed(len(pairs))
        return needed if pairs["documents"].max() < needed else None

    def no_better_than_floor(self, metric: str) -> list[str]:
        """Return the methods that are not clearly better than chance, best first."""
        return [method for method in self.ranked(metric)["method"] if self.better_than_floor(method, metric) is False]

    def ranked(self, metric: str) -> pd.DataFrame:
        """Return the rows of methods that have values, best first; none for metrics that only describe."""
        rows = self.of_metric(metric)
        entry = METRICS.get(metric)
        describes = entry.higher_is_better is None or entry.kind == "dispersion"
        return rows[(rows["documents"] > 0) & (rows["method"] != MODEL) & (not describes)]

    def standing(self, metric: str) -> Standing | None:
        """Return the best method by a metric and where the others stand; None if the metric ranks nothing."""
        methods = list(self.ranked(metric)["method"])
        if not methods:
            return None
        best = methods[0]
        weak = set(self.no_better_than_floor(metric))
        equal = self._equal_to(best, metric)
        groups = (equal - weak, equal & weak, weak - equal - {best})
        close, undecided, behind = ([method for method in methods if method in group] for group in groups)
        return Standing(best, best not in weak, close, undecided, behind)

    def _equal_to(self, best: str, metric: str) -> set[str]:
        """Return the methods that the paired test cannot tell from the best one."""
        if metric not in self.paired:
            return set()
        return {
            row.other if row.method == best else row.method
            for row in self.paired[metric].itertuples()
            if best in (row.method, row.other) and not row.p_holm < SIGNIFICANCE
        }
