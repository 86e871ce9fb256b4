"""Study of sparse attention: does a sparser attention say more about the words that decide?

Classifiers with a single attention (bidirectional LSTM, small Transformer) are trained with projections from dense to
sparse. Tables hold entropies, correlations of attention with the importance of inputs and of representations (ties
counted), their trend with λ, and other weights that give the same output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from sightline_studies.accuracy import CAPTION, accuracy_columns, has_learnt
from sightline_studies.data import DataSet
from sightline_studies.generated import planted_sentences
from sightline_studies.sparse_claims import (
    CLAIMS,
    ENTROPIES,
    TRENDS,
    UNTIED,
    column_of,
    groups_of,
    judge_claims,
    trends_of,
)
from sightline_studies.sparse_steps import ENCODERS, MEASURES, PROJECTIONS, TESTS, Cell, measure_cell
from sightline_studies.study import (
    Curve,
    Curves,
    Difference,
    Figure,
    HubData,
    Measured,
    Outcome,
    PaperSize,
    Study,
    StudyTable,
)
from sightline_studies.workbench import Workbench

if TYPE_CHECKING:
    import pandas as pd

_NOT_DRAWN = "Models that have not learnt the task are not drawn."


def _names(cell: Cell) -> dict[str, Any]:
    return {"data": cell.data, "encoder": cell.encoder, "projection": cell.projection}


def _accuracy_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([_names(cell) | accuracy_columns(cell.tested) for cell in cells])


def _entropy_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for cell in cells:
        row = _names(cell) | {"support": Measured.of(column_of(cell, "support"), seed).value}
        for key in (*ENTROPIES, "own_share"):
            row |= Measured.of(column_of(cell, key), seed).columns(key)
        rows.append(row | {"documents": len(cell.documents)})
    return pd.DataFrame(rows)


def _correlation_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for cell in cells:
        row = _names(cell)
        for measure in MEASURES:
            row |= Measured.of(column_of(cell, measure), seed).columns(measure)
            row[f"{measure}_ties"] = Measured.of(column_of(cell, f"{measure}_ties"), seed).value
        rows.append(row | {"documents": len(cell.documents)})
    return pd.DataFrame(rows)


def _trend_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for correlation in TRENDS:
        for group, measured in trends_of(cells, correlation, seed).items():
            sign = "falls" if measured.high < 0 else "rises" if measured.low > 0 else "undecided"
            data, encoder = group.split(", ")
            rows.append(
                {
                    "data": data,
                    "encoder": encoder,
                    "correlation": correlation,
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
            row = _names(cell) | {"test": test}
            for key in ("jsd", "tvd"):
                row |= Measured.of([pair[key] for pair in pairs], seed).columns(key)
            rows.append(row | {"documents": len(pairs)})
    return pd.DataFrame(rows)


def _curves(cells: Sequence[Cell], values: Callable[[Cell], Sequence[float]], vertical: str, seed: int) -> Curves:
    curves = []
    for (data, encoder), group in groups_of(cells).items():
        measured = [
            Measured.of(values(cell) if has_learnt(cell.tested) else [], seed)
            for cell in (group[projection] for projection in PROJECTIONS)
        ]
        curves.append(Curve.of(f"{data}, {encoder}", measured))
    return Curves(PROJECTIONS, curves, "projection, from dense to sparse", vertical)


def _data_sets(bench: Workbench) -> list[DataSet]:
    documents = max(bench.number("documents"), bench.number("tested"))
    training = bench.number("training")
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
    grid = product(sets, ENCODERS, PROJECTIONS)
    tasks = {f"{data.name} {kind} {how}": partial(measure_cell, bench, data, kind, how) for data, kind, how in grid}
    cells = list(bench.each(tasks).values())
    tables = [
        StudyTable(
            "accuracy",
            "Accuracy of the models",
            _accuracy_table(cells, seed),
            f"{CAPTION} Published values: not given here.",
        ),
        StudyTable(
            "entropies",
            "How evenly attention, importance and dependence are spread",
            _entropy_table(cells, seed),
            "Mean over documents. support: share of the words with a weight above 0. The entropies are normalised: 0 "
            "if one word has everything, 1 if all words have the same; attention: of the weights; importance: of the "
            "gradients of the output by the inputs; representation: of the gradients of a representation by the "
            "inputs. own share: part of these that is at the representation's own word. Published values: not given "
            "here.",
        ),
        StudyTable(
            "correlations",
            "Kendall's tau-b between attention and importance",
            _correlation_table(cells, seed),
            "Mean over documents; 1 is the same order of the words, 0 no relation. x: importance of inputs, h: of "
            "representations; gradient: norm of the gradient, leave out: change of the output without the word. ties: "
            "share of the pairs of words that are tied in attention or importance; sparse weights tie many pairs at "
            "0. Published values: not given here.",
        ),
        StudyTable(
            "trend",
            "How the correlation changes with sparsity",
            _trend_table(cells, seed),
            "Spearman's ρ between λ of sparsegen (−1, 0, 0.5, 0.9; a larger λ is sparser) and tau-b, mean over "
            f"documents. {UNTIED}: tau-b with input gradients divided by √(1 − ties), the largest value that it can "
            "have. The paper's table and text disagree about the sign; it is printed as measured.",
        ),
        StudyTable(
            "adversary",
            "Other weights: their distance, and the change of the output",
            _adversary_table(cells, seed),
            "Mean over documents. JSD: distance between the model's weights and the other ones in nats, at most 0.69. "
            "TVD: change of the output's probabilities, at most 1. uniform: equal weights; permuted: the model's "
            "weights in random order; frozen: weights optimised to differ while the output stays.",
        ),
    ]
    figures = [
        Figure(
            "input_correlation",
            "Attention and the importance of the inputs, all pairs of words",
            _curves(cells, partial(column_of, key="gradient_x"), "tau-b, attention and input gradients", seed),
            "Mean over documents with its 95 % interval: 1 is the same order of the words, 0 no relation. Tied pairs "
            f"bound tau-b from above, the more the sparser attention is. {_NOT_DRAWN}",
        ),
        Figure(
            "untied_correlation",
            "Attention and the importance of the inputs, untied pairs only",
            _curves(cells, TRENDS[UNTIED], "correlation over untied pairs", seed),
            "Pairs of words with different weights only: tau-b divided by the largest value that ties allow. Mean over "
            f"documents with its 95 % interval. {_NOT_DRAWN}",
        ),
        Figure(
            "entropy",
            "How sparse does attention become?",
            _curves(cells, partial(column_of, key="attention_entropy"), "normalised entropy of attention", seed),
            "Mean over documents with its 95 % interval: 1 is even over all words, 0 all weight on one word. "
            f"{_NOT_DRAWN}",
        ),
        Figure(
            "importance_entropy",
            "How sparse does the importance of the inputs become?",
            _curves(cells, partial(column_of, key="importance_entropy"), "normalised entropy of input gradients", seed),
            "Mean over documents with its 95 % interval: 1 is even over all words, 0 all importance in one word. "
            f"{_NOT_DRAWN}",
        ),
    ]
    given = {data.name for data in sets}
    left_out = [f"{name}: needs --data {name}=FILE." for name in SPARSE.data if name not in given]
    return Outcome(tables, figures, judge_claims(cells, seed), _differences(bench, sets), left_out)


def _differences(bench: Workbench, sets: Sequence[DataSet]) -> list[Difference]:
    data = ", ".join(f"{data.name} ({data.origin}, {len(data.train):,} to train on)" for data in sets)
    return [
        Difference(
            "data",
            "IMDb, SST and 20News (baseball against hockey), full training sets",
            f"{data}; {bench.number('documents'):,} documents measured, {bench.number('tested'):,} for the accuracy, "
            f"the first {bench.number('tokens'):,} tokens of each",
            "ten models per data set are trained within minutes",
        ),
        Difference(
            "models",
            "bidirectional LSTM and Transformer with one attention, tuned per data set",
            f"the same kinds, {bench.number('width')} wide, not tuned; each reads about "
            f"{bench.number('readings'):,} texts, those of its data set as often as that needs",
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
    claims=CLAIMS,
    data={"imdb": "reviews of films", "sst2": "sentences with sentiment", "20news": "posts on baseball and hockey"},
    models={},
    sizes={
        "tiny": {
            "documents": 4,
            "training": 48,
            "tested": 8,
            "readings": 48,
            "tokens": 32,
            "width": 16,
            "attacked": 2,
            "attack_steps": 5,
        },
        "small": {
            "documents": 40,
            "training": 3000,
            "tested": 300,
            "readings": 10_000,
            "tokens": 64,
            "width": 64,
            "attacked": 16,
            "attack_steps": 60,
        },
        "paper": {
            "documents": 1000,
            "training": 25_000,
            "tested": 1000,
            "readings": 250_000,
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
