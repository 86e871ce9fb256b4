"""Attribution of words over the data set, for a fixed class.

    s_c(w) = 1/D Σ_d Σ_{i ∈ d: word i = w} score_i^c

over all D documents, whatever was predicted for them; a document without the word counts as 0. This is
`store.aggregate(by="type", class_=c, rule="mean-all")` of a run with target="all". Instances of a word are put together
whatever their case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.analysis.filters import TokenFilter
from sightline.results.explanation import Explanation
from sightline.text.units import units_of
from sightline_studies.study import Measured, StudyTable

if TYPE_CHECKING:
    import pandas as pd

LISTED = 10
"""Words for and words against a class."""
WordSums = Mapping[str, Sequence[float]]
"""Word -> number of its instances, then the sum of their scores for every class."""


def sum_words(explanations: Sequence[Explanation]) -> dict[str, list[float]]:
    """Return `WordSums` of one document from its explanations, one per class."""
    units = units_of(explanations[0].encoding, "word")
    scores = np.stack([units.fold(explanation.scores.astype(np.float64)) for explanation in explanations], axis=1)
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0] + [0.0] * len(explanations))
    for word, row in zip(units.types, scores.tolist(), strict=True):
        entry = sums[word]
        entry[0] += 1
        for place, score in enumerate(row, 1):
            entry[place] += score
    return dict(sums)


def rank_words(documents: Sequence[WordSums], place: int, seed: int, filter: TokenFilter) -> pd.DataFrame:
    """Return the words with the largest and the smallest score for one class, with intervals over documents.

    Words that the filter drops are not listed; rank counts all words, these included.
    """
    import pandas as pd

    held: defaultdict[str, dict[int, Sequence[float]]] = defaultdict(dict)
    for number, words in enumerate(documents):
        for word, entry in words.items():
            held[word][number] = entry
    scores = {word: sum(entry[1 + place] for entry in rows.values()) for word, rows in held.items()}
    ordered = sorted(scores, key=lambda word: (-scores[word], word))
    ranks = {word: rank for rank, word in enumerate(ordered, 1)}
    listed = [word for word in ordered if not filter.drops(word)]
    strongest = [word for word in listed if scores[word] > 0][:LISTED]
    weakest = [word for word in listed if scores[word] < 0][-LISTED:]
    rows: list[dict[str, Any]] = []
    for word in (*strongest, *weakest):
        per_document = [float(held[word][n][1 + place]) if n in held[word] else 0.0 for n in range(len(documents))]
        rows.append(
            {
                "rank": ranks[word],
                "word": word,
                **Measured.of(per_document, seed).columns(),
                "documents": len(held[word]),
                "instances": int(sum(entry[0] for entry in held[word].values())),
            }
        )
    return pd.DataFrame(rows, columns=["rank", "word", "mean", "low", "high", "documents", "instances"])


def word_tables(entries: Sequence[Mapping[str, Any]], seed: int, filter: TokenFilter) -> list[StudyTable]:
    """Return one table per class from entries with "classes" and "words"."""
    documents = [entry["words"] for entry in entries]
    words = len(set().union(*documents))
    return [
        StudyTable(
            f"words_{place}",
            f"Words for and against the class “{label}”, over the data set",
            rank_words(documents, place, seed, filter),
            f"mean: sum of a word's scores for this class in a document, averaged over all {len(documents):,} "
            "documents, whatever was predicted for them; documents without the word count as 0. rank: among all "
            f"{words:,} words, of which stop words, numbers and punctuation are not listed.",
        )
        for place, label in enumerate(entries[0]["classes"])
    ]
