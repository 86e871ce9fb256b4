"""Agreement: the result of `compare`, one row per document, pair and statistic, and its summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sightline.errors import OptionError
from sightline.evaluation.result import frame_of
from sightline.metrics.statistics import mean_interval

if TYPE_CHECKING:
    import pandas as pd

SUMMARY_COLUMNS = (
    *("method", "first", "second", "metric", "mean", "low", "high", "chance"),
    *("documents", "missing"),
)

LAYER = "layer "


def layer_name(number: int) -> str:
    """Return what a layer is called in a pair: "layer 3"."""
    return f"{LAYER}{number}"


@dataclass(frozen=True)
class Pair:
    """How far two explanations of one document agree by one statistic."""

    document: str
    method: str
    """The method of both, if layers or models are compared; otherwise empty."""
    first: str
    second: str
    metric: str
    value: float | None
    chance: float | None
    """Mean of the statistic when the scores of one are shuffled."""
    error: str = ""
    """Why there is no value."""


@dataclass(frozen=True)
class Failure:
    """An explanation that could not be made."""

    document: str
    model: str
    method: str
    error: str


@dataclass(frozen=True, eq=False, repr=False)
class Agreement:
    """How far explanations agree, document by document."""

    pairs: tuple[Pair, ...]
    between: Literal["methods", "layers", "models"]
    """What was compared."""
    documents: tuple[str, ...]
    metrics: tuple[str, ...]
    failures: tuple[Failure, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """What produced it, by model."""
    complete: bool = True
    """False if it was interrupted; the finished documents are included."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per pair."""
        return frame_of(self.pairs, Pair, numbers=("value", "chance"))

    def summary(self) -> pd.DataFrame:
        """Return one row for each pair and statistic: mean over documents, bootstrap 95 % interval, chance level.

        chance: the mean chance level of the same documents. documents: how many the mean is over; missing: how many
        of those compared have no value.
        """
        import pandas as pd

        groups: dict[tuple[str, str, str, str], list[Pair]] = {}
        for pair in self.pairs:
            groups.setdefault((pair.method, pair.first, pair.second, pair.metric), []).append(pair)
        rows = []
        for key, pairs in groups.items():
            values = [pair.value for pair in pairs if pair.value is not None]
            chances = [pair.chance for pair in pairs if pair.chance is not None]
            interval = mean_interval(values, seed=int(self.settings.get("seed", 0)))
            chance = float(np.mean(chances)) if chances else float("nan")
            rows.append((*key, *interval, chance, len(values), len(pairs) - len(values)))
        return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))

    def matrix(self, metric: str, method: str = "") -> pd.DataFrame:
        """Return the means of one statistic as a symmetric table, 1 on the diagonal.

        method: which one, where layers or models are compared.
        """
        import pandas as pd

        summary = self.summary()
        chosen = summary[(summary["metric"] == metric) & (summary["method"] == method)]
        if chosen.empty:
            known = sorted({(pair.metric, pair.method) for pair in self.pairs})
            listed = ", ".join(f"'{name}'" + (f" of '{other}'" if other else "") for name, other in known) or "nothing"
            raise OptionError(f"'{metric}'{f' of {method!r}' if method else ''} was not compared; there is: {listed}.")
        names = list(dict.fromkeys([*chosen["first"], *chosen["second"]]))
        table = pd.DataFrame(np.eye(len(names)), index=names, columns=names)
        for row in chosen.itertuples():
            table.loc[row.first, row.second] = table.loc[row.second, row.first] = row.mean
        return table

    def by_layer(self, metric: str, column: Literal["mean", "low", "high", "chance"] = "mean") -> pd.DataFrame:
        """Return how far the layers of each method agree with the reference: one row per layer, one column per method.

        Layers are numbered from 0, the lowest; a method with fewer layers than another has no value there.
        """
        reference = self.settings.get("reference")
        if self.between != "layers" or reference is None:
            raise OptionError("A table by layer needs compare(..., layers=True, reference='occlusion').")
        summary = self.summary()
        chosen = summary[(summary["metric"] == metric) & (summary["second"] == reference)]
        if chosen.empty:
            raise OptionError(f"'{metric}' was not compared; there is: {', '.join(self.metrics) or 'nothing'}.")
        names = list(dict.fromkeys(chosen["first"]))
        order = sorted(names, key=lambda name: int(name.removeprefix(LAYER)))
        table = chosen.pivot(index="first", columns="method", values=column)
        table = table.reindex(index=order, columns=list(dict.fromkeys(chosen["method"])))
        return table.set_axis([int(name.removeprefix(LAYER)) for name in order]).rename_axis(
            index="layer", columns=None
        )

    def __repr__(self) -> str:
        reference = self.settings.get("reference")
        lines = [
            f"Agreement between {self.between}{f' and {reference}' if reference else ''} on "
            f"{len(self.documents)} documents"
            + ("" if self.complete else " (interrupted)")
            + (f", {len(self.failures)} explanations failed" if self.failures else "")
        ]
        if self.between == "layers" and reference and self.pairs:
            for metric in self.metrics:
                lines += ["", metric, self.by_layer(metric).round(3).to_string()]
            return "\n".join(lines)
        for metric, method in dict.fromkeys((pair.metric, pair.method) for pair in self.pairs):
            lines += ["", metric + (f", {method}" if method else ""), self.matrix(metric, method).round(3).to_string()]
        return "\n".join(lines)
