"""Scores of words over a data set.

D documents (rows of the data set that were explained; a text that occurs in m rows counts m times), w a word, s_d(w)
the sum of the scores of its instances in document d, c_d(w) how many there are, D_w the documents that contain it:

    sum            S(w) = Σ_d s_d(w)
    mean-all       S(w) / D                              the data-set table of the first paper, for a fixed class
    mean-present   1/|D_w| Σ_{d ∈ D_w} s_d(w) / c_d(w)   a long document counts as much as a short one

By type all three are one pass over the tokens (each token carries c_d of its word), O(tokens) time and O(types) memory.
By written word the instances of each document are added up first. Intervals (`metrics.statistics`) are computed for the
words that are returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from sightline.analysis.attribution_tables import SHARED_AMONG
from sightline.corpus.settings import PREDICTED
from sightline.corpus.tables import quote, text_literal
from sightline.errors import InputError, OptionError
from sightline.methods import METHODS
from sightline.metrics.statistics import column_intervals
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
    by: AggregateBy,
    method: str | None,
    class_: str | int | None,
    rule: AggregateRule,
    *,
    where: str | None,
    min_documents: int | None,
    top: int | None,
    interval: bool,
    seed: int,
) -> pd.DataFrame:
    """Return one row per word: the word, score, documents, instances, and low and high with `interval`."""
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

    Scores for different classes have no common sum, and no difference that is due to the words.
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
        SELECT type AS key, w, {score} AS score, {score} / instances AS mean,
               CAST(first_of_type AS INTEGER) AS present, CAST(first_of_word AS INTEGER) AS instances
        FROM tokens JOIN ({weights}) USING (document) WHERE word >= 0"""


def sum_per_document(column: str, by: AggregateBy, weights: str, *, chosen: bool = False) -> str:
    """Return a query for the sums of every word (or of those in the table chosen_keys) in every document."""
    key = _KEYS[by]
    instances = "count(*)" if by == "position" else "sum(CAST(first_of_word AS INTEGER))"
    restriction = f" AND {key} IN (SELECT key FROM {CHOSEN_KEYS})" if chosen else ""
    return f"""
        SELECT document, key, w, score, score / instances AS mean, 1 AS present, instances FROM (
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
