"""Attribution tables: the most positive and most negative words by position, by type, and over a data set.

Words are sums of their tokens (as in `Explanation.words`). By type, the instances of a word are put together whatever
their case. Dropped words (a filter) and specials are never ranked; a score of 0 is neither positive nor negative.

Over a data set of D documents, with s_d(w) the sum and m_d(w) the mean of the scores of a word's instances in document
d, and D_w the documents that contain it:

    mean-present   1/|D_w| Σ_{d ∈ D_w} m_d(w)   a long document counts as much as a short one
    mean-all       1/D Σ_d s_d(w)               for a fixed class; rare words are small (Hou 2022)

Both have a 95 % interval over documents (`metrics.statistics`), words in fewer than six documents none.

`token_ranks`: the ranks of special tokens and punctuation in an explanation, each token separately. The rank of a token
is its position by magnitude in ascending order divided by n: 1 for the strongest token of a document, (n + 1)/2n on
average for a token like any other. Ferrando et al. 2022 report [CLS], [SEP], "," and "." separately: methods that put
these first rank attention sinks, not words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from sightline.analysis.filters import TokenFilter, kept_units
from sightline.errors import InputError
from sightline.metrics.dispersion import normalised_rank
from sightline.metrics.statistics import column_intervals, mean_interval
from sightline.results.explanation import Explanation
from sightline.settings.inspection import DataSetRule as DataSetRule
from sightline.settings.values import check_count, check_one_of
from sightline.text import Encoding
from sightline.text.units import Level, units_of

if TYPE_CHECKING:
    import pandas as pd

TableKind = Literal["position", "type", "dataset"]
SHARED_AMONG = 5
"""From this many documents on, words must occur in two by default; else words of single documents fill the table."""
COLUMNS = ("sign", "rank", "text", "score", "position", "instances", "documents")
INTERVAL_COLUMNS = ("low", "high")


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
    low: float | None = None
    """The ends of a 95 % interval over documents, in tables over a data set (NaN in few documents); else None."""
    high: float | None = None


@dataclass(frozen=True)
class AttributionTable:
    """The k most positive and the k most negative words."""

    kind: TableKind
    level: Level
    positive: tuple[AttributionRow, ...]
    """Score above 0, largest first."""
    negative: tuple[AttributionRow, ...]
    """Score below 0, most negative first; empty for unsigned methods."""
    note: str = ""
    """A sentence where there is nothing to rank."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per word: sign (+ or -), rank, text, score, position (-1 for types), instances, documents.

        Over a data set, `low` and `high` follow the score.
        """
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
        frame = pd.DataFrame(rows, columns=list(COLUMNS))
        if self.kind == "dataset":
            listed = [*self.positive, *self.negative]
            for place, name in enumerate(INTERVAL_COLUMNS, COLUMNS.index("score") + 1):
                frame.insert(place, name, np.array([getattr(row, name) for row in listed], dtype=np.float64))
        return frame


def attributions_by_position(
    explanation: Explanation, k: int = 10, *, level: Level = "word", filter: TokenFilter | None = None
) -> AttributionTable:
    """Rank every occurrence of a word (or token) separately."""
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
    rule: DataSetRule = "mean-present",
    least_documents: int = 1,
    seed: int = 0,
) -> AttributionTable:
    """Rank words by their mean over documents, with intervals; leave out words in fewer than `least_documents`.

    rule: "mean-present" or "mean-all" (see the module); "mean-all" needs explanations of one target. With many
    documents, raise `least_documents` for "mean-present": the mean of a word in one document is a single score, and
    such words would fill the table.
    """
    least = check_count("least_documents", least_documents)
    combine = np.mean if check_one_of("rule", rule, get_args(DataSetRule)) == "mean-present" else np.sum
    by_word: defaultdict[str, dict[int, float]] = defaultdict(dict)
    instances: defaultdict[str, int] = defaultdict(int)
    methods, targets, total = set(), set(), 0
    for total, explanation in enumerate(explanations, 1):
        methods.add(explanation.method)
        targets.add(explanation.target.name)
        for word, scores in _by_type(explanation, level, filter).items():
            by_word[word][total - 1] = float(combine(scores))
            instances[word] += len(scores)
    if len(methods) != 1:
        raise InputError(
            f"Explanations by several methods cannot be averaged: {', '.join(sorted(methods))}."
            if methods
            else "A table over a data set needs at least one explanation; the list is empty."
        )
    if rule == "mean-all" and len(targets) > 1:
        raise InputError(
            f"rule='mean-all' averages over all documents, but they were explained for {', '.join(sorted(targets))}; "
            "explain all for one target, or use rule='mean-present'."
        )
    rows = [
        AttributionRow(
            word,
            sum(values.values()) / (len(values) if rule == "mean-present" else total),
            None,
            instances[word],
            len(values),
        )
        for word, values in by_word.items()
        if len(values) >= least
    ]
    table = _table("dataset", level, rows, k)
    listed = (*table.positive, *table.negative)
    ends = _intervals([by_word[row.text] for row in listed], total, rule, seed)
    complete = tuple(
        replace(row, low=float(low), high=float(high)) for row, (low, high) in zip(listed, ends, strict=True)
    )
    split = len(table.positive)
    return replace(table, positive=complete[:split], negative=complete[split:])


def _intervals(
    by_document: Sequence[Mapping[int, float]], documents: int, rule: DataSetRule, seed: int
) -> npt.NDArray[np.float64]:
    """Return 95 % intervals (K, 2) of the means of K words; by_document: document -> value, for each word."""
    values = np.zeros((documents, len(by_document)))
    present = np.zeros_like(values)
    for column, of_word in enumerate(by_document):
        values[list(of_word), column] = list(of_word.values())
        present[list(of_word), column] = 1.0
    return column_intervals(values, present, over_holding=rule == "mean-present", seed=seed).T


def _list_scores(
    explanation: Explanation, level: Level, filter: TokenFilter | None
) -> list[tuple[str, str, float, int]]:
    """(text, type, score, position) of the words that count, in document order."""
    units = units_of(explanation.encoding, level)
    scores = units.fold(explanation.scores)
    stay = np.flatnonzero(kept_units(filter, explanation.encoding, units))
    return [(units.texts[i], units.types[i], float(scores[i]), int(units.first_tokens[i])) for i in stay]


def _by_type(explanation: Explanation, level: Level, filter: TokenFilter | None) -> dict[str, list[float]]:
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for _, kind, score, _ in _list_scores(explanation, level, filter):
        groups[kind].append(score)
    return groups


def _table(kind: TableKind, level: Level, rows: list[AttributionRow], k: int) -> AttributionTable:
    k = check_count("k", k)
    positive = sorted((row for row in rows if row.score > 0), key=lambda row: -row.score)[:k]
    negative = sorted((row for row in rows if row.score < 0), key=lambda row: row.score)[:k]
    note = ""
    if not rows:
        note = "Nothing is left to rank: the filter drops every word."
    elif not positive and not negative:
        note = "All scores are 0: there is nothing to rank."
    return AttributionTable(kind, level, tuple(positive), tuple(negative), note)


PUNCTUATION = (",", ".")
RANK_COLUMNS = ("token", "rank", "low", "high", "chance", "documents", "instances")


def token_ranks(
    explanations: Iterable[Explanation], tokens: Sequence[str] = PUNCTUATION, *, seed: int = 0
) -> pd.DataFrame:
    """Return the mean rank of every special token, and of `tokens` by their text, over documents.

    Columns: token, rank with its 95 % interval, chance, documents that contain the token, instances. A document
    with several instances counts once, with their mean. Special tokens come first, in order of appearance.
    """
    import pandas as pd

    ranks: dict[str, list[float]] = {}
    chances: dict[str, list[float]] = {}
    instances: dict[str, int] = {}
    for explanation in explanations:
        rank = normalised_rank(np.abs(explanation.scores))
        for name, positions in _positions(explanation.encoding, tokens).items():
            ranks.setdefault(name, []).append(float(rank[positions].mean()))
            chances.setdefault(name, []).append((rank.size + 1) / (2 * rank.size))
            instances[name] = instances.get(name, 0) + len(positions)
    rows = []
    for name in sorted(ranks, key=lambda token: token in tokens):  # a stable sort: special tokens first
        interval = mean_interval(ranks[name], seed=seed)
        rows.append((name, *interval, np.mean(chances[name]), len(ranks[name]), instances[name]))
    return pd.DataFrame(rows, columns=list(RANK_COLUMNS))


def _positions(encoding: Encoding, tokens: Sequence[str]) -> dict[str, list[int]]:
    """Return the positions of each special token and each of `tokens` in a document."""
    places: dict[str, list[int]] = {}
    for position, token in enumerate(encoding.tokens):
        name = token if encoding.special[position] else token.strip()
        if encoding.special[position] or name in tokens:
            places.setdefault(name, []).append(position)
    return places
