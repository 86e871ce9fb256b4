"""What a reader needs to explore a corpus: which words decide for which class, in which documents, and how strongly.

For every class the words with the largest total score |Σ_d s_d(w)| are listed with their score in each document, so
that totals can be made for any selection of documents; of every document its strongest words are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from sightline.analysis.filters import TokenFilter
from sightline.corpus.settings import PREDICTED
from sightline.corpus.store import Store
from sightline.corpus.tables import quote, text_literal
from sightline.models import ALL

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = 200
"""Words per class, stop words and punctuation included."""
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
    """Word, document, score: one row per word and document that holds it."""
    quiet: frozenset[str]
    """Those that are stop words or punctuation."""


def class_words(store: Store, documents: pd.Series) -> tuple[ClassWords, ...]:
    """Return the words of every class, in these documents."""
    wanted = _among(documents)
    quiet = TokenFilter()
    tables = []
    for target, column, condition in _classes(store):
        scores = store.sql(
            f"""WITH v AS ({_word_scores(column, condition)} AND document IN ({wanted}) GROUP BY ALL),
                     best AS (SELECT word FROM v GROUP BY word ORDER BY abs(sum(score)) DESC, word LIMIT {WORDS})
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


def facet_columns(documents: pd.DataFrame, fields: list[str]) -> list[str]:
    """Return the fields of the data set that have few enough values to choose from."""
    return [name for name in fields if 1 < documents[name].nunique(dropna=True) <= MOST_VALUES]


def _classes(store: Store) -> Iterator[tuple[str, str, str]]:
    """Yield each explained class with its column of scores and an SQL condition on the tokens it is for."""
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
    last = documents.dropna().max()
    return f"SELECT document FROM documents WHERE document <= {-1 if pd.isna(last) else int(last)}"
