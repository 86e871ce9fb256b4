"""Study of attention rollout and attention flow: do they follow importance better than raw attention does?

The paper's verb-number model (6 GPT-2 blocks without causal mask, 8 heads, 128 wide, [CLS] read out) is trained on
subject-verb agreement. Raw attention, rollout and flow of [CLS] are compared, layer by layer, with blank-out and input
gradients; the same is done with random weights. A sentiment model, if given, supplies the paper's third table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.evaluation.agreement import LAYER, Agreement
from sightline_studies.accuracy import measure_accuracy, readable
from sightline_studies.base_models import classifier
from sightline_studies.data import DataSet
from sightline_studies.flow_claims import (
    CLAIMS,
    FROM_ZERO,
    SENTIMENT_TABLE,
    TABLES,
    Entries,
    judge_accuracy,
    judge_flow,
    judge_gain,
    judge_uniform,
)
from sightline_studies.flow_pronouns import choice_table, draw_pronouns, masked_model, measure_choices
from sightline_studies.flow_steps import (
    REFERENCES,
    STATISTIC,
    VIEWS,
    explain_views,
    measure_layers,
    measure_predictions,
)
from sightline_studies.generated import agreement_prefixes
from sightline_studies.longformer_steps import random_twin
from sightline_studies.study import (
    Curve,
    Curves,
    Difference,
    Figure,
    Graphs,
    HubData,
    LayerMap,
    Measured,
    Outcome,
    PaperSize,
    Study,
    StudyTable,
    not_judged,
)
from sightline_studies.workbench import BASE, Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

TITLES = {"raw": "Raw attention", "rollout": "Attention rollout", "flow": "Attention flow"}


def _verb_model(bench: Workbench, data: DataSet) -> Subject:
    layers, width = bench.number("layers"), bench.number("width")
    return bench.trained_model(
        "verb-number",
        data.train,
        "new-encoder",
        epochs=bench.number("epochs"),
        batch=32,
        learning_rate=1e-3,
        sizes={"n_layer": layers, "n_head": 8, "n_embd": width, "n_positions": 128},
    )


def _table(agreement: Agreement, control: Agreement, published: Mapping[str, Mapping[int, float]]) -> pd.DataFrame:
    """Return one row per view and layer: published, measured, with random weights."""
    import pandas as pd

    random = control.by_layer(STATISTIC) if control.pairs else None
    views = {method: view for view, method in VIEWS.items()}
    rows = []
    for row in agreement.summary().itertuples():
        view, layer = views[row.method], int(row.first.removeprefix(LAYER))
        known = published[view].get(layer, np.nan)
        rows.append(
            {
                "view": view,
                "layer": layer,
                "published": known,
                "mean": row.mean,
                "low": row.low,
                "high": row.high,
                "difference": row.mean - known,
                "random_weights": np.nan if random is None else random.loc[layer, row.method],
                "documents": row.documents,
            }
        )
    return pd.DataFrame(rows)


def _curves(agreement: Agreement, reference: str) -> Curves:
    mean, low, high = (agreement.by_layer(STATISTIC, column) for column in ("mean", "low", "high"))
    curves = [Curve(view, list(mean[name]), list(low[name]), list(high[name])) for view, name in VIEWS.items()]
    _, published = TABLES[reference]
    if len(mean) == len(published["raw"]):
        curves += [Curve(f"{view}, published", published[view], dashed=True) for view in VIEWS]
    return Curves([str(layer) for layer in mean.index], curves, "layer", "Spearman's ρ")


def _effective_table(entries: Entries, seed: int) -> pd.DataFrame:
    """Return, by layer, the share of the weights that changes nothing, over the sentences that have such a part."""
    import pandas as pd

    long = np.array([entry["cancelled"] for entry in entries if entry["tokens"] > entry["head_width"]])
    layers = [Measured.of(column, seed) for column in long.T]
    rows = [{"layer": layer, **m.columns(), "documents": m.documents} for layer, m in enumerate(layers)]
    return pd.DataFrame(rows, columns=["layer", "mean", "low", "high", "documents"])


def _measure_verbs(
    bench: Workbench, subject: Subject, data: DataSet
) -> tuple[Entries, Entries, dict[str, Agreement], dict[str, Agreement]]:
    """Return accuracy, predictions and ρ by reference of the verb-number model, and ρ with random weights."""
    readable_rows = readable(bench, subject, data, [])
    sentences, few = readable_rows[: bench.number("documents")], readable_rows[: bench.number("control")]
    twin = random_twin(bench, subject)
    return (
        measure_accuracy(bench, subject, readable_rows, subject.name, numbered=True),
        measure_predictions(bench, subject, sentences, "sentences"),
        {name: measure_layers(bench, subject, sentences, "sentences", name) for name in REFERENCES},
        {name: measure_layers(bench, twin, few, "random-weights", name) for name in REFERENCES},
    )


class _ThirdTable(NamedTuple):
    """The model of sentiment, and what measures the table on it."""

    name: str
    measure: Callable[[], Agreement]


def _third_table(bench: Workbench, left_out: list[str]) -> _ThirdTable | None:
    """Return the table on sentiment; `left_out` says what it would need, if that is missing."""
    if "sst2" not in bench.sources.paths:
        left_out.append("Table 3, sentiment: needs --data sst2=FILE.")
        return None
    training = 0 if "sentiment" in bench.given_models else bench.number("training")
    sst2 = bench.read("sst2", list, documents=bench.number("control"), training=training)
    sentiment = classifier(bench, "sentiment", "sst2", sst2.train)
    return _ThirdTable(sentiment.name, partial(measure_layers, bench, sentiment, sst2.test, "sentiment", "gradient"))


def _layers_sentence(layers: int) -> str:
    """Return the caption of a figure by layer; published values are drawn for as many layers as the paper's."""
    published = f" Dashed: published. {FROM_ZERO}" if layers == len(TABLES["gradient"][1]["raw"]) else ""
    return f"Spearman's ρ over the words of a sentence, mean and 95 % interval over sentences.{published}"


def _graph_figures(maps: Mapping[str, Any]) -> list[Figure]:
    """Return the three graphs of Figure 1; nothing for a sentence that is too long to be drawn."""
    if not maps["graphs"]:
        return []
    graphs = {name: np.array(weights, dtype=np.float64) for name, weights in maps["graphs"].items()}
    return [
        Figure(
            "graphs",
            "Raw attention, rollout and flow as graphs (Figure 1)",
            Graphs(graphs, maps["tokens"], maps["readout"]),
            "One row of tokens per layer, the inputs at the bottom; the residual connection is included. Raw attention "
            "leads from each token to the tokens of the layer below, rollout and flow to the inputs.",
        )
    ]


def run(bench: Workbench) -> Outcome:
    """Train the verb-number model and compare raw attention, rollout and flow with importance."""
    seed, documents, training = bench.seed, bench.number("documents"), bench.number("training")
    tests = max(documents, bench.number("tested"))
    data = bench.read("sva", lambda: agreement_prefixes(tests + training, seed + 1), documents=tests, training=training)
    left_out: list[str] = []
    subject = _verb_model(bench, data)
    third, masked = _third_table(bench, left_out), masked_model(bench)
    # The verb-number model is trained while another process works on sentiment and pronouns.
    tasks: dict[str, Callable[[], Any]] = {"sva": partial(_measure_verbs, bench, subject, data)}
    if third is not None:
        tasks["sst2"] = third.measure
    if masked is not None:
        tasks["pronouns"] = partial(measure_choices, bench, *masked)
    results = bench.each(tasks)
    data = replace(data, test=readable(bench, subject, data, left_out))
    tested, entries, agreements, controls = results["sva"]
    tables = [
        StudyTable(
            f"spearman_{name}",
            f"Spearman's ρ with {name.replace('_', '-')} by layer ({where})",
            _table(agreements[name], controls[name], {view: dict(enumerate(row)) for view, row in rows.items()}),
            "Mean over sentences with its 95 % interval; ρ is over the words of a sentence. difference: measured minus "
            f"published. random weights: the same model with weights drawn anew. {FROM_ZERO}",
        )
        for name, (where, rows) in TABLES.items()
    ]
    effective = _effective_table(entries, seed)
    if len(effective):
        tables.append(
            StudyTable(
                "effective",
                "Attention that has no effect, by layer",
                effective,
                "Share of the squared attention weights that the values cancel, mean over heads: what effective "
                "attention leaves out. Only sentences with more tokens than a head is wide have such a part; the "
                "others are left out.",
            )
        )
    if third is not None:
        tables.append(
            StudyTable(
                "spearman_sentiment",
                "Spearman's ρ with input gradients by layer, sentiment (Table 3)",
                _table(results["sst2"], results["sst2"], SENTIMENT_TABLE).drop(columns="random_weights"),
                f"{third.name}: mean over sentences with its 95 % interval; ρ is over the words of a sentence. "
                f"Published: DistilBERT with six layers; two of them are not printed in the paper. {FROM_ZERO}",
            )
        )
    example = max(data.test[:50], key=lambda row: -abs(len(str(row.text).split()) - 9))
    maps = explain_views(bench, subject, example)
    figures = [
        *_graph_figures(maps),
        *(
            Figure(
                f"layers_{reference}",
                f"Agreement with {reference.replace('_', '-')} by layer",
                _curves(agreements[reference], reference),
                _layers_sentence(bench.number("layers")),
            )
            for reference in REFERENCES
        ),
        *(
            Figure(
                f"map_{view}",
                f"{TITLES[view]} from [CLS], by layer",
                LayerMap(np.array(maps[view], dtype=np.float64), maps["tokens"], "separate", signed=False),
                "One row per layer, from 0.",
            )
            for view in VIEWS
        ),
    ]
    pronouns: list[Figure] = []
    if masked is not None:
        pronouns = draw_pronouns(bench, masked[0], results["pronouns"])
        if pronouns and results["pronouns"]:
            tables.append(choice_table(masked[0], results["pronouns"], seed))
    figures += pronouns
    if not pronouns:
        left_out.append(
            "Figure 4, his or her: needs a masked language model that knows the words of the sentences (--mlm FOLDER), "
            "or --model base=FOLDER and sentences to train one on (--data pronouns=FILE)."
        )
    learnt = judge_accuracy(tested)
    findings = [
        learnt,
        judge_gain(agreements["blank_out"], controls["blank_out"], "blank_out", seed),
        judge_gain(agreements["gradient"], controls["gradient"], "gradient", seed, results.get("sst2")),
        judge_flow(agreements, seed),
        judge_uniform(entries, seed),
    ]
    if learnt.verdict != "confirmed":
        findings[1:] = [not_judged(finding, ["the verb-number model"]) for finding in findings[1:]]
    return Outcome(tables, figures, findings, _differences(bench, data), left_out)


def _differences(bench: Workbench, data: DataSet) -> list[Difference]:
    return [
        Difference(
            "data",
            "2,000 sentences of the test set of Linzen et al. 2016, in their natural mix",
            f"{bench.number('documents'):,} sentences ({data.origin}), {len(data.test):,} for the accuracy, "
            f"{len(data.train):,} to train on",
            "a sample keeps the run within minutes; a file with more attractors than the natural mix is harder, so "
            "that its accuracy is not comparable",
        ),
        Difference(
            "model",
            "6 layers, 8 heads, 128 wide, trained on the full training set",
            f"{bench.number('layers')} layers, 8 heads, {bench.number('width')} wide; passes over the "
            f"training rows: {bench.number('epochs')}",
            "the same kind of model, trained for minutes",
        ),
        Difference(
            "tokens",
            "words of a fixed vocabulary, rare ones as their part of speech",
            "words of the training sentences; special tokens are left out of the ranking",
            "[CLS] and [SEP] are no words of the sentence; the residual concerns [CLS] alone, so that the three views "
            "are equal in the first layer here, and differ in the paper, which ranks [CLS] too",
        ),
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
    sizes={
        "tiny": {
            "documents": 8,
            "tested": 8,
            "control": 4,
            "training": 64,
            "epochs": 1,
            "layers": 2,
            "width": 32,
        },
        "small": {
            "documents": 200,
            "tested": 600,
            "control": 60,
            "training": 9000,
            "epochs": 5,
            "layers": 6,
            "width": 128,
        },
        "paper": {
            "documents": 2000,
            "tested": 2000,
            "control": 500,
            "training": 1_000_000,
            "epochs": 10,
            "layers": 6,
            "width": 128,
        },
    },
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
    run=run,
)
