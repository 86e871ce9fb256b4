"""Retrieval in the AttCAT study: how many of the highest-scored tokens belong to the marked answer?

Beside chance stands the same model with random weights. A model that answers questions is explained for the true
answer, and the number explained is read at its tokens, so that a method may rank them high whatever was learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sightline.evaluation.subject import encode_example
from sightline.lab.answer_rows import answer_f1, exact_match
from sightline.text import Example
from sightline_studies.attcat_steps import METHODS, OTHERS, OWN, TOP
from sightline_studies.attcat_subjects import QUESTIONS
from sightline_studies.data import DataSet
from sightline_studies.study import StudyTable
from sightline_studies.tables import Keys, Printed, printed, rows_of, tabulate
from sightline_studies.verdicts import Case, Claim, Finding, Measured
from sightline_studies.workbench import Subject, Workbench

Pair = tuple[str, str]
"""Data set and model."""
Quality = Sequence[Mapping[str, float]]
"""Exact match and F1 by question."""
Answers = Mapping[Pair, list[dict[str, Any]]]
"""(data set, model) -> one entry per document with a marked answer."""


def measure_answers(bench: Workbench, subject: Subject, data: DataSet) -> list[dict[str, float]]:
    """Return exact match and F1, as SQuAD defines them, of the answer to every question that has one."""

    def answer(part: Sequence[Example]) -> Iterator[dict[str, float]]:
        for example in part:
            predicted = subject.model.predict(encode_example(subject.model, example)).label
            true = [str(example.text)[start:end] for start, end in example.answer or ()]
            yield {"exact_match": exact_match(predicted, true), "f1": answer_f1(predicted, true)}

    answered = [example for example in data.test if example.answer]
    name = f"answers-{data.name.replace('_', '-')}"
    return bench.measure_documents(name, {"model": subject.identity}, answered, answer, at_once=50)


def answers_better(entries: Quality, controls: Quality, seed: int) -> bool:
    """Say whether a model answers better than with random weights: its F1, paired by question, is above theirs."""
    gains = [own["f1"] - random["f1"] for own, random in zip(entries, controls, strict=True)]
    return Measured.of(gains, seed).above_zero


def answer_table(entries: Mapping[Pair, Quality], controls: Mapping[Pair, Quality], seed: int) -> StudyTable:
    """Return how well the models answer questions."""
    import pandas as pd

    rows = []
    for (data, model), answered in entries.items():
        row: dict[str, Any] = {"data": data, "model": model}
        for name in ("exact_match", "f1"):
            row |= Measured.of([entry[name] for entry in answered], seed).columns(name)
        row["random_weights"] = float(np.mean([entry["f1"] for entry in controls[data, model]]))
        row["learnt"] = "yes" if answers_better(answered, controls[data, model], seed) else "no"
        rows.append(row | {"documents": len(answered)})
    return StudyTable(
        "answers",
        "Exact match and F1 of the answers",
        pd.DataFrame(rows),
        "As SQuAD defines them, without case, punctuation and articles. random weights: F1 of the same model with "
        "weights drawn anew. learnt: whether the interval of the difference is above 0. Models that have not learnt to "
        "answer count neither for a claim nor against it.",
        appendix=True,
    )


def judge_retrieval(claim: Claim, entries: Answers, controls: Answers, aside: Mapping[Pair, str], seed: int) -> Finding:
    """Return AttCAT against its strongest rival, and against two that find more at small k, as numbers of tokens."""
    cases = []
    for pair, answered in entries.items():
        if not answered:
            continue
        k = retrieved(pair[0])
        means = {other: float(np.mean([entry[f"{other} count {k}"] for entry in answered])) for other in OTHERS}
        strongest = max(means, key=lambda other: means[other])
        rivals = [(strongest, k), *((other, TOP[0]) for other in ("rollout", "transatt") if k != TOP[0])]
        for other, count in dict.fromkeys(rivals):
            lead, random = (
                Measured.of([e[f"{OWN} count {count}"] - e[f"{other} count {count}"] for e in group], seed)
                for group in (answered, controls[pair])
            )
            where = f"{pair[0]} ({pair[1]}), k = {count}, against {other}"
            cases.append(Case(where, lead, control=random, set_aside=aside.get(pair, "")))
    evidence = (
        "The number that is explained is read at the answer, so that a method can point there without the model "
        "knowing it. Where the column artefact says yes, a lead is as large with random weights: it comes from where "
        "the model is read."
    )
    return Finding(claim, cases, evidence if cases else "No data set with marked answers was given.")


def retrieved(data: str) -> int:
    """Return k of the claim about answers: sentences have hardly more tokens than the paper's 20."""
    return TOP[-1] if data in QUESTIONS else TOP[0]


def precision_table(entries: Answers, controls: Answers, seed: int) -> StudyTable:
    """Return one row per data set, model and method, and what is printed of data sets that were not measured."""
    pairs = {f"{data} ({model})": (data, model) for (data, model), answered in entries.items() if answered}
    others = [name for name in QUESTIONS if name not in {data for data, _ in pairs.values()}]

    def counted(group: Answers, k: int) -> Callable[[Keys], list[float]]:
        def cell(keys: Keys) -> list[float]:
            entries = group[pairs[keys["data"]]] if keys["data"] in pairs else []
            return [entry[f"{keys['method']} count {k}"] for entry in entries]

        return cell

    def known(keys: Keys) -> Printed:
        data, _ = pairs.get(keys["data"], (keys["data"], ""))
        version = {"squad": "v1", "squad_v2": "v2"}.get(data)
        if keys["method"] != OWN or version is None:
            return Printed()
        return printed("attcat_facts", "value", name=f"precision_at_20_best_squad_{version}_tokens")

    columns: dict[str, Callable[[Keys], Any]] = {"published_20": known}
    for k in reversed(TOP):
        columns |= {f"count_{k}": counted(entries, k), f"random_weights_{k}": counted(controls, k)}
    return StudyTable(
        "precision",
        "Fig. 3: answer tokens among the k highest-scored tokens",
        tabulate([*rows_of(data=pairs, method=METHODS), *rows_of(data=others, method=[OWN])], columns, seed=seed),
        "Number of tokens per document, for k = 20 as in the paper, and k = 5, since our texts are single sentences.",
    )
