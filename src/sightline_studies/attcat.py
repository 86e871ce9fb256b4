"""Study of AttCAT: are class activations weighted by attention more faithful than other explanations?

Per data set, a seeded sample of documents is explained by the paper's methods, and measured twice: as Sightline defines
AOPC, log-odds and confidence, and as the published program computes them (`compat="attcat"`, which explains the label
and compares lists of token positions). Where answers are marked, Precision@K says how many of the highest-scored tokens
belong to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sightline.results.explanation import Explanation
from sightline.results.storage import from_record
from sightline_studies.accuracy import CAPTION, accuracy_columns, has_learnt, measure_accuracy
from sightline_studies.attcat_answers import (
    Pair,
    answer_table,
    answers_better,
    judge_retrieval,
    measure_answers,
    precision_table,
)
from sightline_studies.attcat_claims import CLAIMS, judge_attention, judge_confidence, judge_faithfulness
from sightline_studies.attcat_steps import (
    CONFIDENCE,
    FAITHFULNESS,
    METHODS,
    Values,
    explain_by_layer,
    find_answers,
    measure_methods,
)
from sightline_studies.attcat_subjects import QUESTIONS, choose_subjects
from sightline_studies.data import DataSet
from sightline_studies.longformer_steps import random_twin
from sightline_studies.study import (
    Difference,
    Dots,
    Figure,
    Finding,
    HubData,
    LayerMap,
    Measured,
    Outcome,
    Overlays,
    PaperSize,
    Study,
    StudyTable,
    claim_of,
    without_unlearnt,
)
from sightline_studies.workbench import BASE, Subject, Workbench


def _rows(results: Mapping[str, dict[str, tuple[Values, Values]]], metrics: Sequence[str], seed: int) -> list[Any]:
    """Return one row per data set and method, with mean, interval and floor of each metric."""
    rows = []
    for data, by_metric in results.items():
        for method in METHODS:
            row: dict[str, Any] = {"data": data, "method": method}
            for metric in metrics:
                values, floors = by_metric[metric]
                measured = Measured.of(list(values.get(method, {}).values()), seed)
                row |= measured.columns(CONFIDENCE.get(metric, metric))
                if metric not in CONFIDENCE:
                    row[f"{metric}_chance"] = Measured.of(list(floors.get(method, {}).values()), seed).value
            rows.append(row | {"documents": measured.documents})
    return rows


@dataclass(frozen=True, eq=False)
class _Result:
    """What was measured with one model on one data set."""

    answers: list[dict[str, Any]]
    """Of documents with a marked answer (`find_answers`)."""
    random_answers: list[dict[str, Any]]
    """The same with random weights."""
    tested: list[dict[str, Any]] = field(default_factory=list)
    """Prediction and label of classified documents."""
    ours: dict[str, tuple[Values, Values]] = field(default_factory=dict)
    theirs: dict[str, tuple[Values, Values]] = field(default_factory=dict)
    """As the published program computes it."""
    quality: list[dict[str, float]] = field(default_factory=list)
    """Exact match and F1 of answers to questions."""
    guesses: list[dict[str, float]] = field(default_factory=list)
    """The same with random weights."""


def _measure(bench: Workbench, whole: DataSet, subject: Subject) -> _Result:
    """Measure a model on a data set; the first of its documents are explained."""
    data = replace(whole, test=whole.test[: bench.number("documents")])
    twin = random_twin(bench, subject)
    answers, random_answers = (find_answers(bench, model, data) for model in (subject, twin))
    if data.name in QUESTIONS:
        quality, guesses = (measure_answers(bench, model, whole) for model in (subject, twin))
        return _Result(answers, random_answers, quality=quality, guesses=guesses)
    return _Result(
        answers,
        random_answers,
        tested=measure_accuracy(bench, subject, whole.test, data.name),
        ours=measure_methods(bench, subject, data, published=False),
        # The published program explains the label.
        theirs=measure_methods(
            bench, subject, replace(data, test=[row for row in data.test if row.label is not None]), published=True
        ),
    )


def run(bench: Workbench) -> Outcome:
    """Measure faithfulness, confidence and retrieval of the paper's methods."""
    import pandas as pd

    chosen, left_out = choose_subjects(bench)
    documents, seed = bench.number("documents"), bench.seed
    pairs = [(replace(data, test=data.test[:documents]), subject) for data, subject in chosen]
    tasks = {(data.name, subject.name): partial(_measure, bench, data, subject) for data, subject in chosen}
    measured = bench.each(tasks)
    ours = {data: result.ours for (data, _), result in measured.items() if result.ours}
    theirs = {data: result.theirs for (data, _), result in measured.items() if result.theirs}
    answers = {key: result.answers for key, result in measured.items()}
    controls = {key: result.random_answers for key, result in measured.items()}
    asked_questions = {key: result for key, result in measured.items() if key[0] in QUESTIONS}
    quality = {key: result.quality for key, result in asked_questions.items()}
    guesses = {key: result.guesses for key, result in asked_questions.items()}
    tested = {key: result.tested for key, result in measured.items() if key not in asked_questions}
    # Documents without labels do not say whether a model has learnt its task.
    unlearnt = [key for key, entries in tested.items() if entries and not has_learnt(entries)]
    unlearnt += [key for key, entries in quality.items() if not answers_better(entries, guesses[key], seed)]
    tables = [
        StudyTable(
            "faithfulness",
            "AOPC and log-odds by method",
            pd.DataFrame(_rows(ours, FAITHFULNESS, seed)),
            "AOPC: mean drop of the predicted class's probability when the highest-scored words are deleted, higher is "
            "better. Log-odds: the same on a logarithmic scale with words replaced by pads, lower is better. chance: "
            "random orders of the same words. Published values: not given here.",
        ),
        StudyTable(
            "faithfulness_as_published",
            "AOPC and log-odds as the published program computes them",
            pd.DataFrame(_rows(theirs, FAITHFULNESS, seed)),
            "Tokens instead of words, the label instead of the prediction, absolute instead of signed changes of the "
            "probability. An absolute change is positive for any method, so only differences between methods count. "
            "Published values: not given here.",
        ),
        StudyTable(
            "confidence",
            "Correlation between the explanations of different classes",
            pd.DataFrame(_rows(ours, tuple(CONFIDENCE), seed)),
            "tau b: Kendall's tau-b between the scores of the classes; −1 is opposite, 0 unrelated, 1 the same for "
            "every class. lists: the published computation, the correlation of the lists of token positions.",
        ),
    ]
    if any(tested.values()):
        rows = [
            {"data": data, "model": model, **accuracy_columns(entries)}
            for (data, model), entries in tested.items()
            if entries
        ]
        tables.insert(0, StudyTable("accuracy", "Accuracy of the models", pd.DataFrame(rows), CAPTION))
    if quality:
        tables.append(answer_table(quality, guesses, seed))
    if (precision := precision_table(answers, controls, seed)) is not None:
        tables.append(precision)
    picture = explain_by_layer(bench, pairs[0][1], pairs[0][0])
    figures = [
        Figure(
            "aopc",
            "AOPC by method",
            Dots({data: _dots(by_metric, seed) for data, by_metric in ours.items()}),
            "Mean drop of the predicted class's probability, with its 95 % interval over documents; grey: random "
            "orders of the words.",
        ),
        Figure(
            "layers",
            f"AttCAT by layer and token, for the class {picture['target']}",
            _layer_map(picture),
            "Blue speaks for the class, orange against it; the row below is the sum. Special tokens are left out.",
        ),
        Figure(
            "texts",
            f"{len(METHODS) - 1} methods on one text",
            Overlays({name: Explanation(**from_record(record)) for name, record in picture["texts"].items()}),
            "Blue speaks for the class, orange against it; violet: the method has no sign.",
        ),
    ]
    classifiers = [key for key in unlearnt if key in tested]
    judged = {data: values for data, values in ours.items() if data not in {name for name, _ in classifiers}}
    asked = {key: entries for key, entries in answers.items() if key not in unlearnt}
    findings = [
        *(
            _without_unlearnt(finding, classifiers, len(tested))
            for finding in (
                judge_faithfulness(judged, "aopc", seed),
                judge_faithfulness(judged, "log_odds", seed),
                judge_attention(judged, seed),
                judge_confidence(judged, seed),
            )
        ),
        _without_unlearnt(
            judge_retrieval(claim_of(CLAIMS, "answers are found"), asked, controls, seed),
            [key for key in unlearnt if answers[key]],
            sum(bool(entries) for entries in answers.values()),
        ),
    ]
    return Outcome(tables, figures, findings, _differences(bench, pairs), left_out)


def _without_unlearnt(finding: Finding, unlearnt: Sequence[Pair], models: int) -> Finding:
    return without_unlearnt(finding, [f"{model} on {data}" for data, model in unlearnt], models)


def _dots(by_metric: dict[str, tuple[Values, Values]], seed: int) -> list[tuple[str, Measured, float]]:
    values, floors = by_metric["aopc"]
    return [
        (
            method,
            Measured.of(list(values.get(method, {}).values()), seed),
            Measured.of(list(floors.get(method, {}).values()), seed).value,
        )
        for method in METHODS
    ]


def _layer_map(picture: Mapping[str, Any]) -> LayerMap:
    keep = ~np.array(picture["special"], dtype=bool)
    layers = np.array(picture["layers"], dtype=np.float64)[:, keep]
    labels = [token for token, shown in zip(picture["tokens"], keep, strict=True) if shown]
    return LayerMap(layers, labels, "additive", signed=True)


def _differences(bench: Workbench, pairs: Sequence[tuple[DataSet, Subject]]) -> list[Difference]:
    sets = {data.name: data for data, _ in pairs}
    data = ", ".join(f"{name} ({len(data.test):,} documents, {data.origin})" for name, data in sets.items())
    words = bench.number("words")
    cuts = [f"of longer texts the first {words} words"] * (words > 0 and any(name not in QUESTIONS for name in sets))
    cuts += ["each question with the sentence that holds its answer"] * (
        bench.number("answer_sentence") > 0 and any(name in QUESTIONS for name in sets)
    )
    models = ", ".join(dict.fromkeys(subject.name for _, subject in pairs))
    return [
        Difference(
            "data",
            "test sets of SST-2, QQP and MNLI, 2,000 documents of Amazon, Yelp and IMDB, SQuAD v1 and v2",
            "; ".join([data, *cuts]),
            "a seeded sample keeps the run within minutes; --size paper reads the data sets of the paper",
        ),
        Difference(
            "models",
            "BERT, DistilBERT and RoBERTa (base) fine-tuned on each data set",
            f"{models}; models that were not given are trained by the study, for minutes",
            "models of the hub are read at --size paper only",
        ),
        Difference(
            "measures",
            "one value per method, without interval or chance level",
            "means with bootstrap intervals over documents, random orders as chance, paired differences",
            "without them a difference between methods cannot be told from noise",
        ),
    ]


ATTCAT = Study(
    name="attcat",
    title="AttCAT: explaining Transformers via attentive class activation tokens",
    paper="Qiang, Pan, Li, Li, Jang & Zhu 2022, AttCAT: Explaining Transformers via Attentive Class Activation Tokens, "
    "NeurIPS",
    question="Are class activations weighted by attention more faithful than attention, gradients and relevance?",
    claims=CLAIMS,
    data={
        "sst2": "sentences with sentiment",
        "qqp": "question pairs",
        "mnli": "sentence pairs",
        "amazon": "reviews of Amazon",
        "yelp": "reviews of Yelp",
        "imdb": "reviews of films",
        "squad": "questions with marked answers",
        "squad_v2": "questions of which some have no answer; those that have one are measured",
        "snli": "sentence pairs on which a model of mnli is trained as well, never measured",
    },
    models={
        "sentiment": "classifier of sentiment",
        "qqp": "classifier of question pairs",
        "mnli": "classifier of sentence pairs",
        "squad": "model that answers questions",
        "squad2": "second model that answers questions, beside the first",
        "squad3": "third model that answers questions",
        BASE: "encoder from which models that are not given are trained",
    },
    sizes={
        "tiny": {
            "documents": 6,
            "tested": 60,
            "questions": 60,
            "training": 60,
            "epochs": 1,
            "layers": 2,
            "width": 32,
            "words": 24,
            "answer_sentence": 1,
            "steps": 40,
        },
        "small": {
            "documents": 40,
            "tested": 600,
            "questions": 200,
            "training": 6000,
            "epochs": 3,
            "layers": 3,
            "width": 128,
            "words": 64,
            "answer_sentence": 1,
            "steps": 300,
        },
        "paper": {
            "documents": 2000,
            "tested": 2000,
            "questions": 2000,
            "training": 100_000,
            "epochs": 3,
            "layers": 6,
            "width": 256,
            "words": 0,
            "answer_sentence": 0,
            "steps": 300,
        },
    },
    paper_size=PaperSize(
        data={
            "sst2": HubData("hf://stanfordnlp/sst2", text="sentence", test="validation"),
            "qqp": HubData("hf://nyu-mll/glue:qqp", text="question1", pair="question2", test="validation"),
            "mnli": HubData("hf://nyu-mll/glue:mnli", text="premise", pair="hypothesis", test="validation_matched"),
            "amazon": HubData("hf://fancyzhx/amazon_polarity", text="content"),
            "yelp": HubData("hf://fancyzhx/yelp_polarity"),
            "imdb": HubData("hf://stanfordnlp/imdb"),
            "squad": HubData("hf://rajpurkar/squad", text="context", pair="question", test="validation"),
            "squad_v2": HubData("hf://rajpurkar/squad_v2", text="context", pair="question", test="validation"),
        },
        models={
            "sentiment": "textattack/bert-base-uncased-SST-2",
            "qqp": "textattack/bert-base-uncased-QQP",
            "mnli": "textattack/bert-base-uncased-MNLI",
            "squad": "csarron/bert-base-uncased-squad-v1",
            "squad2": "distilbert/distilbert-base-cased-distilled-squad",
            "squad3": "csarron/roberta-base-squad-v1",
        },
        hours=30,
        gigabytes=8,
    ),
    run=run,
)
