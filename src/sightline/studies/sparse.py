"""Study of sparse attention: does a sparser attention say more about the words that decide?

Classifiers with a single attention (bidirectional LSTM, small Transformer) are trained with projections from dense to
sparse. Tables hold entropies, correlations of attention with the importance of inputs and of representations (ties
counted), their trend with λ, and other weights that give the same output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from sightline.studies.data import DataSet
from sightline.studies.generated import planted_sentences
from sightline.studies.sparse_steps import ENCODERS, LAMBDAS, MEASURES, PROJECTIONS, TESTS, Cell, measure_cell
from sightline.studies.study import (
    Accuracy,
    Claim,
    Curve,
    Curves,
    Difference,
    Figure,
    Finding,
    HubData,
    Measured,
    Outcome,
    PaperSize,
    Study,
    StudyTable,
    in_words,
    judge,
    weakest,
    with_caution,
)
from sightline.studies.workbench import Workbench

if TYPE_CHECKING:
    import pandas as pd

SPARSEST = PROJECTIONS[-1]
ENTROPIES = ("attention_entropy", "importance_entropy", "representation_entropy")


def _column(cell: Cell, key: str) -> list[float]:
    return [np.nan if entry[key] is None else entry[key] for entry in cell.documents]


def _entropy_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for cell in cells:
        row: dict[str, Any] = {"data": cell.data, "encoder": cell.encoder, "projection": cell.projection}
        row |= {
            "accuracy": Accuracy.of(cell.documents, seed).measured.value,
            "support": Measured.of(_column(cell, "support"), seed).value,
        }
        for key in (*ENTROPIES, "own_share"):
            row |= Measured.of(_column(cell, key), seed).columns(key)
        rows.append(row | {"documents": len(cell.documents)})
    return pd.DataFrame(rows)


def _correlation_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for cell in cells:
        row: dict[str, Any] = {"data": cell.data, "encoder": cell.encoder, "projection": cell.projection}
        for measure in MEASURES:
            row |= Measured.of(_column(cell, measure), seed).columns(measure)
            row[f"{measure}_ties"] = Measured.of(_column(cell, f"{measure}_ties"), seed).value
        rows.append(row)
    return pd.DataFrame(rows)


def trend_with_lambda(cells: Mapping[str, Cell], key: str) -> list[float]:
    """Return Spearman's ρ between λ and a value over the sparsegen family, one per document.

    Documents with fewer than three values, or with the same value for every λ, have none (NaN).
    """
    columns = [_column(cells[projection], key) for projection in LAMBDAS]
    trends = []
    for values in zip(*columns, strict=True):
        known = [(lam, value) for lam, value in zip(LAMBDAS.values(), values, strict=True) if not math.isnan(value)]
        if len(known) < 3 or len({value for _, value in known}) == 1:
            trends.append(float("nan"))
        else:
            trends.append(float(stats.spearmanr(*zip(*known, strict=True)).statistic))
    return trends


def _groups(cells: Sequence[Cell]) -> dict[tuple[str, str], dict[str, Cell]]:
    """Return (data, encoder) -> projection -> cell."""
    groups: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.data, cell.encoder), {})[cell.projection] = cell
    return groups


def _trend_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for (data, encoder), group in _groups(cells).items():
        for measure in MEASURES:
            measured = Measured.of(trend_with_lambda(group, measure), seed)
            sign = "falls" if measured.high < 0 else "rises" if measured.low > 0 else "undecided"
            rows.append(
                {
                    "data": data,
                    "encoder": encoder,
                    "importance": measure,
                    "published": "not given here",
                    **measured.columns(),
                    "with_sparsity": sign,
                    "documents": measured.documents,
                }
            )
    return pd.DataFrame(rows)


def _adversary_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for cell in cells:
        for test in TESTS:
            pairs = [pair for pair in cell.others if pair["test"] == test]
            row: dict[str, Any] = {"data": cell.data, "encoder": cell.encoder, "projection": cell.projection}
            row["test"] = test
            for key in ("jsd", "tvd"):
                row |= Measured.of([pair[key] for pair in pairs], seed).columns(key)
            rows.append(row | {"documents": len(pairs)})
    return pd.DataFrame(rows)


def _label(cell: Cell) -> str:
    return f"{cell.data}, {cell.encoder}, {cell.projection}"


def _judge_own_share(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("inputs and representations are weakly tied")
    shares = {_label(cell): np.array(_column(cell, "own_share")) for cell in cells}
    name, effect = weakest({label: Measured.of(0.5 - values, seed) for label, values in shares.items()})
    share = Measured.of(shares[name] if name else [], seed)
    held = sum(Measured.of(0.5 - values, seed).low > 0 for values in shares.values())
    evidence = (
        f"The share is below one half in {held} of {len(shares)} models. It is largest in {name}: {in_words(share)}."
    )
    return Finding(claim, judge(effect), evidence, measured=share)


def _judge_trend(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("sparsity loosens the tie with inputs")
    trends = {
        f"{data}, {encoder}": Measured.of(trend_with_lambda(group, "gradient_x"), seed)
        for (data, encoder), group in _groups(cells).items()
    }
    reverse = {name: Measured(-m.value, -m.high, -m.low, m.documents) for name, m in trends.items()}
    name, effect = weakest(reverse)
    evidence = (
        "ρ between λ and tau-b(attention, input gradients), one per document: "
        + "; ".join(f"{label} {in_words(measured)}" for label, measured in trends.items())
        + ". The paper's table and text disagree about the sign; these are the signs as measured."
    )
    return Finding(claim, judge(effect), evidence, measured=trends.get(name, effect))


def _judge_explanation(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("sparse attention, dense importance")
    gaps, falls = {}, []
    for (data, encoder), group in _groups(cells).items():
        drops = [
            np.array(_column(group["softmax"], key)) - np.array(_column(group[SPARSEST], key)) for key in ENTROPIES[:2]
        ]
        gaps[f"{data}, {encoder}"] = Measured.of(drops[0] - drops[1], seed)
        attention, importance = (in_words(Measured.of(drop, seed)) for drop in drops)
        falls.append(f"{data}, {encoder}: attention {attention}, input importance {importance}")
    _, gap = weakest(gaps)
    evidence = f"Fall of the normalised entropy from softmax to {SPARSEST}: {'; '.join(falls)}."
    return Finding(claim, judge(gap), evidence, measured=gap)


def _judge_representations(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("closer to representations than to inputs")
    gaps = {
        _label(cell): Measured.of(np.array(_column(cell, "gradient_h")) - np.array(_column(cell, "gradient_x")), seed)
        for cell in cells
    }
    name, gap = weakest(gaps)
    held = sum(measured.low > 0 for measured in gaps.values())
    evidence = (
        f"tau-b with gradients of representations exceeds that with inputs in {held} of {len(gaps)} models. The "
        f"difference is least certain in {name}: {in_words(gap)}."
    )
    return Finding(claim, judge(gap), evidence, measured=gap)


def _judge_adversary(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("other weights, same output")
    optimised = {
        _label(cell): [pair for pair in cell.others if pair["test"] == "frozen"]
        for cell in cells
        if cell.projection != "softmax"
    }
    name, gap = weakest(
        {
            label: Measured.of([pair["jsd"] / math.log(2) - pair["tvd"] for pair in pairs], seed)
            for label, pairs in optimised.items()
        }
    )
    jsd, tvd = (Measured.of([pair[key] for pair in optimised.get(name, [])], seed) for key in ("jsd", "tvd"))
    evidence = (
        f"Optimised weights, where they move least, {name}: JSD {in_words(jsd)} of at most {math.log(2):.3f}, change "
        f"of the output (TVD) {in_words(tvd)}."
    )
    return Finding(claim, judge(gap), evidence, measured=gap)


def _curves(cells: Sequence[Cell], key: str, vertical: str, seed: int) -> Curves:
    curves = []
    for (data, encoder), group in _groups(cells).items():
        measured = [Measured.of(_column(group[projection], key), seed) for projection in PROJECTIONS]
        curves.append(Curve.of(f"{data}, {encoder}", measured))
    return Curves(PROJECTIONS, curves, "projection, from dense to sparse", vertical)


def _data_sets(bench: Workbench) -> list[DataSet]:
    documents, training = bench.number("documents"), bench.number("training")
    names = [name for name in SPARSE.data if name in bench.sources.paths] or ["sst2"]
    return [
        bench.read(
            name,
            lambda: planted_sentences(documents + training, bench.seed + 1),
            documents=documents,
            training=training,
        )
        for name in names
    ]


def run(bench: Workbench) -> Outcome:
    """Train and measure every combination of data set, encoder and projection."""
    seed = bench.seed
    sets = _data_sets(bench)
    cells = [
        measure_cell(bench, data, encoder, projection)
        for data in sets
        for encoder in ENCODERS
        for projection in PROJECTIONS
    ]
    tables = [
        StudyTable(
            "entropies",
            "Accuracy and entropies",
            _entropy_table(cells, seed),
            "Normalised entropies: 1 is even over all words. support: share of words with a weight above 0. own share: "
            "part of a representation's dependence that is on its own word. Published values: not given here.",
        ),
        StudyTable(
            "correlations",
            "tau-b between attention and importance",
            _correlation_table(cells, seed),
            "x: inputs, h: representations. ties: share of pairs of words that are tied in attention or importance; "
            "sparse weights tie most pairs at 0. Published values: not given here.",
        ),
        StudyTable(
            "trend",
            "How the correlation changes with λ",
            _trend_table(cells, seed),
            "ρ between λ of sparsegen (−1, 0, 0.5, 0.9) and tau-b, one per document. The paper's table and text "
            "disagree about the sign; it is printed as measured.",
        ),
        StudyTable(
            "adversary",
            "Other weights: distance and change of the output",
            _adversary_table(cells, seed),
            "JSD: distance of the weights in nats, at most 0.693; TVD: change of the output, at most 1.",
        ),
    ]
    figures = [
        Figure(
            "input_correlation",
            "Attention against input gradients",
            _curves(cells, "gradient_x", "tau-b", seed),
            "Bands: 95 % interval over documents.",
        ),
        Figure(
            "entropy",
            "Entropy of attention",
            _curves(cells, "attention_entropy", "normalised entropy", seed),
            "Bands: 95 % interval over documents.",
        ),
    ]
    unlearnt = sum(judge(Accuracy.of(cell.documents, seed).gain) != "confirmed" for cell in cells)
    caution = [f"{unlearnt} of {len(cells)} models (accuracies in the first table)"] if unlearnt else []
    findings = [
        _judge_own_share(cells, seed),
        _judge_trend(cells, seed),
        _judge_explanation(cells, seed),
        _judge_representations(cells, seed),
        _judge_adversary(cells, seed),
    ]
    findings = [with_caution(finding, caution) for finding in findings]
    given = {data.name for data in sets}
    left_out = [f"{name}: needs --data {name}=FILE." for name in SPARSE.data if name not in given]
    return Outcome(tables, figures, findings, _differences(bench, sets), left_out)


def _differences(bench: Workbench, sets: Sequence[DataSet]) -> list[Difference]:
    data = ", ".join(f"{data.name} ({data.origin}, {len(data.train):,} to train on)" for data in sets)
    return [
        Difference(
            "data",
            "IMDb, SST and 20News (baseball against hockey), full training sets",
            f"{data}; {bench.number('documents'):,} documents measured, {bench.number('tokens'):,} tokens at most",
            "twenty models or more are trained within minutes",
        ),
        Difference(
            "models",
            "bidirectional LSTM and Transformer with one attention, tuned per data set",
            f"the same kinds, {bench.number('width')} wide, {bench.number('epochs')} epochs, not tuned",
            "the question is about attention, not about accuracy",
        ),
        Difference(
            "correlations",
            "Kendall's tau",
            "tau-b with the share of tied pairs beside it",
            "sparse weights tie most pairs, which moves plain tau towards 0",
        ),
    ]


SPARSE = Study(
    name="sparse",
    title="Is sparse attention more interpretable?",
    paper="Meister, Lazov, Augenstein & Cotterell 2021, Is Sparse Attention more Interpretable?, ACL",
    question="Does a sparser attention distribution say more about which words decide?",
    claims=(
        Claim(
            "inputs and representations are weakly tied",
            "Only a weak relationship exists between inputs and the representations at their positions.",
            "Confirmed if, in every model, the share of a representation's dependence that is on its own word is below "
            "one half, with the 95 % interval. One half is a bound set here; the paper names none.",
        ),
        Claim(
            "sparsity loosens the tie with inputs",
            "The sparser the attention, the lower its correlation with the importance of the inputs.",
            "Confirmed if ρ between λ and tau-b has its 95 % interval below 0 for every encoder and data set. The one "
            "that speaks most against it is shown.",
        ),
        Claim(
            "sparse attention, dense importance",
            "Sparse attention does not come with a sparse set of influential inputs.",
            "Confirmed if, from softmax to the sparsest projection, the entropy of attention falls by more than that "
            "of the input importance, with the 95 % interval of the paired difference above 0 for every encoder and "
            "data set.",
        ),
        Claim(
            "closer to representations than to inputs",
            "Attention agrees more with the importance of representations than with that of inputs.",
            "Confirmed if the paired difference of tau-b has its 95 % interval above 0 in every model.",
        ),
        Claim(
            "other weights, same output",
            "Under sparse attention, too, very different weights give nearly the same output.",
            "Confirmed if the distance of the weights, as a share of its bound, exceeds the change of the output, with "
            "the 95 % interval above 0 in every model with a sparse projection.",
        ),
    ),
    data={"imdb": "reviews of films", "sst2": "sentences with sentiment", "20news": "posts on baseball and hockey"},
    models={},
    sizes={
        "tiny": {
            "documents": 4,
            "training": 48,
            "epochs": 1,
            "tokens": 32,
            "width": 16,
            "attacked": 2,
            "attack_steps": 5,
        },
        "small": {
            "documents": 40,
            "training": 4000,
            "epochs": 5,
            "tokens": 64,
            "width": 64,
            "attacked": 16,
            "attack_steps": 60,
        },
        "paper": {
            "documents": 1000,
            "training": 25_000,
            "epochs": 10,
            "tokens": 256,
            "width": 256,
            "attacked": 200,
            "attack_steps": 500,
        },
    },
    paper_size=PaperSize(
        data={
            "imdb": HubData("hf://stanfordnlp/imdb"),
            "sst2": HubData("hf://stanfordnlp/sst2", text="sentence", test="validation"),
        },
        models={},
        hours=15,
        gigabytes=1,
        not_on_hub=("20news",),
    ),
    run=run,
)
