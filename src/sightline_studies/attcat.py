"""Study of AttCAT: are class activations weighted by attention more faithful than other explanations?

Per data set, a seeded sample of documents is explained by the paper's methods, and measured twice: as Sightline defines
AOPC, log-odds and confidence, and as the published program computes them (`compat="attcat"`, which explains the label
and compares lists of token positions). Where answers are marked, the number of answer tokens among the k highest-scored
ones is counted, with the trained model and with random weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sightline.results.explanation import Explanation
from sightline_studies.accuracy import CAPTION, accuracy_columns, has_learnt, measure_accuracy
from sightline_studies.attcat_answers import (
    Pair,
    answer_table,
    answers_better,
    judge_retrieval,
    measure_answers,
    precision_table,
)
from sightline_studies.attcat_steps import (
    METHODS,
    OTHERS,
    OWN,
    Values,
    explain_answer,
    explain_by_layer,
    find_answers,
    measure_methods,
)
from sightline_studies.attcat_subjects import QUESTIONS, choose_subjects
from sightline_studies.attcat_tables import DATA, Results, known, printed_tables
from sightline_studies.data import DataSet
from sightline_studies.longformer_steps import random_twin
from sightline_studies.study import (
    Dots,
    Figure,
    HubData,
    LayerMap,
    Outcome,
    Overlays,
    PaperSize,
    Setting,
    Study,
    StudyTable,
    by_size,
)
from sightline_studies.verdicts import Case, Claim, Finding, Measured, in_words, shared_difference
from sightline_studies.workbench import BASE, Subject, Workbench

CONFIDENT = 0.1
"""How close a confidence has to be to the printed one, a bound set here."""
CLAIMS = (
    Claim(
        "highest AOPC",
        "Deleting the words that AttCAT ranks highest lowers the prediction more than with any other method.",
        "AOPC of AttCAT minus that of the strongest other method",
        "Table 1",
    ),
    Claim(
        "lowest log-odds",
        "Replacing the words that AttCAT ranks highest lowers the log-odds more than with any other method.",
        "log-odds of the strongest other method minus those of AttCAT",
        "Table 1",
    ),
    Claim(
        "attention helps CAT",
        "Weighting class activations by attention (AttCAT) is more faithful than leaving the weights out (CAT).",
        "AOPC of AttCAT minus that of CAT",
        "Table 1",
    ),
    Claim(
        "classes are told apart",
        "AttCAT's explanations of different classes are nearly uncorrelated, so that they are confident.",
        f"Kendall's correlation of lists of token positions; the claim is the printed number, give or take {CONFIDENT}",
        "Table 2",
    ),
    Claim(
        "answers are found",
        "More answer tokens are among the 20 tokens that AttCAT ranks highest than with any other method.",
        "number of answer tokens of AttCAT minus that of another method",
        "Fig. 3",
    ),
)


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
    chosen, left_out = choose_subjects(bench)
    documents, seed = bench.number("documents"), bench.seed
    tasks = {(data.name, subject.name): partial(_measure, bench, data, subject) for data, subject in chosen}
    measured = bench.each(tasks)
    ours, theirs = (
        {key[0]: by for key, result in measured.items() if (by := getattr(result, name))} for name in ("ours", "theirs")
    )
    answers, controls = (
        {key: getattr(result, name) for key, result in measured.items()} for name in ("answers", "random_answers")
    )
    quality, guesses = (
        {key: getattr(result, name) for key, result in measured.items() if key[0] in QUESTIONS}
        for name in ("quality", "guesses")
    )
    tested = {key: result.tested for key, result in measured.items() if result.tested}
    # Documents without labels do not say whether a model has learnt its task.
    unlearnt = [key for key, entries in tested.items() if not has_learnt(entries)]
    unlearnt += [key for key, entries in quality.items() if not answers_better(entries, guesses[key], seed)]
    aside = dict.fromkeys(unlearnt, "has not learnt its task")
    data_aside = {data: reason for (data, _), reason in aside.items() if data not in QUESTIONS}
    shown = replace(chosen[0][0], test=chosen[0][0].test[:documents])
    picture = explain_by_layer(bench, chosen[0][1], shown)
    tables = [
        *printed_tables(ours, theirs, seed),
        precision_table(answers, controls, seed),
        _accuracy_table(tested),
        answer_table(quality, guesses, seed) if quality else None,
        next((_answer_example(bench, subject, data) for data, subject in chosen if data.name in QUESTIONS), None),
    ]
    return Outcome(
        [table for table in tables if table is not None],
        _figures(theirs or ours, picture, seed),
        [
            _judge(CLAIMS[0], theirs, "aopc", OTHERS, data_aside, seed),
            _judge(CLAIMS[1], theirs, "log_odds", OTHERS, data_aside, seed),
            _judge(CLAIMS[2], theirs, "aopc", ("cat",), data_aside, seed),
            _judge_confidence(CLAIMS[3], ours, data_aside, seed),
            judge_retrieval(CLAIMS[4], answers, controls, aside, seed),
        ],
        _settings(bench, chosen),
        left_out,
    )


def _judge(
    claim: Claim, results: Results, metric: str, others: Sequence[str], aside: Mapping[str, str], seed: int
) -> Finding:
    """Return AttCAT against the strongest of other methods, in print and as measured, on every data set."""
    sign = 1 if metric == "aopc" else -1
    cases = []
    for data, by_metric in results.items():
        values, _ = by_metric[metric]
        means = {other: sign * float(np.mean(list(values[other].values()))) for other in others if values.get(other)}
        if not means:
            continue
        rival = max(means, key=lambda other: means[other])
        lead = shared_difference(values.get(OWN, {}), values[rival], seed)
        lead = lead if sign > 0 else Measured(-lead.value, -lead.high, -lead.low, lead.documents)
        print_lead: tuple[float, ...] = ()
        reason = aside.get(data, "")
        if data in DATA:
            own, *rest = (sign * known(metric, {"data": data, "method": name}).value for name in (OWN, *others))
            print_lead = (round(own - max(rest), 3),)
            if print_lead[0] <= 0:
                reason = "not so in the printed table either"
        cases.append(Case(f"{data}, against {rival}", lead, print_lead, set_aside=reason))
    return Finding(claim, cases, "As the published program computes it; the strongest rival is that of our sample.")


def _judge_confidence(claim: Claim, results: Results, aside: Mapping[str, str], seed: int) -> Finding:
    """Return the printed form of confidence beside what unrelated lists give, and Kendall's tau-b in words."""
    cases, parts = [], []
    for data, by_metric in results.items():
        tau, lists = (
            Measured.of(list(by_metric[metric][0].get(OWN, {}).values()), seed)
            for metric in ("confidence", "confidence_published")
        )
        wanted = known("kendall_confidence", {"data": data, "method": OWN}).value if data in DATA else 0.0
        unrelated = Measured(0.0, 0.0, 0.0, lists.documents)
        cases.append(Case(data, lists, (wanted,), unrelated, within=CONFIDENT, set_aside=aside.get(data, "")))
        parts.append(f"{data} {in_words(tau)}")
    evidence = (
        "The printed number compares two lists of token positions. For unrelated rankings it is 0 on average, which is "
        "the control, and for exactly opposite rankings of n tokens about −1/n, so that it cannot tell the two apart. "
        f"Kendall's tau-b between the scores themselves: {'; '.join(parts)}."
    )
    return Finding(claim, cases, evidence)


def _accuracy_table(tested: Mapping[Pair, list[dict[str, Any]]]) -> StudyTable | None:
    import pandas as pd

    rows = [{"data": data, "model": model, **accuracy_columns(rows)} for (data, model), rows in tested.items()]
    return (
        StudyTable("accuracy", "Accuracy of the models", pd.DataFrame(rows), CAPTION, appendix=True) if rows else None
    )


def _answer_example(bench: Workbench, subject: Subject, data: DataSet) -> StudyTable:
    import pandas as pd

    frame = pd.DataFrame(explain_answer(bench, subject, data))
    title = f"Fig. 5a: scores of one question and its text, the answer marked ({data.name})"
    return StudyTable("answer_example", title, frame, appendix=True)


def _figures(results: Results, picture: Mapping[str, Any], seed: int) -> list[Figure]:
    panels: dict[str, list[tuple[str, Measured, float]]] = {
        data: [
            (
                method,
                Measured.of(list(by_metric["aopc"][0].get(method, {}).values()), seed),
                Measured.of(list(by_metric["aopc"][1].get(method, {}).values()), seed).value,
            )
            for method in METHODS
        ]
        for data, by_metric in results.items()
    }
    keep = ~np.array(picture["special"], dtype=bool)
    labels = [token for token, shown in zip(picture["tokens"], keep, strict=True) if shown]
    layers, rollout = (np.array(picture[name], dtype=np.float64)[:, keep] for name in ("layers", "rollout"))
    return [
        Figure("aopc", "AOPC by method", Dots(panels), "Grey: random orders of the words."),
        Figure(
            "layers",
            f"AttCAT by layer and token, for the class {picture['target']} (Fig. 4)",
            LayerMap(layers, labels, "additive", signed=True),
            "Blue speaks for the class, orange against it; the row below is the sum. In the paper's sentence, “not” "
            "has 0.72 and “like” −0.37.",
        ),
        Figure(
            "layers_rollout",
            "Attention rollout by layer and token (last row of Fig. 4)",
            LayerMap(rollout, labels, "separate", signed=False),
            "The state after each layer; the last one is the score.",
        ),
        Figure(
            "texts",
            f"{len(METHODS) - 1} methods on one text",
            Overlays({name: Explanation.from_record(record) for name, record in picture["texts"].items()}),
            "Blue speaks for the class, orange against it; violet: the method has no sign.",
        ),
    ]


def _settings(bench: Workbench, chosen: Sequence[tuple[DataSet, Subject]]) -> list[Setting]:
    sets = {data.name: data for data, _ in chosen}
    models = dict.fromkeys(subject.name for _, subject in chosen)
    words, documents = bench.number("words"), f"{bench.number('documents'):,}"
    return [
        Setting(
            "data",
            "SST-2, QQP, MNLI, Amazon, Yelp, IMDB; SQuAD v1 and v2",
            "the same",
            ", ".join(f"{name} ({data.origin})" for name, data in sets.items()),
            "files at hand",
        ),
        Setting(
            "documents",
            "whole test sets; 2,000 of Amazon, Yelp, IMDB",
            "2,000 of each",
            f"{documents} of each",
            "two cores",
            "QQP and MNLI have tens of thousands",
        ),
        Setting("length of texts", "whole", "the same", f"first {words} words" if words else "whole"),
        Setting(
            "questions",
            "whole paragraphs",
            "the same",
            "the sentence with the answer" if bench.number("answer_sentence") else "whole paragraphs",
        ),
        Setting(
            "models",
            "BERT, DistilBERT, RoBERTa, fine-tuned",
            "BERT; three for SQuAD v1",
            ", ".join(models),
            "trained in minutes where none is given",
            "one model per role; --model takes another",
        ),
        Setting("hidden states", "outputs of the layers (Eqs. 9-12)", "the same", "the same"),
        Setting("AOPC, log-odds", "0, 10, … 100 % of tokens; deleted, [PAD]", "the same", "the same"),
        Setting("answers", "k = 20", "the same", "k = 20 and 5", "single sentences are short"),
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
    sizes=by_size(
        documents=(6, 40, 2000),
        tested=(60, 600, 2000),
        questions=(60, 200, 2000),
        training=(60, 6000, 100_000),
        epochs=(1, 3, 3),
        layers=(2, 3, 6),
        width=(32, 128, 256),
        words=(24, 64, 0),
        answer_sentence=(1, 1, 0),
        steps=(40, 300, 300),
    ),
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
    cannot_judge={
        "tiny": "Too few documents for any claim.",
        "small": "Texts are cut and questions put to single sentences, with weak models: the sizes of AOPC and counts "
        "cannot be compared with the printed ones, only the order of the methods.",
    },
    run=run,
)
