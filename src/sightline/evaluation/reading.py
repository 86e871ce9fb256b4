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
from typing import TYPE_CHECKING

from sightline.evaluation.result import MODEL, Evaluation, Record
from sightline.evaluation.statistics import mean_interval
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
        own = self.summary[self.summary["method"] != MODEL]
        table = own.pivot(index="method", columns="metric", values="mean")
        metrics = [metric for metric in self.evaluation.metrics if metric in table.columns]
        table = table.reindex(index=list(self.evaluation.methods), columns=metrics)
        table["seconds"] = own.groupby("method")["seconds"].mean()
        return table.rename_axis(index=None, columns=None).reset_index(names="method")

    def of_metric(self, metric: str) -> pd.DataFrame:
        """Return the summary of one metric, best first where a direction is better."""
        rows = self.summary[self.summary["metric"] == metric]
        higher = METRICS.get(metric).higher_is_better
        return rows if higher is None else rows.sort_values("mean", ascending=not higher, kind="stable")

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
        """Say which methods a metric speaks for; nothing for metrics that only describe."""
        rows = self.of_metric(metric)
        rows = rows[(rows["documents"] > 0) & (rows["method"] != MODEL)]
        entry = METRICS.get(metric)
        if entry.higher_is_better is None or entry.kind == "dispersion" or rows.empty:
            return []
        best = rows.iloc[0]
        said = [f"Best by {metric}: {best['method']}, {best['mean']:.3g} ({best['low']:.3g} to {best['high']:.3g})."]
        if metric in self.paired:
            equals = _not_clearly_worse(self.paired[metric], str(best["method"]))
            others = [method for method in rows["method"] if method in equals]
            said.append(
                f"Not clearly worse: {', '.join(others)}."
                if others
                else "It is clearly better than every other method."
            )
        weak = [method for method in rows["method"] if self.better_than_floor(method, metric) is False]
        if weak:
            chance = "shuffled scores" if entry.kind == "agreement" else "random orders"
            said.append(f"No better than {chance}: {', '.join(weak)}.")
        return said

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


def counted(number: int, noun: str) -> str:
    """Say "1 document", "2 documents"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _commonest(records: Sequence[Record]) -> str:
    """Give the reason that most records have, with the first document that has it."""
    ((reason, times),) = Counter(one.error for one in records).most_common(1)
    first = next(one.document for one in records if one.error == reason)
    return f"{'All' if times == len(records) else 'Most'} because of this (first in document {first}): {reason}"


def _not_clearly_worse(paired: pd.DataFrame, best: str) -> set[str]:
    found = set()
    for row in paired.itertuples():
        if best in (row.method, row.other) and not row.p_holm < SURE:
            found.add(row.other if row.method == best else row.method)
    return found
