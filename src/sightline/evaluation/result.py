"""What `evaluate` and `compare` return: all values, document by document, and what they say about the methods.

The measurements of an `Evaluation` are one long table, a row for each document, method and metric (`Record`,
`to_frame`). Everything else is a reading of that table: means with intervals (`summary`), methods compared on the same
documents (`paired`), curves (`curves`), what went wrong (`failures`). A number that could not be computed is absent and
says why; it never counts as zero.

An `Agreement` has one row per document, pair of explanations and statistic, and its summaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from sightline.errors import OptionError
from sightline.metrics import METRICS
from sightline.metrics.statistics import holm, mean_interval, sign_flip_p
from sightline.registry import suggestion

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RecordStatus = Literal["ok", "missing", "failed"]
FloatArray = npt.NDArray[np.float64]

MODEL = "(model)"
"""The name in the column `method` of metrics that describe the model alone (anisotropy)."""

SUMMARY_COLUMNS = (
    *("method", "metric", "mean", "low", "high", "floor", "reference"),
    *("documents", "missing", "failed", "seconds", "calls", "higher_is_better"),
)
PAIRED_COLUMNS = ("method", "other", "difference", "low", "high", "p", "p_holm", "documents", "better")
CURVE_COLUMNS = ("ratio", "mean", "low", "high", "floor", "reference", "documents")


@dataclass(frozen=True)
class Record:
    """One measurement: one document, one method, one metric."""

    document: str
    """The id of the example."""
    method: str
    metric: str
    value: float | None
    """None where `status` is not "ok"."""
    floor: float | None = None
    """Chance level: the mean over random orders for faithfulness and over shuffled token scores for agreement, the
    expected value of random scores for retrieval and plausibility; None for metrics without one."""
    reference: float | None = None
    """The same metric for the order of the exact one-at-a-time effects; a reference, which a method may pass."""
    calls: int = 0
    """Perturbed documents that this measurement requested of the model, duplicates included."""
    seconds: float = 0.0
    """Time to make the explanation (not to measure it); alike for all metrics of a document and method."""
    status: RecordStatus = "ok"
    """"ok"; "missing": the metric is not defined for this document; "failed": the method gave no explanation."""
    error: str = ""
    """The reason, as a sentence, where `status` is not "ok"."""


@dataclass(frozen=True, eq=False)
class MetricCurve:
    """A faithfulness curve of one document: K values at K shares of the words or tokens."""

    ratios: FloatArray
    """(K,) in [0, 1], ascending."""
    values: FloatArray
    """(K,) what the metric averages, at every ratio."""
    floor: FloatArray | None = None
    """(K,) mean curve of the random orders."""
    reference: FloatArray | None = None
    """(K,) curve of the order of one-at-a-time effects."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The measurements of an evaluation and how they were made."""

    records: tuple[Record, ...]
    documents: tuple[str, ...]
    """Ids of the documents that were measured, in order."""
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    """The methods that were measured, in the requested order."""
    curves_by: Mapping[tuple[str, str, str], MetricCurve] = field(default_factory=dict)
    """Curves by (document, method, metric)."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Methods and metrics that "all" left out, each with the reason."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Options of the evaluation, the seed among them."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """What produced it: model, fingerprint of its weights, versions."""
    calls_requested: int = 0
    """Perturbed documents that all measurements requested."""
    calls_made: int = 0
    """Perturbed documents that the model read: each distinct one once."""
    seconds: float = 0.0
    """How long the evaluation took."""
    complete: bool = True
    """False if it was interrupted; the finished documents are included."""

    @property
    def seed(self) -> int:
        """The seed of the random orders, the intervals and the permutation tests."""
        return int(self.settings.get("seed", 0))

    def to_frame(self) -> pd.DataFrame:
        """Return the long table, one row per record; missing values are NaN, and their row says why."""
        return frame_of(self.records, Record, numbers=("value", "floor", "reference"))

    def summary(self) -> pd.DataFrame:
        """Return one row per method and metric.

        mean, low, high: mean over documents with its bootstrap 95 % interval (NaN for fewer than six documents).
        floor, reference: their means over the same documents. documents: how many the mean is over; missing, failed:
        how many have no value. seconds, calls: per document. higher_is_better: None where neither direction is.
        """
        import pandas as pd

        rows = []
        for method, metric in self._list_measured():
            records = self._of(method, metric)
            values = [record for record in records if record.value is not None]
            mean, low, high = mean_interval(
                [record.value for record in values if record.value is not None],
                seed=self.seed,
                within=METRICS.get(metric).range,
            )
            ran = [record for record in records if record.status != "failed"]
            rows.append(
                (
                    *(method, metric, mean, low, high),
                    _mean([record.floor for record in values]),
                    _mean([record.reference for record in values]),
                    len(values),
                    sum(record.status == "missing" for record in records),
                    sum(record.status == "failed" for record in records),
                    _mean([record.seconds for record in ran]),
                    _mean([float(record.calls) for record in ran]),
                    METRICS.get(metric).higher_is_better,
                )
            )
        return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))

    def paired(self, metric: str, *, permutations: int = 10_000) -> pd.DataFrame:
        """Compare all pairs of methods by one metric on the documents that both have a value for.

        difference: mean of method − other, with its bootstrap 95 % interval. p: two-sided sign-flip permutation test
        (under the hypothesis of no difference, the sign of each document's difference is a coin toss; Fisher 1935),
        exact where 2^documents ≤ `permutations`. p_holm: corrected for the number of pairs (Holm 1979). better: the
        method that the difference favours, "" where neither direction is better or there is no difference.
        """
        import pandas as pd

        self._check(metric, self.metrics, "metric")
        higher = METRICS.get(metric).higher_is_better
        rows: list[list[Any]] = []
        for method, other in combinations([document for document in self.methods if document != MODEL], 2):
            first, second = self.values(method, metric), self.values(other, metric)
            shared = [document for document in self.documents if document in first and document in second]
            differences = np.array([first[document] - second[document] for document in shared])
            mean, low, high = mean_interval(differences, seed=self.seed)
            (p,) = sign_flip_p(differences[:, None], permutations=permutations, seed=self.seed)
            undecided = higher is None or not len(shared) or mean == 0.0
            better = "" if undecided else (method if (mean > 0.0) == higher else other)
            rows.append([method, other, mean, low, high, p, np.nan, len(shared), better])
        for row, corrected in zip(rows, holm([row[5] for row in rows]), strict=True):
            row[6] = corrected
        return pd.DataFrame(rows, columns=list(PAIRED_COLUMNS))

    def curves(self, method: str, metric: str) -> pd.DataFrame:
        """Return the mean curve of a method over documents, one row per ratio, beside those of floor and reference.

        Empty for metrics without curves. low, high: bootstrap 95 % interval at each ratio.
        """
        import pandas as pd

        self._check(metric, self.metrics, "metric")
        self._check(method, self.methods, "method")
        curves = [
            self.curves_by[key] for document in self.documents if (key := (document, method, metric)) in self.curves_by
        ]
        rows = []
        for index in range(len(curves[0].ratios) if curves else 0):
            mean, low, high = mean_interval([curve.values[index] for curve in curves], seed=self.seed)
            floor = _mean([None if curve.floor is None else float(curve.floor[index]) for curve in curves])
            reference = _mean([None if curve.reference is None else float(curve.reference[index]) for curve in curves])
            rows.append((float(curves[0].ratios[index]), mean, low, high, floor, reference, len(curves)))
        return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))

    def values(self, method: str, metric: str) -> dict[str, float]:
        """Return the values of one method by one metric, by document; documents without a value are left out."""
        return {record.document: record.value for record in self._of(method, metric) if record.value is not None}

    def failures(self) -> pd.DataFrame:
        """Return document, method, metric, status and reason of everything that has no value."""
        frame = self.to_frame()
        columns = ["document", "method", "metric", "status", "error"]
        return frame.loc[frame["status"] != "ok", columns].reset_index(drop=True)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Return all methods by all metrics that rank them, beside chance, as a matplotlib figure.

        With `path` (.svg, .png or .pdf), also write it.
        """
        from sightline.view.evaluate.folder import plot_overview
        from sightline.view.plots.style import save_figure

        figure = plot_overview(self)
        if path is not None:
            save_figure(figure, path)
        return figure

    def save(self, folder: str | Path) -> None:
        """Write records.parquet, curves.parquet and evaluation.json to a folder, each completely or not at all."""
        from sightline.evaluation.evaluation_storage import write

        write(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Evaluation:
        """Read what `save` wrote."""
        from sightline.evaluation.evaluation_storage import read

        return read(Path(folder))

    def __repr__(self) -> str:
        failed = sum(record.status == "failed" for record in self.records)
        lines = [
            f"Evaluation of {len(self.methods)} methods by {len(self.metrics)} metrics on "
            f"{len(self.documents)} documents" + ("" if self.complete else " (interrupted)"),
            f"{self.calls_made:,} model calls made of {self.calls_requested:,} requested, {self.seconds:.1f} s"
            + (f", {failed} measurements failed" if failed else ""),
        ]
        if self.records:
            table = self.summary().pivot(index="method", columns="metric", values="mean")
            rows, columns = list(dict.fromkeys(m for m, _ in self._list_measured())), list(self.metrics)
            lines.append(table.reindex(index=rows, columns=columns).round(4).to_string(na_rep="-"))
        return "\n".join(lines)

    def _of(self, method: str, metric: str) -> list[Record]:
        return [record for record in self.records if record.method == method and record.metric == metric]

    def _list_measured(self) -> list[tuple[str, str]]:
        """Pairs of method and metric that have records, in the requested order."""
        present = {(record.method, record.metric) for record in self.records}
        names = dict.fromkeys((*self.methods, MODEL))
        return [(method, metric) for metric in self.metrics for method in names if (method, metric) in present]

    def _check(self, name: str, known: Sequence[str], kind: str) -> None:
        if name not in known:
            hint = suggestion(name, list(known))
            raise OptionError(f"The {kind} '{name}' was not measured.{hint} Measured: {', '.join(known)}.")


def frame_of(rows: Sequence[Any], kind: type, *, numbers: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row per object of a dataclass and one column per field; None in the columns of `numbers` is NaN."""
    import pandas as pd

    columns = [column.name for column in fields(kind)]
    frame = pd.DataFrame([[getattr(row, name) for name in columns] for row in rows], columns=columns)
    return frame.astype(dict.fromkeys(numbers, "float64"))


def _mean(values: Sequence[float | None]) -> float:
    """Return the mean of the values that are present; NaN if there are none."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else float("nan")


AGREEMENT_COLUMNS = (
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
    """Provenance, by model."""
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
        return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))

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
