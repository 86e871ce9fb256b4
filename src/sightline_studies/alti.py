"""Study of ALTI: does measuring how tokens are mixed explain a prediction better than attention does?

On sentiment, methods are compared with the norm of the gradient; on subject-verb agreement, with blank-out in a masked
language model that reads whole sentences. Each model is judged for itself, as in the paper's table, and beside the same
model with random weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sightline.text import Example
from sightline_studies.accuracy import CAPTION, accuracy_columns, has_learnt, measure_accuracy
from sightline_studies.alti_claims import (
    BASES,
    CLAIMS,
    DATA,
    JUDGED,
    PRINTED,
    Entries,
    Pair,
    judge_claims,
    model_pairs,
    ranks,
    values,
)
from sightline_studies.alti_steps import (
    GRADIENTS,
    MARKS,
    METHODS,
    VECTORS,
    explain_one,
    masked_sentences,
    measure_sentences,
)
from sightline_studies.attcat_subjects import planted_subject
from sightline_studies.base_models import fine_tuned, new_classifier
from sightline_studies.generated import planted_sentences
from sightline_studies.longformer_steps import random_twin
from sightline_studies.study import (
    Curve,
    Curves,
    Dots,
    Figure,
    HubData,
    MatrixMaps,
    Outcome,
    PaperSize,
    Setting,
    Study,
    StudyTable,
    by_size,
)
from sightline_studies.tables import Keys, printed, rows_of, tabulate
from sightline_studies.verdicts import Measured
from sightline_studies.workbench import BASE, Subject, Workbench

SENTIMENT = ("sentiment", "sentiment2", "sentiment3")
"""Roles of the models that read SST-2."""


def _sentiment_models(bench: Workbench, rows: Sequence[Example]) -> dict[str, Subject]:
    """Return the models of sentiment by name: those given; from a base, also one with every second layer of it."""
    first, second, third = (bench.given_model(role) for role in SENTIMENT)
    if BASE in bench.given_models:
        first = first or fine_tuned(bench, "sst2", rows)
        second = second or fine_tuned(bench, "sst2-shorter", rows, shorter=True)
    if not (first or second or third):
        first = new_classifier(bench, "sst2-new", rows)
    return {subject.name: subject for subject in (first, second, third) if subject is not None}


def run(bench: Workbench) -> Outcome:
    """Measure models of sentiment and a masked language model, and all of them with random weights."""
    seed, documents, training = bench.seed, bench.number("documents"), bench.number("training")
    tests, few = max(documents, bench.number("tested")), bench.number("control")
    left_out: list[str] = []
    if "sst2" in bench.sources.paths:
        sst2 = bench.read("sst2", list, documents=tests, training=training)
        sentiment = _sentiment_models(bench, sst2.train)
    else:
        sst2 = bench.read("sst2", lambda: planted_sentences(tests, seed + 2), documents=tests)
        planted = bench.given_model(SENTIMENT[0]) or planted_subject(bench)
        sentiment = {planted.name: planted}
        left_out.append("SST-2: needs --data sst2=FILE.")
    if len(sentiment) < len(SENTIMENT):
        left_out.append(f"{len(SENTIMENT) - len(sentiment)} of three models of sentiment: see --model.")
    masked, sentences = _masked_model(bench, left_out)
    subjects = {("sst2", name): subject for name, subject in sentiment.items()}
    if masked is not None:
        subjects["sva", masked.name] = masked
    texts = {"sst2": sst2.test, "sva": sentences}

    def measure(data: str, subject: Subject, number: int) -> tuple[Entries, Entries, Entries]:
        name, twin = f"{data}-{number}", random_twin(bench, subject, number)
        explained = measure_sentences(bench, subject, texts[data][:documents], name)
        return (
            measure_accuracy(bench, subject, texts[data], name, numbered=True) if data == "sst2" else explained,
            explained,
            measure_sentences(bench, twin, texts[data][:few], f"random-{name}"),
        )

    results = bench.each(
        {key: partial(measure, key[0], subject, number) for number, (key, subject) in enumerate(subjects.items())}
    )
    tested = {key: [entry for entry in result[0] if "predicted" in entry] for key, result in results.items()}
    measured, control = (
        {data: {name: result[place] for (group, name), result in results.items() if group == data} for data in DATA}
        for place in (1, 2)
    )
    aside = {name: "has not learnt its task" for (_, name), entries in tested.items() if not has_learnt(entries)}
    first = next(iter(sentiment.values()))
    picture = explain_one(bench, first, max(sst2.test[:40], key=lambda row: -abs(len(str(row.text).split()) - 12)))
    pairs = model_pairs(measured["sst2"], control["sst2"], aside)
    findings = judge_claims(measured, control, pairs, aside, seed)
    tables = [*_tables(measured, control, pairs, seed), _accuracy_table(tested), _saliency(picture)]
    figures = _figures(measured["sst2"], pairs, picture, first.name, seed)
    return Outcome(tables, figures, findings, _settings(bench, subjects), left_out)


def _masked_model(bench: Workbench, left_out: list[str]) -> tuple[Subject | None, list[Example]]:
    """Return the masked language model and the sentences whose verb is masked.

    A model that was not given is the base, trained on whole sentences of the training rows.
    """
    documents, given = bench.number("documents"), bench.given_model("mlm")
    trained = given is None and BASE in bench.given_models
    data = (
        bench.read("sva", list, documents=10 * documents, training=bench.number("masked_training") * trained)
        if ("sva" in bench.sources.paths)
        else None
    )
    sentences = [] if data is None else masked_sentences(data.test)[: max(documents, bench.number("tested"))]
    if data is None or not sentences or not (given or trained):
        left_out.append(
            "Subject-verb agreement: needs --data sva=FILE with the fields full, verb, wrong_verb and verb_idx, and "
            "--mlm FOLDER, or --model base=FOLDER to train a masked language model from."
        )
        return None, []
    whole = [Example(str(row.text).format(row.metadata["verb"]), id=row.id) for row in masked_sentences(data.train)]
    return given or fine_tuned(bench, "sva-masked", whole, "masked_lm"), sentences


def _tables(
    measured: Mapping[str, Mapping[str, Entries]],
    control: Mapping[str, Mapping[str, Entries]],
    pairs: Sequence[Pair],
    seed: int,
) -> list[StudyTable]:
    def rho(groups: Mapping[str, Mapping[str, Entries]], model: str, over: str) -> Any:
        def cell(keys: Keys) -> list[float]:
            entries = groups[keys["data"]].get(model, ())
            return values(entries, f"{JUDGED[keys['data']]} {keys['method']} {over}")

        return cell

    def table_2(keys: Keys, model: str) -> Any:
        where = {"data": DATA[keys["data"]], "method": PRINTED.get(keys["method"]), "model": model}
        return printed("alti_spearman", "spearman_mean", "spearman_std", **where)

    def rank(mark: str, keys: Keys) -> list[float]:
        return ranks(measured["sst2"][keys["model"]], keys["method"], mark)

    def layer_of(vectors: str, keys: Keys) -> Any:
        return spread(measured["sst2"][keys["model"]], vectors)[keys["layer"]]

    models = {model: None for by_model in measured.values() for model in by_model}
    rows = rows_of(data=DATA, method=METHODS)
    known = {model: partial(table_2, model=model) for model in BASES}
    marks = rows_of(model=measured["sst2"], method=(*METHODS, *GRADIENTS))
    compared = rows_of(pair=[pair.name for pair in pairs], method=(*METHODS, *GRADIENTS))
    by_pair = {pair.name: pair for pair in pairs}
    layers = [
        {"model": name, "layer": layer}
        for name, entries in measured["sst2"].items()
        for layer in range(len(entries[0]["anisotropy"]["y"]))
    ]
    return [
        StudyTable(
            "correlations",
            "Table 2: Spearman's ρ over all tokens",
            tabulate(rows, known | {name: rho(measured, name, "all") for name in models}, std=True, seed=seed),
            "Mean ± standard deviation over sentences; of ours, the interval of the mean follows. Left: printed. "
            "Against the gradient's norm on SST-2, blank-out on agreement.",
        ),
        StudyTable(
            "ranks",
            "Fig. 6: normalised rank of marks",
            tabulate(
                marks,
                {mark: partial(rank, mark) for mark in MARKS},
                seed=seed,
            ),
            "1 is the highest-scored token of the sentence, 0 the lowest.",
        ),
        *(
            [
                StudyTable(
                    "consistency",
                    "Fig. 7: ρ between two models that predict the same",
                    tabulate(
                        compared,
                        {
                            "trained": lambda keys: by_pair[keys["pair"]].trained[keys["method"]],
                            "random_weights": lambda keys: by_pair[keys["pair"]].random[keys["method"]],
                        },
                        seed=seed,
                    ),
                    "Over all tokens; both models read the same ones.",
                )
            ]
            if pairs
            else []
        ),
        StudyTable(
            "controls",
            "Spearman's ρ with random weights, and over words alone",
            tabulate(
                rows,
                {f"{name}_random_weights": rho(control, name, "all") for name in models}
                | {f"{name}_words": rho(measured, name, "words") for name in models},
                seed=seed,
            ),
            "The reference of Table 2. Words: special tokens left out of the ranking.",
            appendix=True,
        ),
        StudyTable(
            "anisotropy",
            "Fig. 3: anisotropy by layer",
            tabulate(
                layers,
                {vectors: partial(layer_of, vectors) for vectors in VECTORS},
                seed=seed,
            ),
            "Mean cosine between the hidden states after a layer, outputs of its attention block (y), and the vectors "
            "that these are sums of (T).",
            appendix=True,
        ),
    ]


def spread(entries: Entries, vectors: str) -> Any:
    """Return the anisotropy of some vectors, (layers, sentences); the embedding is left out."""
    layers = np.array([entry["anisotropy"][vectors] for entry in entries if "anisotropy" in entry]).T
    return layers[1:] if vectors == "hidden" else layers


def _accuracy_table(tested: Mapping[tuple[str, str], Entries]) -> StudyTable:
    import pandas as pd

    rows = [{"data": data, "model": name} | accuracy_columns(entries) for (data, name), entries in tested.items()]
    return StudyTable("accuracy", "Accuracy of the models", pd.DataFrame(rows), CAPTION, appendix=True)


def _saliency(picture: Mapping[str, Any]) -> StudyTable:
    import pandas as pd

    scores = {"token": picture["tokens"], **{name: picture[name] for name in ("alti", "rollout", "gradient")}}
    return StudyTable("saliency", "Scores of one sentence", pd.DataFrame(scores), appendix=True)


def _figures(
    measured: Mapping[str, Entries], pairs: Sequence[Pair], picture: Mapping[str, Any], first: str, seed: int
) -> list[Figure]:
    names = {"hidden": "hidden states", "y": "attention outputs y", "T": "vectors T"}
    curves = [
        Curve.of(title, [Measured.of(layer, seed) for layer in spread(measured[first], vectors)])
        for vectors, title in names.items()
    ]
    panels = {
        pair.name: [
            (name, Measured.of(pair.trained[name], seed), Measured.of(pair.random[name], seed).value)
            for name in (*METHODS, *GRADIENTS)
        ]
        for pair in pairs
    }
    figures = [
        Figure(
            "anisotropy",
            "Anisotropy by layer (Fig. 3)",
            Curves([str(layer) for layer in range(len(curves[0].values))], curves, "layer", "mean cosine"),
            f"The model {first}.",
        ),
        Figure(
            "relevance",
            "How much of every token is in every other after each layer (ALTI)",
            MatrixMaps(np.array(picture["matrices"], dtype=np.float64), picture["tokens"]),
            f"The model {first}.",
        ),
    ]
    if panels:
        caption = "ρ with its interval; grey: the same two models with random weights."
        figures.append(Figure("consistency", "Agreement between two models, by method (Fig. 7)", Dots(panels), caption))
    return figures


def _settings(bench: Workbench, subjects: Mapping[tuple[str, str], Subject]) -> list[Setting]:
    names = {data: ", ".join(name for group, name in subjects if group == data) or "none" for data in DATA}
    documents = f"{bench.number('documents'):,}"
    return [
        Setting("sentences", "500 per data set", "the same", documents, "two cores"),
        Setting(
            "models, SST-2",
            ", ".join(BASES),
            "the same, other fine-tunings",
            names["sst2"],
            "models at hand",
            "weights that are on the hub",
        ),
        Setting(
            "models, SVA",
            "pretrained DistilBERT, BERT, RoBERTa",
            "BERT, or another by --mlm",
            names["sva"],
            "trained from the base on whole sentences if none is given",
            "one masked model per run",
        ),
        Setting(
            "SVA sentences",
            "test set of Linzen et al. 2016",
            "a file that is given",
            "none" if names["sva"] == "none" else "of the file given",
            "",
            "not on the hub",
        ),
        Setting("blank-out", "every token, special ones too", "the same", "the same, replaced with [UNK]"),
        Setting("integrated gradients", "baseline [MASK], 100 steps", "the same", f"{bench.number('ig_steps')} steps"),
        Setting("anisotropy", "500 sentences", "the same", documents),
        Setting("consistency", "BERT and DistilBERT", "the same", "the models of SST-2 above"),
    ]


ALTI = Study(
    name="alti",
    title="Measuring the mixing of contextual information in the Transformer",
    paper="Ferrando, Gállego & Costa-jussà 2022, Measuring the Mixing of Contextual Information in the Transformer, "
    "EMNLP",
    question="Does measuring how much each token contributes to each other explain better than attention?",
    claims=CLAIMS,
    data={"sst2": "sentences with sentiment", "sva": "sentences with a verb and its wrong number"},
    models={
        "sentiment": "classifier of sentiment",
        "sentiment2": "second classifier of sentiment, compared with the first",
        "sentiment3": "third classifier of sentiment",
        "mlm": "masked language model for subject-verb agreement",
        BASE: "encoder from which models that are not given are trained",
    },
    sizes=by_size(
        documents=(6, 100, 500),
        tested=(8, 600, 1000),
        control=(6, 40, 200),
        training=(64, 6000, 100_000),
        masked_training=(64, 1000, 100_000),
        ig_steps=(4, 30, 100),
        epochs=(1, 4, 5),
        layers=(2, 4, 6),
        width=(32, 96, 128),
        steps=(40, 300, 300),
    ),
    paper_size=PaperSize(
        data={"sst2": HubData("hf://stanfordnlp/sst2", text="sentence", test="validation")},
        models={
            "sentiment": "textattack/bert-base-uncased-SST-2",
            "sentiment2": "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
            "sentiment3": "textattack/roberta-base-SST-2",
            "mlm": "google-bert/bert-base-uncased",
        },
        hours=16,
        gigabytes=4,
        not_on_hub=("sva",),
    ),
    cannot_judge={
        "tiny": "Too few sentences for any claim.",
        "small": "The models are smaller than the paper's, so that the size of ρ cannot be compared, only its order. "
        "Differences of ρ below “could show” remain open.",
    },
    run=run,
)
