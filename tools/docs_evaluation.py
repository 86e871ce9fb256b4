"""Measure the built-in model and write the tables of docs/guides/which-explanation.md.

python -m tools.docs_evaluation            measures (some minutes on two cores) and rewrites the tables
python -m tools.docs_evaluation --quick    the same on a few paragraphs, printed and not written: does it run?
python -m tools.docs_evaluation --planted  only the table of planted words (two minutes a model), rewritten

The documents are the first paragraphs (of at least 60 words each) of the three built-in texts about the subjects of the
model: its own held-out corpus is not shipped. Everything is seeded; times depend on the machine.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

import sightline as sl
from sightline import builtin
from sightline.evaluation import (
    DEFAULT_METHODS,
    Evaluation,
    Ranking,
    SanityResult,
    evaluate,
    planted_shortcuts,
    weight_randomisation,
)
from sightline.metrics.statistics import mean_interval
from sightline.text import Example
from sightline.view.words.evaluation import metric_sentences

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "which-explanation.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PLANTED_BEGIN, PLANTED_END = "<!-- planted: begin -->", "<!-- planted: end -->"
METHODS = (*DEFAULT_METHODS, "occlusion", "attnlrp")
METRICS = ("aopc", "log_odds", "comprehensiveness", "sufficiency", "confidence")
SEED = 0
TEXTS = ("learned_compilers", "machine_learning", "programming_languages")
FEWEST_WORDS = 60
PARAGRAPHS = 6
"""Of each text."""
RANDOMISED = 3
"""Paragraphs of each text that the sanity test runs on."""
PLANTED_WORDS = (1, 2)
PLANTED_SEEDS = range(6)
"""A tiny model is trained for each: what a method finds differs more between models than between documents."""
PLANTED_DOCUMENTS = 30
"""For each model."""


def paragraphs(most: int) -> dict[str, list[Example]]:
    """Return the paragraphs of the built-in texts, the first `most` of each, by text."""
    by_text = {}
    for name in TEXTS:
        path = builtin.documents()[name]
        parts = [part.strip() for part in re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))]
        long_enough = [part for part in parts if len(part.split()) >= FEWEST_WORDS][:most]
        by_text[name] = [Example(part, id=f"{name} {number}") for number, part in enumerate(long_enough, start=1)]
    return by_text


def measured(*, quick: bool = False) -> str:
    """Run everything and return the tables."""
    model = sl.load()
    by_text = paragraphs(1 if quick else PARAGRAPHS)
    documents = [example for examples in by_text.values() for example in examples]
    some = [example for examples in by_text.values() for example in examples[:RANDOMISED]]
    methods = METHODS[:3] if quick else METHODS
    evaluation = evaluate(model, documents, methods, METRICS, seed=SEED, progress=_told)
    sanity = weight_randomisation(model, some, methods, seed=SEED, progress=_told)
    return tables(evaluation, sanity, len(some))


def planted(*, quick: bool = False) -> str:
    """Train the models, look for their planted words with every method, and return the table."""
    seeds, documents = (range(1), 5) if quick else (PLANTED_SEEDS, PLANTED_DOCUMENTS)
    frames_by_words = {}
    for words in PLANTED_WORDS:
        frames = []
        for seed in seeds:
            result = planted_shortcuts(None, seed, planted=words, documents=documents, progress=_told)
            if not result.planted.learnt:
                raise SystemExit(f"The model of seed {seed} with {words} planted words has not learnt the task.")
            frames.append(result.to_frame().assign(seed=seed))
        frames_by_words[words] = pd.concat(frames)
    return planted_table(frames_by_words)


def planted_table(frames_by_words: dict[int, pd.DataFrame]) -> str:
    """Return the table of planted words from one frame (document, method, precision, chance, seed) per number of words.

    The interval of a mean is over models (their means, bootstrapped), since documents of one model are not independent.
    """
    columns, chance = {}, {}
    for words, frame in frames_by_words.items():
        by_model = frame.groupby(["method", "seed"])["precision"].mean()
        columns[words] = {
            method: mean_interval(by_model[method], within=(0.0, 1.0)) for method in by_model.index.levels[0]
        }
        chance[words] = frame["chance"].mean()
    few, many = PLANTED_WORDS
    some = frames_by_words[few]
    lines = [
        f"Measured with Sightline {sl.__version__}: {some['seed'].nunique()} tiny models per "
        f"column, {some['document'].nunique()} new documents each, level word, the predicted class, methods with "
        "default options. Brackets hold bootstrap 95 % intervals over the models. *Italics*: no better than chance.",
        "",
        f"| method | one planted word (chance {chance[few]:.0%}) | two that add up (chance {chance[many]:.0%}) |",
        "|:--|--:|--:|",
    ]
    for method in sorted(columns[few], key=lambda name: (-columns[few][name][0], -columns[many][name][0], name)):
        cells = []
        for words in PLANTED_WORDS:
            mean, low, high = columns[words][method]
            text = f"{mean:.0%} [{low:.0%}, {high:.0%}]"
            cells.append(text if low > chance[words] else f"*{text}*")
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables(evaluation: Evaluation, sanity: SanityResult, randomised_on: int) -> str:
    """Return the two tables and what they were measured on, as Markdown."""
    ranking = Ranking(evaluation)
    return "\n\n".join(
        [
            f"Measured with Sightline {sl.__version__} on 2 cores, CPU, seed {SEED}: "
            f"{len(evaluation.documents)} paragraphs of the three built-in texts, level word, the predicted class. "
            "Brackets hold bootstrap 95 % intervals. *Italics*: no better than random orders. "
            f"The measurements requested {evaluation.calls_requested:,} changed paragraphs; "
            f"{evaluation.calls_made:,} of them were different and were read by the model.",
            _faithfulness(ranking),
            "\n".join(
                " ".join(sentences) + "  " for metric in METRICS if (sentences := metric_sentences(ranking, metric)[:2])
            ).strip(),
            f"Sanity test on {randomised_on} of the paragraphs: similarity (Spearman's ρ) of each explanation to the "
            "one made when every weight of the model is random. *By chance* is the same after the scores of the tokens "
            "were shuffled.",
            _sanity(sanity),
        ]
    )


def _faithfulness(ranking: Ranking) -> str:
    rows = {(row.method, row.metric): row for row in ranking.summary.itertuples()}
    order = ranking.of_metric(METRICS[0])["method"]
    better = {name: "↑" if sl.metrics.METRICS.get(name).higher_is_better else "↓" for name in METRICS}
    lines = [
        f"| method | {' | '.join(f'{name} {better[name]}' for name in METRICS)} | seconds |",
        f"|:--|{'--:|' * (len(METRICS) + 1)}",
    ]
    for method in order:
        cells = [_cell(ranking, rows[method, metric]) for metric in METRICS]
        lines.append(f"| `{method}` | {' | '.join(cells)} | {_seconds(rows[method, METRICS[0]].seconds)} |")
    first = rows[order.iloc[0], METRICS[0]]
    floors = [f"{rows[first.method, metric].floor:.3f}" for metric in METRICS[:-1]]
    references = [f"{rows[first.method, metric].reference:.3f}" for metric in METRICS[:-1]]
    lines.append(f"| random orders (floor) | {' | '.join(floors)} | | |")
    lines.append(f"| one word at a time (reference) | {' | '.join(references)} | | |")
    return "\n".join(lines)


def _cell(ranking: Ranking, row: Any) -> str:
    text = f"{row.mean:.3f} [{row.low:.3f}, {row.high:.3f}]"
    return f"*{text}*" if ranking.better_than_floor(row.method, row.metric) is False else text


def _seconds(value: float) -> str:
    return f"{value:.2g}" if value >= 0.001 else "< 0.001"


def _sanity(sanity: SanityResult) -> str:
    last = sanity.summary().set_index(["method", "stage"])
    lines = ["| method | all weights random | by chance | verdict |", "|:--|--:|--:|:--|"]
    words = {
        "unchanged": "does not depend on the model",
        "partly": "depends on the model in part",
        "changed": "depends on the model",
        "not shown": "not shown to depend on the model",
        "unknown": "unknown",
    }
    for method, verdict in sanity.verdicts().items():
        row = last.loc[(method, sanity.stages[-1])]
        similarity = f"{row['similarity']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
        chance = f"{row['chance_low']:.2f} to {row['chance_high']:.2f}"
        lines.append(f"| `{method}` | {similarity} | {chance} | {words[verdict]} |")
    return "\n".join(lines)


def write(text: str, begin: str, end: str) -> None:
    """Put `text` between two marks of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def _told(stage: str, done: int, total: int) -> None:
    print(f"\r{stage} {done}/{total}".ljust(79), end="", file=sys.stderr)


if __name__ == "__main__":
    if "--quick" in sys.argv:
        print(measured(quick=True), planted(quick=True), sep="\n\n")
    else:
        if "--planted" not in sys.argv:
            write(measured(), BEGIN, END)
        write(planted(), PLANTED_BEGIN, PLANTED_END)
