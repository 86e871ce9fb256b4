"""Retrieval in the AttCAT study: how many of the highest-scored tokens belong to the marked answer?

Beside chance stands the same model with random weights. A model that answers questions is explained for the true
answer, and the number explained is read at its tokens, so that a method may rank them high whatever was learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sightline.evaluation.subject import encode_example
from sightline.lab.answer_rows import answer_f1, exact_match
from sightline.text import Example
from sightline_studies.attcat_steps import METHODS, OTHERS, OWN, TOP
from sightline_studies.attcat_subjects import QUESTIONS
from sightline_studies.data import DataSet
from sightline_studies.study import Claim, Finding, Measured, StudyTable, Tally, in_words, judge
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
    return judge(Measured.of(gains, seed)) == "confirmed"


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
    )


def _lead(answered: Sequence[Mapping[str, Any]], other: str, k: int, seed: int) -> Measured:
    """Return Precision@K of AttCAT minus another method's, or minus chance, paired by document."""
    key = other if other == "chance" else f"{other} precision {k}"
    return Measured.of([entry[f"{OWN} precision {k}"] - entry[key] for entry in answered], seed)


def judge_retrieval(claim: Claim, entries: Answers, controls: Answers, seed: int) -> Finding:
    """Return the verdict about AttCAT against the method that comes closest to it, or passes it."""
    rivals = {f"{other} on {data} ({model})": (data, model, other) for data, model in entries for other in OTHERS}
    leads, random = (
        {
            name: _lead(group[data, model], other, _retrieved(data), seed)
            for name, (data, model, other) in rivals.items()
        }
        for group in (entries, controls)
    )
    name, closest = Tally(leads, random).weakest
    if not name:
        return Finding(claim, "not measured", "No data set with marked answers and a model that reads it was given.")
    k, control = _retrieved(rivals[name][0]), random[name]
    over_chance = "; ".join(
        f"{data} ({model}) {in_words(_lead(answered, 'chance', _retrieved(data), seed))}, random weights "
        f"{in_words(_lead(controls[data, model], 'chance', _retrieved(data), seed))}"
        for (data, model), answered in entries.items()
        if answered
    )
    evidence = (
        f"Precision of AttCAT minus chance: {over_chance}. The strongest rival is {name}, "
        f"k = {k}: difference {in_words(closest)}, random weights {in_words(control)}."
    )
    if rivals[name][0] in QUESTIONS:
        evidence += (
            " The number that is explained is read at the answer, so that a method can point there without the model "
            "knowing it; random weights show how far."
        )
    return Finding(claim, judge(closest, control), evidence, measured=closest, control=control)


def _retrieved(data: str) -> int:
    """Return k of the claim about answers: sentences have hardly more tokens than the paper's 20."""
    return TOP[-1] if data in QUESTIONS else TOP[0]


def precision_table(entries: Answers, controls: Answers, seed: int) -> StudyTable | None:
    """Return one row per data set, model and method; None if no document has a marked answer."""
    import pandas as pd

    rows = []
    for (data, model), answered in entries.items():
        for method in METHODS if answered else ():
            row: dict[str, Any] = {"data": data, "model": model, "method": method}
            for k in TOP:
                row |= Measured.of([entry[f"{method} precision {k}"] for entry in answered], seed).columns(
                    f"precision_{k}"
                )
                row[f"count_{k}"] = float(np.mean([entry[f"{method} count {k}"] for entry in answered]))
            wanted = f"{method} precision {_retrieved(data)}"
            row["random_weights"] = float(np.mean([entry[wanted] for entry in controls[data, model]]))
            rows.append(row | {"chance": float(np.mean([e["chance"] for e in answered])), "documents": len(answered)})
    if not rows:
        return None
    return StudyTable(
        "precision",
        "Answer tokens among the k highest-scored tokens",
        pd.DataFrame(rows),
        "precision: share of the k tokens that belong to the answer; count: their number, which the paper prints; "
        f"chance: share of answer tokens in the document; random weights: precision with weights drawn anew, k = "
        f"{TOP[-1]} for questions and {TOP[0]} otherwise. Published values: not given here.",
    )
