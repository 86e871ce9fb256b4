"""A verdict in sentences: what the level means, what was measured, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Any

from sightline.metrics.significance import LONG
from sightline.view.words.phrases import (
    count,
    describe_amounts,
    format_number,
    is_class,
    list_parts,
    percent,
    predicted_value,
    quote,
)
from sightline.view.words.sentences import UNTRAINED

if TYPE_CHECKING:
    from sightline.results.check import Check, Matters
    from sightline.results.explanation import Explanation
    from sightline.results.verdict import VerdictLevel

MARKS: dict[VerdictLevel, tuple[str, str]] = {
    "holds": ("✓", "holds up"),
    "weak": ("△", "not shown"),
    "poor": ("✕", "do not trust"),
    "unchecked": ("○", "not checked"),
}
"""The mark of each verdict: a shape and words, so that nobody needs colours to tell one from another."""
NAMED = 5
"""Different words that a sentence names."""
_MEANINGS: dict[Matters, str] = {
    "yes": (
        "The model reacts to these words more than to comparable random words. They need not be all that matters, and "
        "its answer may still be wrong."
    ),
    "not_shown": "It was not shown that these words matter to the model more than random words. They may or may not.",
    "opposite": "These words are no reasons: without them, the model is more certain.",
    "too_small": "The model hardly reacts to any words of this text, so nothing was shown about these.",
}


@dataclass(frozen=True)
class VerdictText:
    """A verdict in a few sentences, to be read before anything else."""

    level: VerdictLevel
    sentences: tuple[str, ...]
    """What was measured."""
    meaning: str = ""
    """What that means for a reader."""
    warning: str | None = None
    """What limits even an explanation that holds up."""

    @property
    def words(self) -> str:
        """The level as a reader sees it."""
        return MARKS[self.level][1]

    @property
    def all_sentences(self) -> tuple[str, ...]:
        """The meaning, if there is one, and what was measured."""
        return (self.meaning, *self.sentences) if self.meaning else self.sentences

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, for the page and the API."""
        record = {
            "level": self.level,
            "words": self.words,
            "meaning": self.meaning,
            "sentences": list(self.sentences),
        }
        return record if self.warning is None else {**record, "warning": self.warning}


def describe_verdict(explanation: Explanation) -> VerdictText:
    """Return the verdict on an explanation in sentences."""
    verdict, check = explanation.verdict, explanation.check
    untrained = "untrained_model" in verdict.reasons
    if check is None:
        sentences = [
            f"It could not be checked. {verdict.detail}"
            if verdict.detail
            else "To check it on the model, pass check=True in Python or --check on the command line, or tick the box "
            "on the page of the server."
        ]
    else:
        sentences = [_test_sentence(explanation, check), *_set_sentences(explanation, check)]
    warning = None
    if "special_share" in verdict.numbers:
        share = percent(verdict.numbers["special_share"])
        if "special_tokens_dominate" in verdict.reasons:
            warning = (
                f"Special tokens such as [CLS] carry {share} of the total of all tokens: "
                "the words are the smaller part."
            )
        elif check is not None:
            sentences.append(f"Special tokens carry {share} of the total of all tokens.")
    meaning = UNTRAINED if untrained else "" if verdict.matters is None else _MEANINGS[verdict.matters]
    return VerdictText(verdict.level, tuple(sentences), meaning, warning)


def _test_sentence(explanation: Explanation, check: Check) -> str:
    """Return what the test measured: with and without the strongest words, and without random ones."""
    size, last = check.counts[-1], check.without[-1]
    strongest = "strongest word" if size == 1 else f"{size:,} strongest words"
    random = [mean(row[-1] for row in check.random)] if check.random else []
    whole, without, *rest = describe_amounts(explanation, check.whole.value, last.value, *random)
    own = (
        f"Without its {strongest} ({percent(size / check.words)} of the text), {amount_name(explanation)} would be "
        f"{without} instead of {whole}"
    )
    if not check.random:
        return f"{own}; the text has no comparable words to delete instead."
    sets, is_short = len(check.random), check.words < LONG
    compared = f"{own}; without {'a random word' if size == 1 else 'as many random words'}, {rest[0]} on average"
    p_value = f"p = {format_number(check.p_value, '.2g')}" if check.p_value >= 1e-4 else "p < 0.0001"
    if check.matters in ("yes", "opposite"):
        beaten = (
            "Its strongest words have more effect than those of random orders of comparable words"
            if is_short
            else f"None of {sets} sets of random words has as much effect"
        )
        return f"{compared}. {beaten} ({p_value})."
    if check.matters == "too_small":
        return f"{compared}."
    if is_short and check.limit_reached and check.p_value == 1:
        return f"{compared}. The limit of readings left too few for the test."
    if is_short and 1 / (1 + check.random_sets) > explanation.verdict.alpha:
        orders = "other order" if check.random_sets == 1 else "other orders"
        return f"{compared}. Comparable words have only {check.random_sets} {orders}: too few to rule out chance."
    if not is_short and sets < check.random_sets:
        return f"{compared}. The test ended with set {sets} of {check.random_sets}, which had at least as much effect."
    return f"{compared}. The difference is too small to rule out chance ({p_value})."


def _set_sentences(explanation: Explanation, check: Check) -> list[str]:
    """Return what would change the label, and what the model says about an empty text."""
    sentences, found = [], check.smallest_set
    if found is not None:
        names = "".join(part.text for part in list_parts(explanation, found.words, NAMED))
        sentence = f"Without {names} ({percent(found.share)} of the text), {would_say(explanation, check)}"
        if found.random_sets:
            happened = "never happens" if not found.random_changed else f"happens {times(found.random_changed)}"
            sentence += (
                f". Without {count(found.random_words, 'random word')}, that {happened} in "
                f"{count(found.random_sets, 'draw')}, and so in at most {percent(found.bound)} of all (95 % confidence)"
            )
        sentences.append(f"{sentence}.")
    elif check.searched:
        sentences.extend(_search_sentence(check))
    if says_same_without_text(check):
        assert check.empty is not None
        label, probability = quote(check.empty.label), percent(check.empty.label_probability)
        same = f"About an empty text, the model says {label} as well ({probability})"
        sentences.append(f"{same}: nothing in the text was found to decide." if check.is_undecided else f"{same}.")
    return sentences


def _search_sentence(check: Check) -> list[str]:
    """Return how many of the strongest words may be deleted, of the numbers that were read; nothing if one may not."""
    if any(reading.label != check.whole.label for _, reading in check.path):
        return []
    if check.searched == 1:
        return ["Deleting its strongest word does not change the answer."]
    tried = sum(count <= check.searched for count, _ in check.path)
    if tried == check.searched:
        return [f"Deleting up to {check.searched:,} of its strongest words does not change the answer."]
    sizes = "" if tried < 2 else f"; {tried - 1} smaller {'set was' if tried == 2 else 'sets were'} tried as well"
    return [f"Deleting its {check.searched:,} strongest words does not change the answer{sizes}."]


def says_same_without_text(check: Check) -> bool:
    """Say whether an empty text gets the same label."""
    return check.empty is not None and check.empty.label == check.whole.label != ""


def times(number: int) -> str:
    """Return "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def amount_name(explanation: Explanation) -> str:
    """Return what falls: the probability of the explained class, the value of a single output, or the log-odds."""
    if predicted_value(explanation) is not None:
        return "the value"
    target = explanation.target
    amount = "the probability" if is_class(explanation) else "the log-odds"
    return amount if target.name == explanation.prediction.label else f"{amount} of {quote(target.name)}"


def would_say(explanation: Explanation, check: Check) -> str:
    """Return what the model would say without the smallest set: "it would say “negative” (66 %)"."""
    found = check.smallest_set
    assert found is not None
    if predicted_value(explanation) is not None:
        return f"the value would be {found.label.replace('-', '−')}"
    label = explanation.target.label
    if found.label == f"not {label}" and found.label not in explanation.prediction.labels:  # other labels may apply
        return f"{quote(label)} would no longer apply ({percent(1.0 - found.probability)})"
    return f"it would say {quote(found.label)} ({percent(found.probability)})"
