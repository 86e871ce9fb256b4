"""Study of ALTI: does measuring how tokens are mixed explain a prediction better than attention does?

On sentiment, the methods are compared with the norm of the gradient; on subject-verb agreement, with blank-out, in
models that differ by their seed only, which also shows how consistent an explanation is. Every correlation is repeated
with random weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.studies.alti_steps import (
    GRADIENTS,
    MARKS,
    METHODS,
    REFERENCES,
    consistency,
    explain_one,
    measure_sentences,
)
from sightline.studies.attcat_steps import planted_subject
from sightline.studies.data import DataSet
from sightline.studies.generated import agreement_prefixes, planted_sentences
from sightline.studies.longformer_steps import random_twin
from sightline.studies.study import (
    Claim,
    Curve,
    Curves,
    Difference,
    Figure,
    Finding,
    HubData,
    MatrixMaps,
    Measured,
    Outcome,
    PaperSize,
    Study,
    StudyTable,
    in_words,
    judge,
    weakest,
)
from sightline.studies.workbench import Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

Entries = Sequence[Mapping[str, Any]]
JUDGED = {"sst2": "gradient", "sva": "blank_out"}
"""Data set -> the reference of the paper's table."""


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


def _difference(entries: Entries, reference: str, other: str, seed: int) -> Measured:
    """Return ρ of ALTI minus ρ of another method, paired by sentence."""
    pairs = [(entry[f"{reference} alti"], entry[f"{reference} {other}"]) for entry in entries]
    return Measured.of([first - second for first, second in pairs if first is not None and second is not None], seed)


def _values(entries: Entries, key: str) -> list[float]:
    return [np.nan if entry[key] is None else entry[key] for entry in entries]


def _correlation_table(measured: Mapping[str, Entries], control: Mapping[str, Entries], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name, entries in measured.items():
        data = "sst2" if name == "sentiment" else "sva"
        for method in METHODS:
            hits = [entry["predicted"] == entry["label"] for entry in entries]
            row: dict[str, Any] = {"data": data, "model": name, "accuracy": float(np.mean(hits)), "method": method}
            row["published"] = "not given here"
            for reference in REFERENCES:
                value = Measured.of(_values(entries, f"{reference} {method}"), seed)
                row |= value.columns(reference)
                if data in control:
                    random = Measured.of(_values(control[data], f"{reference} {method}"), seed)
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
            rows.append(row | Measured.of(_values(entries, f"special {method}"), seed).columns("special_share"))
    return pd.DataFrame(rows)


def _consistencies(models: Sequence[Entries], method: str) -> dict[tuple[int, int, int], float]:
    """Return ρ between models by (first model, second model, sentence), where they predict alike."""
    found = {}
    for first, second in combinations(range(len(models)), 2):
        for number, pair in enumerate(zip(models[first], models[second], strict=True)):
            value = consistency(*pair, method)
            if value is not None:
                found[first, second, number] = value
    return found


def _consistency_table(models: Sequence[Entries], control: Sequence[Entries], seed: int) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "method": method,
                **(value := Measured.of(list(_consistencies(models, method).values()), seed)).columns(),
                "random_weights": Measured.of(list(_consistencies(control, method).values()), seed).value,
                "comparisons": value.documents,
            }
            for method in (*METHODS, *GRADIENTS)
        ]
    )


def _judge_reference(data: str, measured: Mapping[str, Entries], control: Mapping[str, Entries], seed: int) -> Finding:
    claim = ALTI.claim(f"closer to {'gradients' if data == 'sst2' else 'blank-out'} than rollout")
    names = [name for name in measured if (name == "sentiment") == (data == "sst2")]
    reference = JUDGED[data]
    effects = {name: _difference(measured[name], reference, "rollout", seed) for name in names}
    _, effect = weakest(effects)
    other = _difference(control[data], reference, "rollout", seed)
    text = "; ".join(f"{name} {in_words(value)}" for name, value in effects.items())
    evidence = f"ρ of ALTI minus ρ of rollout: {text}; with random weights {in_words(other)}."
    return Finding(claim, judge(effect, other), evidence, measured=effect, control=other)


def _judge_norms(measured: Mapping[str, Entries], seed: int) -> Finding:
    claim = ALTI.claim("closer than norms")
    found = []
    for name, entries in measured.items():
        for other in ("norm_rollout", "globenc"):
            reference = JUDGED["sst2" if name == "sentiment" else "sva"]
            found.append((f"{other} ({name})", _difference(entries, reference, other, seed)))
    _, weakest = min(found, key=lambda pair: pair[1].low if pair[1].documents else np.inf)
    text = "; ".join(f"{name} {in_words(value)}" for name, value in found)
    return Finding(claim, judge(weakest), f"ρ of ALTI minus that of {text}.", measured=weakest)


def _judge_specials(measured: Mapping[str, Entries], seed: int) -> Finding:
    claim = ALTI.claim("less weight on special tokens")
    drops, parts = {}, []
    for name, entries in measured.items():
        raw, own = (np.array(_values(entries, f"special {method}")) for method in ("raw_attention", "alti"))
        drops[name] = Measured.of(raw - own, seed)
        parts.append(
            f"{name}: raw attention {in_words(Measured.of(raw, seed))}, ALTI {in_words(Measured.of(own, seed))}"
        )
    _, drop = weakest(drops)
    return Finding(claim, judge(drop), f"Share of the scores on special tokens: {'; '.join(parts)}.", measured=drop)


def _judge_consistency(models: Sequence[Entries], control: Sequence[Entries], seed: int) -> Finding:
    claim = ALTI.claim("more consistent than gradients")

    def gain(group: Sequence[Entries]) -> Measured:
        own, other = _consistencies(group, "alti"), _consistencies(group, "gradient")
        return Measured.of([own[key] - other[key] for key in own if key in other], seed)

    effect, random = gain(models), gain(control)
    evidence = (
        f"ρ between models that differ by their seed, on sentences that both predict alike: ALTI minus gradient "
        f"{in_words(effect)}; between two models with random weights {in_words(random)}."
    )
    return Finding(claim, judge(effect, random), evidence, measured=effect, control=random)


def run(bench: Workbench) -> Outcome:
    """Measure sentiment and agreement models, and both with random weights."""
    seed, documents, training = bench.seed, bench.number("documents"), bench.number("training")
    sva = bench.read(
        "sva", lambda: agreement_prefixes(documents + training, seed + 1), documents=documents, training=training
    )
    sst2 = bench.read("sst2", lambda: planted_sentences(documents, seed + 2), documents=documents)
    sentiment = bench.given_model("sentiment")
    left_out = ["BERT, DistilBERT and RoBERTa side by side: run the study once per model."]
    if sentiment is None and not sst2.generated:
        sst2 = DataSet("sst2", "generated", [], planted_sentences(documents, seed + 2))
        left_out.append("SST-2: needs --model sentiment=FOLDER; generated sentences take its place.")
    sentiment = sentiment or planted_subject(bench)
    verbs = _verb_models(bench, sva)
    measured: dict[str, Entries] = {"sentiment": measure_sentences(bench, sentiment, sst2.test, "sentiment")}
    for subject in verbs:
        measured[subject.name] = measure_sentences(bench, subject, sva.test, subject.name)
    few = bench.number("control")
    twins = [random_twin(bench, subject) for subject in verbs[:2]]
    random_verbs = [
        measure_sentences(bench, twin, sva.test[:few], f"random-{number}") for number, twin in enumerate(twins)
    ]
    control = {
        "sst2": measure_sentences(bench, random_twin(bench, sentiment), sst2.test[:few], "random-sentiment"),
        "sva": random_verbs[0],
    }
    verb_entries = [measured[subject.name] for subject in verbs]
    example = max(sst2.test[:40], key=lambda row: -abs(len(str(row.text).split()) - 12))
    picture = explain_one(bench, sentiment, example)
    tables = [
        StudyTable(
            "correlations",
            "Spearman's ρ with gradients and blank-out",
            _correlation_table(measured, control, seed),
            "accuracy: of the model on these sentences. The paper compares with gradients on SST-2 and with blank-out "
            "on agreement. random weights: the same model with weights drawn anew.",
        ),
        StudyTable(
            "special_tokens",
            "Ranks of marks, and the share of the scores on special tokens",
            _rank_table(measured, seed),
            "Normalised rank: 1 is the highest-scored token, 0.5 the middle of the list. special share: of the scores "
            "without the token that is read out.",
        ),
        StudyTable(
            "consistency",
            "Agreement between models that differ by their seed",
            _consistency_table(verb_entries, random_verbs, seed),
            "ρ between the scores of two models, on the sentences for which they predict the same class.",
        ),
        StudyTable("saliency", "Scores of one sentence", _saliency(picture), "Special tokens included."),
    ]
    figures = [
        Figure(
            "anisotropy",
            "Anisotropy of the representations by layer",
            _anisotropy_curves(measured, seed),
            "Mean cosine between the representations of different tokens; layer 0 is the embedding.",
        ),
        Figure(
            "relevance",
            "How much of every token is in every other after each layer (ALTI)",
            MatrixMaps(np.array(picture["matrices"], dtype=np.float64), picture["tokens"]),
            "Sentiment model.",
        ),
    ]
    findings = [
        _judge_reference("sst2", measured, control, seed),
        _judge_reference("sva", measured, control, seed),
        _judge_norms(measured, seed),
        _judge_specials(measured, seed),
        _judge_consistency(verb_entries, random_verbs, seed),
    ]
    return Outcome(tables, figures, findings, _differences(bench, sst2, sva, sentiment), left_out)


def _saliency(picture: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {"token": picture["tokens"], **{name: picture[name] for name in ("alti", "rollout", "gradient")}}
    )


def _anisotropy_curves(measured: Mapping[str, Entries], seed: int) -> Curves:
    curves = []
    for name, entries in measured.items():
        layers = [Measured.of(column, seed) for column in np.array([entry["anisotropy"] for entry in entries]).T]
        bands = ([layer.low for layer in layers], [layer.high for layer in layers])
        curves.append(Curve(name, [layer.value for layer in layers], *bands))
    longest = max(len(curve.values) for curve in curves)

    def pad(values: Sequence[float]) -> list[float]:
        return [*values, *[np.nan] * (longest - len(values))]

    padded = [Curve(curve.name, pad(curve.values), pad(curve.low), pad(curve.high)) for curve in curves]
    return Curves([str(layer) for layer in range(longest)], padded, "layer", "mean cosine")


def _differences(bench: Workbench, sst2: DataSet, sva: DataSet, sentiment: Subject) -> list[Difference]:
    return [
        Difference(
            "data",
            "the test sets of SST-2 and of subject-verb agreement (Linzen et al. 2016)",
            f"{len(sst2.test):,} sentences ({sst2.origin}) and {len(sva.test):,} sentences ({sva.origin})",
            "a sample keeps the run within minutes",
        ),
        Difference(
            "models",
            "BERT, DistilBERT and RoBERTa (base), fine-tuned; several seeds of one model for consistency",
            f"{sentiment.name}, and {bench.number('seeds')} encoders of {bench.number('layers')} layers trained on "
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
    claims=(
        Claim(
            "closer to gradients than rollout",
            "On sentiment, ALTI correlates better with gradient norms than attention rollout does.",
            "Confirmed if the paired difference of ρ has its 95 % interval above 0 in every model. Artefact if random "
            "weights show a difference above 0 whose interval overlaps.",
        ),
        Claim(
            "closer to blank-out than rollout",
            "On subject-verb agreement, ALTI correlates better with blank-out than attention rollout does.",
            "As for gradients.",
        ),
        Claim(
            "closer than norms",
            "ALTI correlates better with the references than methods based on vector norms.",
            "Confirmed if the paired difference of ρ to norm rollout and to GlobEnc has its 95 % interval above 0 in "
            "every model.",
        ),
        Claim(
            "less weight on special tokens",
            "ALTI gives special tokens and punctuation less relevance than attention weights do.",
            "Confirmed if the share of the scores on special tokens is lower than with raw attention, with the 95 % "
            "interval of the paired difference above 0 in every model. The token that is read out is left out: a layer "
            "passes much of it on to itself, which raw attention does not count.",
        ),
        Claim(
            "more consistent than gradients",
            "ALTI's explanations of models that differ by their seed only agree more than gradient explanations do.",
            "Confirmed if the paired difference of ρ between models has its 95 % interval above 0. Artefact if two "
            "models with random weights show it too and the intervals overlap.",
        ),
    ),
    data={"sst2": "sentences with sentiment", "sva": "words before a verb; label 1 for a plural verb"},
    models={"sentiment": "classifier of sentiment"},
    sizes={
        "tiny": {
            "documents": 6,
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
        models={"sentiment": "textattack/bert-base-uncased-SST-2"},
        hours=8,
        gigabytes=2,
        not_on_hub=("sva",),
    ),
    run=run,
)
