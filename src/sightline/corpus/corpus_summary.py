"""CorpusSummary: the numbers that the page of a corpus shows, computed from a store.

The page shows which words decide for which class, in which documents, and how strongly. For every class, the words with
the largest total score |Σ_d s_d(w)| are listed with their score in each document, so that totals can be computed for
any selection of documents; each document lists its strongest words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sightline.analysis.filters import TokenFilter
from sightline.corpus.aggregation import AggregateRule, SliceComparison, compare_slices, explained_classes
from sightline.corpus.settings import PREDICTED
from sightline.corpus.store import Store
from sightline.corpus.tables import quote, text_literal
from sightline.models import ALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd


WORDS = 15
"""Words at each end of a data-set table."""
LISTED = 20_000
"""Documents that the index lists, at most."""
EXCERPT = 140
"""Characters of a text that the index shows, at most."""
SEARCHED = 20_000_000
"""Characters of all listed texts up to which the index can be searched for whole texts, not only for excerpts."""


@dataclass(frozen=True)
class WordTable:
    """The words that matter most for one class by one method."""

    method: str
    target: str | None
    """The class; None if each document was explained for its prediction and all are averaged."""
    rule: AggregateRule
    table: pd.DataFrame


@dataclass(frozen=True)
class CorpusSummary:
    """What a page shows of a run."""

    title: str
    facts: dict[str, str]
    counts: dict[str, int]
    """Rows by status."""
    documents: pd.DataFrame
    """Row, document, id, label, prediction, probability, correct, status, error, verdict, fall, excerpt, vocabulary
    (every word of the text in lower case, once; missing if the texts are longer than `SEARCHED` together), and the
    fields of the data set."""
    confusion: pd.DataFrame
    """Label, prediction, documents."""
    words: tuple[WordTable, ...]
    slices: SliceComparison | None
    """Wrong predictions against right ones, for the first method, if there are both."""
    facets: tuple[str, ...] = ()
    """Fields of the data set that have few values: columns of `documents`."""
    class_words: tuple[ClassWords, ...] = ()
    """The words that matter most for each class, in each document."""
    marked: dict[int, dict[str, float]] = field(default_factory=dict)
    """The strongest words of each document, by its number in the store."""
    signed: bool = True
    """Whether scores have a sign."""


def summarise(store: Store) -> CorpusSummary:
    """Return everything the page shows except the documents themselves."""
    manifest = store.manifest
    store.check_unique("texts", "document")
    counts = dict(store.sql("SELECT status, count(*) FROM documents GROUP BY status").itertuples(index=False))
    confusion = store.sql(
        """SELECT label, prediction, count(*) AS documents FROM documents
           WHERE status = 'done' AND label_class IS NOT NULL
           GROUP BY ALL ORDER BY any_value(label_class), any_value(prediction_class)"""
    )
    target = manifest["settings"]["target"]
    documents = _documents(store)
    done = documents.loc[documents["status"] == "done", "document"]
    return CorpusSummary(
        title=f"{manifest['model']['name']}: {manifest['plan']['rows']:,} documents",
        facts={
            "model": manifest["model"]["name"],
            "weights": manifest["model"]["weights"],
            "data": str(manifest["data"].get("source") or "rows in memory"),
            "methods": ", ".join(store.methods),
            "explained": target if isinstance(target, str) else " against ".join(map(str, target)),
            **{name: str(value) for name, value in manifest["versions"][-1].items()},
        },
        counts={str(name): int(count) for name, count in counts.items()},
        documents=documents,
        confusion=confusion,
        words=_word_tables(store, target) if counts.get("done") else (),
        slices=_right_and_wrong(store, target),
        facets=tuple(
            name
            for name in documents.columns
            if name not in _LISTED and 1 < documents[name].nunique(dropna=True) <= MOST_VALUES
        ),
        class_words=class_words(store, done) if len(done) else (),
        marked=strongest_words(store, done) if len(done) else {},
        signed=bool(store.sql("SELECT coalesce(bool_and(signed), true) AS signed FROM explanations")["signed"].iloc[0]),
    )


_OF_STORE = (
    *("row", "document", "id", "label", "label_class", "prediction", "prediction_class", "probability", "correct"),
    *("tokens", "words", "dropped", "status", "error", "digest"),
)
"""Columns of `documents` that are not fields of the data set."""
_LISTED = (*_OF_STORE, "verdict", "fall", "excerpt", "vocabulary")


def _documents(store: Store) -> pd.DataFrame:
    return store.sql(
        f"""WITH checked AS (
              SELECT e.document, e.verdict, e.fall FROM explanations e JOIN results d USING (document)
              WHERE e.method = {text_literal(store.methods[0])}
              -- If several classes were explained: the one that the model predicts.
              QUALIFY row_number() OVER (PARTITION BY e.document ORDER BY e.class = d.prediction DESC, e.class) = 1),
            lines AS (
              SELECT document, trim(regexp_replace(text, '\\s+', ' ', 'g')) AS line, concat_ws(' ', text, pair) AS whole
              FROM texts),
            listed AS (SELECT * FROM documents ORDER BY row LIMIT {LISTED})
            SELECT row, document, id, label, prediction, probability, correct, status, error, verdict, fall,
                   if(length(line) <= {EXCERPT}, line, regexp_replace(left(line, {EXCERPT}), ' [^ ]*$', '') || ' …')
                   AS excerpt,
                   CASE WHEN sum(length(whole)) OVER () <= {SEARCHED} THEN
                     array_to_string(list_sort(list_distinct(regexp_split_to_array(lower(whole), '\\s+'))), ' ')
                   END AS vocabulary, listed.* EXCLUDE ({", ".join(_OF_STORE)})
            FROM listed LEFT JOIN lines USING (document) LEFT JOIN checked USING (document)
            ORDER BY row"""
    )


def _word_tables(store: Store, target: object) -> tuple[WordTable, ...]:
    """Return a table per method and class: over all documents if they were explained for the class, else by class."""
    tables = []
    for method in store.methods:
        if target == PREDICTED:
            predicted = store.sql("SELECT DISTINCT prediction FROM documents WHERE status = 'done' ORDER BY prediction")
            classes: list[str | None] = predicted["prediction"].tolist()
            rule: AggregateRule = "mean-present"
        else:
            classes = list(store.labels) if target == ALL else [None]
            rule = "mean-all"
        for label in classes:
            table = store.aggregate("type", method, label, rule, top=WORDS, interval=True)
            name = label if label is not None or isinstance(target, list) else str(target)
            tables.append(WordTable(method, name, rule, table))
    return tuple(tables)


def _right_and_wrong(store: Store, target: object) -> SliceComparison | None:
    """Compare wrong predictions with right ones: of one class, if each document was explained for its prediction.

    It is the predicted class with the most documents in the smaller of the two slices.
    """
    one_class = len(explained_classes(store, store.methods[0], "correct IS NOT NULL")) > 1
    group = "prediction" if one_class else "CAST(NULL AS VARCHAR)"
    # count_if() of no rows, those of a run without labels, may be NULL.
    counts = store.sql(
        f"""SELECT {group} AS class,
                least(count(*) FILTER (WHERE correct), count(*) FILTER (WHERE NOT correct)) AS n
            FROM documents WHERE correct IS NOT NULL GROUP BY ALL ORDER BY n DESC, class"""
    )
    if not len(counts) or counts["n"].iloc[0] < 2:
        return None
    label = counts["class"].iloc[0] if one_class else store.labels[0] if target == ALL else None
    return compare_slices(store, "NOT correct", "correct", class_=label, top=WORDS)


CLASS_WORDS = 200
"""Words per class that the explorer lists, stop words and punctuation included."""
CLASSES = 20
"""Classes whose words are listed."""
MARKED = 8
"""Words that are marked in the text of a document."""
MOST_VALUES = 60
"""Values of a field that are offered as a choice; fields with more are searched."""


@dataclass(frozen=True)
class ClassWords:
    """The words that matter most for one class."""

    target: str
    scores: pd.DataFrame
    """Word, document, score: one row per word and document that contains it."""
    quiet: frozenset[str]
    """The listed words that are stop words or punctuation."""


def class_words(store: Store, documents: pd.Series) -> tuple[ClassWords, ...]:
    """Return the words of every class, in these documents."""
    wanted = _among(documents)
    quiet = TokenFilter()
    tables = []
    for target, column, condition in _classes(store):
        scores = store.sql(
            f"""WITH v AS ({_word_scores(column, condition)} AND document IN ({wanted}) GROUP BY ALL),
                     best AS (SELECT word FROM v GROUP BY word ORDER BY abs(sum(score)) DESC, word LIMIT {CLASS_WORDS})
                SELECT word, document, score FROM v JOIN best USING (word) ORDER BY word, document"""
        )
        names = frozenset(word for word in scores["word"].unique() if quiet.drops(word))
        tables.append(ClassWords(target, scores, names))
    return tuple(tables)


def strongest_words(store: Store, documents: pd.Series) -> dict[int, dict[str, float]]:
    """Return the scores of the strongest words of each document for the class that is shown, by word."""
    marked: dict[int, dict[str, float]] = {}
    by_class = store.manifest["settings"]["target"] == ALL
    for target, column, condition in _classes(store):
        shown = f" AND {_predicted_as(target)}" if by_class else ""
        rows = store.sql(
            f"""SELECT document, word, score FROM ({_word_scores(column, condition)}{shown}
                  AND document IN ({_among(documents)}) GROUP BY ALL)
                WHERE score != 0
                QUALIFY row_number() OVER (PARTITION BY document ORDER BY abs(score) DESC, word) <= {MARKED}"""
        )
        for document, word, score in rows.itertuples(index=False):
            marked.setdefault(int(document), {})[word] = float(f"{score:.3g}")
    return marked


def _classes(store: Store) -> Iterator[tuple[str, str, str]]:
    """Yield each explained class with its score column and an SQL condition that selects its tokens."""
    method, target = store.methods[0], store.manifest["settings"]["target"]
    if target == PREDICTED:
        predicted = store.sql(
            "SELECT prediction FROM documents WHERE status = 'done' GROUP BY ALL ORDER BY count(*) DESC, prediction"
        )
        for name in predicted["prediction"].head(CLASSES):
            yield str(name), method, _predicted_as(name)
    elif target == ALL:
        for name in store.labels[:CLASSES]:
            yield name, store.score_column(method, name)[0], "true"
    else:
        yield (" against ".join(map(str, target)) if isinstance(target, list) else str(target)), method, "true"


def _predicted_as(name: str) -> str:
    return f"document IN (SELECT document FROM results WHERE prediction = {text_literal(name)})"


def _word_scores(column: str, condition: str) -> str:
    return (
        f"SELECT document, type AS word, sum(CAST({quote(column)} AS DOUBLE)) AS score FROM tokens "
        f"WHERE word >= 0 AND {condition}"
    )


def _among(documents: pd.Series) -> str:
    """Return SQL for the listed documents; their numbers ascend, so that those beyond the last are not listed."""
    known = documents.dropna()
    return f"SELECT document FROM documents WHERE document <= {int(known.max()) if len(known) else -1}"
