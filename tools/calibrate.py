"""Calibrate the verdict: `python -m tools.calibrate` measures, chooses thresholds and writes docs/trust.md.

With `--quick` few documents are measured and nothing is written. The thresholds in `sightline/verdict.py` are set by
hand to what is chosen here. `--data FILE --model FOLDER` measures real texts on a trained model instead, which the
repository does not contain (`tools.calibrate_texts`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from sightline import builtin
from sightline.api.model import load
from sightline.evaluation.rule_model import RULES, Rule, clear_documents, rule_document, rule_model
from sightline.results.verdict import LARGEST_CHANCE, SMALLEST_EFFECT
from sightline.text.units import units_of
from tools import calibrate_budgets, calibrate_texts
from tools.calibration import (
    BUDGETS,
    RIGHT,
    WRONG,
    Case,
    Subject,
    at_budget,
    choose_threshold,
    measure,
)

PAGE = Path(__file__).parents[1] / "docs" / "trust.md"
METHODS = ("attnlrp", "alti", "attcat", "rollout", "gradient", "random")
LENGTHS = {250: 5, 1000: 2, 2500: 1}
"""Documents per rule model, by number of words."""
SHORT = {250: 8}
"""The same for further models, on which only right and wrong explanations are checked."""
SEEDS = {"choose": (0, 20, 21, 22), "report": (30, 31, 32, 33)}
"""Seeds of the models whose documents choose the thresholds, and of those that report the error; the first of each half
has documents of all lengths and measures the methods."""
LONG = {1000: 6, 2500: 6}
"""Documents per further rule model, for the number of model calls on long documents. The threshold is not chosen on
them."""
LONG_SEEDS = {"choose": (23,), "report": (34,)}
PARAGRAPH_WORDS = 60
DEFAULT_CLASS, LONG_MODEL = "default class", "long rule"
"""Names of the cases that are reported apart."""


def rule_cases(
    rule: Rule, seed: int, lengths: dict[int, int], methods: Sequence[str] = METHODS, *, name: str = "rule"
) -> Iterator[Case]:
    """Yield the cases of one model with a known rule; without methods only those known to be right or wrong."""
    model = rule_model(rule, seed)
    generator = np.random.default_rng([seed, RULES.index(rule)])
    for words, count in lengths.items():
        documents = clear_documents(rule, words, count, generator)
        others = clear_documents(rule, words, count, generator)
        subjects = [
            Subject(document.text, document.deciding, other.text)
            for document, other in zip(documents, others, strict=True)
        ]
        yield from measure(model, subjects, name=f"{name}: {rule}", methods=methods, budgets=BUDGETS, seed=seed)
    if not methods:
        return
    default = rule_document(rule, min(lengths), generator, first=0)
    subjects = [Subject(default.text, (), default.text)]
    yield from measure(model, subjects, name=DEFAULT_CLASS, methods=["attnlrp"], budgets=BUDGETS, seed=seed)


def builtin_cases(half: int, limit: int) -> Iterator[Case]:
    """Yield the cases of the built-in model: paragraphs of real text, whose deciding words are not known."""
    model = load()
    texts = [path.read_text(encoding="utf-8") for path in builtin.documents().values()]
    units = [unit for text in texts for unit in units_of(model.encode(text), "paragraph")]
    paragraphs = [unit.text for unit in units if len(unit.text.split()) >= PARAGRAPH_WORDS]
    chosen = paragraphs[half::2][:limit]
    subjects = [Subject(text, (), chosen[number - 1]) for number, text in enumerate(chosen)]
    yield from measure(model, subjects, name="built-in model, real text", methods=METHODS, budgets=BUDGETS, seed=half)


def collect(half: str, *, quick: bool = False, records: Path | None = None) -> list[Case]:
    """Return all cases of one half; `records` is rewritten after every model."""
    number = list(SEEDS).index(half)
    stages: list[Iterator[Case]] = [builtin_cases(number, 2 if quick else 12)]
    first, *further = SEEDS[half]
    stages += [rule_cases(rule, first, {100: 1, 200: 1} if quick else LENGTHS) for rule in RULES]
    if not quick:
        stages += [rule_cases(rule, seed, SHORT, ()) for seed in further for rule in RULES]
        stages += [rule_cases(rule, seed, LONG, (), name=LONG_MODEL) for seed in LONG_SEEDS[half] for rule in RULES]
    cases: list[Case] = []
    started = time.perf_counter()
    for stage in stages:
        cases += stage
        print(f"{half}: {len(cases)} checks, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        if records is not None:
            records.write_text(json.dumps([asdict(case) for case in cases]), encoding="utf-8")
    return cases


def choose_cases(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that thresholds rest on, with the number of model calls that a user's check makes."""
    return [at_budget(case) for case in cases if case.model != DEFAULT_CLASS and not case.model.startswith(LONG_MODEL)]


def tables(choosing: Sequence[Case], reporting: Sequence[Case], effect: float) -> str:
    """Return what was chosen and measured as Markdown."""
    measured = choose_cases(reporting)
    wrong = [case for case in measured if case.kind in WRONG]
    errors = [case.holds(effect) for case in wrong]
    lines = [
        f"Chosen on {len(choose_cases(choosing)):,} checks, reported on {len(measured):,} checks of other models and "
        f"documents: `SMALLEST_EFFECT` = {effect:g} stakes, `LARGEST_CHANCE` = {LARGEST_CHANCE:g}. "
        f"Of {len(errors)} wrong explanations {sum(errors)} hold up ({np.mean(errors):.1%}).",
        "",
        "| | right: the deciding words | " + " | ".join(f"wrong: {kind}" for kind in WRONG) + " |",
        "|:--|" + "--:|" * (len(WRONG) + 1),
    ]
    rows = {"all": measured}
    rows |= {
        f"model: {name}": [c for c in measured if c.model == name] for name in dict.fromkeys(c.model for c in measured)
    }
    for low, high in ((100, 500), (500, 1500), (1500, 10_000)):
        rows[f"{low:,} to {high:,} words"] = [case for case in measured if low <= case.words < high]
    further = [at_budget(case) for case in reporting if case.model.startswith(LONG_MODEL)]
    for words in LONG:
        rows[f"further documents: {words:,} words"] = [case for case in further if case.words == words]
    for name, cases in rows.items():
        cells = [_cell(cases, kind, effect) for kind in (RIGHT, *WRONG)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    everything = [*measured, *further]
    lines += ["", *_level_table(everything), "", _reasons(everything), "", *_method_table(measured, effect)]
    default = [at_budget(c) for c in reporting if c.model == DEFAULT_CLASS and c.kind == "attnlrp"]
    named = sum(case.reason == "nothing_decides" for case in default)
    poor = sum(case.level == "poor" for case in default)
    lines += [
        "",
        f"Of {len(default)} documents of the rule models without any word of list A (the default class), {named} are "
        f"said to have nothing in the text that decides and {poor} are called *do not trust* (`attnlrp`).",
    ]
    return "\n".join(lines)


def budget_tables(choosing: Sequence[Case], reporting: Sequence[Case]) -> str:
    """Return error and power by number of model calls as Markdown, for all documents and for long ones."""
    lines = []
    for title, shortest in (("All documents", 0), ("Documents of 1,000 and 2,500 words", min(LONG))):
        halves = [
            [case for case in half if case.model != DEFAULT_CLASS and case.words >= shortest]
            for half in (choosing, reporting)
        ]
        lines += [f"{title}:", "", *calibrate_budgets.table(*halves), ""]
    return "\n".join(lines[:-1])


def _cell(cases: Sequence[Case], kind: str, effect: float) -> str:
    held = [case.holds(effect) for case in cases if case.kind == kind]
    return f"{sum(held)} of {len(held)}" if held else "–"


def _level_table(cases: Sequence[Case]) -> list[str]:
    """Return how many wrong and right explanations get each verdict, by group of models."""
    groups = {"rule": "rule models", LONG_MODEL: "further documents", "built-in model, real text": "built-in model"}
    lines = [
        "| models | wrong: *holds up* | *weakly supported* | *do not trust* | right: *holds up* | *weakly supported* "
        "| *do not trust* |",
        "|:--|" + "--:|" * 6,
    ]
    for group, title in groups.items():
        members = [case for case in cases if case.model.partition(":")[0] == group]
        halves = [[c for c in members if c.kind in WRONG], [c for c in members if c.kind == RIGHT]]
        cells = [
            f"{sum(case.level == level for case in half)} of {len(half)}" if half else "–"
            for half in halves
            for level in ("holds", "weak", "poor")
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def _reasons(cases: Sequence[Case]) -> str:
    """Return why wrong explanations are called weakly supported."""
    wrong = [case for case in cases if case.kind in WRONG]
    chance, small, nothing = (
        sum(case.level == "weak" and case.reason == reason for case in wrong)
        for reason in ("chance_not_excluded", "small_effect", "nothing_decides")
    )
    return (
        f"Of these {len(wrong)} wrong explanations {chance} ({chance / len(wrong):.0%}) are *weakly supported* because "
        f"they beat some but too few random orders, {small} ({small / len(wrong):.0%}) because they beat nearly all of "
        f"them but with a small effect, and {nothing} ({nothing / len(wrong):.0%}) because nothing in the text decides."
    )


def _method_table(cases: Sequence[Case], effect: float) -> list[str]:
    """Return one row per method: precision on documents with a known truth, special share, effect, share that holds."""
    lines = [
        "| method | precision@k: mean (worst rule) | on special tokens | effect in stakes | holds up, rule models | "
        "holds up, built-in model |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    for method in METHODS:
        rules = [case for case in cases if case.kind == method and case.precision is not None]
        real = [case for case in cases if case.kind == method and case.model.startswith("built-in")]
        names = dict.fromkeys(case.model for case in rules)
        by_model = [np.mean([case.precision for case in rules if case.model == name]) for name in names]
        lines.append(
            f"| `{method}` | {np.mean([case.precision for case in rules]):.2f} ({min(by_model):.2f}) | "
            f"{np.mean([case.special_share for case in rules]):.0%} | {np.mean([case.effect for case in rules]):.2f} | "
            f"{_cell(rules, method, effect)} | {_cell(real, method, effect)} |"
        )
    return lines


def write(text: str, name: str) -> None:
    """Put the tables between the marks of the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def load_records(path: Path) -> list[Case]:
    """Return the cases of one half that an earlier run stored."""
    return [Case(**record) for record in json.loads(path.read_text(encoding="utf-8"))]


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few documents; write nothing")
    parser.add_argument("--records", type=Path, help="file for what is measured")
    parser.add_argument("--half", choices=list(SEEDS), help="measure one half, into --records")
    parser.add_argument("--from", dest="stored", nargs=2, type=Path, metavar="FILE", help="write from stored halves")
    texts = parser.add_argument_group("real texts")
    texts.add_argument("--data", metavar="FILE", help="data set; human rationales in it are compared")
    texts.add_argument("--model", metavar="FOLDER", help="a model trained on such texts")
    texts.add_argument("--name", default="film reviews", help="name of texts and model in the table")
    texts.add_argument("--split", help="split of the data set, for example test")
    texts.add_argument("--words", nargs=2, type=int, default=(300, 600), help="shortest and longest document")
    texts.add_argument("--tokens", type=int, metavar="N", help="cut longer documents to N tokens")
    texts.add_argument("--documents", type=int, default=40, help="number of documents")
    texts.add_argument("--masking-orders", type=int, default=3, help="random orders to mask; 0 leaves masking out")
    texts.add_argument(
        "--calls", nargs="*", type=int, default=BUDGETS, help="model calls to compare; none: only the default check"
    )
    texts.add_argument("--methods", nargs="+", default=calibrate_texts.METHODS)
    texts.add_argument("--texts", nargs="+", type=Path, metavar="FILE", help="write a table from stored texts")
    texts.add_argument("--fit-scale", action="store_true", help="print the factor of the logits that fits --data best")
    texts.add_argument("--scale", type=float, metavar="F", help="add to --texts what logits times F would give")
    texts.add_argument("--block", default="texts", help="where in docs/trust.md --texts writes its table")
    options = parser.parse_args()
    if (options.half or (options.data and not options.fit_scale)) and not options.records:
        parser.error("--records says where to store what is measured")
    if options.data and (not options.model or options.documents < 2):
        parser.error("--data needs --model and at least two --documents")
    return options


def main() -> None:
    """Measure what the options name: a half, both halves and the page, or real texts."""
    options = arguments()
    selection = calibrate_texts.Selection(options.split, tuple(options.words), options.documents, options.tokens)
    if options.fit_scale:
        print(calibrate_texts.fit_scale(load(options.model), options.data, selection))
        return
    if options.data:
        calibrate_texts.measure_texts(
            options.data,
            options.model,
            selection,
            name=options.name,
            methods=options.methods,
            masking_orders=options.masking_orders,
            budgets=options.calls,
            records=options.records,
        )
        return
    if options.texts:
        runs = [calibrate_texts.load_texts(path) for path in options.texts]
        if options.scale:
            runs += [calibrate_texts.rescale(run, options.scale) for run in runs]
        text = calibrate_texts.table(runs)
        print(text)
        if not options.quick:
            write(text, options.block)
        return
    if options.half:
        collect(options.half, quick=options.quick, records=options.records)
        return
    if options.stored:
        choosing, reporting = (load_records(path) for path in options.stored)
    else:
        choosing, reporting = (collect(half, quick=options.quick) for half in SEEDS)
    effect = choose_threshold(choose_cases(choosing))
    blocks = {"calibration": tables(choosing, reporting, effect), "budgets": budget_tables(choosing, reporting)}
    print("\n\n".join(blocks.values()))
    if effect != SMALLEST_EFFECT:
        print(f"Set SMALLEST_EFFECT = {effect} in sightline/verdict.py.", file=sys.stderr)
    if not options.quick:
        for name, text in blocks.items():
            write(text, name)


if __name__ == "__main__":
    main()
