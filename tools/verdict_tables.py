"""Measure how often verdicts are right, and write docs/trust-tables.md: `python -m tools.verdict_tables COMMAND …`.

    texts   explanations of a trained model on texts: `texts RESULTS --name NAME --model FOLDER --data FILE.jsonl[.gz]`
    rules   explanations of models with a known rule: `rules RESULTS`
    write   the page from one or more RESULTS

RESULTS is a file with one JSON line per document. A document that stands there is not measured again, so that a command
that was stopped continues where it was. Documents are taken in an order that the seed fixes; constants of the test were
chosen on those with even numbers, so the page reports both halves.

Right explanations are those of methods; wrong ones know nothing of the model, or the contrary of what they should.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import sightline as sl
from sightline.analysis.filters import TokenFilter
from sightline.metrics.check import Deletions, check_words, does_it_matter
from sightline.metrics.statistics import share_interval
from sightline.results.explanation import Explanation
from sightline_studies.rule_model import RULES, clear_documents, rule_model

METHODS = ("attnlrp", "attcat", "alti")
PAGE = Path(__file__).parents[1] / "docs" / "trust-tables.md"
RANDOM_KINDS = ("random order", "random order, content words first")
FILLERS = TokenFilter()
Row = dict[str, Any]


def read_texts(path: Path, low: int, high: int, first_words: int | None, seed: int) -> list[str | tuple[str, str]]:
    """Return the test texts of `low` to `high` words in random order, or pairs, cut after their first words."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if row.get("split", "test") == "test"]
    random.Random(seed).shuffle(rows)
    texts: list[str | tuple[str, str]] = []
    for row in rows:
        if low <= len(row["text"].split()) <= high:
            text = " ".join(row["text"].split()[:first_words]) if first_words else row["text"]
            texts.append((text, row["text_pair"]) if row.get("text_pair") else text)
    return texts


def with_word_scores(explanation: Explanation, deletions: Deletions, scores: np.ndarray) -> Explanation:
    """Return an explanation with these scores (U,) of the words that can be deleted."""
    tokens = np.zeros(len(explanation.encoding))
    tokens[deletions.units.first_tokens] = scores
    return replace(explanation, scores=tokens, check=None, exchange=None)


def wrong_scores(
    own: np.ndarray, deletions: Deletions, fillers: np.ndarray, other: np.ndarray | None, number: int, orders: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the scores (U,) of explanations that are wrong."""
    generator, words = np.random.default_rng(number), len(own)
    for _ in range(orders):
        drawn = generator.permutation(words).astype(float)
        yield RANDOM_KINDS[0], drawn
        yield RANDOM_KINDS[1], drawn - words * fillers
    yield "scores shuffled", generator.permutation(own)
    yield "scores inverted", -own
    yield "most tokens first", deletions.units.sizes - words * fillers + generator.random(words)
    start = int(generator.integers(words))
    yield "neighbours first", -np.abs(np.arange(words) - start) + 0.1 * generator.random(words)
    if other is not None:
        yield "scores of another document", np.resize(other, words)


def measure_document(
    model: sl.Model, text: str | tuple[str, str], number: int, *, orders: int, other: np.ndarray | None
) -> tuple[Row, np.ndarray]:
    """Return what the checks of right and wrong explanations of one document say, and the scores of the first."""
    source, pair = text if isinstance(text, tuple) else (text, None)
    explanations = model.explain(source, methods=list(METHODS), pair=pair)
    first = explanations[METHODS[0]]
    deletions = Deletions(model.network, first.encoding, first.target)
    fillers = np.array([FILLERS.drops(word) for word in deletions.units.texts], dtype=bool)
    row: Row = {"words": len(deletions.units), "right": {}, "wrong": defaultdict(list)}
    for method, explanation in explanations.items():
        (check,) = check_words(deletions, [explanation], fillers)
        named = [word.index for word in check.named]
        row["right"][method] = {"matters": check.matters, "named": named, "calls": check.calls}
    own = deletions.units.fold(first.scores)
    for kind, scores in wrong_scores(own, deletions, fillers, other, number, orders):
        wrong = with_word_scores(first, deletions, scores)
        row["wrong"][kind].append(does_it_matter(deletions, wrong, fillers))
    return row, own


def measure(model: sl.Model, texts: Sequence[Any], results: Path, name: str, orders: int) -> None:
    """Measure the documents that are not in `results` yet, and append a line for each."""
    done = {row["document"] for row in read_results([results]) if row["name"] == name}
    other: np.ndarray | None = None
    for number, text in enumerate(texts):
        if number in done:
            continue
        row, other = measure_document(model, text, number, orders=orders, other=other)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "document": number, **row}) + "\n")


def measure_rules(results: Path, lengths: Sequence[int], documents: int, orders: int) -> None:
    """Measure models with a known rule; a named word is false unless it decides."""
    for rule in RULES:
        for words in lengths:
            name = f"rule “{rule}”, {words:,} words"
            planted = clear_documents(rule, words, documents, np.random.default_rng(words))
            measure(rule_model(rule), [document.text for document in planted], results, name, orders)


def read_results(paths: Sequence[Path]) -> list[Row]:
    """Return all measured documents."""
    lines = [line for path in paths if path.exists() for line in path.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def _share(answers: Sequence[bool]) -> str:
    rate, low, high = share_interval(list(answers))
    return f"{sum(answers)} of {len(answers)} ({rate:.1%}, {low:.1%} to {high:.1%})".replace("%", " %")


def _answers(rows: Sequence[Row]) -> Iterator[tuple[str, list[bool]]]:
    for method in METHODS:
        yield f"`{method}`", [row["right"][method]["matters"] == "yes" for row in rows]
    for kind in rows[-1]["wrong"]:
        yield kind, [answer == "yes" for row in rows for answer in row["wrong"].get(kind, [])]


def _section(name: str, rows: Sequence[Row]) -> list[str]:
    halves: list[Mapping[str, list[bool]]] = [
        dict(_answers([row for row in rows if row["document"] % 2 == half])) if len(rows) > 1 else {} for half in (0, 1)
    ]
    lengths = [row["words"] for row in rows]
    calls = sorted(row["right"][METHODS[0]]["calls"] for row in rows)
    lines = [
        f"## {name[0].upper()}{name[1:]}",
        "",
        f"{len(rows)} documents of {min(lengths):,} to {max(lengths):,} words; `{METHODS[0]}` took "
        f"{calls[len(calls) // 2]} readings at the median.",
        "",
        "| explanation | holds up (95 % interval) | even numbers | odd numbers |",
        "|:--|--:|--:|--:|",
    ]
    for kind, answers in _answers(rows):
        counts = [f"{sum(half[kind])} of {len(half[kind])}" if half.get(kind) else "–" for half in halves]
        lines.append(f"| {kind} | {_share(answers)} | {counts[0]} | {counts[1]} |")
    worst = max(np.mean([answer == "yes" for answer in row["wrong"][kind]]) for row in rows for kind in RANDOM_KINDS)
    return [*lines, "", f"Most random orders of one document that hold up: {worst:.1%}.".replace("%", " %"), ""]


def write_page(paths: Sequence[Path], page: Path) -> None:
    """Write the tables, one section per data set."""
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in read_results(paths):
        by_name[row["name"]].append(row)
    lines = [
        "# How far can the verdict be trusted? The tables",
        "",
        "Written by `python -m tools.verdict_tables write`. [The answer](trust.md) says what the test does. All",
        "explanations but those of methods know nothing of the model, or the contrary of what they should.",
        "",
    ]
    for name in sorted(by_name):
        lines += _section(name, by_name[name])
    page.write_text("\n".join(lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    texts, rules, write = (commands.add_parser(name) for name in ("texts", "rules", "write"))
    for command in (texts, rules):
        command.add_argument("results", type=Path)
        command.add_argument("--documents", type=int, default=40)
        command.add_argument("--orders", type=int, default=5, help="Random orders per document, of two kinds.")
    texts.add_argument("--name", required=True)
    texts.add_argument("--model", required=True)
    texts.add_argument("--data", type=Path, required=True)
    texts.add_argument("--low", type=int, default=8)
    texts.add_argument("--high", type=int, default=10_000)
    texts.add_argument("--first-words", type=int)
    texts.add_argument("--seed", type=int, default=2027)
    rules.add_argument("--words", type=int, nargs="+", default=[60, 120, 700])
    write.add_argument("results", type=Path, nargs="+")
    write.add_argument("--page", type=Path, default=PAGE)
    chosen = parser.parse_args(arguments)
    if chosen.command == "texts":
        found = read_texts(chosen.data, chosen.low, chosen.high, chosen.first_words, chosen.seed)
        measure(sl.load(chosen.model), found[: chosen.documents], chosen.results, chosen.name, chosen.orders)
    elif chosen.command == "rules":
        measure_rules(chosen.results, chosen.words, chosen.documents, chosen.orders)
    else:
        write_page(chosen.results, chosen.page)


if __name__ == "__main__":
    main()
