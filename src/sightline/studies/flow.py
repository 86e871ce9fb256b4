"""Study of attention rollout and attention flow: do they follow importance better than raw attention does?

The paper's verb-number model (6 GPT-2 blocks without causal mask, 8 heads, 128 wide, [CLS] read out) is trained on
subject-verb agreement. Raw attention, rollout and flow of [CLS] are compared, layer by layer, with blank-out and input
gradients; the same is done with random weights. A sentiment model, if given, supplies the paper's third table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.evaluation.agreement import LAYER, Agreement
from sightline.studies.accuracy import measure_accuracy, readable
from sightline.studies.base_models import classifier
from sightline.studies.data import DataSet
from sightline.studies.flow_pronouns import choice_table, draw_pronouns, masked_model, measure_choices
from sightline.studies.flow_steps import (
    REFERENCES,
    STATISTIC,
    VIEWS,
    explain_views,
    measure_layers,
    measure_predictions,
)
from sightline.studies.generated import agreement_prefixes
from sightline.studies.longformer_steps import random_twin
from sightline.studies.study import (
    Accuracy,
    Claim,
    Curve,
    Curves,
    Difference,
    Figure,
    Finding,
    Graphs,
    HubData,
    LayerMap,
    Measured,
    Outcome,
    PaperSize,
    Published,
    Study,
    StudyTable,
    Tally,
    in_words,
    judge,
    not_judged,
    shared_difference,
)
from sightline.studies.workbench import BASE, Subject, Workbench

if TYPE_CHECKING:
    import pandas as pd

Entries = Sequence[Mapping[str, Any]]
ACCURACY = Published(0.96, "Section 2")
TABLES: dict[str, tuple[str, dict[str, tuple[float, ...]]]] = {
    "blank_out": (
        "Table 1",
        {
            "raw": (0.69, 0.10, -0.11, -0.09, 0.20, 0.29),
            "rollout": (0.32, 0.38, 0.51, 0.62, 0.70, 0.71),
            "flow": (0.32, 0.44, 0.70, 0.70, 0.71, 0.70),
        },
    ),
    "gradient": (
        "Table 2",
        {
            "raw": (0.53, 0.16, -0.06, 0.00, 0.24, 0.46),
            "rollout": (0.22, 0.27, 0.39, 0.47, 0.53, 0.54),
            "flow": (0.22, 0.31, 0.54, 0.61, 0.60, 0.61),
        },
    ),
}
"""Reference -> where it is published, and Spearman's ρ of each view in layers 1 to 6 of the verb-number model."""
SENTIMENT_TABLE: dict[str, dict[int, float]] = {
    "raw": {1: 0.12, 3: 0.09, 5: 0.08, 6: 0.09},
    "rollout": {1: 0.11, 3: 0.12, 5: 0.13, 6: 0.13},
    "flow": {1: 0.11, 3: 0.11, 5: 0.12, 6: 0.14},
}
"""Table 3: DistilBERT on SST-2, against input gradients; layer -> ρ."""
TITLES = {"raw": "Raw attention", "rollout": "Attention rollout", "flow": "Attention flow"}
VERBS, SENTIMENT = "verb-number model", "model of sentiment"
NEARLY_EVEN = 0.9
"""Normalised entropy from which attention counts as nearly uniform; 1 is uniform."""


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


def _last_layer(agreement: Agreement, view: str) -> dict[str, float]:
    """Return ρ in the last layer by sentence, of one view."""
    pairs = [pair for pair in agreement.pairs if pair.method == VIEWS[view]]
    last = pairs[-1].first if pairs else ""
    return {pair.document: pair.value for pair in pairs if pair.first == last and pair.value is not None}


def _gain(agreement: Agreement, view: str, other: str, seed: int) -> Measured:
    """Return ρ of a view minus ρ of another one in the last layer, paired by sentence."""
    return shared_difference(_last_layer(agreement, view), _last_layer(agreement, other), seed)


def _table(agreement: Agreement, control: Agreement, published: Mapping[str, Mapping[int, float]]) -> pd.DataFrame:
    """Return one row per view and layer: published, measured, with random weights."""
    import pandas as pd

    random = control.by_layer(STATISTIC) if control.pairs else None
    views = {method: view for view, method in VIEWS.items()}
    rows = []
    for row in agreement.summary().itertuples():
        view, layer = views[row.method], int(row.first.removeprefix(LAYER))
        known = published[view].get(layer + 1, np.nan)
        rows.append(
            {
                "view": view,
                "layer": layer + 1,
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
    return Curves([str(layer + 1) for layer in mean.index], curves, "layer", "Spearman's ρ")


def _judge_gain(
    agreement: Agreement, control: Agreement, reference: str, seed: int, sentiment: Agreement | None = None
) -> Finding:
    """Judge the weaker of rollout and flow against raw attention in the last layer; sentiment: of Table 3."""
    claim = FLOW.claim("better than raw: blank-out" if reference == "blank_out" else "better than raw: gradients")
    where, table = TABLES[reference]
    models = {VERBS: agreement} | ({} if sentiment is None else {SENTIMENT: sentiment})
    published = {VERBS: ({view: row[-1] for view, row in table.items()}, where)}
    published[SENTIMENT] = ({view: row[max(row)] for view, row in SENTIMENT_TABLE.items()}, "Table 3")
    gains = {
        name: {view: _gain(each, view, "raw", seed) for view in ("rollout", "flow")} for name, each in models.items()
    }
    controls = {view: _gain(control, view, "raw", seed) for view in ("rollout", "flow")}
    weaker = {name: min(by_view, key=lambda view: by_view[view].low) for name, by_view in gains.items()}
    tally = Tally({name: gains[name][view] for name, view in weaker.items()})
    model, gain = tally.weakest
    if not model:
        return Finding(claim, "not measured", "No sentence has a value.")
    view = weaker[model]
    parts = [
        f"{name}: {', '.join(f'{view} {in_words(value)}' for view, value in by_view.items())}"
        for name, by_view in gains.items()
    ]
    random = ", ".join(f"{view} {in_words(value)}" for view, value in controls.items())
    evidence = (
        f"Gain over raw attention in the last layer: {'; '.join(parts)}; {VERBS} with random weights: {random}. The "
        f"weakest, {view} in the {model}, decides."
    )
    values, source = published[model]
    return Finding(
        claim,
        judge(gain, controls[view] if model == VERBS else None),
        evidence,
        gain,
        Published(round(values[view] - values["raw"], 2), f"{source}, {view}, {model}"),
        control=controls[view] if model == VERBS else None,
        tally=tally if len(models) > 1 else None,
    )


def _judge_flow(agreements: Mapping[str, Agreement], seed: int) -> Finding:
    claim = FLOW.claim("flow before rollout")
    gains = {name: _gain(agreement, "flow", "rollout", seed) for name, agreement in agreements.items()}
    if not all(gain.documents for gain in gains.values()):
        return Finding(claim, "not measured", "No sentence has a value.")
    reference = min(gains, key=lambda name: gains[name].low)
    published = {
        name: Published(round(table["flow"][-1] - table["rollout"][-1], 2), where)
        for name, (where, table) in TABLES.items()
    }
    text = "; ".join(f"against {name.replace('_', '-')} {in_words(gain)}" for name, gain in gains.items())
    printed = ", ".join(f"{each.value:+.2f} ({each.where})" for each in published.values()).replace("-", "−")
    evidence = f"Flow minus rollout in the last layer: {text}. In the paper: {printed}."
    return Finding(claim, judge(gains[reference]), evidence, gains[reference], published[reference])


def _judge_uniform(entries: Entries, seed: int) -> Finding:
    claim = FLOW.claim("raw attention becomes even")
    layers = np.array([entry["entropy"] for entry in entries])
    first, last = (Measured.of(layers[:, place], seed) for place in (0, -1))
    rise = Measured.of(layers[:, -1] - layers[:, 0], seed)
    verdict = judge(rise)
    if verdict == "confirmed" and not last.low > NEARLY_EVEN:
        verdict = "not confirmed"
    evidence = (
        f"Normalised entropy of raw attention: first layer {in_words(first)}, last layer {in_words(last)}, rise "
        f"{in_words(rise)}."
    )
    return Finding(claim, verdict, evidence, measured=rise)


def _effective_table(entries: Entries, seed: int) -> pd.DataFrame:
    """Return, by layer, the share of the weights that changes nothing, over the sentences that have such a part."""
    import pandas as pd

    long = np.array([entry["cancelled"] for entry in entries if entry["tokens"] > entry["head_width"]])
    layers = [Measured.of(column, seed) for column in long.T]
    rows = [{"layer": layer, **m.columns(), "documents": m.documents} for layer, m in enumerate(layers, start=1)]
    return pd.DataFrame(rows, columns=["layer", "mean", "low", "high", "documents"])


def _judge_accuracy(entries: Entries, seed: int) -> Finding:
    claim = FLOW.claim("the model learns agreement")
    accuracy = Accuracy.of(entries, seed)
    return Finding(claim, judge(accuracy.gain), accuracy.in_words(), accuracy.measured, ACCURACY)


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
    published = " Dashed: published." if layers == len(TABLES["gradient"][1]["raw"]) else ""
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
            _table(agreements[name], controls[name], {view: dict(enumerate(row, 1)) for view, row in rows.items()}),
            "Mean over sentences with its 95 % interval; ρ is over the words of a sentence. difference: measured minus "
            "published. random weights: the same model with weights drawn anew.",
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
                "Published: DistilBERT with six layers; layers 2 and 4 are not printed in the paper.",
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
                "One row per layer; row 0 is layer 1 of the tables.",
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
    learnt = _judge_accuracy(tested, seed)
    findings = [
        learnt,
        _judge_gain(agreements["blank_out"], controls["blank_out"], "blank_out", seed),
        _judge_gain(agreements["gradient"], controls["gradient"], "gradient", seed, results.get("sst2")),
        _judge_flow(agreements, seed),
        _judge_uniform(entries, seed),
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
    claims=(
        Claim(
            "the model learns agreement",
            "A Transformer encoder predicts the number of the verb from the words before it.",
            "Confirmed if accuracy minus the share of the larger class has its 95 % interval above 0.",
        ),
        Claim(
            "better than raw: blank-out",
            "Rollout and flow correlate better with blank-out scores than raw attention does.",
            "Confirmed if, in the last layer, the paired difference of ρ to raw attention has its 95 % interval above "
            "0 for both. Artefact if random weights show a gain above 0 whose interval overlaps.",
        ),
        Claim(
            "better than raw: gradients",
            "Rollout and flow correlate better with input gradients than raw attention does.",
            "As for blank-out, in the verb-number model and in the model of sentiment, if there is one.",
        ),
        Claim(
            "flow before rollout",
            "Attention flow is more reliable than attention rollout.",
            "Confirmed if, in the last layer, ρ of flow minus ρ of rollout has its 95 % interval above 0 for blank-out "
            "and for gradients.",
        ),
        Claim(
            "raw attention becomes even",
            "Raw attention of [CLS] is nearly uniform in the higher layers.",
            f"Confirmed if the rise of its normalised entropy from the first to the last layer has its 95 % interval "
            f"above 0, and the entropy of the last layer has its own above {NEARLY_EVEN}, a bound set here.",
        ),
    ),
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
