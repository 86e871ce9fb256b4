"""Predictions, notices and diagnostics as sentences, the same wherever an explanation is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sightline import builtin
from sightline.results.check import EXCHANGE_ENTRIES
from sightline.results.verdict import NOT_COMPARABLE
from sightline.view.words.phrases import percent, predicted_value, share_of_words

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation
    from sightline.text import Aggregation, Windows

Value = float | int | str | bool
LARGEST_LOSS = 0.5
"""Share of the explained output that biases may take before a sentence warns of reading the sizes of scores."""
UNTRAINED = "Some weights of this model are random: its predictions and their explanations mean nothing."
DEMONSTRATION = (
    "The demonstration model only tells artificial intelligence from programming languages; name yours with --model."
)
NAMED_POSITIONS = 8
"""Positions of artefacts that a sentence lists."""


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
    total = len(encoding) + encoding.dropped
    return f"Too long for the model ({total:,} tokens), so read in {len(windows)} overlapping windows; {combined}."


def further_sentences(explanation: Explanation) -> list[str]:
    """Return what is known about an explanation beside its verdict: artefacts, then how it was computed."""
    return [*artefact_sentences(explanation), *check_sentences(explanation.checks)]


def artefact_sentences(explanation: Explanation) -> list[str]:
    """Return how many of the tested words have scores that belong to their position, if words were exchanged."""
    exchange = explanation.exchange
    if exchange is None or not exchange.tested:
        return []
    tested = "the tested word" if exchange.tested == 1 else f"the {exchange.tested:,} tested words"
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
    **dict.fromkeys((*EXCHANGE_ENTRIES, NOT_COMPARABLE, "special_share"), _silent),
    "causal": lambda value: "The model is causal: early tokens are seen by more others than late ones.",
    "untrained": _silent,
    "dropped_tokens": _silent,
}
_NOTICES = {
    "untrained": UNTRAINED,
    "converged": "The scores had not converged at the limit of steps: read them with care.",
    "certified": "Some flow values are not certified: flow and cut differ.",
}


def _is_alarming(name: str, checks: Mapping[str, Value]) -> bool:
    """`untrained` is bad when true, `converged` and `certified` when false."""
    return name in checks and bool(checks[name]) == (name == "untrained")
