"""The part of the calibration that needs data from outside: real texts, a trained model, human rationales.

`python -m tools.calibrate --reviews FILE --model FOLDER --records OUT.json` measures; `--texts OUT.json …` writes the
table of docs/trust.md from what was measured. Nothing is chosen on these texts: they test the thresholds that were
chosen on models with a known rule.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sightline.corpus import read_examples
from sightline.evaluation.calibration import WRONG, Case, Subject, measure
from sightline.model import Model, load
from sightline.verdict import SMALLEST_EFFECT

METHODS = ("attnlrp", "alti", "attcat", "integrated_gradients")
MASKING_ORDERS = 3
"""Random orders with which masking is compared: enough for a mean over many documents."""
LEVELS = {"holds": "holds up", "weak": "weakly supported", "poor": "do not trust"}


@dataclass(frozen=True)
class Texts:
    """What one run measured, and on what."""

    name: str
    documents: int
    correct: int
    """Documents whose label the model predicts."""
    date: str
    cases: list[Case] = field(default_factory=list)


def subjects_of(model: Model, path: str, split: str | None, words: tuple[int, int], count: int) -> list[Subject]:
    """Return `count` documents, drawn at random from those of the split with a number of words in the range."""
    low, high = words
    examples = [e for e in read_examples(path, split=split) if low <= len(str(e.text).split()) <= high]
    order = np.random.default_rng(0).permutation(len(examples))[:count]
    chosen = [examples[place] for place in order]
    texts = [str(example.text) for example in chosen]
    labels = [None if e.label is None else _class_number(model, e.label) for e in chosen]
    return [
        Subject(text, (), texts[number - 1], example.rationale or (), label)
        for number, (text, example, label) in enumerate(zip(texts, chosen, labels, strict=True))
    ]


def _class_number(model: Model, label: int | str) -> int:
    return label if isinstance(label, int) else model.labels.index(label)


def measure_texts(
    path: str,
    folder: str,
    *,
    name: str,
    split: str | None,
    words: tuple[int, int],
    count: int,
    methods: Sequence[str],
    records: Path,
) -> None:
    """Measure `count` documents; `records` is rewritten after every document."""
    model = load(folder)
    subjects = subjects_of(model, path, split, words, count)
    correct = 0
    cases: list[Case] = []
    started = time.process_time()
    for number, subject in enumerate(subjects):
        cases += measure(model, [subject], name=name, methods=methods, masking_orders=MASKING_ORDERS, seed=number)
        correct += model.explain(subject.text, "random").prediction.index == subject.label
        texts = Texts(name, number + 1, correct, datetime.date.today().isoformat(), cases)
        records.write_text(json.dumps(asdict(texts)), encoding="utf-8")
        spent = time.process_time() - started
        print(f"{name}: {number + 1} of {len(subjects)} documents, {spent:.0f} s", file=sys.stderr, flush=True)


def load_texts(path: Path) -> Texts:
    """Return what an earlier run stored."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Texts(**{**record, "cases": [Case(**case) for case in record["cases"]]})


def table(runs: Sequence[Texts]) -> str:
    """Return the results on real texts as Markdown."""
    return "\n".join([*_sizes(runs), "", *_errors(runs), "", *_methods(runs), "", *_levels(runs)])


def _sizes(runs: Sequence[Texts]) -> Iterator[str]:
    for run in runs:
        words = [case.words for case in run.cases]
        yield (
            f"- {run.name} ({run.date}): {run.documents} documents of {min(words):,} to {max(words):,} words, "
            f"{run.correct} of them classified correctly, {len(run.cases):,} checks."
        )


def _errors(runs: Sequence[Texts]) -> Iterator[str]:
    kinds = " | ".join(f"wrong: {kind}" for kind in WRONG)
    yield f"| holds up | {kinds} | all wrong ones | of these *weakly supported* | *do not trust* |"
    yield "|:--|" + "--:|" * (len(WRONG) + 3)
    for run in runs:
        cells = [_share(run.cases, kind) for kind in WRONG]
        wrong = [case for case in run.cases if case.kind in WRONG]
        held = [case.holds(SMALLEST_EFFECT) for case in wrong]
        weak, poor = (sum(case.level == level for case in wrong) for level in ("weak", "poor"))
        yield (
            f"| {run.name} | {' | '.join(cells)} | {sum(held)} of {len(held)} ({np.mean(held):.1%}) | {weak} | {poor} |"
        )


def _share(cases: Sequence[Case], kind: str) -> str:
    held = [case.holds(SMALLEST_EFFECT) for case in cases if case.kind == kind]
    return f"{sum(held)} of {len(held)}" if held else "–"


def _methods(runs: Sequence[Texts]) -> Iterator[str]:
    yield "| texts | method | holds up | effect, deleting | effect, masking | AUPRC − chance | token F1 − chance |"
    yield "|:--|:--|--:|--:|--:|--:|--:|"
    for run in runs:
        kinds = [*dict.fromkeys(c.kind for c in run.cases if c.kind not in WRONG), *WRONG]
        for kind in kinds:
            cases = [case for case in run.cases if case.kind == kind]
            label = f"wrong: {kind}" if kind in WRONG else f"`{kind}`"
            yield f"| {run.name} | {label} | {_share(cases, kind)} | {' | '.join(_means(cases))} |"


def _levels(runs: Sequence[Texts]) -> Iterator[str]:
    yield "| texts | verdict | by methods | effect, deleting | effect, masking | AUPRC − chance | token F1 − chance |"
    yield "|:--|:--|--:|--:|--:|--:|--:|"
    for run in runs:
        for level, name in LEVELS.items():
            cases = [case for case in run.cases if case.level == level and case.kind not in WRONG]
            if cases:
                yield f"| {run.name} | {name} | {len(cases)} | {' | '.join(_means(cases))} |"


def _means(cases: Sequence[Case]) -> list[str]:
    """Return the means of what was measured on these explanations; a dash where nothing was."""
    cells = []
    for name in ("effect", "masked_effect", "auprc", "token_f1"):
        values = [value for case in cases if (value := getattr(case, name)) is not None]
        cells.append(f"{np.mean(values):+.2f}" if values else "–")
    return cells
