"""Study of sparse attention: does a sparser attention say more about the words that decide?

Classifiers with a single attention (bidirectional LSTM, small Transformer) are trained with projections from dense to
sparse. Tables hold entropies, correlations of attention with the importance of inputs and of representations (ties
counted), the trend with λ, and other weights that give the same output. A model that has not learnt its task, or whose
attention has stayed even over all words, decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from sightline.text import Example
from sightline_studies.accuracy import CAPTION, accuracy_columns
from sightline_studies.data import DataSet
from sightline_studies.generated import planted_sentences
from sightline_studies.sparse_claims import (
    CLAIMS,
    DATA,
    NAMES,
    PRINTED,
    Group,
    column_of,
    groups_of,
    judge_claims,
    of_adversary,
    printed_keys,
    trend_with_lambda,
    why_aside,
)
from sightline_studies.sparse_steps import (
    ATTACKED,
    ATTENTION_RATE,
    ENCODERS,
    LAMBDAS,
    LEARNT,
    MEASURES,
    PROJECTIONS,
    TESTS,
    Cell,
    cut_words,
    learning_rate,
    measure_cell,
)
from sightline_studies.study import (
    Curve,
    Curves,
    Figure,
    HubData,
    Outcome,
    PaperSize,
    Setting,
    Study,
    StudyTable,
    by_size,
)
from sightline_studies.tables import Keys, Printed, printed, published, rows_of, tabulate
from sightline_studies.verdicts import Measured
from sightline_studies.workbench import Workbench

Groups = Mapping[tuple[str, str], Group]


def _tables(cells: Sequence[Cell], seed: int) -> list[StudyTable]:
    groups = groups_of(cells)

    def values(key: str) -> Callable[[Keys], list[float]]:
        def cell(keys: Keys) -> list[float]:
            group = groups.get((keys["data"], keys["encoder"]))
            return [] if group is None else column_of(group[keys["projection"]], key)

        return cell

    def known(
        file: str, value: str, std: str | None = None, names: Sequence[str] = ("projection",), **more: Any
    ) -> Any:
        def cell(keys: Keys) -> Printed:
            wanted = {name: keys[name] for name in names}
            return printed(file, value, std, **printed_keys(keys["data"], keys["encoder"]), **wanted, **more)

        return cell

    def tau(keys: Keys) -> list[float]:
        return values(f"{_KINDS[keys['measure']]}_{'x' if keys['importance_of'] == 'inputs x' else 'h'}")(keys)

    def ties(keys: Keys) -> float:
        kind = f"{_KINDS[keys['measure']]}_{'x' if keys['importance_of'] == 'inputs x' else 'h'}_ties"
        return Measured.of(values(kind)(keys)).value

    def trend(keys: Keys) -> Measured:
        group = groups.get((keys["data"], keys["encoder"]), {})
        columns = [column_of(group[name], "importance_entropy") if group else [] for name in LAMBDAS]
        return trend_with_lambda(columns, seed)

    def other(key: str) -> Callable[[Keys], list[float]]:
        def cell(keys: Keys) -> list[float]:
            group = groups.get((keys["data"], keys["encoder"]))
            test = LEARNT[keys["adversary"]] if "adversary" in keys else keys["test"]
            return of_adversary(group[ATTACKED], test, key) if group else []

        return cell

    both = rows_of(encoder=NAMES, data=DATA)
    grid = rows_of(encoder=NAMES, projection=PRINTED, data=DATA)
    importance = rows_of(importance_of=("inputs x", "representations h"), encoder=NAMES, projection=PRINTED, data=DATA)
    rows = [{**row, "measure": measure} for row in importance for measure in _KINDS]
    names = ("projection", "importance_of", "measure")
    tau_printed = known("sparse_kendall", "kendall_mean", "kendall_std", names)
    return [
        StudyTable(
            "table_1",
            "Table 1: normalised entropy of g_h",
            tabulate(
                grid,
                {
                    "published": known("sparse_entropy", "entropy_of_g_h_mean", "entropy_of_g_h_std"),
                    "measured": values("representation_entropy"),
                },
                std=True,
                seed=seed,
            ),
            "Mean ± standard deviation: 1 if a representation depends on all words alike.",
        ),
        StudyTable(
            "table_2",
            "Table 2: correlation of λ with the entropy of g_y",
            tabulate(
                both,
                {
                    "published": known("sparse_lambda", "correlation_of_lambda_and_entropy_of_g_y", names=()),
                    "measured": trend,
                },
                seed=seed,
            ),
            f"λ of sparsegen: {', '.join(f'{value:g}' for value in LAMBDAS.values())}. Below 0, the importance becomes "
            "sparser as λ rises, which is what the table prints; the text says the opposite.",
        ),
        _accuracy_table(cells),
        StudyTable(
            "table_5",
            "Table 5: other weights with the same output",
            tabulate(
                rows_of(encoder=NAMES, adversary=LEARNT, data=DATA),
                {
                    column: cell
                    for name, key in (("jsd", "jsd"), ("accuracy", "right"), ("accuracy_change", "change"))
                    for column, cell in (
                        (f"{name}_published", known("sparse_adversarial", name, names=("adversary",))),
                        (name, other(key)),
                    )
                },
                seed=seed,
            ),
            f"{ATTACKED}, trained on the training set and measured on the test documents. frozen: a new attention over "
            "the same encoder and decoder. unfrozen: a new model. JSD of the weights, at most 0.69.",
        ),
        StudyTable(
            "table_6",
            "Table 6: Kendall's tau-b between attention and importance",
            tabulate(rows, {"published": tau_printed, "measured": tau, "ties": ties}, std=True, seed=seed),
            "Mean ± standard deviation. ties: share of the pairs of words that are tied.",
        ),
        StudyTable(
            "entropies",
            "How evenly attention and importance are spread",
            tabulate(
                [{"data": cell.data, "encoder": cell.encoder, "projection": cell.projection} for cell in cells],
                {key: values(key) for key in (*_ENTROPIES, "support")}
                | {"set_aside": lambda k: why_aside(groups[k["data"], k["encoder"]][k["projection"]]) or "no"},
                seed=seed,
            ),
            "Normalised entropies: 0 if one word has everything. support: share of the words with a weight above 0.",
            appendix=True,
        ),
        StudyTable(
            "alone",
            "Other weights for each document alone",
            tabulate(
                rows_of(encoder=NAMES, data=DATA, test=TESTS), {key: other(key) for key in ("jsd", "tvd")}, seed=seed
            ),
            f"{ATTACKED}. uniform: the same weight on every word; permuted: the order with the median change; frozen: "
            "searched for the document. TVD: change of the probabilities.",
            appendix=True,
        ),
    ]


_KINDS = {"gradient": "gradient", "leave-one-out": "leave_out"}
_ENTROPIES = ("attention_entropy", "importance_entropy", "leave_out_entropy", "representation_entropy")


def _accuracy_table(cells: Sequence[Cell]) -> StudyTable:
    import pandas as pd

    rows = []
    for cell in cells:
        key = f"accuracy_{cell.encoder}_{DATA[cell.data].lower()}"
        known = published("sparse_facts", "value", name=key)[0] if cell.projection == "softmax" else math.nan
        names = {"data": cell.data, "encoder": cell.encoder, "projection": cell.projection}
        rows.append(names | {"published": known} | accuracy_columns(cell.tested))
    return StudyTable("table_3", "Table 3: accuracy", pd.DataFrame(rows), CAPTION)


def _figures(cells: Sequence[Cell], seed: int) -> list[Figure]:
    titles = {
        "gradient_x": ("Attention and input gradients (Fig. 2)", "tau-b"),
        "leave_out_x": ("Attention and leave-one-out of inputs (Fig. 2)", "tau-b"),
        "gradient_h": ("Attention and gradients of representations (Fig. 3)", "tau-b"),
        "leave_out_h": ("Attention and leave-one-out of representations (Fig. 3)", "tau-b"),
        "importance_entropy": ("How sparse does the importance of inputs become?", "entropy of input gradients"),
        "leave_out_entropy": ("How sparse does leave-one-out become?", "entropy of leave-one-out"),
    }
    assert set(MEASURES) < set(titles)
    figures = []
    for key, (title, vertical) in titles.items():
        curves = [
            Curve.of(
                f"{data}, {encoder}",
                [_counted(group[name], key, seed) for name in PROJECTIONS],
            )
            for (data, encoder), group in groups_of(cells).items()
        ]
        drawing = Curves(PROJECTIONS, curves, "projection, from dense to sparse", vertical)
        figures.append(Figure(key, title, drawing, "Models that are set aside are not drawn."))
    return figures


def _counted(cell: Cell, key: str, seed: int) -> Measured:
    return Measured.of([] if why_aside(cell) else column_of(cell, key), seed)


def _data_sets(bench: Workbench) -> list[DataSet]:
    documents = max(bench.number("documents"), bench.number("tested"))
    training = bench.number("training")
    names = [name for name in DATA if name in bench.sources.paths] or ["sst2"]

    def generate() -> list[Example]:
        return planted_sentences(documents + training, bench.seed + 1)

    sets = [bench.read(name, generate, documents=documents, training=training) for name in names]
    cut = partial(cut_words, tokens=bench.number("tokens"))
    return [
        replace(data, train=[cut(row) for row in data.train], test=[cut(row) for row in data.test]) for data in sets
    ]


def run(bench: Workbench) -> Outcome:
    """Train and measure every combination of data set, encoder and projection."""
    seed, sets = bench.seed, _data_sets(bench)
    grid = product(sets, ENCODERS, PROJECTIONS)
    tasks = {f"{data.name} {kind} {how}": partial(measure_cell, bench, data, kind, how) for data, kind, how in grid}
    cells = list(bench.each(tasks).values())
    given = {data.name for data in sets}
    left_out = [f"{name}: needs --data {name}=FILE." for name in DATA if name not in given]
    return Outcome(
        _tables(cells, seed), _figures(cells, seed), judge_claims(cells, seed), _settings(bench, sets), left_out
    )


def _settings(bench: Workbench, sets: Sequence[DataSet]) -> list[Setting]:
    def printed_rows(split: str) -> str:
        counts = {name: published("sparse_facts", "value", name=f"{name.lower()}_{split}")[0] for name in DATA.values()}
        return ", ".join(f"{name} {count:,.0f}" for name, count in counts.items())

    rows = ", ".join(f"{data.name} {len(data.train):,}" for data in sets)
    return [
        Setting(
            "training rows",
            printed_rows("train"),
            "all rows of the data",
            rows,
            "two cores",
            "20News is not on the hub",
        ),
        Setting(
            "documents measured",
            f"the test sets: {printed_rows('test')}",
            "1,000",
            f"{bench.number('documents'):,}; {bench.number('tested'):,} for the accuracy",
            "two cores",
            "one reading per word",
        ),
        Setting(
            "length of texts",
            "no limit stated",
            "first 256 tokens",
            f"first {bench.number('tokens'):,} tokens",
            "two cores",
            "one reading per word",
        ),
        Setting(
            "LSTM", "bidirectional, width 128, tanh attention", "the same", f"the same, width {bench.number('width')}"
        ),
        Setting(
            "Transformer",
            "2 layers, 1 head, width 128, dot attention",
            "the same",
            f"2 layers, 1 head, width {bench.number('width')}",
        ),
        Setting(
            "optimiser",
            "Adam with amsgrad",
            "AdamW with amsgrad",
            "AdamW with amsgrad",
            "as at size paper",
            "transformers trains with AdamW; the decay is 1e-5 either way",
        ),
        Setting(
            "learning rate",
            "1e-4 LSTM, 1e-5 Transformer; of attention the same or 10 times larger",
            f"the same; of attention {ATTENTION_RATE:g} times larger",
            ", ".join(f"{learning_rate(bench, kind):g} {NAMES[kind]}" for kind in ENCODERS)
            + f"; of attention {ATTENTION_RATE:g} times larger",
            "few rows are read",
            "the paper does not say where it is which",
        ),
        Setting("weight decay", "1e-5, none on attention", "the same", "the same"),
        Setting("batch", "32", "the same", str(bench.number("batch"))),
        Setting("correlation", "Kendall's tau-b", "the same", "the same, with the share of tied pairs"),
        Setting(
            "adversary",
            "frozen and unfrozen, over the training set",
            "the same",
            f"the same, {bench.number('attack_epochs')} passes",
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
    sizes=by_size(
        documents=(6, 40, 1000),
        training=(48, 3000, 25_000),
        tested=(8, 300, 1000),
        readings=(48, 15_000, 1_000_000),
        tokens=(32, 64, 256),
        width=(16, 64, 128),
        attacked=(2, 16, 200),
        attack_steps=(5, 60, 500),
        attack_epochs=(1, 4, 8),
        batch=(16, 16, 32),
    ),
    paper_size=PaperSize(
        data={
            "imdb": HubData("hf://stanfordnlp/imdb"),
            "sst2": HubData("hf://stanfordnlp/sst2", text="sentence", test="validation"),
        },
        models={},
        hours=60,
        gigabytes=1,
        not_on_hub=("20news",),
    ),
    cannot_judge={
        "tiny": "The models learn nothing, so that no claim can be judged.",
        "small": "Models are trained on 3,000 texts or fewer, at other rates than the paper's, and some keep an even "
        "attention: these are set aside.",
    },
    run=run,
)
