"""The sentence to quote: what the model says, the words that decided it, and how far to trust the explanation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from sightline.results.explanation import merge_instances
from sightline.view.words.lists import content_words
from sightline.view.words.phrases import predicted_value, target_word, word_total
from sightline.view.words.sentences import MARKS, percent, says_same_of_nothing

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation, WordScore
    from sightline.results.verdict import Level, Reason

CONSIDERED = 8
"""Strongest words among which adjacent ones are joined to phrases."""
QUOTED = 3
LONGEST_PHRASE = 80
"""Characters of a phrase that are quoted: a "word" may be a page of letters without a space."""
SMALLEST_SHARE = 0.2
"""A phrase is named if its score is at least this share of the strongest one's."""
SMALLEST_PART = 0.1
"""The same for the words that a phrase is made of."""
SMALLEST_MAIN_SHARE = 0.1
"""Share of the total magnitude of all words below which the named phrases are not called the main reason."""
SMALLEST_MAIN_SUPPORT = 0.5
"""The same for their share of what all words, stop words included, contribute for the class."""
CLOSE_RACE = 0.1
"""Lead in probability below which the next class is named as well: a reader must not take 52 % for a decision."""
CLOSE_SHARE = 0.8
"""Share of the probability of the first class that the next one must have as well: 13 % is far ahead of 5 %."""
MOST_TOGETHER = 1.001
"""Probabilities that add up to more belong to labels that do not compete."""
_TRUST: dict[Level, str] = {
    "holds": "the explanation holds up",
    "weak": "the explanation is weakly supported",
    "poor": "do not trust this explanation",
    "unchecked": "the explanation was not checked",
}
_SUPPORT: dict[Reason, str] = {
    "chance_not_excluded": ", because chance is not ruled out",
    "small_effect": ", because these words matter more than random ones, but not by enough",
}
"""Why an explanation is only weakly supported."""


class Part(NamedTuple):
    """A piece of the sentence; `token` is the first token of a phrase of the document."""

    text: str
    token: int | None = None


@dataclass(frozen=True)
class Phrase:
    """One or two words of the document, with their scores over all instances added up."""

    text: str
    score: float
    token: int


def headline(explanation: Explanation) -> str:
    """Return "The model says “AI” (54 %), mainly because of “transfer learning”; the explanation holds up."."""
    return "".join(part.text for part in headline_parts(explanation))


def headline_parts(explanation: Explanation) -> list[Part]:
    """Return the sentence in pieces, so that a page can link the phrases to their place in the text."""
    prediction, target = explanation.prediction, explanation.target
    level = explanation.verdict.level
    trust = _TRUST.get(level, MARKS[level][1])
    parts = [Part(_prediction_clause(explanation))]
    phrases = decisive_phrases(explanation)
    if "nothing_decides" in explanation.verdict.reasons:
        return [*parts, Part("; nothing in the text decides.")]
    if target.label != prediction.label:
        if phrases:
            opening = (
                "what speaks most for “{}” is " if explanation.signed else "the most weight for or against “{}” is on "
            )
            parts += [Part(f"; {opening.format(target.label)}"), *_join(phrases)]
        else:
            parts.append(Part(f"; {_without_phrases(explanation, f'“{target.label}”')}"))
    elif not phrases:
        parts.append(Part(f"; {_without_phrases(explanation, 'it')}"))
    elif level == "poor":
        # A sentence that is quoted by halves must not name reasons that are none.
        return [*parts, Part("; do not trust the explanation, which names "), *_join(phrases), Part(".")]
    else:
        parts += _reasons(explanation, phrases)
        if clause := _without_passages(explanation):
            parts.append(Part(f"; {clause}"))
    if says_same_of_nothing(explanation.verdict):
        same = f"it says “{target.label}” about an empty text as well"
        if target.label != prediction.label:
            same = f"the probability of “{target.label}” is about the same for an empty text"
        parts.append(Part(f"; {same}"))
    return [*parts, Part(f"; {trust}{_support(explanation)}.")]


def _support(explanation: Explanation) -> str:
    """Return what "weakly supported" means here: a reader must not take it for some support."""
    return next((_SUPPORT[reason] for reason in explanation.verdict.reasons if reason in _SUPPORT), "")


def _reasons(explanation: Explanation, phrases: list[Phrase]) -> list[Part]:
    """Return the phrases as the main reason if they carry most of the support, else as a part of it with their share.

    Their share is also given if more speaks against the class, and a single word that outweighs them is named, stop
    word or not. Scores without a sign say how much a word counts, not for which side: its words are no reasons yet.
    """
    named = sum(phrase.score for phrase in phrases)
    share = named / word_total(explanation)
    is_small = share < SMALLEST_MAIN_SHARE
    part = [Part(f" ({'only ' if is_small else ''}{percent(share)} of the total)")]
    if not explanation.signed:
        return [Part("; the most weight, for or against, is on "), *_join(phrases), *(part if is_small else [])]
    words = merge_instances(explanation.words())
    support = sum(word.score for word in words if word.score > 0)
    opposition = -sum(word.score for word in words if word.score < 0)
    is_main = not is_small and named >= SMALLEST_MAIN_SUPPORT * support
    because = f"{_source(explanation)}{'mainly' if is_main else 'in part'} because of "
    reasons = [Part(f", {because}"), *_join(phrases), *([] if is_main and opposition <= named else part)]
    opponent = min(words, key=lambda word: word.score)
    if -opponent.score > named:
        reasons += [Part("; "), Part(f"“{_shorten(opponent.text)}”", opponent.tokens[0])]
        reasons.append(Part(" speaks more strongly against it"))
    return reasons


def _source(explanation: Explanation) -> str:
    """Return "according to AttnLRP " unless the check showed that the words matter: until then, a method says so."""
    if explanation.verdict.level == "holds":
        return ""
    from sightline.results.report import method_title

    return f"according to {method_title(explanation)} "


def _prediction_clause(explanation: Explanation) -> str:
    """Return what the model says; a model of one output (a regression, a similarity) gives a number, not a class."""
    prediction, reference = explanation.prediction, explanation.provenance.get("similar_to")
    value, word = predicted_value(explanation), target_word(explanation)
    if value is not None and reference is not None:
        return f"The model gives the similarity to “{_shorten(str(reference))}” the value {value}"
    if value is not None:
        return f"The model gives “{prediction.label}” the value {value}"
    where = "" if word is None else f" at “{_shorten(word)}”"
    return f"The model says “{prediction.label}” ({percent(prediction.probability)}{_close_rival(explanation)}){where}"


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
    named = f"“{_shorten(label)}” with {percent(probability)}"
    if probability > prediction.probability:  # the best answer, where "no answer" is ahead
        return f", less than {named}"
    is_close = prediction.probability - probability < CLOSE_RACE and probability >= CLOSE_SHARE * prediction.probability
    return f", hardly more than {named}" if is_close else ""


def _without_passages(explanation: Explanation) -> str:
    """Return what the model would say without the strongest sentences, if they and only they change its prediction."""
    checks = explanation.checks
    if checks.get("passages_label") in (None, explanation.prediction.label) or checks.get("passages_random_changed"):
        return ""
    count = int(checks["passages_removed"])
    number = {2: "two", 3: "three", 5: "five", 10: "ten"}.get(count, str(count))
    sentences = "strongest sentence" if count == 1 else f"{number} strongest sentences"
    share = percent(float(checks["passages_share"]))
    return f"without the {sentences} of the text ({share} of its words) it would say “{checks['passages_label']}”"


def _without_phrases(explanation: Explanation, what: str) -> str:
    """Return the clause for an explanation in which no content word counts for `what`."""
    if not explanation.signed:
        return "no word stands out"
    if any(word.score > 0.0 for word in explanation.words()):
        return f"only stop words, punctuation or artefacts support {what}"
    return f"no word supports {what}"


def decisive_phrases(explanation: Explanation) -> list[Phrase]:
    """Return up to `QUOTED` phrases with the highest scores, without stop words, punctuation and artefacts.

    Two words are one phrase if the rarer of them stands beside the other in at least half of its instances.
    """
    words = content_words(explanation)
    scores: dict[str, float] = {}
    strongest: dict[str, WordScore] = {}
    for word in words:
        key = word.text.casefold()
        scores[key] = scores.get(key, 0.0) + word.score
        if key not in strongest or word.score > strongest[key].score:
            strongest[key] = word
    ranked = sorted(scores, key=lambda key: -scores[key])[:CONSIDERED]
    considered = [key for key in ranked if scores[key] > 0 and scores[key] >= SMALLEST_PART * scores[ranked[0]]]
    phrases = _phrases(words, considered, scores, strongest)
    phrases.sort(key=lambda phrase: -phrase.score)
    return [phrase for phrase in phrases[:QUOTED] if phrase.score >= SMALLEST_SHARE * phrases[0].score]


def _phrases(
    words: list[WordScore], considered: list[str], scores: dict[str, float], strongest: dict[str, WordScore]
) -> list[Phrase]:
    """Return every considered word once: joined with a neighbour where the two usually stand together."""
    counts = Counter(word.text.casefold() for word in words)
    pairs: dict[tuple[str, str], list[WordScore]] = {}
    for first, second in pairwise(words):
        pair = first.text.casefold(), second.text.casefold()
        adjacent = second.index == first.index + 1 and second.segment == first.segment
        if adjacent and pair[0] != pair[1] and pair[0] in considered and pair[1] in considered:
            pairs.setdefault(pair, []).append(first)
    left, phrases = set(considered), []
    for (first_key, second_key), places in sorted(pairs.items(), key=lambda item: -len(item[1])):
        together = 2 * len(places) >= min(counts[first_key], counts[second_key])
        if together and {first_key, second_key} <= left:
            left -= {first_key, second_key}
            place = max(places, key=lambda word: word.score)
            text = f"{place.text} {next(w.text for w in words if w.index == place.index + 1)}"
            phrases.append(Phrase(text, scores[first_key] + scores[second_key], place.tokens[0]))
    phrases += [Phrase(strongest[key].text, scores[key], strongest[key].tokens[0]) for key in considered if key in left]
    return phrases


def _join(phrases: list[Phrase]) -> list[Part]:
    """Return the phrases in quotation marks with commas and "and" between them."""
    parts: list[Part] = []
    for number, phrase in enumerate(phrases):
        if number:
            parts.append(Part(" and " if number == len(phrases) - 1 else ", "))
        parts.append(Part(f"“{_shorten(phrase.text)}”", phrase.token))
    return parts


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_PHRASE else f"{text[: LONGEST_PHRASE - 1]}…"
