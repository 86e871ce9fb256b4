"""Study of attention rollout and attention flow: do they follow importance better than raw attention does?

The paper's verb-number model (6 GPT-2 blocks without causal mask, 8 heads, 128 wide, [CLS] read out) is trained on
subject-verb agreement. Raw attention, rollout and flow of [CLS] are compared, layer by layer, with blank-out and input
gradients; the same is done with random weights. The paper's model reached an accuracy of 0.96, so that one that has
learnt less than half of what there is to learn decides nothing here. From a base, an encoder is fine-tuned as a second
verb-number model. A sentiment model supplies the paper's third table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sightline.text import Example
from sightline_studies.accuracy import CAPTION, accuracy_columns, measure_accuracy, readable
from sightline_studies.base_models import classifier, fine_tuned
from sightline_studies.data import DataSet
from sightline_studies.flow_claims import (
    CLAIMS,
    PAPER_ACCURACY,
    PAPER_LAYERS,
    Entries,
    correlations,
    judge_claims,
    layer_count,
    printed_rho,
    why_unlearnt,
)
from sightline_studies.flow_pronouns import choice_table, draw_pronouns, masked_model, measure_choices
from sightline_studies.flow_steps import VIEWS, explain_views, measure_layers
from sightline_studies.generated import agreement_prefixes
from sightline_studies.longformer_steps import random_twin
from sightline_studies.study import (
    Curve,
    Curves,
    Figure,
    Graphs,
    HubData,
    LayerMap,
    Outcome,
    PaperSize,
    Setting,
    Study,
    StudyTable,
    by_size,
)
from sightline_studies.tables import Keys, rows_of, tabulate
from sightline_studies.verdicts import Measured
from sightline_studies.workbench import BASE, Subject, Workbench

TITLES = {"raw": "Raw attention", "rollout": "Attention rollout", "flow": "Attention flow"}
TABLES = {"blank_out": "Table 1", "gradient": "Table 2"}
"""Reference -> where its correlations in the verb-number model are printed; Table 3 is of sentiment."""


def _table(table: str, reference: str, models: Mapping[str, tuple[Entries, Entries]], seed: int) -> StudyTable:
    """Return one row per view and layer: printed, then every model, and with random weights."""

    def measured(entries: Entries) -> Callable[[Keys], list[float]]:
        def cell(keys: Keys) -> list[float]:
            inside = keys["layer"] < layer_count(entries) if entries else False
            return correlations(entries, reference, keys["view"], keys["layer"]) if inside else []

        return cell

    columns: dict[str, Callable[[Keys], Any]] = {
        "published": lambda keys: printed_rho(table, keys["view"], keys["layer"])
    }
    for name, (entries, random) in models.items():
        columns[name] = measured(entries)
        if random:
            columns[f"{name}_random_weights"] = measured(random)
    depth = max([PAPER_LAYERS, *(layer_count(entries) for entries, _ in models.values())])
    rows = [{"view": view, "layer": layer} for view in VIEWS for layer in range(depth)]
    return StudyTable(
        table.lower().replace(" ", "_"),
        f"{table}: Spearman's ρ with {reference.replace('_', '-')} by layer",
        tabulate(rows, columns, std=True, seed=seed),
        "Mean ± standard deviation over sentences, over all tokens; of ours with the interval of the mean. Layers "
        "count from 0, in the paper from 1.",
    )


def _curves(entries: Entries, table: str, reference: str, seed: int) -> Curves:
    layers = range(layer_count(entries))
    curves = [
        Curve.of(view, [Measured.of(correlations(entries, reference, view, layer), seed) for layer in layers])
        for view in VIEWS
    ]
    if len(layers) == PAPER_LAYERS:
        curves += [
            Curve(f"{view}, published", [printed_rho(table, view, layer).value for layer in layers], dashed=True)
            for view in VIEWS
        ]
    return Curves([str(layer) for layer in layers], curves, "layer", "Spearman's ρ")


def _verb_models(bench: Workbench, data: DataSet) -> list[Subject]:
    sizes = {"n_layer": bench.number("layers"), "n_head": 8, "n_embd": bench.number("width"), "n_positions": 128}
    new = bench.trained_model(
        "verb-number",
        data.train,
        "new-encoder",
        epochs=bench.number("epochs"),
        batch=32,
        learning_rate=1e-3,
        sizes=sizes,
    )
    tuned = fine_tuned(bench, "verb-number-base", data.train)
    return [new] if tuned is None else [new, tuned]


def _measure_verbs(bench: Workbench, subject: Subject, data: DataSet) -> tuple[Entries, Entries, Entries]:
    """Return predictions, and ρ with trained and with random weights."""
    rows = readable(bench, subject, data, [])
    twin, name = random_twin(bench, subject), subject.name
    return (
        measure_accuracy(bench, subject, rows, name, numbered=True),
        measure_layers(bench, subject, rows[: bench.number("documents")], f"sentences-{name}"),
        measure_layers(bench, twin, rows[: bench.number("control")], f"random-{name}"),
    )


def _third_table(bench: Workbench, left_out: list[str]) -> tuple[str, Callable[[], tuple[Entries, Entries]]] | None:
    """Return the model of sentiment and what measures it, with its own weights and with random ones.

    left_out: gets a sentence about what is missing, if something is.
    """
    if "sst2" not in bench.sources.paths:
        left_out.append("Table 3, sentiment: needs --data sst2=FILE.")
        return None
    training = 0 if "sentiment" in bench.given_models else bench.number("training")
    sst2 = bench.read("sst2", list, documents=bench.number("sentiment"), training=training)
    model = classifier(bench, "sentiment", "sst2", sst2.train)

    def measure() -> tuple[Entries, Entries]:
        few = sst2.test[: bench.number("control")]
        return (
            measure_layers(bench, model, sst2.test, "sentiment", blank_out=False),
            measure_layers(bench, random_twin(bench, model), few, "random-sentiment", blank_out=False),
        )

    return model.name, measure


def run(bench: Workbench) -> Outcome:
    """Train the verb-number models and compare raw attention, rollout and flow with importance."""
    seed, documents, training = bench.seed, bench.number("documents"), bench.number("training")
    tests = max(documents, bench.number("tested"))
    data = bench.read("sva", lambda: agreement_prefixes(tests + training, seed + 1), documents=tests, training=training)
    left_out: list[str] = []
    subjects = _verb_models(bench, data)
    third, masked = _third_table(bench, left_out), masked_model(bench)
    # A verb-number model is trained while another process works on sentiment and pronouns.
    tasks: dict[str, Callable[[], Any]] = {
        subject.name: partial(_measure_verbs, bench, subject, data) for subject in subjects
    }
    if third is not None:
        tasks["sst2"] = third[1]
    if masked is not None:
        tasks["pronouns"] = partial(measure_choices, bench, *masked)
    results = bench.each(tasks)
    data = replace(data, test=readable(bench, subjects[0], data, left_out))
    tested = {subject.name: results[subject.name][0] for subject in subjects}
    verbs = {subject.name: results[subject.name][1:] for subject in subjects}
    sentiment = {} if third is None else {third[0]: results["sst2"]}
    aside = {name: reason for name, entries in tested.items() if (reason := why_unlearnt(entries))}
    aside |= {subject.name: "pretrained, unlike the paper's encoder" for subject in subjects[1:]}
    tables = [_table(table, reference, verbs, seed) for reference, table in TABLES.items()]
    if sentiment:
        tables.append(_table("Table 3", "gradient", sentiment, seed))
    tables += [_words_table({**verbs, **sentiment}, seed), _accuracy_table(tested), *_effective_table(verbs, seed)]
    shown = next((subject for subject in subjects if not why_unlearnt(tested[subject.name])), subjects[0])
    figures = _figures(bench, shown, verbs[shown.name][0], data.test, seed)
    pronouns = [] if masked is None else draw_pronouns(bench, masked[0], results["pronouns"])
    if pronouns and masked is not None and results["pronouns"]:
        tables.append(choice_table(masked[0], results["pronouns"], seed))
    if not pronouns:
        left_out.append(
            "Figure 4, his or her: needs a masked language model that knows the words of the sentences (--mlm FOLDER), "
            "or --model base=FOLDER and sentences to train one on (--data pronouns=FILE)."
        )
    findings = judge_claims(tested, verbs, sentiment, aside, seed)
    return Outcome(tables, [*figures, *pronouns], findings, _settings(bench, data, subjects, third), left_out)


def _words_table(models: Mapping[str, tuple[Entries, Entries]], seed: int) -> StudyTable:
    def last(reference: str) -> Callable[[Keys], list[float]]:
        def cell(keys: Keys) -> list[float]:
            entries, _ = models[keys["model"]]
            known = entries and f"{reference} raw words" in entries[0]
            return correlations(entries, reference, keys["view"], layer_count(entries) - 1, "words") if known else []

        return cell

    return StudyTable(
        "words",
        "Spearman's ρ in the last layer, over the words alone",
        tabulate(rows_of(model=models, view=VIEWS), {name: last(name) for name in TABLES}, std=True, seed=seed),
        "Special tokens are left out of the ranking: rollout and flow rank [CLS] first, by its residual connection.",
        appendix=True,
    )


def _accuracy_table(tested: Mapping[str, Entries]) -> StudyTable:
    import pandas as pd

    rows = [
        {"model": name, "published": PAPER_ACCURACY} | accuracy_columns(entries) for name, entries in tested.items()
    ]
    return StudyTable("accuracy", "Accuracy of the verb-number models", pd.DataFrame(rows), CAPTION, appendix=True)


def _effective_table(verbs: Mapping[str, tuple[Entries, Entries]], seed: int) -> list[StudyTable]:
    """Return, by layer, the share of the weights that changes nothing, over the sentences that have such a part."""
    shares = {
        (name, layer): column
        for name, (entries, _) in verbs.items()
        for layer, column in enumerate(
            np.array([entry["cancelled"] for entry in entries if entry["tokens"] > entry["head_width"]]).T
        )
    }
    if not shares:
        return []
    rows = [{"model": name, "layer": layer} for name, layer in shares]
    return [
        StudyTable(
            "effective",
            "Attention that has no effect, by layer",
            tabulate(rows, {"cancelled": lambda keys: shares[keys["model"], keys["layer"]]}, seed=seed),
            "Share of the squared attention weights that the values cancel: what effective attention leaves out. Only "
            "sentences with more tokens than a head is wide have such a part.",
            appendix=True,
        )
    ]


def _figures(bench: Workbench, subject: Subject, entries: Entries, rows: Sequence[Example], seed: int) -> list[Figure]:
    maps = explain_views(bench, subject, max(rows[:50], key=lambda row: -abs(len(str(row.text).split()) - 9)))
    graphs = {name: np.array(weights, dtype=np.float64) for name, weights in maps["graphs"].items()}
    figures = [
        Figure(
            f"layers_{reference}",
            f"Agreement with {reference.replace('_', '-')} by layer ({table})",
            _curves(entries, table, reference, seed),
            f"The model {subject.name}: mean and interval. Dashed: published, if it has as many layers.",
        )
        for reference, table in TABLES.items()
    ]
    if graphs:
        figures.insert(
            0,
            Figure(
                "graphs",
                "Raw attention, rollout and flow as graphs (Figure 1)",
                Graphs(graphs, maps["tokens"], maps["readout"]),
                "One row of tokens per layer, the inputs at the bottom. Raw attention is without the residual "
                "connection.",
            ),
        )
    for view in VIEWS:
        drawing = LayerMap(np.array(maps[view], dtype=np.float64), maps["tokens"], "separate", signed=False)
        figures.append(Figure(f"map_{view}", f"{TITLES[view]} from [CLS], by layer (Figure 2)", drawing))
    return figures


def _settings(
    bench: Workbench, data: DataSet, subjects: Sequence[Subject], third: tuple[str, Any] | None
) -> list[Setting]:
    return [
        Setting(
            "sentences, Tables 1 and 2",
            "2,000, natural mix",
            "2,000 of the file given",
            f"{bench.number('documents'):,}, more attractors ({data.origin})",
            "two cores; the data at hand",
            "not on the hub",
        ),
        Setting("sentences, Table 3", "100", "the same", f"{bench.number('sentiment'):,}"),
        Setting(
            "training",
            "full training set",
            "rows of the file given",
            f"{len(data.train):,} rows, {bench.number('epochs')} passes",
            "the data at hand",
            "not on the hub",
        ),
        Setting(
            "verb-number model",
            "6 GPT-2 blocks without causal mask, 8 heads, 128 wide",
            "the same",
            f"{bench.number('layers')} blocks, 8 heads, {bench.number('width')} wide"
            + ("; and the base, fine-tuned" if len(subjects) > 1 else ""),
        ),
        Setting("model, Table 3", "DistilBERT", "the same", "none" if third is None else third[0], "models at hand"),
        Setting(
            "words",
            "a fixed vocabulary, rare ones as their part of speech",
            "as in the file",
            "as in the file",
            "",
            "not on the hub",
        ),
        Setting("explained", "the correct class; [CLS] ranked too", "the same", "the same"),
        Setting("blank-out", "replaced with [UNK]", "the same", "the same"),
    ]


FLOW = Study(
    name="flow",
    title="Quantifying attention flow in Transformers",
    paper="Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers, ACL",
    question="Do attention rollout and attention flow follow the importance of words better than raw attention?",
    claims=CLAIMS,
    data={
        "sva": "words before a verb; label 1 for a plural verb",
        "sst2": "sentences with sentiment",
        "pronouns": "sentences with “his” or “her”, on which the masked language model is tested and trained",
        "snli": "sentences, of which those with “his” or “her” take the place of pronouns that are not given",
    },
    models={
        "sentiment": "classifier of sentiment, for Table 3",
        "mlm": "masked language model, for the pronouns of Figure 4",
        BASE: "encoder from which models that are not given are trained",
    },
    sizes=by_size(
        documents=(8, 100, 2000),
        tested=(8, 600, 2000),
        control=(6, 40, 500),
        sentiment=(40, 100, 100),
        training=(64, 9000, 1_000_000),
        epochs=(1, 5, 10),
        layers=(2, 6, 6),
        width=(32, 128, 128),
    ),
    paper_size=PaperSize(
        data={"sst2": HubData("hf://stanfordnlp/sst2", text="sentence", test="validation")},
        models={
            "sentiment": "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
            "mlm": "google-bert/bert-base-uncased",
        },
        hours=12,
        gigabytes=2,
        not_on_hub=("sva",),
    ),
    cannot_judge={
        "tiny": "The encoder learns nothing, so that Tables 1 and 2 cannot be judged.",
        "small": "The encoder sees 9,000 sentences and does not reach the paper's accuracy of 0.96, so that it decides "
        "nothing about Tables 1 and 2. A pretrained base that is fine-tuned does, but is another kind of model.",
    },
    run=run,
)
