"""Attribution tables: the most positive and most negative words by position, by type, and over a data set.

Words are sums of their tokens (as in `Explanation.words`). By type, the instances of a word are put together whatever
their case. Over a data set a type's score is the mean, over the documents that hold it, of its mean over instances: a
long document counts as much as a short one. Dropped words (a filter) and specials are never ranked; a score of 0 is
neither positive nor negative.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sightline.analysis.filters import TokenFilter, kept_tokens
from sightline.arguments import check_count, check_one_of
from sightline.errors import InputError
from sightline.explanation import Explanation
from sightline.text.units import Level, units_of

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["position", "type", "dataset"]
SHARED_AMONG = 5
"""From this many documents on, words must occur in two of them by default; else words of single documents lead."""
COLUMNS = ("sign", "rank", "text", "score", "position", "instances", "documents")


@dataclass(frozen=True)
class AttributionRow:
    """One word (or token) of a table."""

    text: str
    """As written; case folded where instances are put together."""
    score: float
    position: int | None
    """Its first token, in tables by position; else None."""
    instances: int
    documents: int


@dataclass(frozen=True)
class AttributionTable:
    """The k most positive and the k most negative words."""

    kind: Kind
    level: Level
    positive: tuple[AttributionRow, ...]
    """Score above 0, largest first."""
    negative: tuple[AttributionRow, ...]
    """Score below 0, most negative first; empty for unsigned methods."""
    note: str = ""
    """A sentence where there is nothing to rank."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per word: sign (+ or -), rank, text, score, position (-1 for types), instances, documents."""
        import pandas as pd

        rows = [
            (
                sign,
                rank,
                row.text,
                row.score,
                -1 if row.position is None else row.position,
                row.instances,
                row.documents,
            )
            for sign, side in (("+", self.positive), ("-", self.negative))
            for rank, row in enumerate(side, 1)
        ]
        return pd.DataFrame(rows, columns=list(COLUMNS))


def attributions_by_position(
    explanation: Explanation, k: int = 10, *, level: Level = "word", filter: TokenFilter | None = None
) -> AttributionTable:
    """Rank every occurrence of a word (or token) by itself."""
    rows = [
        AttributionRow(text, score, position, 1, 1)
        for text, _, score, position in _list_scores(explanation, level, filter)
    ]
    return _table("position", level, rows, k)


def attributions_by_type(
    explanation: Explanation,
    k: int = 10,
    *,
    level: Level = "word",
    filter: TokenFilter | None = None,
    aggregate: Literal["sum", "mean"] = "sum",
) -> AttributionTable:
    """Rank words by the sum (or mean) over their instances."""
    check_one_of("aggregate", aggregate, ("sum", "mean"))
    combine = np.sum if aggregate == "sum" else np.mean
    rows = [
        AttributionRow(word, float(combine(scores)), None, len(scores), 1)
        for word, scores in _by_type(explanation, level, filter).items()
    ]
    return _table("type", level, rows, k)


def attributions_over_dataset(
    explanations: Iterable[Explanation],
    k: int = 10,
    *,
    level: Level = "word",
    filter: TokenFilter | None = None,
    least_documents: int = 1,
) -> AttributionTable:
    """Rank words by their mean over the documents that contain them, without words in fewer than `least_documents`.

    With many documents, raise `least_documents`: the mean of a word in one document is a single score, and such words
    would fill the table.
    """
    least = check_count("least_documents", least_documents)
    means: defaultdict[str, list[float]] = defaultdict(list)
    instances: defaultdict[str, int] = defaultdict(int)
    methods: set[str] = set()
    for explanation in explanations:
        methods.add(explanation.method)
        for word, scores in _by_type(explanation, level, filter).items():
            means[word].append(float(np.mean(scores)))
            instances[word] += len(scores)
    if len(methods) != 1:
        raise InputError(
            f"Explanations by several methods cannot be averaged: {', '.join(sorted(methods))}."
            if methods
            else "A table over a data set needs at least one explanation; the list is empty."
        )
    rows = [
        AttributionRow(word, float(np.mean(values)), None, instances[word], len(values))
        for word, values in means.items()
        if len(values) >= least
    ]
    return _table("dataset", level, rows, k)


def _list_scores(
    explanation: Explanation, level: Level, filter: TokenFilter | None
) -> list[tuple[str, str, float, int]]:
    """(text, type, score, position) of the words that count, in document order."""
    units = units_of(explanation.encoding, level)
    scores = units.fold(explanation.scores)
    stay = np.flatnonzero(kept_tokens(filter, explanation.encoding)[units.first_tokens])
    return [(units.texts[i], units.types[i], float(scores[i]), int(units.first_tokens[i])) for i in stay]


def _by_type(explanation: Explanation, level: Level, filter: TokenFilter | None) -> dict[str, list[float]]:
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for _, kind, score, _ in _list_scores(explanation, level, filter):
        groups[kind].append(score)
    return groups


def _table(kind: Kind, level: Level, rows: list[AttributionRow], k: int) -> AttributionTable:
    k = check_count("k", k)
    positive = sorted((row for row in rows if row.score > 0), key=lambda row: -row.score)[:k]
    negative = sorted((row for row in rows if row.score < 0), key=lambda row: row.score)[:k]
    note = ""
    if not rows:
        note = "Nothing is left to rank: the filter drops every word."
    elif not positive and not negative:
        note = "All scores are 0: there is nothing to rank."
    return AttributionTable(kind, level, tuple(positive), tuple(negative), note)
