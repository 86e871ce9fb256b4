"""Check what summaries say with plain transformers: `python -m tools.truth --model FOLDER --data FILE.jsonl[.gz]`.

Sightline explains and checks documents; what its summaries say is then read back from the sentence, and every clause is
tried on the model as anybody would try it: the tokenizer and the model of transformers, and a text from which the words
are cut out. Nothing of Sightline takes part in that. The clauses that can be tried:

    label, probability   what the model says about the text, and how sure it is
    named words          the quoted words are among those that were deleted
    changed label        what it says without the words, and how sure it is
    lower probability    the probability without the words
    random words         that no set of as many random words does the same (five sets of our own)
    empty text           that a text without words gets the same label
    opposing word        that the probability rises without it

Texts that the model cannot read whole are cut where it stops. The last lines are the clauses that are not true.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import sightline as sl
from sightline.view.words.headline import headline
from tools.verdict_tables import read_texts

RANDOM_SETS = 5
SAYS = re.compile(r"^The model says “(?P<label>.+?)” \((?P<sure>[^)]*?%)[,)]")
WOULD_SAY = re.compile(r"it would say “(?P<label>.+?)” \((?P<sure>[^)]*?%)\)")
WOULD_BE = re.compile(r"the probability(?: of “(?P<label>.+?)”)? would be (?P<sure>[<>]? ?[\d.]+ %)")
OPPOSES = re.compile(r"; “(?P<word>.+?)” speaks more strongly against it")
Span = tuple[int, int]


@dataclass(frozen=True)
class Clause:
    """A part of a summary, and whether the model agrees."""

    name: str
    is_true: bool
    detail: str


class PlainModel:
    """A classifier of transformers that reads texts."""

    def __init__(self, folder: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.module = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
        limit = self.module.config.max_position_embeddings
        self.limit = min(limit - limit % 2, self.tokenizer.model_max_length)
        self.labels = self.module.config.id2label

    def cut(self, text: str) -> str:
        """Return as much of the text as the model reads."""
        offsets = self.tokenizer(
            text, truncation=True, max_length=self.limit, return_offsets_mapping=True
        ).offset_mapping
        return text[: max(end for _, end in offsets)]

    def probabilities(self, text: str) -> dict[str, float]:
        """Return the probability of every label."""
        inputs = self.tokenizer(text, truncation=True, max_length=self.limit, return_tensors="pt")
        with torch.no_grad():
            shares = self.module(**inputs).logits[0].double().softmax(-1)
        return {self.labels[index]: float(share) for index, share in enumerate(shares)}


def without(text: str, spans: Sequence[Span]) -> str:
    """Return a text without some of its characters."""
    kept, last = [], 0
    for start, end in sorted(spans):
        kept.append(text[last:start])
        last = end
    return "".join((*kept, text[last:]))


def agrees(printed: str, probability: float) -> bool:
    """Say whether a probability, allowing for half a unit of the last digit, is the percentage that was printed."""
    number = float(re.sub(r"[^\d.]", "", printed))
    if printed.startswith("<"):
        return 100 * probability < number + 0.05
    if printed.startswith(">"):
        return 100 * probability > number - 0.05
    digits = len(printed.partition(".")[2].rstrip(" %"))
    return abs(100 * probability - number) <= 0.51 * 10**-digits + 0.05


def try_summary(
    summary: str, text: str, words: Sequence[Span], tested: Sequence[Span], opponent: Span | None, model: Any
) -> Iterator[Clause]:
    """Yield the clauses of a summary.

    words: all words of the text; tested: those that the summary says were deleted; model: a `PlainModel`.
    """
    whole = model.probabilities(text)
    said = max(whole, key=lambda label: whole[label])
    start = SAYS.match(summary)
    if start is None:
        yield Clause("label", False, summary)
        return
    yield Clause("label", start["label"] == said, said)
    yield Clause("probability", agrees(start["sure"], whole[said]), f"{whole[said]:.4f}")
    if opponent is not None and OPPOSES.search(summary):
        risen = model.probabilities(without(text, [opponent]))[said]
        yield Clause("opposing word", risen > whole[said], f"{whole[said]:.4f} to {risen:.4f}")
    if "an empty text gets the same answer" in summary:
        bare = model.probabilities(without(text, words))
        yield Clause("empty text", max(bare, key=lambda label: bare[label]) == said, str(bare))
    if not tested:
        return
    rest = model.probabilities(without(text, tested))
    now = max(rest, key=lambda label: rest[label])
    reasons = summary.partition("because of ")[2].partition(". Without")[0].partition(";")[0]
    quoted = re.findall(r"“(.+?)”", reasons)
    deleted = [text[slice(*span)].casefold() for span in tested]
    yield Clause("named words", all(word.casefold() in deleted for word in quoted), ", ".join(quoted))
    generator = np.random.default_rng(0)
    drawn = [
        [words[place] for place in generator.choice(len(words), len(tested), replace=False)] for _ in range(RANDOM_SETS)
    ]

    def hardly_ever(happens: Callable[[dict[str, float]], bool]) -> Clause:
        times = sum(happens(model.probabilities(without(text, spans))) for spans in drawn if set(spans) != set(tested))
        return Clause("random words", times == 0, f"{times} of {RANDOM_SETS}")

    if changed := WOULD_SAY.search(summary):
        yield Clause("changed label", changed["label"] == now != said, now)
        yield Clause("its probability", agrees(changed["sure"], rest[now]), f"{rest[now]:.4f}")
        if "never did" in summary:
            yield hardly_ever(lambda other: max(other, key=lambda label: other[label]) != said)
    elif lower := WOULD_BE.search(summary):
        label = lower["label"] or said
        yield Clause("lower probability", agrees(lower["sure"], rest[label]), f"{rest[label]:.4f}")
        if "never lowered it as much" in summary:
            yield hardly_ever(lambda other: other[label] <= rest[label])


def check_document(text: str, model: sl.Model, plain: PlainModel) -> tuple[str, list[Clause]]:
    """Return the summary of a document, and its clauses."""
    text = plain.cut(text)
    explanation = model.explain(text, check=True)
    check, summary = explanation.check, headline(explanation)
    words = [(word.start, word.end) for word in explanation.words()]
    if check is None:
        return summary, list(try_summary(summary, text, words, (), None, plain))
    tested = [(word.start, word.end) for word in check.tested] if check.named else []
    opponent = None if check.opposing is None else (check.opposing.start, check.opposing.end)
    return summary, list(try_summary(summary, text, words, tested, opponent, plain))


def main(arguments: Sequence[str] | None = None) -> None:
    """Check documents, and print how many clauses of each kind are true, and those that are not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="Folder of a classifier of texts.")
    parser.add_argument("--data", type=Path, required=True, help="JSON lines with a field 'text'.")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--low", type=int, default=1, help="Words of a text at least.")
    parser.add_argument("--high", type=int, default=100_000)
    parser.add_argument("--first-words", type=int)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    texts = read_texts(chosen.data, chosen.low, chosen.high, chosen.first_words, chosen.seed)
    model, plain = sl.load(chosen.model), PlainModel(chosen.model)
    clauses: dict[str, list[bool]] = defaultdict(list)
    false = []
    for text in texts[: chosen.documents]:
        if isinstance(text, tuple):
            parser.error("Pairs of texts cannot be checked.")
        summary, found = check_document(text, model, plain)
        for clause in found:
            clauses[clause.name].append(clause.is_true)
            if not clause.is_true:
                false.append(f"{clause.name}: {clause.detail}\n    {summary}")
    for name, answers in clauses.items():
        print(f"{name:20} {sum(answers):4} of {len(answers)}")
    every = [answer for answers in clauses.values() for answer in answers]
    print(f"{'all':20} {sum(every):4} of {len(every)}")
    print("\n".join(false))


if __name__ == "__main__":
    main()
