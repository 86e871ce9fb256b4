"""Measure the built-in model and write the tables of docs/guides/which-explanation.md.

python -m tools.docs_evaluation            measures (some minutes on two cores) and rewrites the tables
python -m tools.docs_evaluation --quick    the same on a few paragraphs, printed and not written: does it run?

The documents are the first paragraphs of the three built-in texts (of at least 60 words each): the model's own held-out
corpus is not shipped. Everything is seeded; times depend on the machine.
"""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

import sightline as sl
from sightline import builtin
from sightline.evaluation import (
    DEFAULT_METHODS,
    Evaluation,
    PlantedResult,
    Reading,
    SanityResult,
    evaluate,
    planted_shortcuts,
    weight_randomisation,
)
from sightline.text import Example

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "which-explanation.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
METHODS = (*DEFAULT_METHODS, "occlusion", "attnlrp")
METRICS = ("aopc", "log_odds", "comprehensiveness", "sufficiency", "confidence")
SEED = 0
FEWEST_WORDS = 60
PARAGRAPHS = 6
"""Of each text."""
RANDOMISED = 3
"""Paragraphs of each text that the sanity test runs on."""


def paragraphs(most: int) -> dict[str, list[Example]]:
    """Return the paragraphs of the built-in texts, the first `most` of each, by text."""
    found = {}
    for name, path in builtin.documents().items():
        parts = [part.strip() for part in re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))]
        long_enough = [part for part in parts if len(part.split()) >= FEWEST_WORDS][:most]
        found[name] = [Example(part, id=f"{name} {number}") for number, part in enumerate(long_enough, start=1)]
    return found


def measured(*, quick: bool = False) -> str:
    """Run everything and return the tables."""
    model = sl.load()
    by_text = paragraphs(1 if quick else PARAGRAPHS)
    documents = [example for examples in by_text.values() for example in examples]
    some = [example for examples in by_text.values() for example in examples[:RANDOMISED]]
    methods = METHODS[:3] if quick else METHODS
    evaluation = evaluate(model, documents, methods, METRICS, seed=SEED, progress=_told)
    sanity = weight_randomisation(model, some, methods, seed=SEED, progress=_told)
    planted = {
        number: planted_shortcuts(methods, SEED, planted=number, documents=5 if quick else 60, progress=_told)
        for number in (1, 2)
    }
    return tables(evaluation, sanity, planted, len(some))


def tables(evaluation: Evaluation, sanity: SanityResult, planted: dict[int, PlantedResult], randomised_on: int) -> str:
    """Return the two tables and what they were measured on, as Markdown."""
    reading = Reading(evaluation)
    return "\n\n".join(
        [
            f"Measured {date.today().isoformat()} on 2 cores, CPU, seed {SEED}, Sightline {sl.__version__}: "
            f"{len(evaluation.documents)} paragraphs of the three built-in texts, level word, the predicted class. "
            "Brackets hold bootstrap 95 % intervals. *Italics*: no better than random orders. "
            f"The model read {evaluation.calls_made:,} changed paragraphs for {evaluation.calls_requested:,} that the "
            "measurements asked for.",
            _faithfulness(reading),
            "\n".join(
                " ".join(sentences) + "  " for metric in METRICS if (sentences := reading.metric_sentences(metric)[:2])
            ).strip(),
            "Sanity: similarity to the original explanation (Spearman's ρ) when every weight is random, on "
            f"{randomised_on} of the paragraphs; and the share of words known to decide that are ranked first, in a "
            "tiny model trained on texts with one deciding word, or with two of which either would do. *Italics*: no "
            "better than chance.",
            _sanity(sanity, planted),
        ]
    )


def _faithfulness(reading: Reading) -> str:
    rows = {(row.method, row.metric): row for row in reading.summary.itertuples()}
    order = reading.of_metric(METRICS[0])["method"]
    better = {name: "↑" if sl.metrics.METRICS.get(name).higher_is_better else "↓" for name in METRICS}
    lines = [
        f"| method | {' | '.join(f'{name} {better[name]}' for name in METRICS)} | seconds |",
        f"|:--|{'--:|' * (len(METRICS) + 1)}",
    ]
    for method in order:
        cells = [_cell(reading, rows[method, metric]) for metric in METRICS]
        lines.append(f"| `{method}` | {' | '.join(cells)} | {_seconds(rows[method, METRICS[0]].seconds)} |")
    first = rows[order.iloc[0], METRICS[0]]
    floors = [f"{rows[first.method, metric].floor:.3f}" for metric in METRICS[:-1]]
    ceilings = [f"{rows[first.method, metric].ceiling:.3f}" for metric in METRICS[:-1]]
    lines.append(f"| random orders (floor) | {' | '.join(floors)} | | |")
    lines.append(f"| one word at a time (ceiling) | {' | '.join(ceilings)} | | |")
    return "\n".join(lines)


def _cell(reading: Reading, row: Any) -> str:
    text = f"{row.mean:.3f} [{row.low:.3f}, {row.high:.3f}]"
    return f"*{text}*" if reading.better_than_floor(row.method, row.metric) is False else text


def _seconds(value: float) -> str:
    return f"{value:.2g}" if value >= 0.001 else "< 0.001"


def _sanity(sanity: SanityResult, planted: dict[int, PlantedResult]) -> str:
    last = sanity.summary().set_index(["method", "stage"])
    found = {number: result.summary().set_index("method") for number, result in planted.items()}
    chance = {number: frame["chance"].iloc[0] for number, frame in found.items()}
    lines = [
        f"| method | all weights random | verdict | one planted word (chance {chance[1]:.0%}) "
        f"| two planted words (chance {chance[2]:.0%}) |",
        "|:--|--:|:--|--:|--:|",
    ]
    words = {
        "unchanged": "does not depend on the model",
        "partly": "depends on it in part",
        "changed": "depends on it",
        "unknown": "unknown",
    }
    for method, verdict in sanity.verdicts().items():
        row = last.loc[(method, sanity.stages[-1])]
        cells = [f"{row['similarity']:.2f} [{row['low']:.2f}, {row['high']:.2f}]", words[verdict]]
        for frame in found.values():
            one = frame.loc[method]
            text = f"{one['precision']:.0%} [{one['low']:.0%}, {one['high']:.0%}]"
            cells.append(text if one["better_than_chance"] else f"*{text}*")
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _told(stage: str, done: int, total: int) -> None:
    print(f"\r{stage} {done}/{total}".ljust(79), end="", file=sys.stderr)


if __name__ == "__main__":
    if "--quick" in sys.argv:
        print(measured(quick=True))
    else:
        found = measured()
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{found}\n\n{END}{after}", encoding="utf-8")
