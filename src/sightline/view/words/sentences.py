"""Predictions, notices, verdicts and checks as sentences, the same wherever an explanation is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline import builtin
from sightline.results.artefacts import EXCHANGE_ENTRIES
from sightline.results.verdict import CHECK_ENTRIES, SMALLEST_EFFECT, TELLING, Level, Reason, Value, Verdict
from sightline.view.words.phrases import predicted_value, share_of_words

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation
    from sightline.text import Aggregation, Windows

MARKS: dict[Level, tuple[str, str]] = {
    "holds": ("✓", "holds up"),
    "weak": ("△", "weakly supported"),
    "poor": ("✕", "do not trust"),
    "unchecked": ("○", "not checked"),
}
"""The mark of each verdict: a shape and words, so that nobody needs colours to tell one from another."""
_MEANINGS: dict[Reason, str] = {
    "no_better_than_random": "These words matter to the model no more than words chosen at random.",
    "chance_not_excluded": (
        "Read this as “not shown”: explanations that are known to be wrong often get this verdict as well."
    ),
    "small_effect": "These words matter to the model more than random words, but not by enough to hold up.",
}
"""What a verdict means for a reader, by the reason that decided it (docs/trust.md)."""
_HOLDS = "The model relies on these words; its answer may still be wrong."
LARGEST_LOSS = 0.5
"""Share of the explained output that biases may take before a sentence warns of reading the sizes of scores."""
DEMONSTRATION = (
    "This explains the built-in demonstration model, which can only tell texts on artificial intelligence from "
    "texts on programming languages; to explain a model of your own, name it with --model (in Python: sl.load)."
)
CLOSE = 0.9
"""The share of the largest difference to random words at which a count tells as much as the best one."""
SMALLEST_GAIN = 0.01
"""A larger difference to random words at another count is named if it is larger by this: percentages hide less."""
NAMED_POSITIONS = 8
"""Positions of artefacts that a sentence lists."""


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


def number(value: float) -> str:
    """Return three significant digits with the sign: +0.312, −1.2e-05, 0."""
    if value == 0.0:
        return "0"
    return ("+" if value > 0 else "−") + f"{abs(value):.3g}"


def prediction_sentence(explanation: Explanation) -> str:
    """Return "The model says 'PL' with probability 94 %."; of a model with one output the number it gives."""
    prediction, value = explanation.prediction, predicted_value(explanation)
    if value is not None:
        return f"The model gives '{prediction.label}' the value {value}."
    return f"The model says '{prediction.label}' with probability {percent(prediction.probability)}."


def demonstration_notices(provenance: Mapping[str, Any]) -> list[str]:
    """Return that a result comes from the built-in model, which knows two subjects, if it does."""
    return [DEMONSTRATION] if provenance.get("model") == builtin.NAME else []


def notices(explanation: Explanation) -> list[str]:
    """Return what a reader must know first: a demonstration, text the model never saw, random weights, …"""
    sentences = demonstration_notices(explanation.provenance)
    dropped, read = explanation.encoding.dropped, len(explanation.encoding)
    if dropped:
        rest = "1 more was" if dropped == 1 else f"{dropped:,} more were"
        more = "" if explanation.encoding.windows is None else " A larger max_windows reads more of them."
        sentences.append(
            f"The model read the first {read:,} tokens; {rest} cut off and did not affect the prediction.{more}"
        )
    if explanation.encoding.windows is not None:
        sentences.append(_windows_sentence(explanation.encoding.windows, explanation))
    sentences += [sentence for name, sentence in _NOTICES.items() if _is_alarming(name, explanation.checks)]
    return sentences


_COMBINED: dict[Aggregation, str] = {
    "mean": "the prediction is the mean of their scores",
    "max": "the prediction takes the largest score of every class",
    "first": "the prediction is that of the first window",
}


def _windows_sentence(windows: Windows, explanation: Explanation) -> str:
    """Return that a document was read in windows, and how they make one prediction."""
    target, combined = explanation.target, _COMBINED[windows.aggregation]
    if target.span is not None:
        combined = "the answer is the best of all windows"
    elif target.position is not None:
        combined = "every token is read in the window where it has most context"
    encoding = explanation.encoding
    return (
        f"The document has {len(encoding) + encoding.dropped:,} tokens, more than the model reads at once: it was "
        f"read in {len(windows)} overlapping windows, and {combined}."
    )


@dataclass(frozen=True)
class VerdictText:
    """A verdict in two or three sentences, to be read before anything else."""

    level: Level
    sentences: tuple[str, ...]
    """What was measured."""
    meaning: str = ""
    """What that means for a reader; empty where the sentences say so."""
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


def describe_verdict(verdict: Verdict, compared: Mapping[str, float | int] | None = None) -> VerdictText:
    """Return the verdict in sentences.

    `compared`: the numbers of `TELLING` at the count that the sentences of other explanations name
    (`comparable.describe_verdicts`); by default the count that tells most about this one.
    """
    sentences = _comparison_sentences(verdict, compared)
    if "untrained_model" in verdict.reasons:
        sentences.insert(0, _NOTICES["untrained"])
    warning = None
    if "special_share" in verdict.numbers:
        share = percent(verdict.numbers["special_share"])
        if "special_tokens_dominate" in verdict.reasons:
            warning = (
                f"Special tokens such as [CLS] carry {share} of the total of all tokens: "
                "the words are the smaller part."
            )
        else:
            sentences.append(f"Special tokens carry {share} of the total of all tokens.")
    return VerdictText(verdict.level, tuple(sentences), _meaning(verdict), warning)


def _meaning(verdict: Verdict) -> str:
    """Return what the level means for a reader; random weights and undecided texts have sentences of their own."""
    if "untrained_model" in verdict.reasons or "nothing_decides" in verdict.reasons:
        return ""
    if verdict.level == "holds":
        return _HOLDS
    return next((_MEANINGS[reason] for reason in verdict.reasons if reason in _MEANINGS), "")


_QUALIFIERS: dict[Reason, str] = {
    "no_better_than_random": ", no more than chance would",
    "chance_not_excluded": ", too few to rule out chance",
    "small_effect": ", but not by enough",
}


def _comparison_sentences(verdict: Verdict, compared: Mapping[str, float | int] | None) -> list[str]:
    """Return what the comparison with random words showed, or why there was none."""
    if "not_comparable" in verdict.reasons:
        return [f"It could not be compared with random words. {verdict.detail}"]
    if "not_checked" in verdict.reasons:
        return [
            "It was not compared with random words. To do that, pass check=True in Python or --check on the command "
            "line, or tick the box on the page of the server."
        ]
    numbers = verdict.numbers
    sentences = []
    if "nothing_decides" in verdict.reasons:
        empty = percent(numbers["probability_empty"])
        sentences.append(f"Nothing in the text decides: with every word removed, the probability is {empty}.")
    if all(name in numbers for name in TELLING):
        sentences.append(_removal_sentence(numbers if compared is None else compared))
        if compared is not None and _lead(compared) < min(CLOSE * _lead(numbers), _lead(numbers) - SMALLEST_GAIN):
            sentences.append(_further_removal_sentence(numbers))
    qualifier = next((_QUALIFIERS[reason] for reason in verdict.reasons if reason in _QUALIFIERS), "")
    sentences.append(f"It beats {numbers['random_beaten']} of {numbers['random_orderings']} random orders{qualifier}.")
    if "small_effect" in verdict.reasons:
        lead = numbers["faithfulness"] - numbers["random_mean"]
        needed = SMALLEST_EFFECT * numbers["stake"]
        sentences.append(
            f"Averaged over all numbers of removed words, the probability falls by {points(lead)} more than with "
            f"random words; to hold up, the difference would have to be {points(needed)}."
        )
    if says_same_of_nothing(verdict):
        empty = percent(numbers["probability_empty"])
        sentences.append(
            f"With every word removed, the probability is {empty}: the model says the same about an empty text."
        )
    return sentences


def says_same_of_nothing(verdict: Verdict) -> bool:
    """Say whether an empty text gets the same label, with a probability lower by less than half a stake.

    Where that is why nothing in the text decides, the verdict says so already.
    """
    numbers = verdict.numbers
    if "nothing_decides" in verdict.reasons or "probability_empty" not in numbers or "probability" not in numbers:
        return False
    stays = numbers["probability"] - numbers["probability_empty"] < numbers["stake"] / 2
    return stays and bool(numbers.get("empty_says_same", True))


def _removal_sentence(numbers: Mapping[str, float | int]) -> str:
    """Return "Without its 25 strongest words (1 % of the text) the probability falls from 85 % to 37 %; …"."""
    count, share, whole, without, random = (numbers[name] for name in TELLING)
    strongest, chance = (
        ("strongest word", "a random word")
        if count == 1
        else (
            f"{count:,} strongest words",
            f"{count:,} random words",
        )
    )
    return (
        f"Without its {strongest} ({percent(share)} of the text) the probability {_moves(whole, without)}; "
        f"without {chance} it {_moves(whole, random, origin=False)}."
    )


def _further_removal_sentence(numbers: Mapping[str, float | int]) -> str:
    """Return what the count that tells most shows, where the sentence before names another one."""
    count, _, _, without, random = (numbers[name] for name in TELLING)
    words = "1 word" if count == 1 else f"{count:,} words"
    return f"Without {words} the difference is larger: {percent(without)}, and {percent(random)} for random words."


def _lead(numbers: Mapping[str, float | int]) -> float:
    """Return how far the probability without the strongest words is below that without random words."""
    return numbers["probability_without_random"] - numbers["probability_without"]


def _moves(before: float, after: float, *, origin: bool = True) -> str:
    """Return "falls from 85 % to 37 %", "rises to 90 %" or "stays at 85 %"."""
    start, end = percent(before), percent(after)
    if start == end:
        return f"stays at {end}"
    return f"{'falls' if after < before else 'rises'} {f'from {start} ' if origin else ''}to {end}"


def points(difference: float) -> str:
    """Return a difference of two probabilities: "1.2 percentage points"."""
    return f"{percent(difference).removesuffix(' %')} percentage points"


def further_sentences(explanation: Explanation) -> list[str]:
    """Return what is known about an explanation beside its verdict: passages, artefacts, then the other checks."""
    return [
        *passage_sentences(explanation),
        *artefact_sentences(explanation),
        *check_sentences(explanation.checks),
    ]


def passage_sentences(explanation: Explanation) -> list[str]:
    """Return what the model says without the strongest sentences, if the check deleted them."""
    checks = explanation.checks
    if "passages_removed" not in checks:
        return []
    count, label = int(checks["passages_removed"]), checks["passages_label"]
    strongest = "strongest sentence" if count == 1 else f"{count} strongest sentences"
    without = f"Without the {strongest} of the text ({percent(float(checks['passages_share']))} of the words) the model"
    says = f"“{label}” ({percent(float(checks['passages_probability']))})"
    if label == explanation.prediction.label:
        return [f"{without} still says {says}."]
    changed, trials = int(checks.get("passages_random_changed", 0)), int(checks.get("passages_trials", 0))
    drawn = f"{trials} random draws of other sentences with as many words"
    control = (
        f"without any of {drawn} it still says “{explanation.prediction.label}”"
        if not changed
        else f"but the prediction also changes in {changed} of {drawn}"
    )
    return [f"{without} would say {says}; {control}."]


def artefact_sentences(explanation: Explanation) -> list[str]:
    """Return how many of the strongest words have scores that belong to their position, if words were exchanged."""
    exchange = explanation.exchange
    if exchange is None or not exchange.tested:
        return []
    tested = "the strongest word" if exchange.tested == 1 else f"the {exchange.tested} strongest words"
    count = len(exchange.artefacts)
    if not count:
        return [f"Exchanging {tested} with others found no score that belongs to a position."]
    positions = sorted(artefact.tokens[0] for artefact in exchange.artefacts)
    listed = ", ".join(f"{position:,}" for position in positions[:NAMED_POSITIONS])
    more = f" and {count - NAMED_POSITIONS} more" if count > NAMED_POSITIONS else ""
    flagged = {position for artefact in exchange.artefacts for position in artefact.tokens}
    words = (word for word in explanation.words() if flagged.intersection(word.tokens))
    share = percent(share_of_words(explanation, words))
    sinks = sum(artefact.reason == "sink" for artefact in exchange.artefacts)
    one_of = "" if exchange.tested == 1 else "one of "
    belong = (
        f"The scores of {count} of {tested} belong to their positions, not to the words (tokens"
        if count > 1
        else f"The score of {one_of}{tested} belongs to its position, not to the word (token"
    )
    return [
        f"{belong} {listed}{more}; {share} of the total).",
        *([f"Of these positions, {sinks} draw attention whatever word is there."] if sinks else []),
    ]


def check_sentences(checks: Mapping[str, Value]) -> list[str]:
    """Return one sentence per check that neither the verdict nor a notice covers, in the method's order.

    Unknown checks are shown by name.
    """
    sentences = [
        _SENTENCES[name](value) if name in _SENTENCES else _named(name, value) for name, value in checks.items()
    ]
    return [sentence for sentence in sentences if sentence]


def _named(name: str, value: Value) -> str:
    words = name.replace("_", " ")
    words = words[:1].upper() + words[1:]
    if isinstance(value, bool):
        return f"{words}: {'yes' if value else 'no'}."
    if isinstance(value, float):
        return f"{words}: {value:.3g}."
    return f"{words}: {value:,}." if isinstance(value, int) else f"{words}: {str(value).rstrip('.')}."


def _share(template: str) -> Callable[[Any], str]:
    return lambda value: template.format(percent(float(value)))


def _count(noun: str) -> Callable[[Any], str]:
    return lambda value: f"It took {value:,} {noun if value == 1 else noun + 's'} of the model."


def _tokens(template: str) -> Callable[[Any], str]:
    return lambda value: template.format("1 token" if value == 1 else f"{value:,} tokens") if value else ""


def _silent(value: Any) -> str:
    """Return nothing: the verdict or a notice says it."""
    return ""


_REPLACEMENTS = {
    "mask": "Words were replaced with the mask token.",
    "unk": "Words were replaced with the unknown token.",
    "pad": "Words were replaced with the padding token.",
    "delete": "Words were deleted.",
}
_SENTENCES: dict[str, Callable[[Any], str]] = {
    "completeness_gap": _share("The scores add up to the explained difference within {} (completeness gap)."),
    "change": _share("More steps are expected to change the scores by {}."),
    "measured_share": _share("The smallest units were measured in {} of the text, larger ones elsewhere."),
    "reconstruction_error": _share("The parts add up to the layers' outputs with an error of {}."),
    "clipped_rows": lambda value: (
        f"No token contributed to {value:,} row{'s' if value > 1 else ''} of the layers, left with their own token."
        if value
        else ""
    ),
    "relevance_given": _silent,
    "relevance_kept": _silent,
    "conservation_error": lambda value: (
        f"The sum of the scores differs from the explained output by {percent(float(value))} of that output, which "
        "goes to bias terms of the model."
        + (" Rely on the order of the words, not on the sizes of their scores." if value > LARGEST_LOSS else "")
    ),
    "evaluations": _count("evaluation"),
    "model_calls": _count("call"),
    "replacement": lambda value: _REPLACEMENTS.get(value, f"Words were replaced with '{value}'."),
    "converged": lambda value: "The steps were refined until the scores were stable." if value else "",
    "surrogate_fit": _share("The linear model behind the scores explains {} of what was measured."),
    "exact": lambda value: (
        "All combinations of words were tried: the values are exact."
        if value
        else "Combinations of words were drawn at random: the values are estimates."
    ),
    "certified": lambda value: "Every value is certified by a cut of the same size." if value else "",
    "largest_gap": lambda value: f"Flows and cuts differ by {value:.1g} at most." if value else "",
    "settled_by_bounds": _tokens("Bounds settled {}."),
    "settled_by_flow": _tokens("An explicit flow settled {}."),
    "settled_by_cut": _tokens("A minimum cut settled {}."),
    **dict.fromkeys((*CHECK_ENTRIES, *EXCHANGE_ENTRIES, "special_share"), _silent),
    "check_calls": lambda value: f"The comparison with random words took {value:,} model calls.",
    "check_replacement": lambda value: f"For the check, words were replaced with the {value} token.",
    "replacements_agree": lambda value: (
        f"Deleting words and masking them lead to {'the same level' if value else 'different levels'} of trust."
    ),
    "causal": lambda value: "The model is causal: early tokens are seen by more others than late ones.",
    "untrained": _silent,
    "dropped_tokens": _silent,
}
_NOTICES = {
    "untrained": "Some weights of this model are random: its predictions and their explanations mean nothing.",
    "converged": "The scores had not converged at the limit of steps: read them with care.",
    "certified": "Some flow values are not certified: flow and cut differ.",
}


def _is_alarming(name: str, checks: Mapping[str, Value]) -> bool:
    """`untrained` is bad when true, `converged` and `certified` when false."""
    return name in checks and bool(checks[name]) == (name == "untrained")
