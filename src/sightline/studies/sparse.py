"""Study of sparse attention: does a sparser attention say more about the words that decide?

Classifiers with a single attention (bidirectional LSTM, small Transformer) are trained with projections from dense to
sparse. Tables hold entropies, correlations of attention with the importance of inputs and of representations (ties
counted), their trend with λ, and other weights that give the same output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from sightline.studies.accuracy import CAPTION, accuracy_columns, has_learnt
from sightline.studies.data import DataSet
from sightline.studies.generated import planted_sentences
from sightline.studies.sparse_steps import ENCODERS, LAMBDAS, MEASURES, PROJECTIONS, TESTS, Cell, measure_cell
from sightline.studies.study import (
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
    Tally,
    in_words,
    judge,
    without_unlearnt,
)
from sightline.studies.workbench import Workbench

if TYPE_CHECKING:
    import pandas as pd

SPARSEST = PROJECTIONS[-1]
UNTIED = "untied pairs"
_NOT_DRAWN = "Models that have not learnt the task are not drawn."
ENTROPIES = ("attention_entropy", "importance_entropy", "representation_entropy")


def _column(cell: Cell, key: str) -> list[float]:
    return [np.nan if entry[key] is None else entry[key] for entry in cell.documents]


def _names(cell: Cell) -> dict[str, Any]:
    return {"data": cell.data, "encoder": cell.encoder, "projection": cell.projection}


def _accuracy_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([_names(cell) | accuracy_columns(cell.tested, seed) for cell in cells])


def _entropy_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for cell in cells:
        row = _names(cell) | {"support": Measured.of(_column(cell, "support"), seed).value}
        for key in (*ENTROPIES, "own_share"):
            row |= Measured.of(_column(cell, key), seed).columns(key)
        rows.append(row | {"documents": len(cell.documents)})
    return pd.DataFrame(rows)


def _correlation_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for cell in cells:
        row = _names(cell)
        for measure in MEASURES:
            row |= Measured.of(_column(cell, measure), seed).columns(measure)
            row[f"{measure}_ties"] = Measured.of(_column(cell, f"{measure}_ties"), seed).value
        rows.append(row | {"documents": len(cell.documents)})
    return pd.DataFrame(rows)


def untied_correlation(cell: Cell, measure: str) -> list[float]:
    """Return tau-b / √(1 − ties) of every document: the correlation over the pairs of words that are not tied.

    This is Goodman and Kruskal's γ if the weights alone have ties. tau-b cannot exceed √(1 − ties) then, and falls as
    weights become sparse, whatever the order of the words.
    """
    pairs = zip(_column(cell, measure), _column(cell, f"{measure}_ties"), strict=True)
    return [tau / math.sqrt(1 - ties) if ties < 1 else float("nan") for tau, ties in pairs]


def trend_with_lambda(cells: Mapping[str, Cell], values: Callable[[Cell], Sequence[float]]) -> list[float]:
    """Return Spearman's ρ between λ and a value over the sparsegen family, one per document.

    Documents with fewer than three values, or with the same value for every λ, have none (NaN).
    """
    columns = [values(cells[projection]) for projection in LAMBDAS]
    trends = []
    for row in zip(*columns, strict=True):
        known = [(lam, value) for lam, value in zip(LAMBDAS.values(), row, strict=True) if not math.isnan(value)]
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


TRENDS: Mapping[str, Callable[[Cell], Sequence[float]]] = {
    **{measure: partial(_column, key=measure) for measure in MEASURES},
    UNTIED: partial(untied_correlation, measure="gradient_x"),
}
"""Correlations whose trend with λ is shown."""


def _trends(cells: Sequence[Cell], correlation: str, seed: int) -> dict[str, Measured]:
    """Return the mean trend with λ by data set and encoder, of those that have a model for every λ."""
    return {
        f"{data}, {encoder}": Measured.of(trend_with_lambda(group, TRENDS[correlation]), seed)
        for (data, encoder), group in _groups(cells).items()
        if all(projection in group for projection in LAMBDAS)
    }


def _trend_table(cells: Sequence[Cell], seed: int) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for correlation in TRENDS:
        for group, measured in _trends(cells, correlation, seed).items():
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


def _label(cell: Cell) -> str:
    return f"{cell.data}, {cell.encoder}, {cell.projection}"


def _judge_own_share(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("inputs and representations are weakly tied")
    shares = {_label(cell): np.array(_column(cell, "own_share")) for cell in cells}
    tally = Tally({label: Measured.of(0.5 - values, seed) for label, values in shares.items()})
    name, effect = tally.weakest
    share = Measured.of(shares[name] if name else [], seed)
    evidence = f"Below one half {tally.in_words()}. It is largest in {name}: {in_words(share)}."
    return Finding(claim, judge(effect), evidence, measured=share, tally=tally)


def _judge_trend(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("sparsity loosens the tie with inputs")
    trends, untied = (_trends(cells, correlation, seed) for correlation in ("gradient_x", UNTIED))
    tally, other = (
        Tally({name: Measured(-m.value, -m.high, -m.low, m.documents) for name, m in values.items()})
        for values in (trends, untied)
    )
    name, effect = tally.weakest
    verdict = judge(effect)
    if verdict == "confirmed" and judge(other.weakest[1]) != "confirmed":
        verdict = "artefact"
    evidence = (
        f"The correlation falls as λ rises {tally.in_words()}. ρ between λ and tau-b(attention, input gradients), mean "
        f"over documents: {_list(trends)}. But sparse weights tie most pairs of words at 0, and tau-b is then at most "
        "√(1 − share of tied pairs): it falls for this reason alone. Over the pairs that are not tied, the correlation "
        f"falls {other.in_words()}: {_list(untied)}; these pairs become fewer and clearer with sparsity, which raises "
        "it. λ is that of sparsegen, so that softmax is left out: from softmax to sparsegen with λ = −1, the densest, "
        f"tau-b rises {_rise_from_softmax(cells, seed).in_words()}. The paper's table and text disagree about the "
        "sign; these are the signs as measured."
    )
    return Finding(claim, verdict, evidence, measured=trends.get(name, effect), tally=tally)


def _rise_from_softmax(cells: Sequence[Cell], seed: int) -> Tally:
    """Return by how much tau-b with input gradients is larger with the densest sparsegen than with softmax."""
    densest = min(LAMBDAS, key=lambda name: LAMBDAS[name])
    return Tally(
        {
            f"{data}, {encoder}": Measured.of(
                np.array(_column(group[densest], "gradient_x")) - np.array(_column(group["softmax"], "gradient_x")),
                seed,
            )
            for (data, encoder), group in _groups(cells).items()
            if {"softmax", densest} <= group.keys()
        }
    )


def _list(values: Mapping[str, Measured]) -> str:
    return "; ".join(f"{name} {in_words(measured)}" for name, measured in values.items())


def _judge_explanation(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("sparse attention, dense importance")
    gaps, falls = {}, []
    for (data, encoder), group in _groups(cells).items():
        if not {"softmax", SPARSEST} <= group.keys():
            continue
        drops = [
            np.array(_column(group["softmax"], key)) - np.array(_column(group[SPARSEST], key)) for key in ENTROPIES[:2]
        ]
        gaps[f"{data}, {encoder}"] = Measured.of(drops[0] - drops[1], seed)
        attention, importance = (in_words(Measured.of(drop, seed)) for drop in drops)
        falls.append(f"{data}, {encoder}: attention {attention}, input importance {importance}")
    tally = Tally(gaps)
    _, gap = tally.weakest
    evidence = (
        f"Attention becomes sparser than the input importance does {tally.in_words()}. Fall of the normalised entropy "
        f"from softmax to {SPARSEST}: {'; '.join(falls)}."
    )
    return Finding(claim, judge(gap), evidence, measured=gap, tally=tally)


def _judge_representations(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("closer to representations than to inputs")
    tally = Tally(
        {
            _label(cell): Measured.of(
                np.array(_column(cell, "gradient_h")) - np.array(_column(cell, "gradient_x")), seed
            )
            for cell in cells
        }
    )
    name, gap = tally.weakest
    evidence = (
        f"tau-b with gradients of representations exceeds that with gradients of inputs {tally.in_words()}. The "
        f"difference is least certain in {name}: {in_words(gap)}. Part of this is by construction: a representation "
        "acts on the output through its weight alone, and one outside the support of a sparse attention not at all."
    )
    return Finding(claim, judge(gap), evidence, measured=gap, tally=tally)


def _judge_adversary(cells: Sequence[Cell], seed: int) -> Finding:
    claim = SPARSE.claim("other weights, same output")
    optimised = {
        _label(cell): [pair for pair in cell.others if pair["test"] == "frozen"]
        for cell in cells
        if cell.projection != "softmax"
    }
    tally = Tally(
        {
            label: Measured.of([pair["jsd"] / math.log(2) - pair["tvd"] for pair in pairs], seed)
            for label, pairs in optimised.items()
        }
    )
    name, gap = tally.weakest
    jsd, tvd = (Measured.of([pair[key] for pair in optimised.get(name, [])], seed) for key in ("jsd", "tvd"))
    evidence = (
        f"The weights move further than the output {tally.in_words()}. Optimised weights, where they move least, "
        f"{name}: JSD {in_words(jsd)} of at most {math.log(2):.2f}, change of the output (TVD) {in_words(tvd)}."
    )
    return Finding(claim, judge(gap), evidence, measured=gap, tally=tally)


def judge_claims(cells: Sequence[Cell], seed: int) -> list[Finding]:
    """Return a finding per claim; models that have learnt nothing count neither for a claim nor against it."""
    learnt = [cell for cell in cells if has_learnt(cell.tested, seed)]
    unlearnt = [_label(cell) for cell in cells if cell not in learnt]
    judges = (_judge_own_share, _judge_trend, _judge_explanation, _judge_representations, _judge_adversary)
    return [without_unlearnt(judge_claim(learnt, seed), unlearnt, len(cells)) for judge_claim in judges]


def _curves(cells: Sequence[Cell], values: Callable[[Cell], Sequence[float]], vertical: str, seed: int) -> Curves:
    curves = []
    for (data, encoder), group in _groups(cells).items():
        measured = [
            Measured.of(values(cell) if has_learnt(cell.tested, seed) else [], seed)
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
            _curves(cells, partial(_column, key="gradient_x"), "tau-b, attention and input gradients", seed),
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
            _curves(cells, partial(_column, key="attention_entropy"), "normalised entropy of attention", seed),
            "Mean over documents with its 95 % interval: 1 is even over all words, 0 all weight on one word. "
            f"{_NOT_DRAWN}",
        ),
        Figure(
            "importance_entropy",
            "How sparse does the importance of the inputs become?",
            _curves(cells, partial(_column, key="importance_entropy"), "normalised entropy of input gradients", seed),
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
            "Confirmed if ρ between λ and tau-b has its 95 % interval below 0 for every encoder and data set. Artefact "
            "if this does not hold over the pairs of words that are not tied. The case that speaks most against the "
            "claim is shown.",
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
