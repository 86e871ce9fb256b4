"""Phrases: numbers with a minus sign, counted nouns, listed words, what is explained; methods and metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sightline.analysis.filters import TokenFilter
from sightline.metrics.registry import NEEDS

if TYPE_CHECKING:
    from sightline.metrics import MetricEntry
    from sightline.results.explanation import Explanation, WordScore

NO_INTERVAL = "no interval"
"""Stands for the ends of an interval where too few documents were measured."""
SMALLEST_PERCENT = 0.01
MOST_DIGITS = 6
"""Decimals of a percentage, and digits beyond three of a value, to which amounts are compared."""
FILLERS = TokenFilter(meaningful=True)
"""Words that say little: stop words that cannot be a reason, and punctuation."""
LONGEST_PHRASE = 80
"""Characters of a word that are quoted: a "word" may be a page of letters without a space."""
SHARES_NOTE = "Shares are of the total of absolute word scores, not of the probability."


class Part(NamedTuple):
    """A piece of a sentence; `token` is the first token of a word of the document."""

    text: str
    token: int | None = None


class Word(Protocol):
    """A word of the document."""

    @property
    def text(self) -> str:
        """As it is written."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Positions of its tokens."""


def quote(text: str) -> str:
    """Return a text in quotation marks, shortened to `LONGEST_PHRASE`."""
    return f"“{text if len(text) <= LONGEST_PHRASE else f'{text[: LONGEST_PHRASE - 1]}…'}”"


def list_parts(
    explanation: Explanation, words: Sequence[Word], most: int, *, unnamed: Iterable[int] = ()
) -> list[Part]:
    """Return "“good” (×2), “old” and 3 more words": the strongest first, `most` different ones.

    Instances of a word are listed once and counted, so that the numbers add up. Words that say little come last; those
    at the tokens `unnamed` are only counted.
    """
    silent = set(unnamed)
    instances: dict[str, list[Word]] = {}
    for word in words:
        if silent.isdisjoint(word.tokens):
            instances.setdefault(word.text.casefold(), []).append(word)

    def rank(key: str) -> tuple[bool, float]:
        score = sum(float(explanation.scores[list(word.tokens)].sum()) for word in instances[key])
        return FILLERS.drops(key), -score

    named = sorted(instances, key=rank)[:most]
    parts = [_named_part(instances[key]) for key in named]
    if left := len(words) - sum(len(instances[key]) for key in named):
        parts.append(Part(f"{left} more word{'s' if left > 1 else ''}"))
    listed: list[Part] = []
    for place, part in enumerate(parts):
        if place:
            listed.append(Part(" and " if place == len(parts) - 1 else ", "))
        listed.append(part)
    return listed


def _named_part(instances: Sequence[Word]) -> Part:
    times = f" (×{len(instances)})" if len(instances) > 1 else ""
    return Part(f"{quote(instances[0].text)}{times}", instances[0].tokens[0])


def count(number: int, noun: str) -> str:
    """Return "1 document", "2 documents"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share as people write it (0.3 %, 12 %): never 0 % for something, never 100 % for less than all."""
    value = 100.0 * share
    if value == 0.0 or value >= 100.0:
        return f"{value:.0f} %"
    if 0.0 < value < 0.05:
        return "< 0.1 %"
    if 99.5 <= value < 100.0:
        return f"{value:.1f} %" if value < 99.95 else "> 99.9 %"
    return f"{value:.1f} %" if abs(value) < 9.95 else f"{value:.0f} %"


def format_range(
    low: float, high: float, format_end: Callable[[float], str] | None = None, *, named: bool = False
) -> str:
    """Return "0.18 to 0.67", if `named` "interval 0.18 to 0.67", or "no interval" where the ends are NaN.

    format_end: `format_number` by default.
    """
    if low != low or high != high:
        return NO_INTERVAL
    write = format_end or format_number
    return f"{'interval ' if named else ''}{write(low)} to {write(high)}"


def format_number(value: float, form: str = ".3g") -> str:
    """Return a number in a format such as ".2f": −1.67, and 0.00 for what rounds to it from either side."""
    text = f"{value:z{form}}"
    return f"−{text[1:]}" if text.startswith("-") else text


def word_total(explanation: Explanation) -> float:
    """Return Σ|score| over the words of the document, special tokens excluded, as `wordTotal` of the page does."""
    return _magnitude(explanation.words())


def share_of_words(explanation: Explanation, words: Iterable[WordScore]) -> float:
    """Return the share of `word_total` that some words have together; 0 if no word has a score."""
    total = word_total(explanation)
    return _magnitude(words) / total if total else 0.0


def format_share(explanation: Explanation, score: float, total: float) -> str:
    """Return a score as a share of `total` with its sign: "+6.1 %", as `ShareFormat` of the page does."""
    share = score / total if total else 0.0
    value = 100.0 * abs(share)
    sign = "−" if share < 0 else "+" if explanation.signed and share > 0 else ""
    if 0.0 < value < SMALLEST_PERCENT:
        return f"{'>' if share < 0 else '<'} {sign}{SMALLEST_PERCENT} %"
    decimals = 0 if value == 0.0 or value >= 9.95 else 1 if value >= 0.095 else 2
    return f"{sign}{value:.{decimals}f} %"


def _magnitude(words: Iterable[WordScore]) -> float:
    return sum(abs(word.score) for word in words)


def predicted_value(explanation: Explanation) -> str | None:
    """Return the number that a model of one output gives (a regression, a similarity); None if it chooses a class."""
    value = explanation.prediction.value
    return None if value is None else format_number(value)


def is_class(explanation: Explanation) -> bool:
    """Say whether the log-odds of what is explained are those of a probability: not for a value, a contrast, a span."""
    target = explanation.target
    return target.contrast is None and target.span is None and predicted_value(explanation) is None


def describe_amount(explanation: Explanation, value: float) -> str:
    """Return what a check measured as people read it: the probability behind log-odds, else the number itself."""
    if not is_class(explanation):
        return format_number(value)
    return percent(_probability(value))


def _probability(log_odds: float) -> float:
    return math.exp(min(log_odds, 0.0)) / (1.0 + math.exp(-abs(log_odds)))


def describe_amounts(explanation: Explanation, *values: float) -> list[str]:
    """Return several amounts, with enough digits to keep different ones distinct."""
    texts = [describe_amount(explanation, value) for value in values]
    for digits in range(1, MOST_DIGITS):
        if len(set(texts)) == len(set(values)):
            break
        if is_class(explanation):
            texts = [f"{100.0 * _probability(value):.{digits}f} %" for value in values]
        else:
            texts = [format_number(value, f".{3 + digits}g") for value in values]
    return texts


def describe_target(explanation: Explanation) -> str:
    """Return a phrase such as "logit of 'B-PER' at “Ada” (token 1)" or "similarity to “a text” (cosine …)"."""
    reference = explanation.provenance.get("similar_to")
    if reference is not None:
        return f"similarity to “{reference}” (cosine of the two vectors)"
    phrase, position, word = explanation.target.description(), explanation.target.position, target_word(explanation)
    if word is None:
        return phrase
    return phrase.removesuffix(f" at token {position}") + f" at “{word}” (token {position})"


def target_word(explanation: Explanation) -> str | None:
    """Return the word that is tagged or predicted, for models that score single tokens; None for others."""
    position, encoding = explanation.target.position, explanation.encoding
    if position is None or not 0 <= position < len(encoding) or encoding.word_ids[position] < 0:
        return None
    text: str = encoding.words[encoding.word_ids[position]].text
    return text


_PLAIN = {
    "raw_attention": "How much one layer attends to each word when the answer is formed.",
    "received_attention": "How much attention each word receives from all words.",
    "rollout": "How much attention reaches each word from the answer, followed through all layers.",
    "flow": "The most attention that can flow from the answer to each word through all layers.",
    "grads": "How strongly the answer reacts to the last layer's attention to each word.",
    "attgrads": "Attention to each word, counted where more of it would support the answer.",
    "attention_gradcam": "The last layer's attention to each word, weighted by what each head does for the answer.",
    "cat": "How strongly the answer reacts to each word's vectors, for or against it.",
    "attcat": "How strongly the answer reacts to each word's vectors, weighted by the attention it receives.",
    "layer_conductance": "How much each word contributes to the answer through each layer, for or against it.",
    "gradient": "How strongly the answer reacts to a small change of each word, in either direction.",
    "input_x_gradient": "A quick estimate of how much each word adds to the answer or takes from it.",
    "integrated_gradients": "How much each word adds to the answer or takes from it, while the text is faded in.",
    "gradient_shap": "How much each word adds to the answer or takes from it, averaged over noisy copies of the text.",
    "norm_rollout": "How much of each word's vector reaches the answer, measured by length, through all layers.",
    "globenc": "How much of each word's vector reaches the answer, measured after each whole layer.",
    "alti": "How much each word shapes the vector that the answer is read from, whichever way.",
    "decompx": "What each word passes on to the answer, for or against it, if all layers are read as straight lines.",
    "alti_logit": "What every layer writes for or against the answer, shared out among the words it was mixed from.",
    "partial_lrp": "The share of the answer's score that the last layer's attention takes from each word.",
    "lrp": "The answer's score, handed back through the layers to the words it came from, for or against it.",
    "transatt": "Attention to each word through all layers, counted where it supports the answer.",
    "attnlrp": "The answer's score, handed back through attention and layers to its words, for or against it.",
    "owen": "How much each word changes the probability, averaged over texts with and without its neighbours.",
    "occlusion": "How much the probability changes when each word is hidden.",
    "leave_one_out": "How much the probability changes when each word is erased inside the model.",
    "lime": "How much each word counts in a simple model that imitates this one on shortened texts.",
    "kernel_shap": "How much each word changes the probability, averaged over texts with random words removed.",
    "random": "Random numbers: what any useful method must do better than.",
}
_DIRECTIONS = {True: "higher is better", False: "lower is better", None: "neither direction is better"}


def plain_summary(method: str, summary: str) -> str:
    """Return the sentence on a method for any reader; `summary` for a method that is not built in."""
    return _PLAIN.get(method, summary)


def describe_direction(metric: MetricEntry) -> str:
    """Return which direction is better: "higher is better"."""
    return _DIRECTIONS[metric.higher_is_better]


def describe_range(metric: MetricEntry) -> str:
    """Return the lowest and the highest value: "−1 to 1"; "any number" without bounds."""
    if not any(map(math.isfinite, metric.range)):
        return "any number"
    low, high = (f"{bound:.3g}".replace("-", "−").replace("inf", "∞") for bound in metric.range)
    return f"{low} to {high}"


def describe_chance(metric: MetricEntry) -> str:
    """Return what scores without information give: "random scores: the share of answer tokens"."""
    return "not defined" if metric.chance is None else f"{metric.chance.name}: {metric.chance.text}"


def describe_needs(metric: MetricEntry) -> str:
    """Return what has to be supplied, separated by commas."""
    return ", ".join(words for need, words in NEEDS.items() if need in metric.needs)
