"""Long documents whose class follows from a rule over a few words, wherever in the text they are.

Neutral words fill the document; words of two lists, A and B, and distractors of a third are planted at random places.
With a and b saying whether any word of A and of B is present, the class is "yes" if

    any          a
    conjunction  a and b
    exception    a and not b

and "no" otherwise. The words that decide are known: those that make the rule true, or the words of B that prevent it.
A "no" for which no word is responsible (no A at all) has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sightline.errors import OptionError
from sightline.evaluation.planted_task import DISTRACTORS, FIRST, NEUTRAL, SECOND

Rule = Literal["any", "conjunction", "exception"]
Place = Literal["start", "middle", "end"]
RULES: tuple[Rule, ...] = get_args(Rule)
PLACES: tuple[Place, ...] = get_args(Place)
LABELS = ("no", "yes")


@dataclass(frozen=True)
class RuleDocument:
    """A text, the answer of the rule, and the places of the words that decide it."""

    text: str
    rule: Rule
    label: int
    deciding: tuple[int, ...]
    """Places among the words; empty if no word is responsible."""
    place: Place | None = None
    """The third of the document that holds the planted words; None if they are anywhere."""

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.text.split())


def rule_document(
    rule: Rule,
    words: int,
    generator: np.random.Generator,
    *,
    first: int = 1,
    second: int = 0,
    distractors: int = 2,
    place: Place | None = None,
) -> RuleDocument:
    """Return a document of `words` words with `first` words of A, `second` words of B and some distractors."""
    if rule not in RULES:
        raise OptionError(f"Unknown rule '{rule}'. Use one of: {', '.join(RULES)}.")
    if words < 3 * (first + second + distractors):
        raise OptionError(f"A document of {words} words is too short for {first + second + distractors} planted ones.")
    content = generator.choice(NEUTRAL, size=words).tolist()
    low, high = (0, words) if place is None else _third(place, words)
    places = (low + generator.permutation(high - low)[: first + second + distractors]).tolist()
    planted = [(FIRST, first), (SECOND, second), (DISTRACTORS, distractors)]
    rare = [str(word) for source, count in planted for word in generator.choice(source, size=count)]
    for position, word in zip(places, rare, strict=True):
        content[position] = word
    label, responsible = _apply(rule, first > 0, second > 0)
    deciding = [*places[: first * responsible[0]], *places[first : first + second * responsible[1]]]
    return RuleDocument(" ".join(content), rule, label, tuple(sorted(deciding)), place)


def clear_documents(
    rule: Rule, words: int, count: int, generator: np.random.Generator, *, place: Place | None = None
) -> list[RuleDocument]:
    """Return documents in which words decide: one or two of each list that the rule needs, in turn."""
    return [
        rule_document(
            rule,
            words,
            generator,
            first=1 + number % 2,
            second=0 if rule == "any" or (rule == "exception" and number % 4 < 2) else 1,
            place=place,
        )
        for number in range(count)
    ]


def _apply(rule: Rule, has_first: bool, has_second: bool) -> tuple[int, tuple[bool, bool]]:
    """Return the answer of a rule, and which of the two lists is responsible for it."""
    if rule == "any":
        return int(has_first), (has_first, False)
    if rule == "conjunction":
        both = has_first and has_second
        return int(both), (both, both)
    if has_first and has_second:
        return 0, (False, True)
    return int(has_first), (has_first, False)


def _third(place: Place, words: int) -> tuple[int, int]:
    number = PLACES.index(place)
    return number * words // 3, (number + 1) * words // 3
