"""Checks, predictions and notices in plain sentences, the same on the page, in the notebook and in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.explanation import Explanation

Value = float | int | str | bool


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


def check_sentences(checks: Mapping[str, Value]) -> list[str]:
    """Return one sentence for each check in the method's order, without notices; unknown ones are shown by name."""
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


def _silent(value: Any) -> str:
    """Said elsewhere, by `notices`."""
    return ""


_SENTENCES: dict[str, Callable[[Any], str]] = {
    "completeness_gap": _share("The completeness gap is {}."),
    "change": _share("Twice the steps changed the scores by {}."),
    "special_share": _share("Special tokens such as [CLS] carry {} of the total."),
    "reconstruction_error": _share("The parts add up to the layers' outputs with an error of {}."),
    "evaluations": _count("evaluation"),
    "model_calls": _count("call"),
    "replacement": lambda value: f"Words were hidden by '{value}'.",
    "converged": lambda value: "The steps were refined until the scores were stable." if value else "",
    "untrained": _silent,
    "dropped_tokens": _silent,
}
_NOTICES = {
    "untrained": "Some weights of this model are random: what it says and why mean nothing.",
    "converged": "The scores had not settled when the limit of steps was reached: read them with care.",
}


def _alarming(name: str, checks: Mapping[str, Value]) -> bool:
    """Untrained is bad when true, converged when false."""
    return name in checks and bool(checks[name]) == (name == "untrained")
