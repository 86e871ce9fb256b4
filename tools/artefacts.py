"""Measure the tests behind a verdict on known ground: `python -m tools.artefacts` writes two tables of docs/trust.md.

Exchange: how many of the tested words are flagged as artefacts, for models with a known rule that do not react to
positions (every flag is wrong) and for the same models with a seam (a flag is right at a multiple of the seam).
Separation: on how many documents of the built-in model the area of a method exceeds that of its shuffled scores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sightline import builtin
from sightline.api.model import Model, load
from sightline.evaluation.rule_model import RULES, clear_documents, rule_model
from sightline.metrics.check import faithfulness_checks
from sightline.results.verdict import TIE
from sightline.text.units import units_of

PAGE = Path(__file__).parents[1] / "docs" / "trust.md"
METHODS = ("attnlrp", "alti", "attcat", "gradient", "rollout")
SEPARATED = ("attnlrp", "alti", "attcat", "gradient", "rollout", "random")
ON_DOCUMENTS = ("attnlrp", "attcat")
"""Methods that are also measured on whole documents."""
SEAM = 128
LENGTHS = {300: 4, 1500: 1}
"""Documents per rule model, by number of words."""
SEEDS = (10, 11)
SHUFFLES = 5
PARAGRAPH_WORDS = 60


@dataclass(frozen=True)
class Flags:
    """Words of one document that were tested, and how many of them were flagged."""

    method: str
    tested: int
    deciding: int
    """Deciding words that were flagged."""
    at_seam: int
    elsewhere: int
    """Flagged words that are neither at the seam nor deciding."""


def count_flags(model: Model, seed: int, rule_number: int, seam: int | None) -> Iterator[Flags]:
    """Yield the flags of every method on the documents of one rule model."""
    generator = np.random.default_rng([seed, rule_number])
    for words, count in LENGTHS.items():
        for document in clear_documents(RULES[rule_number], words, count, generator):
            explanations = model.explain(document.text, methods=METHODS)
            for method, explanation in explanations.items():
                exchange = model.check(explanation, budget=12).exchange
                assert exchange is not None
                flagged = {artefact.tokens[0] for artefact in exchange.artefacts}
                # One token per word, behind [CLS].
                deciding = flagged & {place + 1 for place in document.deciding}
                at_seam = {position for position in flagged - deciding if seam and position % seam == 0}
                others = flagged - deciding - at_seam
                yield Flags(method, exchange.tested, len(deciding), len(at_seam), len(others))


def exchange_table() -> list[str]:
    """Return the flags on models without and with a seam as a Markdown table."""
    results: dict[bool, list[Flags]] = {False: [], True: []}
    for seed in SEEDS:
        for number, rule in enumerate(RULES):
            for has_seam in results:
                seam = SEAM if has_seam else None
                results[has_seam] += count_flags(rule_model(rule, seed, seam=seam), seed, number, seam)
                print(f"exchange: {rule}, seed {seed}, seam {seam}", file=sys.stderr, flush=True)
    lines = [
        "| method | no seam: wrongly flagged | deciding words flagged | seam: flagged there | seam: elsewhere |",
        "|:--|--:|--:|--:|--:|",
    ]
    for method in METHODS:
        plain, seamed = ([flags for flags in results[kind] if flags.method == method] for kind in (False, True))
        tested = sum(flags.tested for flags in plain)
        wrong = sum(flags.deciding + flags.at_seam + flags.elsewhere for flags in plain)
        deciding = sum(flags.deciding for flags in plain + seamed)
        at_seam, elsewhere = (sum(getattr(flags, name) for flags in seamed) for name in ("at_seam", "elsewhere"))
        lines.append(
            f"| `{method}` | {wrong} of {tested} ({wrong / tested:.1%}) | {deciding} | {at_seam} | {elsewhere} |"
        )
    return lines


def separation_table() -> list[str]:
    """Return on how many documents a method's area exceeds that of its shuffled scores, as a Markdown table."""
    model = load()
    texts = [path.read_text(encoding="utf-8") for path in builtin.documents().values()]
    units = [unit for text in texts for unit in units_of(model.encode(text), "paragraph")]
    paragraphs = [unit.text for unit in units if len(unit.text.split()) >= PARAGRAPH_WORDS]
    cells: dict[str, list[str]] = {method: [] for method in SEPARATED}
    for name, documents, methods in (("paragraphs", paragraphs, SEPARATED), ("documents", texts, ON_DOCUMENTS)):
        wins: dict[str, list[bool]] = {method: [] for method in methods}
        for number, text in enumerate(documents):
            generator = np.random.default_rng([7, number])
            explanations = model.explain(model.encode(text), methods=methods)
            for method, explanation in explanations.items():
                content = np.flatnonzero(~explanation.encoding.special)
                candidates = [explanation]
                for _ in range(SHUFFLES if name == "paragraphs" else 2):
                    scores = explanation.scores.copy()
                    scores[content] = scores[generator.permutation(content)]
                    candidates.append(replace(explanation, scores=scores, layers=None, layer_kind=None))
                checked = faithfulness_checks(model.network, candidates, orderings=1, seed=number)
                original, *shuffled = (float(result.checks["faithfulness"]) for result in checked)
                tie = TIE * float(checked[0].checks["stake"])
                wins[method] += [original > other + tie for other in shuffled]
        print(f"separation: {name}", file=sys.stderr, flush=True)
        for method in SEPARATED:
            won = wins.get(method)
            cells[method].append(f"{sum(won)} of {len(won)} ({np.mean(won):.0%})" if won else "–")
    lines = [
        f"| method | {len(paragraphs)} paragraphs, {SHUFFLES} shuffles each | {len(texts)} documents, 2 each |",
        "|:--|--:|--:|",
    ]
    return lines + [f"| `{method}` | {' | '.join(row)} |" for method, row in cells.items()]


def write(name: str, lines: Sequence[str]) -> None:
    """Put a table between the marks of the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    table = "\n".join(lines)
    PAGE.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Measure what the arguments name (exchange, separation), by default both."""
    tables = {"exchange": exchange_table, "separation": separation_table}
    for name in sys.argv[1:] or tables:
        write(name, tables[name]())


if __name__ == "__main__":
    main()
