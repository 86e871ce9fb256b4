"""The part of the calibration that needs data from outside: real texts, a trained model, human rationales.

`python -m tools.calibrate --data FILE --model FOLDER --records OUT.json` measures; `--texts OUT.json …` writes a table
of docs/trust.md from what was measured. Nothing is chosen on these texts: they test the thresholds that were chosen on
models with a known rule.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sightline.api.model import Model, load
from sightline.corpus import read_examples
from sightline.results.verdict import SMALLEST_EFFECT, find_stake
from tools.calibrate_budgets import count_held, thin
from tools.calibration import BUDGETS, WRONG, Case, Subject, at_budget, measure

METHODS = ("attnlrp", "alti", "attcat", "integrated_gradients")
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
    settings: dict[str, Any] = field(default_factory=dict)
    """Options of the run; it can be continued with the same ones only."""


@dataclass(frozen=True)
class Selection:
    """Which documents of a data set are measured, and how much of them."""

    split: str | None
    words: tuple[int, int]
    """Smallest and largest number of words of the whole document."""
    documents: int
    tokens: int | None = None
    """Longer documents are cut to this many tokens; None measures them whole."""


def subjects_of(model: Model, path: str, selection: Selection) -> list[Subject]:
    """Return documents drawn at random from those with so many words; each is the other document of the next."""
    low, high = selection.words
    examples = [e for e in read_examples(path, split=selection.split) if low <= len(str(e.text).split()) <= high]
    order = np.random.default_rng(0).permutation(len(examples))[: selection.documents]
    chosen = [examples[place] for place in order]
    texts = [cut_text(model, str(example.text), selection.tokens) for example in chosen]
    labels = [None if e.label is None else _class_number(model, e.label) for e in chosen]
    return [
        Subject(text, (), texts[number - 1], example.rationale or (), label)
        for number, (text, example, label) in enumerate(zip(texts, chosen, labels, strict=True))
    ]


def cut_text(model: Model, text: str, tokens: int | None) -> str:
    """Return the longest beginning of a text that ends with a whole word and has at most `tokens` tokens."""
    if tokens is None:
        return text
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    kept = bisect_right(ends, tokens, key=lambda end: len(model.encode(text[:end])))
    return text[: ends[kept - 1]] if kept else ""


def _class_number(model: Model, label: int | str) -> int:
    return label if isinstance(label, int) else model.labels.index(label)


def measure_texts(
    path: str,
    folder: str,
    selection: Selection,
    *,
    name: str,
    methods: Sequence[str],
    masking_orders: int,
    budgets: Sequence[int],
    records: Path,
) -> None:
    """Measure documents; `records` is rewritten after every one, and a run with the same settings continues there.

    What is stored contains the checks with every number of model calls in `budgets` (`at_budget`); without any, the
    check that a user gets, which is much cheaper on long documents.
    """
    settings = {"methods": list(methods), "masking_orders": masking_orders, "budgets": list(budgets)}
    settings |= asdict(selection)
    settings["words"] = list(selection.words)  # as JSON reads it back
    texts = load_texts(records) if records.exists() else Texts(name, 0, 0, "", [], settings)
    if (texts.name, texts.settings) != (name, settings):
        raise SystemExit(f"{records} holds a run of '{texts.name}' with {texts.settings}. Choose another file.")
    model = load(folder)
    started = time.process_time()
    for number, subject in enumerate(subjects_of(model, path, selection)):
        if number < texts.documents:
            continue
        cases = measure(
            model,
            [subject],
            name=name,
            methods=methods,
            masking_orders=masking_orders,
            budgets=budgets,
            seed=number,
        )
        correct = model.explain(subject.text, "random").prediction.index == subject.label
        texts = Texts(
            name,
            number + 1,
            texts.correct + correct,
            datetime.date.today().isoformat(),
            [*texts.cases, *cases],
            settings,
        )
        records.write_text(json.dumps(asdict(texts)), encoding="utf-8")
        spent = time.process_time() - started
        print(f"{name}: {number + 1} of {selection.documents} documents, {spent:.0f} s", file=sys.stderr, flush=True)


def fit_scale(model: Model, path: str, selection: Selection) -> float:
    """Return the factor of the logits that makes the labels of these documents likeliest (temperature scaling).

    C. Guo et al., On calibration of modern neural networks, ICML 2017. For models with two classes.
    """
    margins = []
    for subject in subjects_of(model, path, selection):
        probabilities = np.asarray(model.explain(subject.text, "random").prediction.probabilities, dtype=np.float64)
        true, other = probabilities[subject.label], probabilities[1 - int(subject.label or 0)]
        margins.append(np.log(true) - np.log(other))
    scales = np.geomspace(0.1, 100.0, 301)
    losses = [np.logaddexp(0.0, -scale * np.array(margins)).mean() for scale in scales]
    return float(scales[int(np.argmin(losses))])


def rescale(texts: Texts, scale: float) -> Texts:
    """Return what the same model with its logits multiplied by `scale` would have given, for models with two classes.

    Exact: p becomes σ(scale · logit p) wherever the model was run, and the order of the words does not change.
    """

    def move(values: Any) -> Any:
        moved = np.asarray(values, dtype=np.float64)
        return (1.0 / (1.0 + ((1.0 - moved) / moved) ** scale)).tolist()

    cases = []
    for case in texts.cases:
        assert case.checks is not None
        assert case.curve is not None
        curve = {**case.curve, "probabilities": move(case.curve["probabilities"]), "random": move(case.curve["random"])}
        probability = curve["probabilities"][0]
        checks = {
            **case.checks,
            "stake": find_stake(probability, 1.0 - probability),
            "probability_empty": move(case.checks["probability_empty"]),
        }
        cases.append(replace(case, curve=curve, checks=checks))  # `at_budget` computes the rest
    return replace(texts, name=f"{texts.name}, logits × {scale:.0f}", cases=cases)


def load_texts(path: Path) -> Texts:
    """Return what an earlier run stored."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Texts(**{**record, "cases": [Case(**case) for case in record["cases"]]})


MEASURES = {
    "effect": "effect, deleting",
    "masked_effect": "effect, masking",
    "auprc": "AUPRC − chance",
    "token_f1": "token F1 − chance",
}
"""Columns of the tables, by the field of `Case`; one that nothing was measured for is left out."""


def table(runs: Sequence[Texts]) -> str:
    """Return the results on real texts as Markdown, with the number of model calls that a user's check makes."""
    compared = [run for run in runs if run.settings["budgets"] == list(BUDGETS)]
    budgets = _budgets(compared)
    runs = [replace(run, cases=[at_budget(case) for case in run.cases]) for run in runs]
    measures = [name for name in MEASURES if any(getattr(case, name) is not None for run in runs for case in run.cases)]
    parts = [_sizes(runs), _errors(runs), _methods(runs, measures), _levels(runs, measures)]
    if compared:
        parts.append(budgets)
    return "\n\n".join("\n".join(part) for part in parts)


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


def _methods(runs: Sequence[Texts], measures: Sequence[str]) -> Iterator[str]:
    yield f"| texts | method | holds up | {' | '.join(MEASURES[name] for name in measures)} |"
    yield "|:--|:--|--:|" + "--:|" * len(measures)
    for run in runs:
        kinds = [*dict.fromkeys(c.kind for c in run.cases if c.kind not in WRONG), *WRONG]
        for kind in kinds:
            cases = [case for case in run.cases if case.kind == kind]
            label = f"wrong: {kind}" if kind in WRONG else f"`{kind}`"
            yield f"| {run.name} | {label} | {_share(cases, kind)} | {' | '.join(_means(cases, measures))} |"


def _levels(runs: Sequence[Texts], measures: Sequence[str]) -> Iterator[str]:
    yield f"| texts | verdict | by methods | {' | '.join(MEASURES[name] for name in measures)} |"
    yield "|:--|:--|--:|" + "--:|" * len(measures)
    for run in runs:
        for level, name in LEVELS.items():
            cases = [case for case in run.cases if case.level == level and case.kind not in WRONG]
            if cases:
                yield f"| {run.name} | {name} | {len(cases)} | {' | '.join(_means(cases, measures))} |"


def _budgets(runs: Sequence[Texts]) -> Iterator[str]:
    """Yield how errors, methods that hold up and verdicts depend on the number of model calls."""
    yield f"| texts | calls | wrong ones that hold up | methods that hold up | same verdict as with {BUDGETS[0]} |"
    yield "|:--|--:|--:|--:|--:|"
    for run in runs:
        reference = [case.level for case in thin(run.cases, BUDGETS[0])]
        for budget in BUDGETS:
            cases = thin(run.cases, budget)
            wrong, others = ([c for c in cases if (c.kind in WRONG) == is_wrong] for is_wrong in (True, False))
            same = sum(case.level == level for case, level in zip(cases, reference, strict=True))
            yield (
                f"| {run.name} | {budget} | {count_held(wrong)} | {count_held(others)} | {same} of {len(cases)} "
                f"({same / len(cases):.0%}) |"
            )


def _means(cases: Sequence[Case], measures: Sequence[str]) -> list[str]:
    """Return the means of what was measured on these explanations; a dash where nothing was."""
    cells = []
    for name in measures:
        values = [value for case in cases if (value := getattr(case, name)) is not None]
        cells.append(f"{np.mean(values):+.2f}" if values else "–")
    return cells
