"""Scores of words over a data set, and their differences between two slices of it.

D documents (rows of the data set that were explained; a text that occurs in m rows counts m times), w a word, s_d(w)
the sum of the scores of its instances in document d, c_d(w) how many there are, D_w the documents that contain it:

    sum            S(w) = Σ_d s_d(w)
    mean-all       S(w) / D                              the data-set table of the first paper, for a fixed class
    mean-present   1/|D_w| Σ_{d ∈ D_w} s_d(w) / c_d(w)   a long document counts as much as a short one

By type all three are one pass over the tokens (each token carries c_d of its word), O(tokens) time and O(types) memory.
By written word, the instances within each document are added up first. Intervals (`metrics.statistics`) are computed
for the words that are returned.

`compare_slices`: which words weigh more in one slice than in the other? v_d(w) is the score of word w in document d
(rule "mean-all", 0 where it does not occur) or its mean over instances (rule "mean-present", only documents that
contain it). Over the documents of slices A and B

    Δ(w) = mean_A v(w) − mean_B v(w),

and its 95 % interval (`metrics.statistics`). Could a difference be chance? The documents change slices at random, 1,000
times, and a word is significant if its statistic

    T(w) = |Δ(w)| / (s(w) √(1/n_A + 1/n_B)),   s(w) the standard deviation of v(w) over both slices,

exceeds the largest T of any word in all but 5 % of the permutations (maxT, Westfall & Young 1993). So the probability
of reporting any word that does not differ is at most 5 %, however small a slice is. A word must be in `min_documents`
documents of the slice in which it is more frequent (rule "mean-present": of both), in the data and in every
permutation: otherwise a few documents with a rare word would give the largest T. Equal texts move together.
O(permutations · occurrences).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from sightline.analysis.attribution_tables import SHARED_AMONG
from sightline.corpus.settings import PREDICTED
from sightline.corpus.tables import quote, text_literal
from sightline.errors import InputError, OptionError
from sightline.methods import METHODS
from sightline.metrics.score_inputs import FloatArray
from sightline.metrics.statistics import block_sizes, column_intervals, difference_ends
from sightline.models import ALL
from sightline.settings.values import check_count, check_one_of

if TYPE_CHECKING:
    import pandas as pd

    from sightline.corpus.store import Store

AggregateBy = Literal["word", "type", "position"]
AggregateRule = Literal["mean-present", "mean-all", "sum"]
CHOSEN_KEYS = "chosen_keys"
"""Table of the words whose intervals are computed."""
_KEYS = {"word": "coalesce(written, type)", "type": "type", "position": "position"}


def aggregate(
    store: Store,
    by: AggregateBy = "word",
    method: str | None = None,
    class_: str | int | None = None,
    rule: AggregateRule = "mean-present",
    *,
    where: str | None = None,
    min_documents: int | None = None,
    top: int | None = None,
    interval: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the score of every word over the data set, largest first.

    by: "word" as written, "type" in folded case, or "position" of tokens. method: by default the first of the run.
    class_: the class that the scores are for. rule: "mean-all" divides the sum of a word's scores by the number of
    all documents (the data-set table of the first paper), "mean-present" averages over the documents that contain
    the word, "sum" adds up. where: an SQL condition on `documents`. min_documents: leave out words in fewer
    documents. top: only this many with the largest and with the smallest scores. interval: add `low` and
    `high`, a 95 % interval over documents; words in fewer than six documents have none.
    """
    check_one_of("by", by, get_args(AggregateBy))
    check_one_of("rule", rule, get_args(AggregateRule))
    column, explained_for = store.score_column(method, class_)
    if rule == "mean-all" and explained_for is not None:
        raise OptionError(
            f"rule='mean-all' with class_='{explained_for}' needs scores for that class in all documents, but each was "
            f"explained for its prediction. Run again with target='{explained_for}' or target='all', or use "
            "rule='mean-present'."
        )
    if class_ is None:
        _check_one_class(store, column, rule, where)
    weights, total = weigh_documents(store, where, explained_for)
    least = min_documents
    if least is None:
        least = 2 if rule == "mean-present" and total >= SHARED_AMONG else 1
    inner = _per_token(column, weights) if by == "type" else sum_per_document(column, by, weights)
    value = {"sum": "sum(w * score)", "mean-all": f"sum(w * score) / {total}.0"}.get(
        rule, "sum(w * mean) / sum(w * present)"
    )
    query = f"""
        SELECT key AS {by}, {value} AS score, CAST(sum(w * present) AS BIGINT) AS documents,
               CAST(sum(w * instances) AS BIGINT) AS instances
        FROM ({inner}) GROUP BY key HAVING sum(w * present) >= {int(least)}"""
    frame = store.sql(f"SELECT * FROM ({query}) ORDER BY score DESC, {by}")
    if top is not None:
        frame = _ends(frame, top)
    if interval:
        _add_intervals(frame, store, column, by, rule, weights, total, seed)
    return frame


def explained_classes(store: Store, column: str, where: str | None) -> list[str]:
    """Return the classes (or the contrast) that the scores of these documents are for; none if they are for no class.

    Scores for different classes can be neither added up nor compared.
    """
    target = store.manifest["settings"]["target"]
    if target == ALL or (column in METHODS and not METHODS.get(column).class_specific):
        return []
    if target != PREDICTED:
        return [" against ".join(map(str, target)) if isinstance(target, list) else str(target)]
    condition = f"status = 'done' AND ({where or 'true'})"
    found = store.sql(f"SELECT DISTINCT prediction FROM documents WHERE {condition} ORDER BY prediction")
    return [str(name) for name in found["prediction"]]


def _check_one_class(store: Store, column: str, rule: AggregateRule, where: str | None) -> None:
    """Raise OptionError if the documents were explained for different classes."""
    classes = explained_classes(store, column, where)
    if len(classes) > 1:
        one_class = f"where=\"prediction = '{classes[0]}'\"" if rule == "mean-all" else f"class_='{classes[0]}'"
        raise OptionError(
            f"rule='{rule}' puts the scores of all documents together, but each was explained for its prediction "
            f"({', '.join(classes[:3])}{', …' if len(classes) > 3 else ''}). Restrict the documents with {one_class}, "
            "or run again with target='all'."
        )


def weigh_documents(store: Store, where: str | None, explained_for: str | None) -> tuple[str, int]:
    """Return a query for (document, w), w the number of rows with that document, and the number of rows D."""
    conditions = ["status = 'done'"]
    if where is not None:
        conditions.append(f"({where})")
    if explained_for is not None:
        conditions.append(f"prediction = {text_literal(explained_for)}")
    weights = f"SELECT document, count(*) AS w FROM documents WHERE {' AND '.join(conditions)} GROUP BY document"
    total = int(store.sql(f"SELECT coalesce(sum(w), 0) AS total FROM ({weights})")["total"].iloc[0])
    if not total:
        pending = int(store.sql("SELECT count(*) AS number FROM documents WHERE status = 'pending'")["number"].iloc[0])
        unfinished = f" The run is not finished ({pending:,} rows are left): start it again." if pending else ""
        raise InputError(
            f"No document{'' if where is None else f' with {where}'} was explained: there is nothing to average."
            f"{unfinished}"
        )
    return weights, total


def _per_token(column: str, weights: str) -> str:
    score = f"CAST({quote(column)} AS DOUBLE)"
    return f"""
        SELECT type AS key, w, {score} AS score, {score} / greatest(instances, 1) AS mean,
               CAST(first_of_type AS INTEGER) AS present, CAST(first_of_word AS INTEGER) AS instances
        FROM tokens JOIN ({weights}) USING (document) WHERE word >= 0"""


def sum_per_document(column: str, by: AggregateBy, weights: str, *, chosen: bool = False) -> str:
    """Return a query for the sums of every word (or of those in the table chosen_keys) in every document."""
    key = _KEYS[by]
    instances = "count(*)" if by == "position" else "sum(CAST(first_of_word AS INTEGER))"
    restriction = f" AND {key} IN (SELECT key FROM {CHOSEN_KEYS})" if chosen else ""
    return f"""
        SELECT document, key, w, score, score / greatest(instances, 1) AS mean, 1 AS present, instances FROM (
            SELECT document, {key} AS key, sum(CAST({quote(column)} AS DOUBLE)) AS score, {instances} AS instances
            FROM tokens WHERE word >= 0{restriction} GROUP BY ALL) JOIN ({weights}) USING (document)"""


def _ends(frame: pd.DataFrame, top: int) -> pd.DataFrame:
    """Return the `top` largest and the `top` smallest scores."""
    check_count("top", top)
    if len(frame) <= 2 * top:
        return frame
    import pandas as pd

    return pd.concat([frame.head(top), frame.tail(top)], ignore_index=True)


def _add_intervals(
    frame: pd.DataFrame,
    store: Store,
    column: str,
    by: AggregateBy,
    rule: AggregateRule,
    weights: str,
    total: int,
    seed: int,
) -> None:
    """Add the columns low and high: the ends of the 95 % interval of each score over documents."""
    values, holds = document_values(store, column, by, weights, total, frame[by].tolist(), rule)
    ends = column_intervals(values, holds, over_holding=rule == "mean-present", seed=seed)
    frame["low"], frame["high"] = ends * (total if rule == "sum" else 1.0)


def document_values(
    store: Store,
    column: str,
    by: AggregateBy,
    weights: str,
    total: int,
    words: Sequence[Any],
    rule: AggregateRule,
) -> tuple[Any, Any]:
    """Return sparse matrices (D, K) of what K words contribute to each of D documents, and 1 where they occur.

    A text that occurs in several rows is a document for each of them.
    """
    import pyarrow as pa
    from scipy.sparse import csr_matrix

    store.connection.register(CHOSEN_KEYS, pa.table({"key": list(words)}))
    sums = store.sql(sum_per_document(column, by, weights, chosen=True))
    documents = store.sql(f"SELECT document, w FROM ({weights}) ORDER BY document")
    repeats = documents["w"].to_numpy()
    first_row = dict(zip(documents["document"].tolist(), np.cumsum(repeats) - repeats, strict=True))
    place = {word: number for number, word in enumerate(words)}
    times = sums["w"].to_numpy()
    rows = np.repeat(sums["document"].map(first_row).to_numpy(), times)
    rows = rows + np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    columns = np.repeat(sums["key"].map(place).to_numpy(), times)
    values = np.repeat(sums["mean" if rule == "mean-present" else "score"].to_numpy(dtype=float), times)
    shape = (total, len(words))
    return csr_matrix((values, (rows, columns)), shape), csr_matrix((values * 0 + 1, (rows, columns)), shape)


SliceRule = Literal["mean-all", "mean-present"]
LEAST_DOCUMENTS = 5
TOP = 50
PERMUTATIONS = 1000


@dataclass(frozen=True)
class SliceComparison:
    """Words whose weights differ, largest difference first."""

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
    predicted: str | None
    """The predicted class by which the compared documents were selected, if any."""

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
    that the scores are for; if each document was explained for its prediction, only those with this prediction are
    compared. Without it, all documents must have been explained for the same class. min_documents: leave out words in
    fewer documents of the slice in which they are more frequent, or of either slice with "mean-present". top: number of
    words to return, those with the smallest p-values; None for all. p: of the word alone; p_corrected: for the largest
    difference of all words.
    """
    import pandas as pd
    from scipy.sparse import csr_matrix

    check_one_of("rule", rule, get_args(SliceRule))
    sides = [_Side(store, first, method, class_, by, rule), _Side(other or store, second, method, class_, by, rule)]
    if class_ is None:
        _check_same_class(sides)
    table = pd.concat([side.sums() for side in sides], keys=(0, 1), names=["side", None]).reset_index("side")
    units = pd.concat([side.units() for side in sides], keys=(0, 1), names=["side", None]).reset_index("side")
    words, columns = np.unique(table["key"].to_numpy(), return_inverse=True)
    rows = pd.MultiIndex.from_frame(units[["side", "document"]]).get_indexer(
        pd.MultiIndex.from_frame(table[["side", "document"]])
    )
    shape = (len(units), len(words))
    values = csr_matrix((table["value"].to_numpy(dtype=float), (rows, columns)), shape)
    holds = csr_matrix((np.ones(len(table)), (rows, columns)), shape)
    is_first = units["side"].to_numpy() == 0
    weights = units["w"].to_numpy(dtype=float)
    test = permute_slices(values, holds, weights, is_first, rule=rule, least=min_documents, seed=seed)
    enough = np.flatnonzero(test.is_tested)
    frame = pd.DataFrame(
        {
            by: words[enough],
            "first": test.first[enough],
            "second": test.second[enough],
            "difference": (test.first - test.second)[enough],
            "p": test.p[enough],
            "p_corrected": test.p_corrected[enough],
            "documents_first": test.documents_first[enough].astype(int),
            "documents_second": test.documents_second[enough].astype(int),
        }
    )
    frame = frame.iloc[np.argsort(-test.statistic[enough], kind="stable")][:top].reset_index(drop=True)
    ends = [side.intervals(frame[by].tolist(), seed + number) for number, side in enumerate(sides)]
    low, high = difference_ends((frame["first"], *ends[0]), (frame["second"], *ends[1]))
    frame.insert(4, "low", low)
    frame.insert(5, "high", high)
    totals = (sides[0].total, sides[1].total)
    column, predicted = sides[0].column, sides[0].explained_for
    return SliceComparison(first, second, totals, len(enough), by, frame, column, predicted)


class _Side:
    """One slice."""

    def __init__(
        self, store: Store, where: str, method: str | None, class_: str | int | None, by: AggregateBy, rule: SliceRule
    ) -> None:
        self.store, self.where, self.by, self.rule = store, where, by, rule
        self.column, self.explained_for = store.score_column(method, class_)
        self.weights, self.total = weigh_documents(store, where, self.explained_for)

    def units(self) -> pd.DataFrame:
        """Return every text of the slice once, and the number w of its rows."""
        return self.store.sql(f"SELECT document, w FROM ({self.weights}) ORDER BY document")

    def sums(self) -> pd.DataFrame:
        """Return v_d of every word that occurs in document d."""
        value = "mean" if self.rule == "mean-present" else "score"
        inner = sum_per_document(self.column, self.by, self.weights)
        return self.store.sql(f"SELECT document, key, {value} AS value FROM ({inner})")

    def intervals(self, words: list[Any], seed: int) -> npt.NDArray[np.float64]:
        """Return the ends (2, K) of the intervals of the means of some words."""
        matrices = document_values(self.store, self.column, self.by, self.weights, self.total, words, self.rule)
        return column_intervals(*matrices, over_holding=self.rule == "mean-present", seed=seed)


def _check_same_class(sides: list[_Side]) -> None:
    classes = dict.fromkeys(name for side in sides for name in explained_classes(side.store, side.column, side.where))
    if len(classes) > 1:
        names = ", ".join([*classes][:3]) + (", …" if len(classes) > 3 else "")
        raise OptionError(
            f"The documents of the slices were explained for different classes ({names}), whose scores cannot be "
            f"compared. Choose one with class_='{next(iter(classes))}', or run again with target='all'."
        )


class SliceTest(NamedTuple):
    """The test of K words, each field (K,)."""

    first: FloatArray
    second: FloatArray
    documents_first: FloatArray
    documents_second: FloatArray
    statistic: FloatArray
    is_tested: npt.NDArray[np.bool_]
    p: FloatArray
    p_corrected: FloatArray


def permute_slices(
    values: Any,
    holds: Any,
    weights: FloatArray,
    is_first: npt.NDArray[np.bool_],
    *,
    rule: SliceRule = "mean-all",
    least: int = LEAST_DOCUMENTS,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> SliceTest:
    """Return means, T and permutation p-values of K words in two slices (see the module).

    values, holds (U, K): sparse, v of every word in every text and 1 where it occurs; weights (U,): rows with the text;
    is_first (U,): which texts are in the first slice.
    """
    counted = holds.multiply(weights[:, None]).tocsr()
    summed = values.multiply(weights[:, None]).tocsr()
    total, count, rows = (np.asarray(part.sum(axis=0)).ravel() for part in (summed, counted, weights[:, None]))
    squares = np.asarray(summed.multiply(values).sum(axis=0)).ravel()
    size = count if rule == "mean-present" else rows
    with np.errstate(invalid="ignore"):  # a word that occurs in no document
        variance = squares / size - (total / size) ** 2
        spread = np.sqrt(np.where(variance > 1e-12 * squares / size, variance, np.nan))

    def compare(in_first: FloatArray) -> tuple[FloatArray, ...]:
        """Return means, counts, T and whether each word is in enough documents (R, K), for slices `in_first` (R, U)."""
        sums, held = ((matrix.T @ in_first.T).T for matrix in (summed, counted))
        size = (in_first @ weights)[:, None]
        rest, other_held = rows - size, count - held
        with np.errstate(invalid="ignore", divide="ignore"):
            if rule == "mean-present":
                size, rest = held, other_held
                enough = np.minimum(held, other_held) >= least
            else:
                enough = np.where(held / size >= other_held / rest, held, other_held) >= least
            means = sums / size, (total - sums) / rest
            statistic = np.abs(means[0] - means[1]) / (spread * np.sqrt(1 / size + 1 / rest))
        return *means, held, other_held, np.where(enough, np.nan_to_num(statistic), 0.0), enough

    first, second, held, other_held, statistic, enough = (part[0] for part in compare(is_first[None].astype(float)))
    bar = statistic * (1 - 1e-9)  # the same sum in another order differs by rounding
    single, largest = np.ones(len(statistic)), np.ones(len(statistic))
    generator = np.random.default_rng(seed)
    for block in block_sizes(permutations, max(holds.shape)):
        drawn = compare(generator.permuted(np.tile(is_first.astype(float), (block, 1)), axis=1))[4]
        single += (drawn >= bar).sum(axis=0)
        largest += block - np.searchsorted(np.sort(drawn.max(axis=1, initial=0.0)), bar)
    p_values = (part / (permutations + 1) for part in (single, largest))
    return SliceTest(first, second, held, other_held, statistic, enough.astype(np.bool_), *p_values)
