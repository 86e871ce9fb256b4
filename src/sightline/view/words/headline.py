"""The sentence to quote, lists of the strongest words, and what several methods agree on.

The sentence says what the model says, names the words that were tested, and says what it would say without them. It
names only words that were deleted together and made a difference (`Verdict.named`). Without a check it names the
strongest words according to the method, and says that they were not checked.

Lists are by default without words that say little, and name the share that is left out. Words are ranked by the sum of
their instances. Left out are stop words (but for negations), punctuation and artefacts, whose score belongs to the
position (`Explanation.artefacts`). Only lists leave them out; no number does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.results.explanation import merge_instances
from sightline.view.words.phrases import (
    FILLERS,
    Part,
    count,
    describe_amount,
    describe_amounts,
    is_class,
    list_parts,
    percent,
    predicted_value,
    quote,
    share_of_words,
    target_word,
    word_total,
)
from sightline.view.words.verdict import NAMED, amount_name, says_same_without_text, would_say

if TYPE_CHECKING:
    from sightline.analysis.consensus import Consensus
    from sightline.results.check import Check, SmallestSet
    from sightline.results.explanation import Explanation, Sign, WordScore
    from sightline.results.report import Report

LISTED = 8
"""Words named in the sentence."""
SMALLEST = 0.05
"""Expected numbers of words below this are written as "fewer than 0.1"."""


@dataclass(frozen=True)
class WordLists:
    """The strongest words of an explanation."""

    sides: tuple[tuple[Sign, tuple[WordScore, ...]], ...]
    """For and against, or one list ("any") for methods without signs; strongest first, instances added up."""
    left_out: float
    """Share of the total (`word_total`) on words that are left out."""
    artefacts: bool
    """Whether artefacts are among the words that are left out."""
    total: float
    """What shares are shares of (`word_total`)."""

    @property
    def note(self) -> str:
        """A sentence on what is left out; empty if nothing is."""
        if not self.left_out:
            return ""
        kinds = "stop words, punctuation and artefacts" if self.artefacts else "stop words and punctuation"
        return f"The list leaves out {kinds}, {percent(self.left_out)} of the total."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        sides: dict[str, Any] = {
            sign: [
                {
                    "text": word.text,
                    "score": word.score,
                    "share": word.score / self.total if self.total else 0.0,
                    "count": word.count,
                }
                for word in words
            ]
            for sign, words in self.sides
        }
        return {**sides, "left_out": self.left_out}


def content_words(explanation: Explanation) -> list[WordScore]:
    """Return the words in document order without stop words, punctuation and artefacts."""
    flagged = explanation.artefact_tokens
    return [
        word
        for word in explanation.words()
        if not FILLERS.drops(word.text) and not any(position in flagged for position in word.tokens)
    ]


def list_words(explanation: Explanation, top: int, *, all_words: bool = False) -> WordLists:
    """Return the `top` strongest words of each side."""
    everything = explanation.words()
    words = everything if all_words else content_words(explanation)
    merged = sorted(merge_instances(words), key=lambda word: -abs(word.score))
    signs: tuple[Sign, ...] = ("for", "against") if explanation.signed else ("any",)
    sides = tuple((sign, tuple([word for word in merged if _is_on(word, sign)][:top])) for sign in signs)
    listed = {word.index for word in words}
    return WordLists(
        sides=sides,
        left_out=share_of_words(explanation, (word for word in everything if word.index not in listed)),
        artefacts=explanation.exchange is not None and bool(explanation.exchange.artefacts),
        total=word_total(explanation),
    )


def _is_on(word: WordScore, sign: Sign) -> bool:
    return sign == "any" or (word.score > 0 if sign == "for" else word.score < 0)


def consensus_sentence(report: Report) -> str | None:
    """Return which words all methods of a report rank highest; None for a report of a single method."""
    consensus = report.consensus
    if consensus is None:
        return None
    titles = report.titles
    names = [titles.get(name, name) for name in consensus.methods]
    methods = f"{', '.join(names[:-1])} and {names[-1]}"
    agreed = len(consensus.words)
    sentence = f"{methods} agree on {agreed} of their {count(consensus.k, 'highest-ranked word')}"
    named = _named_words(consensus)
    if named:
        # The number counts every instance, and stop words too.
        opening = ":" if sum(named.values()) == agreed else ", among them"
        sentence += f"{opening} {_enumerate(named)}"
    return f"{sentence}; by chance {expected_words(consensus)} would be expected."


def expected_words(consensus: Consensus) -> str:
    """Return how many words random sets would share: "0.3", "12", or "fewer than 0.1"."""
    expected = consensus.expected
    return "fewer than 0.1" if expected < SMALLEST else f"{expected:.1f}" if expected < 9.95 else f"{expected:.0f}"


def _named_words(consensus: Consensus) -> dict[str, int]:
    """Return the first agreed words with their numbers of instances; stop words and punctuation are not named."""
    words: dict[str, str] = {}
    instances: Counter[str] = Counter()
    for word in consensus.words:
        if not FILLERS.drops(word.text):
            words.setdefault(word.text.lower(), word.text)
            instances[word.text.lower()] += 1
    return {text: instances[key] for key, text in list(words.items())[:LISTED]}


def _enumerate(named: dict[str, int]) -> str:
    """Return "“river” (2 times), “old” and “mill”"."""
    words = [f"“{word}”" + (f" ({times} times)" if times > 1 else "") for word, times in named.items()]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


LONGEST = 45
"""Words of the sentence at most; fewer words of the document are named to keep to it."""
QUOTED = 3
"""Words named without a check."""
CLOSE_RACE = 0.1
"""Lead in probability below which the next class is named as well: a reader must not take 52 % for a decision."""
CLOSE_SHARE = 0.8
"""Share of the probability of the first class that the next one must have as well: 13 % is far ahead of 5 %."""
MOST_TOGETHER = 1.001
"""Probabilities that add up to more belong to labels that do not compete."""


def headline(explanation: Explanation) -> str:
    """Return the sentence, for example "The model says “positive” (97 %), because of “great” and “fun”. Without …"."""
    return "".join(part.text for part in headline_parts(explanation))


def headline_parts(explanation: Explanation) -> list[Part]:
    """Return the sentence in pieces, so that a page can link the words to their place in the text.

    The last piece says that the explanation was not checked, where it was not.
    """
    for named, brief in [*((named, False) for named in range(NAMED, 0, -1)), (1, True)]:
        parts = _parts(explanation, named, brief)
        if len("".join(part.text for part in parts).split()) <= LONGEST:
            return parts
    return [parts[0], parts[-1] if explanation.check is None else Part(".")]


def _parts(explanation: Explanation, named: int, brief: bool) -> list[Part]:
    """Return the sentence with at most `named` words; `brief` leaves out the next class, opponents and random words."""
    check, verdict = explanation.check, explanation.verdict
    parts = [Part(_prediction_clause(explanation, brief))]
    if "untrained_model" in verdict.reasons:
        return [*parts, Part("; some weights of the model are random, so no explanation of it means anything.")]
    if check is None:
        ending = "; the explanation could not be checked." if verdict.detail else "; the explanation was not checked."
        return [*parts, *_strongest_words(explanation), Part(ending)]
    if not verdict.named:
        return [*parts, Part(f"{_without_names(explanation, check, brief)}.")]
    size = len(check.tested)
    share = "" if check.deciding_set is None else f", {percent(size / check.words)} of the text"
    names = list_parts(explanation, check.tested, named, unnamed=explanation.artefact_tokens)
    effect = f"{share}, {_effect(explanation, check, brief)}."
    if verdict.matters != "yes":
        return [*parts, Part(". Without "), *names, Part(effect)]
    parts += _reasons(explanation, names)
    if check.opposing is not None and not brief:
        opponent = Part(quote(check.opposing.text), check.opposing.tokens[0])
        parts += [Part("; "), opponent, Part(" speaks more strongly against it")]
    these = "this word" if size == 1 else f"these {size:,} words"
    return [*parts, Part(f". Without {these}{effect}")]


def _effect(explanation: Explanation, check: Check, brief: bool) -> str:
    """Return what the model would say without the tested words, and what it says without random ones."""
    if check.deciding_set is not None:
        return _change(explanation, check, check.deciding_set, brief)
    assert check.without_tested is not None
    value = _amount_after(explanation, check, check.without_tested.value)
    random = f"{check.counts[0]:,} random words" if len(check.counts) == 1 else "random words"
    same = ", and an empty text gets the same answer" if says_same_without_text(check) else ""
    falls = f"{amount_name(explanation)} would be {value}"
    return falls if brief else f"{falls}; {random} never lowered it as much (0 of {len(check.random)}){same}"


def _amount_after(explanation: Explanation, check: Check, value: float) -> str:
    """Return "60 %", or "99.62 % instead of 99.64 %" where both read the same otherwise."""
    after, before = describe_amounts(explanation, value, check.whole.value)
    is_clear = describe_amount(explanation, value) != describe_amount(explanation, check.whole.value)
    return after if is_clear else f"{after} instead of {before}"


def _change(explanation: Explanation, check: Check, found: SmallestSet, brief: bool) -> str:
    """Return what the model would say without the smallest set, and how often it does without random words."""
    clause, sets, changed = would_say(explanation, check), found.random_sets, found.random_changed
    random = "a random word" if found.random_words == 1 else f"{found.random_words:,} random words"
    if not sets or brief:
        return clause
    if not changed:
        return f"{clause}; {random} never did (0 of {sets})"
    return f"{clause}; without {random}, this happens in {changed} of {sets} draws"


def _without_names(explanation: Explanation, check: Check, brief: bool) -> str:
    """Return the clause of a check after which no word is to be named."""
    size, found = check.counts[-1], check.smallest_set
    strongest = "the strongest word" if size == 1 else f"the {size:,} strongest words"
    without = f"without {strongest}, {amount_name(explanation)} would be "
    without += _amount_after(explanation, check, check.without[-1].value)
    if check.matters == "opposite":
        return f", but not because of the words that this explanation ranks highest: {without}"
    if check.tested:
        return f"; the scores of the strongest words belong to their positions, so none is named: {without}"
    if check.matters == "yes":
        if check.limit_reached:
            return f"; the limit of readings was reached before fewer words could be named: {without}"
        evidence = "the evidence" if _is_own(explanation) else f"the evidence for {quote(explanation.target.name)}"
        return f"; {evidence} is spread over about {size:,} words: {without}"
    if found is not None:
        words = "1 word" if len(found) == 1 else f"{len(found):,} words"
        return f". Without {words}, {percent(found.share)} of the text, {_change(explanation, check, found, brief)}"
    if check.is_undecided:
        deleted = "the strongest word" if check.searched == 1 else f"the {check.searched:,} strongest words"
        return (
            "; nothing in the text was found to decide this: an empty text gets the same answer, and deleting "
            f"{deleted} does not change it"
        )
    if check.matters == "too_small":
        return f" and hardly reacts to any words of the text: {without}"
    if not check.random:
        return ". The text is too short to show which words decide this"
    return (
        f". It was not shown which words decide this: deleting {strongest} according to {_method(explanation)} had no "
        "clearly greater effect than deleting random words"
    )


def _strongest_words(explanation: Explanation) -> list[Part]:
    """Return the words with the highest scores, which nothing but the method speaks for yet."""
    words = _ranked(explanation)
    if not words:
        return []
    parts = list_parts(explanation, words, QUOTED)
    if not explanation.signed:
        return [Part(f"; according to {_method(explanation)}, the most weight is on "), *parts]
    return _reasons(explanation, parts, f"according to {_method(explanation)}")


def _ranked(explanation: Explanation) -> list[WordScore]:
    """Return all instances of the `QUOTED` content words with the highest scores above 0."""
    instances: dict[str, list[WordScore]] = {}
    for word in content_words(explanation):
        instances.setdefault(word.text.casefold(), []).append(word)
    totals = {key: sum(word.score for word in words) for key, words in instances.items()}
    best = sorted((key for key in totals if totals[key] > 0), key=lambda key: -totals[key])[:QUOTED]
    return [word for key in best for word in instances[key]]


def _reasons(explanation: Explanation, words: Sequence[Part], source: str = "") -> list[Part]:
    """Return the words as reasons for the prediction, or as what speaks for another class that is explained."""
    target = explanation.target
    if _is_own(explanation):
        return [Part(f", {source and f'{source} '}because of "), *words]
    now = ""
    if is_class(explanation) and explanation.check is not None:
        now = f" ({percent(explanation.check.whole.probability)})"
    return [Part(f"; {source and f'{source}, '}what speaks most for {quote(target.name)}{now} is "), *words]


def _is_own(explanation: Explanation) -> bool:
    """Say whether what is explained is what the model says."""
    return explanation.target.label == explanation.prediction.label or predicted_value(explanation) is not None


def _method(explanation: Explanation) -> str:
    from sightline.results.report import method_title

    return method_title(explanation)


def _prediction_clause(explanation: Explanation, brief: bool) -> str:
    """Return what the model says; a model of one output (a regression, a similarity) gives a number, not a class."""
    prediction, reference = explanation.prediction, explanation.provenance.get("similar_to")
    value, word = predicted_value(explanation), target_word(explanation)
    if value is not None and reference is not None:
        return f"The model gives the similarity to {quote(str(reference))} the value {value}"
    if value is not None:
        return f"The model gives {quote(prediction.label)} the value {value}"
    where = "" if word is None else f" at {quote(word)}"
    sure = f"{percent(prediction.probability)}{'' if brief else _close_rival(explanation)}"
    return f"The model says {quote(prediction.label)} ({sure}){where}"


def _close_rival(explanation: Explanation) -> str:
    """Return ", hardly more than “PL” with 48 %" if the next class has nearly the same probability, else nothing."""
    prediction = explanation.prediction
    others = [
        (float(probability), label)
        for probability, label in zip(prediction.probabilities, prediction.labels, strict=True)
        if label != prediction.label
    ]
    if not others or float(sum(prediction.probabilities)) > MOST_TOGETHER:
        return ""
    probability, label = max(others)
    named = f"{quote(label)} with {percent(probability)}"
    if probability > prediction.probability:  # the best answer, where "no answer" is ahead
        return f", less than {named}"
    is_close = prediction.probability - probability < CLOSE_RACE and probability >= CLOSE_SHARE * prediction.probability
    return f", hardly more than {named}" if is_close else ""
