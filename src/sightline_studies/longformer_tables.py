"""Tables of the Longformer study: the printed ones beside ours, words, partners, accuracy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline_studies.accuracy import CAPTION, accuracy_columns
from sightline_studies.data import DataSet
from sightline_studies.longformer_example import (
    COUNTED,
)
from sightline_studies.longformer_steps import (
    MASK,
    TOP,
    rank_words,
)
from sightline_studies.study import (
    StudyTable,
)
from sightline_studies.tables import Keys, printed, rows_of, tabulate
from sightline_studies.verdicts import Measured
from sightline_studies.workbench import Subject

PAPERS = "papers"
CLASS = 1
"""The class whose tokens the report lists."""
MODES = {"no": "unmasked", "yes": "zeroed"}
"""Column "masked" of the printed tables -> how it is measured here: masked tokens are set to 0, as published."""
STATISTICS = {
    "cosine": "cosine",
    "cosine_normalised": "cosine",
    "kendall": "kendall",
    "average_overlap": "rbo",
    "jaccard": "jaccard_top5pct",
}
"""Ours -> printed. The report does not say which cosine it prints; its RBO has p = 1, which is the average overlap."""
NEAR_ZERO = 0.05
GAINS = {"cosine": "cosine", "kendall": "kendall", "average_overlap": "rbo"}
"""Statistic -> the name of its gain by masking in the report."""
LAYERS = {"12": "last", "all": "all"}
"""Column "attention_layer" of the printed tables -> ours."""
MISPRINT = (
    "The printed cosine of 0.120 for layer 12, unscaled, unmasked is probably a misprint of 0.259. With 0.259, masking "
    "raises the cosine by 79.4 % on average, and RBO by 32.1 %: the report's 79.51 and 32.03 %, with names exchanged."
)
Entries = Sequence[Mapping[str, Any]]
Pairs = dict[int, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Result:
    """What was measured on one data set."""

    data: DataSet
    subject: Subject
    tested: Entries
    trained: Entries
    control: Entries
    importance: npt.NDArray[np.float64]
    aside: str
    """Why it does not decide."""


def similarity_values(entries: Entries, mode: str, statistic: str, layers: str = "all", scaled: bool = False) -> Pairs:
    """Return (value, chance) by number of the document in one setting; documents without a value are left out."""
    return {
        number: (row[statistic][0], row[statistic][1])
        for number, entry in enumerate(entries)
        for row in entry["similarity"]
        if (row["mode"], row["layers"], row["scaled"]) == (mode, layers, scaled) and statistic in row
    }


def values_of(pairs: Pairs, place: int = 0) -> list[float]:
    """Return the values of some documents; place 1: their chance levels."""
    return [pair[place] for pair in pairs.values()]


def similarity_table(name: str, result: Result, seed: int) -> StudyTable:
    """Return Tables 1 and 2, or 3 and 4: every statistic, printed, measured, by chance and with random weights."""

    def values(entries: Entries, place: int = 0) -> Callable[[Keys], list[float]]:
        def cell(keys: Keys) -> list[float]:
            mode, layers = MODES[keys["masked"]], LAYERS[keys["layers"]]
            scaled = keys["scaled"] == "yes"
            return values_of(similarity_values(entries, mode, keys["statistic"], layers, scaled), place)

        return cell

    def known(keys: Keys) -> Any:
        where = {"data": name, "attention_layer": keys["layers"], "scaled": keys["scaled"], "masked": keys["masked"]}
        return printed("longformer_similarity", STATISTICS[keys["statistic"]], **where)

    rows = rows_of(layers=LAYERS, scaled=("yes", "no"), masked=("yes", "no"), statistic=STATISTICS)
    columns = {
        "published": known,
        "measured": values(result.trained),
        "chance": lambda keys: float(np.mean(values(result.trained, 1)(keys) or [np.nan])),
        "random_weights": lambda keys: float(np.mean(values(result.control)(keys) or [np.nan])),
    }
    tables = "Tables 1 and 2: papers" if name == PAPERS else "Tables 3 and 4: clinical notes"
    return StudyTable(
        f"similarity_{name}",
        f"{tables}, attention against attribution",
        tabulate(rows, columns, seed=seed),
        "Layers: 12 is the last one, whatever the model. Masked tokens are set to 0 in both lists, as published. "
        f"Chance: shuffled attribution. {MISPRINT if name == PAPERS else ''}",
    )


def gain_table(result: Result, seed: int) -> StudyTable:
    """Return by how many percent masking raises each statistic of the papers, on average over layers and scaling."""
    settings = [(layers, scaled) for layers in LAYERS.values() for scaled in (True, False)]

    def gain(statistic: str, place: int) -> float:
        masked, unmasked = (
            [
                np.mean(values_of(similarity_values(result.trained, mode, statistic, *setting), place) or [np.nan])
                for setting in settings
            ]
            for mode in ("zeroed", "unmasked")
        )
        if np.min(np.abs(unmasked)) < NEAR_ZERO:
            return float("nan")
        return 100 * float(np.mean(np.divide(masked, unmasked) - 1))

    def known(keys: Keys) -> Any:
        return printed("longformer_facts", "value", name=f"masking_gain_{GAINS[keys['statistic']]}_percent")

    columns: dict[str, Callable[[Keys], Any]] = {
        "published": known,
        "measured": lambda keys: gain(keys["statistic"], 0),
        "chance": lambda keys: gain(keys["statistic"], 1),
    }
    return StudyTable(
        "gains",
        "Section 5.2.3: by how many percent masking raises similarity, papers",
        tabulate(rows_of(statistic=GAINS), columns, seed=seed),
        "Mean of (masked / unmasked − 1) over the four settings of Table 1. chance: shuffled attribution, where its "
        f"similarity is not below {NEAR_ZERO}. The printed names of cosine and RBO are exchanged (see Table 1).",
    )


def common_table(results: Mapping[str, Result], seed: int) -> StudyTable:
    """Return how many entries the most attended and the most attending have in common, by type and by position."""

    def known(keys: Keys) -> Any:
        prefix = "" if keys["data"] == PAPERS else "notes_"
        return printed("longformer_facts", "value", name=f"{prefix}intersection_by_{keys['by']}_of_{TOP}")

    def measured(keys: Keys) -> list[float]:
        return [entry["common"][keys["by"]] for entry in results[keys["data"]].trained]

    return StudyTable(
        "common",
        f"Figs. 7 and 14: entries common to the {TOP} most attended and the {TOP} most attending",
        tabulate(rows_of(data=results, by=("type", "position")), {"published": known, "measured": measured}, seed=seed),
        "The report counts one document, ours is the mean over documents.",
    )


def token_table(name: str, result: Result, seed: int) -> StudyTable:
    """Return the tokens with the largest and smallest attribution for class 1 over the data set, beside the printed."""
    ours = rank_words([entry["tokens"] for entry in result.trained], CLASS, seed, MASK)
    sides = {"positive": ours[ours["mean"] > 0], "negative": ours[ours["mean"] < 0].iloc[::-1]}

    def cell(column: str) -> Callable[[Keys], Any]:
        def value(keys: Keys) -> Any:
            rows = sides[keys["side"]]
            if keys["rank"] > len(rows):
                return Measured.of([]) if column == "mean" else ""
            row = rows.iloc[keys["rank"] - 1]
            if column == "word":
                return row["word"]
            return Measured(row["mean"], row["low"], row["high"], int(row["documents"]))

        return value

    def token(keys: Keys) -> str:
        from sightline_studies.tables import read_published

        return next(
            row["token"]
            for row in read_published("longformer_tokens")
            if (row["data"], row["side"], row["rank"]) == (name, keys["side"], str(keys["rank"]))
        )

    columns: dict[str, Callable[[Keys], Any]] = {
        "printed_token": token,
        "printed": lambda keys: printed("longformer_tokens", "attribution", data=name, **keys),
        "token": cell("word"),
        "attribution": cell("mean"),
    }
    figure = "Figs. 10e and 10f" if name == PAPERS else "Figs. 17e and 17f"
    return StudyTable(
        f"tokens_{name}",
        f"{figure}: tokens for and against class 1, {name.replace('_', ' ')}",
        tabulate(rows_of(side=sides, rank=range(1, TOP + 1)), columns, seed=seed),
        f"Mean over all documents of a token's summed scores. Class 1 is “{result.trained[0]['classes'][CLASS]}”. The "
        "printed tokens are those of another tokenizer and other documents.",
    )


def word_table(name: str, result: Result, seed: int) -> StudyTable:
    """Return the words with the largest and smallest attribution for class 1."""
    return StudyTable(
        f"words_{name}",
        f"Words for and against class 1, {name.replace('_', ' ')}",
        rank_words([entry["words"] for entry in result.trained], CLASS, seed, MASK),
        "An addition: whole words, put together whatever their case. rank: among all words.",
        appendix=True,
    )


def accuracy_table(results: Mapping[str, Result]) -> list[StudyTable]:
    """Return the accuracy on every data set that has labels."""
    import pandas as pd

    rows = [
        {"data": name, "model": result.subject.name} | accuracy_columns(result.tested)
        for name, result in results.items()
        if result.tested
    ]
    caption = f"{CAPTION} The clinical notes are those that were trained on, as in the report."
    return [StudyTable("performance", "Accuracy of the models", pd.DataFrame(rows), caption, appendix=True)]


def partner_table(entries: Entries) -> StudyTable:
    """Return the words most often attended and attending, by mean count per document."""
    import pandas as pd

    columns: dict[str, list[Any]] = {}
    for direction in ("attended", "attending"):
        total: defaultdict[str, float] = defaultdict(float)
        for entry in entries:
            for word, count in entry[direction]:
                total[word] += count / len(entries)
        best = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[:TOP]
        best += [("", float("nan"))] * (TOP - len(best))
        columns |= {direction: [word for word, _ in best], f"{direction}_count": [count for _, count in best]}
    return StudyTable(
        "partners",
        "Words most often attended and attending, over the data set",
        pd.DataFrame(columns),
        f"{COUNTED} Averaged over documents.",
        appendix=True,
    )
