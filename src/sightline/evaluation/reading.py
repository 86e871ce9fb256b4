"""What an evaluation says, in sentences: which method is best, which are not clearly worse or no better than chance.

"Clearly" is a paired permutation test at 5 % after Holm's correction; "better than random orders" (for agreement: than
shuffled scores) means that the bootstrap 95 % interval of the mean difference to the floor, document by document, lies
on the better side of 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from sightline.evaluation.result import MODEL, Evaluation, Record
from sightline.evaluation.statistics import mean_interval
from sightline.evaluation.wording import counted, written
from sightline.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd

SURE = 0.05
FEW = 10
"""Fewer documents get a caveat."""


class Reading:
    """One evaluation, read: its tables are computed once, when first asked for."""

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
        """Return one row a method: the mean of every metric, then the seconds an explanation takes."""
        import pandas as pd

        own = self.summary[self.summary["method"] != MODEL]
        table = own.pivot(index="method", columns="metric", values="mean")
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
        """Return the metrics of faithfulness that have values."""
        names = [name for name in self.evaluation.metrics if METRICS.get(name).kind == "faithfulness"]
        return [name for name in names if self.of_metric(name)["documents"].sum()]

    def floors(self, metrics: Sequence[str]) -> dict[str, float]:
        """Return what random orders give by each metric that has a floor, mean over the documents."""
        return self._level("floor", metrics)

    def ceilings(self, metrics: Sequence[str]) -> dict[str, float]:
        """Return what the order of the words' own effects gives by each metric that has a ceiling, likewise."""
        return self._level("ceiling", metrics)

    def _level(self, name: Literal["floor", "ceiling"], metrics: Sequence[str]) -> dict[str, float]:
        """A document's random orders and ceiling are those of all its methods: each document counts once."""
        found: dict[str, dict[str, list[float]]] = {}
        for one in self.evaluation.records:
            value = getattr(one, name)
            if one.metric in metrics and value is not None:
                found.setdefault(one.metric, {}).setdefault(one.document, []).append(value)
        return {metric: fmean(map(fmean, values.values())) for metric, values in found.items()}

    def seconds(self) -> dict[str, float]:
        """Return the seconds that one explanation of each method takes, mean over the documents."""
        own = self.summary[self.summary["method"] != MODEL]
        return {str(name): float(mean) for name, mean in own.groupby("method")["seconds"].mean().items()}

    def better_than_floor(self, method: str, metric: str) -> bool | None:
        """Whether a method is surely better than random orders; None where the metric has no floor or no direction."""
        higher = METRICS.get(metric).higher_is_better
        differences = [
            one.value - one.floor
            for one in self.evaluation.records
            if (one.method, one.metric) == (method, metric) and one.value is not None and one.floor is not None
        ]
        if higher is None or not differences:
            return None
        _, low, high = mean_interval(differences, seed=self.evaluation.seed)
        return low > 0.0 if higher else high < 0.0

    def metric_sentences(self, metric: str) -> list[str]:
        """Say which methods a metric speaks for, and which are no better than chance by it."""
        return [*self.best_sentences(metric), *self.weak_sentences(metric)]

    def best_sentences(self, metric: str) -> list[str]:
        """Say which method is best by a metric, and which are not clearly worse; nothing where none is better."""
        rows = self._ranked(metric)
        if rows.empty:
            return []
        best = rows.iloc[0]
        mean, low, high = (written(best[name]) for name in ("mean", "low", "high"))
        said = [f"Best by {metric}: {best['method']}, {mean} ({low} to {high})."]
        if metric in self.paired:
            others = self._not_clearly_worse(metric)
            said.append(
                f"{others[:1].upper()}{others[1:]}." if others else "It is clearly better than every other method."
            )
        return said

    def weak_sentences(self, metric: str) -> list[str]:
        """Say which methods are no better than chance by a metric."""
        weak = self.no_better_than_floor(metric)
        return [f"No better than {self.chance_name(metric)}: {', '.join(weak)}."] if weak else []

    def chance_name(self, metric: str) -> str:
        """Say what the floor of a metric is made of."""
        return "shuffled scores" if METRICS.get(metric).kind == "agreement" else "random orders"

    def _not_clearly_worse(self, metric: str) -> str:
        """Name the methods that the paired test cannot tell from the best, unless these are all of many."""
        methods = list(self._ranked(metric)["method"])
        equals = _equal_to(self.paired[metric], methods[0]) if metric in self.paired else ()
        others = [method for method in methods if method in equals]
        if len(others) > 2 and len(others) == len(methods) - 1:
            return "none of the others is clearly worse"
        return f"not clearly worse: {', '.join(others)}" if others else ""

    def no_better_than_floor(self, metric: str) -> list[str]:
        """Return the methods that are not surely better than chance."""
        return [method for method in self._ranked(metric)["method"] if self.better_than_floor(method, metric) is False]

    def _ranked(self, metric: str) -> pd.DataFrame:
        """Rows of methods that have values, best first; none for metrics that only describe."""
        rows = self.of_metric(metric)
        entry = METRICS.get(metric)
        describes = entry.higher_is_better is None or entry.kind == "dispersion"
        return rows[(rows["documents"] > 0) & (rows["method"] != MODEL) & (not describes)]

    def opening_sentences(self) -> list[str]:
        """Say in one sentence what was done, in one what came of it, and in one by how much."""
        methods, documents = len(self.evaluation.methods), len(self.evaluation.documents)
        asked = f"{counted(methods, 'method')} had to explain {counted(documents, 'document')}"
        faithful = self.faithful()
        if not faithful:
            return [f"{asked}; whether removing the words that they name changes the prediction was not measured."]
        metric = faithful[0]
        best = self._ranked(metric).iloc[0]
        weak = self.no_better_than_floor(metric)
        wins = sum(self._ranked(name).iloc[0]["method"] == best["method"] for name in faithful)
        found = [
            f"Most faithful is {best['method']}, best by {wins} of {counted(len(faithful), 'metric')}",
            self._not_clearly_worse(metric),
            f"no better than random orders: {', '.join(weak)}" if weak else "",
        ]
        mean, low, high = (written(best[name]) for name in ("mean", "low", "high"))
        levels = {"random orders": self.floors([metric]), "one word at a time": self.ceilings([metric])}
        beside = [f"{name} {written(values[metric])}" for name, values in levels.items() if values]
        return [
            f"{asked}, and the words that a method ranks highest were taken away: the more the prediction suffers, "
            "compared with random orders of the words, the more faithful the method.",
            f"No method is surely better than random orders; the best is {best['method']}."
            if best["method"] in weak
            else f"{'; '.join(filter(None, found))}.",
            f"That is by {metric}: {best['method']} {mean} ({low} to {high}){''.join(f', {one}' for one in beside)}.",
        ]

    def state_sentences(self) -> list[str]:
        """Say what was measured, what failed and what was left out."""
        evaluation = self.evaluation
        failed = [one for one in evaluation.records if one.status == "failed" and one.method != MODEL]
        missing = [one for one in evaluation.records if one.status == "missing"]
        documents = len(evaluation.documents)
        said = [
            f"Measured {counted(len(evaluation.methods), 'method')} by {counted(len(evaluation.metrics), 'metric')} on "
            f"{counted(documents, 'document')} in {counted(math.ceil(evaluation.seconds), 'second')}."
        ]
        if not evaluation.complete:
            said.append("The run was stopped before its end: these are the documents that were finished.")
        if documents == 1:
            said.append("One document says nothing about others: intervals are the values themselves.")
        elif documents < FEW:
            said.append(f"{documents} documents are few: intervals are rough, and a difference not shown may exist.")
        if evaluation.calls_requested:
            said.append(
                f"The model read {evaluation.calls_made:,} changed documents for {evaluation.calls_requested:,} that "
                "the measurements asked for: what was asked twice ran once."
            )
        if failed:
            explanations = counted(len({(one.document, one.method) for one in failed}), "explanation")
            where = counted(len({one.document for one in failed}), "document")
            said.append(f"{explanations} of {where} failed; the rest is unaffected. {_commonest(failed)}")
        if missing:
            said.append(f"Left out of the means: {counted(len(missing), 'value')}. {_commonest(missing)}")
        reasons: dict[str, list[str]] = {}
        for name, reason in evaluation.skipped.items():
            reasons.setdefault(reason, []).append(name)
        said += [f"Left out: {', '.join(names)}. {reason}" for reason, names in reasons.items()]
        return said


def _commonest(records: Sequence[Record]) -> str:
    """Give the reason that most records have, with the first document that has it."""
    ((reason, times),) = Counter(one.error for one in records).most_common(1)
    first = next(one.document for one in records if one.error == reason)
    return f"{'All' if times == len(records) else 'Most'} because of this (first in document {first}): {reason}"


def _equal_to(paired: pd.DataFrame, best: str) -> set[str]:
    found = set()
    for row in paired.itertuples():
        if best in (row.method, row.other) and not row.p_holm < SURE:
            found.add(row.other if row.method == best else row.method)
    return found
