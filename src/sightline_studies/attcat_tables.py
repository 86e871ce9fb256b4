"""The printed tables of the AttCAT paper beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sightline_studies.attcat_steps import (
    METHODS,
    Values,
)
from sightline_studies.study import (
    StudyTable,
)
from sightline_studies.tables import Keys, printed, rows_of, tabulate
from sightline_studies.verdicts import Measured

PRINTED = {
    "raw_attention": "RawAtt",
    "rollout": "Rollout",
    "grads": "Grads",
    "attgrads": "AttGrads",
    "partial_lrp": "PartialLRP",
    "transatt": "TransAtt",
    "cat": "CAT",
    "attcat": "AttCAT",
}
DATA = {"sst2": "SST2", "qqp": "QQP", "mnli": "MNLI", "amazon": "Amazon", "yelp": "Yelp", "imdb": "IMDB"}
"""Data sets of the tables -> their printed names."""
Results = Mapping[str, dict[str, tuple[Values, Values]]]
"""Data set -> metric -> (values, values of random orders), each method -> document -> number."""


def known(metric: str, keys: Keys) -> Any:
    """Return a printed value of Table 1 or 2."""
    where = {"data": DATA.get(keys["data"], ""), "method": PRINTED.get(keys["method"], "")}
    return printed("attcat_faithfulness", metric, **where)


def printed_tables(ours: Results, theirs: Results, seed: int) -> list[StudyTable]:
    """Return Tables 1 and 2, complete, beside the values of the published program and of Sightline's definitions."""
    sets = dict.fromkeys([*DATA, *ours])

    def values(results: Results, metric: str, place: int = 0) -> Callable[[Keys], list[float]]:
        def cell(keys: Keys) -> list[float]:
            by_metric = results.get(keys["data"])
            return [] if by_metric is None else list(by_metric[metric][place].get(keys["method"], {}).values())

        return cell

    def chance(results: Results, metric: str) -> Callable[[Keys], float]:
        return lambda keys: Measured.of(values(results, metric, 1)(keys)).value

    rows = rows_of(data=sets, method=METHODS)
    printed_columns: dict[str, Callable[[Keys], Any]] = {}
    for metric in ("aopc", "log_odds"):
        printed_columns[f"{metric}_published"] = partial(known, metric)
        printed_columns[metric] = values(theirs, metric)
    definitions: dict[str, Callable[[Keys], Any]] = {}
    for metric in ("aopc", "log_odds"):
        definitions |= {metric: values(ours, metric), f"{metric}_chance": chance(ours, metric)}
    confidence: dict[str, Callable[[Keys], Any]] = {
        "published": partial(known, "kendall_confidence"),
        "lists": values(ours, "confidence_published"),
        "tau_b": values(ours, "confidence"),
    }
    return [
        StudyTable(
            "table_1",
            "Table 1: AOPC and log-odds, as the published program computes them",
            tabulate(rows, printed_columns, seed=seed),
            "Higher AOPC and lower log-odds are better. The program takes absolute changes, which are positive for any "
            "method, so that only differences between methods count.",
        ),
        StudyTable(
            "table_2",
            "Table 2: correlation between the explanations of different classes",
            tabulate(rows, confidence, seed=seed),
            "lists: the printed quantity; tau b: Kendall's tau-b between the scores, −1 where they are opposite.",
        ),
        StudyTable(
            "faithfulness",
            "AOPC and log-odds as Sightline defines them",
            tabulate(rows_of(data=ours, method=METHODS), definitions, seed=seed),
            "Words, the predicted class and signed changes. chance: random orders of the same words.",
            appendix=True,
        ),
    ]
