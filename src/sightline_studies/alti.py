"""Study of ALTI: does measuring how tokens are mixed explain a prediction better than attention does?

On sentiment, the methods are compared with the norm of the gradient; on subject-verb agreement, with blank-out, in
models that differ by their seed only, which also shows how consistent an explanation is. Every correlation is repeated
with random weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.text import Example
from sightline_studies.accuracy import CAPTION, accuracy_columns, has_learnt, measure_accuracy, readable
from sightline_studies.alti_claims import (
    CLAIMS,
    JUDGED,
    PREFIX,
    SOURCE,
    Entries,
    data_of,
    judge_consistency,
    judge_norms,
    judge_reference,
    judge_specials,
    published_range,
    values_of,
)
from sightline_studies.alti_steps import (
    MARKS,
    METHODS,
    MODELS,
    REFERENCES,
    SEEDS,
    anisotropy_curves,
    anisotropy_table,
    consistency_dots,
    consistency_table,
    explain_one,
    measure_consistency,
    measure_sentences,
    vector_curves,
)
from sightline_studies.attcat_subjects import planted_subject
from sightline_studies.base_models import fine_tuned, new_classifier
from sightline_studies.data import DataSet
from sightline_studies.generated import agreement_prefixes, planted_sentences
from sightline_studies.longformer_steps import random_twin
from sightline_studies.study import (
    Difference,
    Figure,
    HubData,
    MatrixMaps,
    Measured,
    Outcome,
    PaperSize,
    Study,
    StudyTable,
    not_judged,
    without_unlearnt,
)
from sightline_studies.workbench import BASE, Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

SENTIMENT = ("sentiment", "sentiment2", "sentiment3")
"""Roles of the models that read SST-2."""


def _sentiment_models(bench: Workbench, rows: Sequence[Example]) -> dict[str, Subject]:
    """Return the models of sentiment, by the names under which tables list them: those given, or trained on rows.

    With a base there are three: the second has every second layer of it, the third starts from scratch. Without one,
    the models that were given, or one that starts from scratch.
    """
    first, second, third = (bench.given_model(role) for role in SENTIMENT)
    if BASE in bench.given_models:
        first = first or fine_tuned(bench, "sst2", rows)
        second = second or fine_tuned(bench, "sst2-shorter", rows, shorter=True)
    if BASE in bench.given_models or not (first or second or third):
        third = third or new_classifier(bench, "sst2-new", rows)
    subjects = (first, second, third)
    return {f"{PREFIX}{subject.name}": subject for subject in subjects if subject is not None}


def _verb_models(bench: Workbench, data: DataSet) -> list[Subject]:
    return [
        bench.trained_model(
            f"verb-number-{number}",
            data.train,
            "new-encoder",
            seed_shift=number,
            epochs=bench.number("epochs"),
            batch=32,
            learning_rate=1e-3,
            sizes={"n_layer": bench.number("layers"), "n_head": 8, "n_embd": bench.number("width"), "n_positions": 128},
        )
        for number in range(bench.number("seeds"))
    ]


def _file_name(name: str) -> str:
    """Return the name of a model as file names of results may hold it."""
    return re.sub(r"\W+", "-", name)


def _accuracy_table(tested: Mapping[str, Entries], seed: int) -> pd.DataFrame:
    import pandas as pd

    names = ({"data": data_of(name), "model": name} for name in tested)
    return pd.DataFrame([row | accuracy_columns(entries) for row, entries in zip(names, tested.values(), strict=True)])


def _correlation_table(measured: Mapping[str, Entries], control: Mapping[str, Entries], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name, entries in measured.items():
        for method in METHODS:
            data = data_of(name)
            row: dict[str, Any] = {"data": data, "model": name, "method": method}
            row |= {"reference": JUDGED[data], "published": published_range(data, method)}
            for reference in REFERENCES:
                value = Measured.of(values_of(entries, f"{reference} {method}"), seed)
                row |= value.columns(reference)
                random = Measured.of(values_of(control[name], f"{reference} {method}"), seed)
                row[f"{reference}_random_weights"] = random.value
            rows.append(row | {"documents": len(entries)})
    return pd.DataFrame(rows)


def _rank_table(measured: Mapping[str, Entries], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name, entries in measured.items():
        for method in METHODS:
            row: dict[str, Any] = {"model": name, "method": method}
            for mark, title in zip(MARKS, ("first_special", "last_special", "comma", "full_stop"), strict=True):
                ranks = [entry[f"ranks {method}"][mark] for entry in entries if mark in entry[f"ranks {method}"]]
                row[title] = Measured.of(ranks, seed).value
            row["chance"] = float(np.mean([(entry["tokens"] + 1) / (2 * entry["tokens"]) for entry in entries]))
            rows.append(row | Measured.of(values_of(entries, f"special {method}"), seed).columns("special_share"))
    return pd.DataFrame(rows)


def run(bench: Workbench) -> Outcome:
    """Measure sentiment and agreement models, and both with random weights."""
    seed, documents, training = bench.seed, bench.number("documents"), bench.number("training")
    tests = max(documents, bench.number("tested"))
    sva = bench.read("sva", lambda: agreement_prefixes(tests + training, seed + 1), documents=tests, training=training)
    left_out: list[str] = []
    if "sst2" in bench.sources.paths:
        sst2 = bench.read("sst2", list, documents=tests, training=training)
        sentiment = _sentiment_models(bench, sst2.train)
        if len(sentiment) < len(SENTIMENT):
            left_out.append(
                "Three models of sentiment side by side: give --model base=FOLDER, or sentiment=, sentiment2= and "
                "sentiment3=."
            )
    else:
        sst2 = bench.read("sst2", lambda: planted_sentences(tests, seed + 2), documents=tests)
        planted = bench.given_model(SENTIMENT[0]) or planted_subject(bench)
        sentiment = {f"{PREFIX}{planted.name}": planted}
        left_out.append("SST-2 and three models that read it: needs --data sst2=FILE.")
    verbs = {subject.name: subject for subject in _verb_models(bench, sva)}
    subjects = sentiment | verbs
    few = bench.number("control")
    # The verb models differ by their seed only, so that they have the same vocabulary.
    known_words = partial(readable, bench, next(iter(verbs.values())), sva)

    def measure(name: str, subject: Subject) -> tuple[Entries, Entries, Entries]:
        file, twin = _file_name(name), random_twin(bench, subject)
        rows = sst2.test if name in sentiment else known_words([])
        return (
            measure_accuracy(bench, subject, rows, file, numbered=True),
            measure_sentences(bench, subject, rows[:documents], file),
            measure_sentences(bench, twin, rows[:few], f"random-{file}"),
        )

    results = bench.each({name: partial(measure, name, subject) for name, subject in subjects.items()})
    tested, measured, control = ({name: entries[place] for name, entries in results.items()} for place in range(3))
    sva = replace(sva, test=known_words(left_out))
    consistencies = {SEEDS: measure_consistency(bench, list(verbs.values()), sva.test[:documents], SEEDS)}
    if len(sentiment) > 1:
        consistencies[MODELS] = measure_consistency(bench, list(sentiment.values()), sst2.test[:documents], MODELS)
    apart = [random_twin(bench, subject, number) for number, subject in enumerate(list(verbs.values())[:2])]
    random_seeds = measure_consistency(bench, apart, sva.test[:few], "random")
    example = max(sst2.test[:40], key=lambda row: -abs(len(str(row.text).split()) - 12))
    first = next(iter(sentiment.values()))
    picture = explain_one(bench, first, example)
    tables = [
        StudyTable(
            "accuracy",
            "Accuracy of the models",
            _accuracy_table(tested, seed),
            CAPTION,
        ),
        StudyTable(
            "correlations",
            "Spearman's ρ with gradients and blank-out",
            _correlation_table(measured, control, seed),
            "Mean over sentences of ρ between the word scores of a method and of the reference. The paper compares "
            "with gradients on SST-2 and with blank-out on agreement (reference). published: ρ with that reference, "
            f"from the smallest to the largest of BERT, DistilBERT and RoBERTa ({SOURCE}). random weights: the same "
            "model with weights drawn anew.",
        ),
        StudyTable(
            "special_tokens",
            "Ranks of marks, and the share of the scores on special tokens",
            _rank_table(measured, seed),
            "Normalised rank: 1 is the highest-scored token, chance a token like any other. special share: of the "
            "scores without the token that is read out.",
        ),
        StudyTable(
            "consistency",
            "Agreement between models",
            consistency_table(consistencies, random_seeds),
            "ρ between the word scores of two models, on the sentences for which they predict the same class. chance: "
            "the same token scores in random order; it is above 0 where words have several tokens, whose scores are "
            "added up. random weights: two models with weights drawn anew.",
        ),
        StudyTable(
            "anisotropy",
            "Anisotropy by layer",
            anisotropy_table(measured, seed),
            "Mean cosine between the vectors of a layer: hidden states, outputs of the attention block (y), and the "
            "transformed vectors these are sums of (T).",
        ),
        StudyTable("saliency", "Scores of one sentence", _saliency(picture), "Special tokens included."),
    ]
    figures = [
        Figure(
            "anisotropy",
            "Anisotropy of the representations by layer",
            anisotropy_curves(measured, seed),
            "Mean cosine between the representations of different tokens, in the embedding and after each layer.",
        ),
        Figure(
            "anisotropy_vectors",
            "Anisotropy of the vectors that are mixed, by layer",
            vector_curves(measured[f"{PREFIX}{first.name}"], seed),
            f"Mean cosine; y are the outputs of the attention blocks, T the vectors they are sums of. The model "
            f"{first.name}.",
        ),
        Figure(
            "relevance",
            "How much of every token is in every other after each layer (ALTI)",
            MatrixMaps(np.array(picture["matrices"], dtype=np.float64), picture["tokens"]),
            f"The model {first.name}.",
        ),
        Figure(
            "consistency",
            "Agreement between models, by method",
            consistency_dots(consistencies),
            "ρ between the word scores of two models, on the sentences for which they predict the same class, with its "
            "interval; grey: the same token scores in random order.",
        ),
    ]
    learnt = {name: measured[name] for name, entries in tested.items() if has_learnt(entries)}
    unlearnt = [name for name in measured if name not in learnt]
    unlearnt_verbs = [name for name in verbs if name not in learnt]
    consistent = judge_consistency(consistencies, random_seeds, seed)
    findings = [
        judge_reference("sst2", measured, control, list(learnt), seed),
        judge_reference("sva", measured, control, list(learnt), seed),
        without_unlearnt(judge_norms(learnt, seed), unlearnt, len(measured)),
        without_unlearnt(judge_specials(learnt, seed), unlearnt, len(measured)),
        # Two models are compared, so that both have to have learnt the task.
        not_judged(consistent, unlearnt_verbs) if unlearnt_verbs else consistent,
    ]
    return Outcome(tables, figures, findings, _differences(bench, sst2, sva, list(sentiment.values())), left_out)


def _saliency(picture: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {"token": picture["tokens"], **{name: picture[name] for name in ("alti", "rollout", "gradient")}}
    )


def _differences(bench: Workbench, sst2: DataSet, sva: DataSet, sentiment: Sequence[Subject]) -> list[Difference]:
    return [
        Difference(
            "data",
            "the test sets of SST-2 and of subject-verb agreement (Linzen et al. 2016)",
            f"{bench.number('documents'):,} sentences of each ({sst2.origin}, {sva.origin}); accuracy on "
            f"{len(sst2.test):,} and {len(sva.test):,}",
            "a sample keeps the run within minutes",
        ),
        Difference(
            "models",
            "BERT, DistilBERT and RoBERTa (base), fine-tuned; several seeds of one model for consistency",
            f"{', '.join(subject.name for subject in sentiment)}, and "
            f"{bench.number('seeds')} encoders of {bench.number('layers')} layers trained on "
            "agreement with different seeds",
            "models of the hub are read at --size paper only",
        ),
    ]


ALTI = Study(
    name="alti",
    title="Measuring the mixing of contextual information in the Transformer",
    paper="Ferrando, Gállego & Costa-jussà 2022, Measuring the Mixing of Contextual Information in the Transformer, "
    "EMNLP",
    question="Does measuring how much each token contributes to each other explain better than attention?",
    claims=CLAIMS,
    data={"sst2": "sentences with sentiment", "sva": "words before a verb; label 1 for a plural verb"},
    models={
        "sentiment": "classifier of sentiment",
        "sentiment2": "second classifier of sentiment, compared with the first",
        "sentiment3": "third classifier of sentiment",
        BASE: "encoder from which models of sentiment that are not given are trained",
    },
    sizes={
        "tiny": {
            "documents": 6,
            "tested": 8,
            "control": 4,
            "training": 64,
            "epochs": 1,
            "layers": 2,
            "width": 32,
            "seeds": 2,
            "steps": 40,
        },
        "small": {
            "documents": 100,
            "tested": 600,
            "control": 40,
            "training": 6000,
            "epochs": 4,
            "layers": 4,
            "width": 96,
            "seeds": 2,
            "steps": 300,
        },
        "paper": {
            "documents": 1000,
            "tested": 1000,
            "control": 200,
            "training": 100_000,
            "epochs": 5,
            "layers": 6,
            "width": 128,
            "seeds": 5,
            "steps": 300,
        },
    },
    paper_size=PaperSize(
        data={"sst2": HubData("hf://stanfordnlp/sst2", text="sentence", test="validation")},
        models={
            "sentiment": "textattack/bert-base-uncased-SST-2",
            "sentiment2": "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
            "sentiment3": "textattack/roberta-base-SST-2",
        },
        hours=16,
        gigabytes=4,
        not_on_hub=("sva",),
    ),
    run=run,
)
