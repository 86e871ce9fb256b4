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
    return [sentence for sentence in (*sentences, *_against_random(checks)) if sentence]


def _against_random(checks: Mapping[str, Value]) -> list[str]:
    """Return what the check against random orders found (`metrics.check`), which takes several numbers to say."""
    names = ("faithfulness", "random_mean", "random_beaten", "random_orderings")
    if not all(name in checks for name in names):
        return []
    own, random, beaten, orders = (checks[name] for name in names)
    sentence = (
        f"Removing its highest-ranked words lowers the probability more than {beaten} of {orders} random orders do"
    )
    if 2 * int(beaten) <= int(orders):
        sentence += ", no more than chance would"
    return [f"{sentence} (by {float(own):.3g} on average, against {float(random):.3g})."]


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
    """Said elsewhere, by `notices` or together with other checks."""
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
    **dict.fromkeys(("faithfulness", "random_mean", "random_beaten", "random_orderings"), _silent),
    "faithfulness_percentile": _silent,
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
