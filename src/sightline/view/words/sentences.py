"""Checks, predictions, notices and the verdict in plain sentences, the same wherever an explanation is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sightline.explanation import Explanation

Value = float | int | str | bool
CHECKED = ("faithfulness", "random_mean", "random_beaten", "random_orderings")
"""The entries of `Explanation.checks` that the check against random orders makes."""

Level = Literal["holds", "weak", "poor", "unchecked"]
MARKS: dict[Level, tuple[str, str]] = {
    "holds": ("✓", "holds up"),
    "weak": ("△", "weak evidence"),
    "poor": ("✕", "do not trust"),
    "unchecked": ("○", "not checked"),
}
"""How a verdict is marked: by a shape and by words, so that nobody needs colours to tell one from another."""
LARGEST_CHANCE = 0.1
"""How often a random order may do as well as an explanation that holds up. If b of R random orders are beaten, one more
random order is among the best R − b + 1 of R + 1 with probability (R − b + 1) / (R + 1): 2/21 where 19 of 20 are
beaten, 3/21 where 18 are. Beating all of fewer than 9 orders is never enough."""
SMALLEST_FALL = 0.05
"""Fall of the probability, by itself and beyond that of random words, from which it matters: less than a twentieth is
within what deleting any words does to a prediction, however regularly it happens."""
LARGEST_SPECIAL_SHARE = 0.5
"""Share of the total on special tokens above which words, which are all that a reader sees, are the smaller part."""


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
    """Return "The model says 'PL' with probability 94 %."."""
    prediction = explanation.prediction
    return f"The model says '{prediction.label}' with probability {percent(prediction.probability)}."


def notices(explanation: Explanation) -> list[str]:
    """Return what a reader must know before believing anything: text the model never saw, random weights, …"""
    found = []
    dropped, kept = explanation.encoding.dropped, len(explanation.encoding)
    if dropped:
        lost = "1 more was" if dropped == 1 else f"{dropped:,} more were"
        found.append(f"The model read the first {kept:,} tokens; {lost} cut off and played no part in the prediction.")
    found += [sentence for name, sentence in _NOTICES.items() if _alarming(name, explanation.checks)]
    return found


@dataclass(frozen=True)
class Verdict:
    """How far to trust an explanation, in two or three sentences to be read before anything else."""

    level: Level
    sentences: tuple[str, ...]
    warning: str | None = None
    """What keeps even an explanation that holds up from telling much."""

    @property
    def words(self) -> str:
        """The level as a reader sees it."""
        return MARKS[self.level][1]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON, for the page and for the API."""
        told = {"level": self.level, "words": self.words, "sentences": list(self.sentences)}
        return told if self.warning is None else {**told, "warning": self.warning}


def verdict(checks: Mapping[str, Value]) -> Verdict:
    """Judge an explanation by its checks: what deleting its strongest words does to the model, against random words.

    It holds up if that lowers the probability by `SMALLEST_FALL` or more, and more than random words do, and if chance
    does as well in at most `LARGEST_CHANCE` of the cases; it is poor if it beats no more than half of the random
    orders, or if the model's weights are random. Everything between is weak.
    """
    level, sentences = _comparison(checks)
    if _alarming("untrained", checks):
        level, sentences = "poor", [_NOTICES["untrained"], *sentences]
    share = float(checks.get("special_share", 0.0))
    warning = None
    if share > LARGEST_SPECIAL_SHARE:
        warning = f"Special tokens such as [CLS] carry {percent(share)} of the total: the words are the smaller part."
    elif "special_share" in checks:
        sentences = [*sentences, f"Special tokens carry {percent(share)} of the total."]
    return Verdict(level, tuple(sentences), warning)


def _comparison(checks: Mapping[str, Value]) -> tuple[Level, list[str]]:
    """Level and sentence of the check against random orders, or why there was none."""
    if "faithfulness_check" in checks:
        return "unchecked", [f"It could not be compared with random orders. {checks['faithfulness_check']}"]
    if not all(name in checks for name in CHECKED):
        return "unchecked", [
            "It was not compared with random orders of the words: check=True in Python, --check on the command line "
            "and a tick box of the server do that."
        ]
    own, random = float(checks["faithfulness"]), float(checks["random_mean"])
    beaten, orders = int(checks["random_beaten"]), int(checks["random_orderings"])
    level: Level
    if 2 * beaten <= orders:
        level, but = "poor", ", no more than chance would"
    elif (orders - beaten + 1) / (orders + 1) > LARGEST_CHANCE:
        level, but = "weak", ", too few to rule out chance"
    elif min(own, own - random) < SMALLEST_FALL:
        level, but = "weak", ", but by little"
    else:
        level, but = "holds", ""
    return level, [
        f"Beats {beaten} of {orders} random orders{but}: removing its strongest words {_moves(own, 'the probability')} "
        f"on average, removing random words {_moves(random, 'it')}."
    ]


def _moves(fall: float, what: str) -> str:
    """Return "lowers the probability by 0.84", or what else a fall is."""
    if fall == 0.0:
        return f"leaves {what} as it is"
    size = f"{abs(fall):.2g}" if abs(fall) >= 0.001 else "less than 0.001"
    return f"{'lowers' if fall > 0 else 'raises'} {what} by {size}"


def check_sentences(checks: Mapping[str, Value]) -> list[str]:
    """Return one sentence for each check that neither verdict nor notices tell, in the method's order.

    Unknown ones are shown by name.
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
    """Said elsewhere, by `verdict` or `notices`."""
    return ""


_SENTENCES: dict[str, Callable[[Any], str]] = {
    "completeness_gap": _share("The completeness gap is {}."),
    "change": _share("Twice the steps changed the scores by {}."),
    "reconstruction_error": _share("The parts add up to the layers' outputs with an error of {}."),
    "evaluations": _count("evaluation"),
    "model_calls": _count("call"),
    "replacement": lambda value: f"Words were hidden by '{value}'.",
    "converged": lambda value: "The steps were refined until the scores were stable." if value else "",
    "surrogate_fit": _share("The linear model it is read from explains {} of what was measured."),
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
    "check_calls": lambda value: f"Checking it took {value:,} calls of the model.",
    **dict.fromkeys((*CHECKED, "faithfulness_percentile", "faithfulness_check", "special_share"), _silent),
    "causal": lambda value: "The model is causal: early tokens are seen by more others than late ones.",
    "untrained": _silent,
    "dropped_tokens": _silent,
}
_NOTICES = {
    "untrained": "Some weights of this model are random: what it says and why mean nothing.",
    "converged": "The scores had not settled when the limit of steps was reached: read them with care.",
    "certified": "Not every value of the flow is certified: between flow and cut there is a gap.",
}


def _alarming(name: str, checks: Mapping[str, Value]) -> bool:
    """Untrained is bad when true, converged and certified when false."""
    return name in checks and bool(checks[name]) == (name == "untrained")
