"""Compare two slices of a corpus: which words weigh more in one than in the other?

v_d(w) is the score of word w in document d (rule "mean-all", 0 where it does not occur) or its mean over instances
(rule "mean-present", only documents that contain it). Over the documents of slices A and B

    Δ(w) = mean_A v(w) − mean_B v(w),

with a 95 % bootstrap interval (documents of each slice drawn with replacement, Efron 1979), the p-value of Welch's
t-test (1947) and its correction for many words (Benjamini & Hochberg 1995, false discovery rate). Means and variances
of all words come from one query; intervals are computed for the words that are returned. Words in few documents are
left out, because a test would have no power.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sightline.arguments import check_one_of
from sightline.corpus.aggregation import AggregateBy, DocumentValues, sum_per_document, weigh_documents
from sightline.metrics.chance import RESAMPLES, resample_counts

if TYPE_CHECKING:
    import pandas as pd

    from sightline.corpus.store import Store

SliceRule = Literal["mean-all", "mean-present"]
LEAST_DOCUMENTS = 5
TOP = 50


@dataclass(frozen=True)
class SliceComparison:
    """Words whose weight differs, largest difference first."""

    first: str
    """The SQL condition that selects the documents of the first slice."""
    second: str
    documents: tuple[int, int]
    tested: int
    """Number of words that were compared, including those that are not listed."""
    by: AggregateBy
    rows: pd.DataFrame
    scores: str
    """The column of scores that was compared: the method, with the class if several were explained."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per word: first, second (means), difference, low, high, p, p_corrected, documents of each."""
        return self.rows


def compare_slices(
    store: Store,
    first: str,
    second: str,
    *,
    other: Store | None = None,
    by: AggregateBy = "type",
    method: str | None = None,
    class_: str | int | None = None,
    rule: SliceRule = "mean-all",
    min_documents: int = LEAST_DOCUMENTS,
    top: int | None = TOP,
    seed: int = 0,
) -> SliceComparison:
    """Compare the documents for which two SQL conditions hold, for example "correct" and "NOT correct".

    other: the store of the second slice, for example of another model; the same store by default. class_: the class
    that the scores are for. min_documents: leave out words in fewer documents of the two slices together. top: number
    of words to return, those with the smallest p-values; None for all.
    """
    import pandas as pd

    check_one_of("rule", rule, get_args(SliceRule))
    sides = [_Side(store, first, method, class_, by, rule), _Side(other or store, second, method, class_, by, rule)]
    moments = [side.moments() for side in sides]
    joined = moments[0].add_suffix("_first").join(moments[1].add_suffix("_second"), how="outer").fillna(0.0)
    held = joined["documents_first"] + joined["documents_second"]
    # A mean over the documents that contain a word exists only if there are some.
    in_both = (joined["documents_first"] > 0) & (joined["documents_second"] > 0) | (rule == "mean-all")
    joined = joined[(held >= min_documents) & in_both].sort_index()
    sizes = [
        np.full(len(joined), side.total, dtype=float) if rule == "mean-all" else joined[f"documents_{name}"].to_numpy()
        for side, name in zip(sides, ("first", "second"), strict=True)
    ]
    means, variances = [], []
    for size, name in zip(sizes, ("first", "second"), strict=True):
        mean, variance = _mean_and_variance(
            joined[f"total_{name}"].to_numpy(), joined[f"squares_{name}"].to_numpy(), size
        )
        means.append(mean)
        variances.append(variance)
    p_values = welch_p_values(means, variances, sizes)
    frame = pd.DataFrame(
        {
            by: joined.index.to_numpy(),
            "first": means[0],
            "second": means[1],
            "difference": means[0] - means[1],
            "p": p_values,
            "p_corrected": benjamini_hochberg(p_values),
            "documents_first": joined["documents_first"].to_numpy().astype(int),
            "documents_second": joined["documents_second"].to_numpy().astype(int),
        }
    )
    frame = frame.iloc[np.lexsort((-frame["difference"].abs(), frame["p"]))][:top].reset_index(drop=True)
    draws = [side.resample(frame[by].tolist(), seed + number) for number, side in enumerate(sides)]
    limits = np.nanquantile(draws[0] - draws[1], [0.025, 0.975], axis=0) if len(frame) else np.zeros((2, 0))
    frame.insert(4, "low", limits[0])
    frame.insert(5, "high", limits[1])
    return SliceComparison(first, second, (sides[0].total, sides[1].total), len(joined), by, frame, sides[0].column)


class _Side:
    """One slice."""

    def __init__(
        self, store: Store, where: str, method: str | None, class_: str | int | None, by: AggregateBy, rule: SliceRule
    ) -> None:
        self.store, self.by, self.rule = store, by, rule
        self.column, explained_for = store.score_column(method, class_)
        self.weights, self.total = weigh_documents(store, where, explained_for)

    def moments(self) -> pd.DataFrame:
        """Return for every word the sum and the sum of squares of v_d, and how many documents contain it."""
        value = "mean" if self.rule == "mean-present" else "score"
        frame: pd.DataFrame = self.store.sql(
            f"""SELECT key, sum(w * {value}) AS total, sum(w * {value} * {value}) AS squares, sum(w) AS documents
                FROM ({sum_per_document(self.column, self.by, self.weights)}) GROUP BY key"""
        )
        return frame.set_index("key")

    def resample(self, words: list[Any], seed: int) -> npt.NDArray[np.float64]:
        """Return the means of some words when documents are drawn with replacement, (RESAMPLES, K)."""
        values = DocumentValues.of(self.store, self.column, self.by, self.weights, self.total, words, self.rule)
        return np.concatenate([values.resample(counts) for counts in resample_counts(self.total, RESAMPLES, seed)])


def _mean_and_variance(
    totals: npt.NDArray[np.float64], squares: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return mean and unbiased variance of n values from Σv and Σv²; NaN where there are too few."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = totals / sizes
        variance = np.maximum(squares - sizes * mean**2, 0.0) / (sizes - 1)
    return mean, np.where(sizes > 1, variance, np.nan)


def welch_p_values(
    means: list[npt.NDArray[np.float64]], variances: list[npt.NDArray[np.float64]], sizes: list[npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """Return the two-sided p-values of Welch's t-test; 1 where nothing varies or a slice has fewer than two values."""
    from scipy import stats

    with np.errstate(invalid="ignore", divide="ignore"):
        parts = [variance / size for variance, size in zip(variances, sizes, strict=True)]
        error = parts[0] + parts[1]
        freedom = error**2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
        p_values = 2 * stats.t.sf(np.abs(means[0] - means[1]) / np.sqrt(error), freedom)
    return np.asarray(np.where(np.isfinite(p_values), p_values, 1.0))


def benjamini_hochberg(p_values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the p-values corrected for their number: min_{j ≥ i} p_(j) · m / j in ascending order, at most 1."""
    m = len(p_values)
    order = np.argsort(p_values, kind="stable")
    scaled = p_values[order] * m / np.arange(1, m + 1)
    corrected = np.empty(m)
    corrected[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return corrected
