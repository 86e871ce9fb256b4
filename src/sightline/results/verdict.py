"""Verdict: how far an explanation can be trusted, judged from its checks by named thresholds.

The check removes the words an explanation ranks highest, and random sets of the same size, and compares the falls of
the probability (`metrics.check`). `judge` turns those numbers into a level with machine-readable reasons;
`view.words.sentences` turns the result into prose.

A fall is measured against the *stake*: the fall that would change the prediction. So the same rule serves a prediction
of 54 % and one of 99.97 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

from sightline.results.artefacts import EXCHANGE_ENTRIES
from sightline.results.record_checks import (
    ABOVE_ONE,
    check_choice,
    check_flag,
    check_number,
    check_object,
    check_plain,
    check_text,
    check_whole,
)

Level = Literal["holds", "weak", "poor", "unchecked"]
Reason = Literal[
    "beats_random",
    "no_better_than_random",
    "chance_not_excluded",
    "small_effect",
    "nothing_decides",
    "untrained_model",
    "not_checked",
    "not_comparable",
    "special_tokens_dominate",
]
Value = float | int | str | bool

LARGEST_CHANCE = 0.1
"""How often a random order may do as well as an explanation that holds up. An order without information beats at least
b of R random orders with probability (R − b + 1) / (R + 1): 1/10 for all of 9, 2/21 for 19 of 20. Beating all of fewer
than 9 orders is never enough."""
SMALLEST_EFFECT = 1.0
"""Smallest difference between the fall and the mean fall of random orders, in stakes, of an explanation that holds up.
Measured: the smallest at which at most 2.5 % of each kind of wrong explanation held up on one half of the calibration
set. On the other half 6 of 540 wrong and 93 of 96 right ones held up (docs/trust.md, `python -m tools.calibrate`)."""
TIE = 0.01
"""Falls that differ by less than this many stakes are ties: smaller differences are rounding errors of a saturated
probability."""
SMALLEST_STAKE = 0.05
"""A prediction may be arbitrarily close to changing, but removing any words moves a probability by about a twentieth:
on a paragraph with a smaller lead, shuffled explanations had effects above 1."""
LARGEST_SPECIAL_SHARE = 0.5
"""Share of the total magnitude on special tokens above which the words, which are all a reader sees, are the smaller
part."""

MEASURED = ("faithfulness", "random_mean", "random_beaten", "random_orderings", "stake")
"""Entries of `Explanation.checks` on which the level rests."""
TELLING = ("removed_words", "removed_share", "probability", "probability_without", "probability_without_random")
"""Entries that describe the count at which the explanation differs most from random words."""
NOT_COMPARABLE = "faithfulness_check"
"""Entry of `Explanation.checks` that says in a sentence why there was nothing to compare."""
_number, _size = check_number, partial(check_number, low=0)
_share = partial(check_number, low=0, high=1 + ABOVE_ONE)
_fall = partial(check_number, low=-1 - ABOVE_ONE, high=1 + ABOVE_ONE)
_count, _flag, _text = check_whole, check_flag, check_text
_PASSAGES: dict[str, Callable[[Any, str], object]] = {
    "passages_removed": partial(check_whole, low=1),
    "passages_share": _share,
    "passages_label": _text,
    "passages_probability": _share,
    "passages_random_changed": _count,
    "passages_trials": _count,
}
"""Entries about the document without its strongest sentences (`metrics.check`)."""
_OF_CHECK: dict[str, Callable[[Any, str], object]] = {
    "faithfulness": _fall,
    "random_mean": _fall,
    "random_beaten": _count,
    "random_orderings": partial(check_whole, low=1),
    "stake": _share,
    "removed_words": _count,
    "removed_share": _share,
    "probability": _share,
    "probability_without": _share,
    "probability_without_random": _share,
    "faithfulness_percentile": partial(check_number, low=0, high=100),
    "probability_empty": _share,
    "empty_says_same": _flag,
    "check_calls": _count,
    "check_replacement": _text,
    "mask_faithfulness": _fall,
    "mask_random_mean": _fall,
    "mask_level": partial(check_choice, choices=get_args(Level)),
    "replacements_agree": _flag,
    NOT_COMPARABLE: _text,
    **_PASSAGES,
}
"""Type and range of every entry that a check makes."""
_OF_METHODS: dict[str, Callable[[Any, str], object]] = {
    **dict.fromkeys(("untrained", "converged", "exact", "certified", "causal"), _flag),
    **dict.fromkeys(("special_share", "measured_share", "artefact_share"), _share),
    **dict.fromkeys(("surrogate_fit", "relevance_given", "relevance_kept"), _number),
    **dict.fromkeys(("completeness_gap", "change", "reconstruction_error", "conservation_error", "largest_gap"), _size),
    **dict.fromkeys(("largest_standard_error", "orderings", "evaluations", "model_calls", "clipped_rows"), _size),
    **dict.fromkeys(("settled_by_bounds", "settled_by_flow", "settled_by_cut", "dropped_tokens"), _size),
    **dict.fromkeys((name for name in EXCHANGE_ENTRIES if name != "artefact_share"), _count),
    "replacement": _text,
}
"""Type and range of the entries that methods and other checks make; plug-ins may add their own."""
KNOWN_CHECKS = _OF_CHECK | _OF_METHODS
CHECK_ENTRIES = tuple(_OF_CHECK)
"""All entries of `Explanation.checks` that a check makes: they belong to the scores that were checked."""


def read_checks(values: Any) -> dict[str, Any]:
    """Return saved `Explanation.checks`; raise ValueError if an entry is not what the sentences about it expect.

    Unknown entries are kept; they may be any number, text, true or false.
    """
    checks = check_plain(check_object(values, "checks"), "checks")
    for name, value in checks.items():
        if isinstance(value, dict | list) or value is None:
            raise ValueError(f"checks.{name} must be a number, a text, true or false")
        if check := KNOWN_CHECKS.get(name):
            check(value, f"checks.{name}")
    if checks.get("stake", 1) <= 0:
        raise ValueError("checks.stake must be above 0")
    if not set(_PASSAGES).isdisjoint(checks):
        for name in tuple(_PASSAGES)[:4]:
            _PASSAGES[name](checks.get(name), f"checks.{name}")
    for part, total in (("random_beaten", "random_orderings"), ("passages_random_changed", "passages_trials")):
        check_whole(checks.get(part, 0), f"checks.{part}", 0, checks.get(total, 0))
    return dict(checks)


def find_stake(probability: float, runner_up: float | None, *, multi_label: bool = False) -> float:
    """Return the fall of a class probability that would change what the model says, at least `SMALLEST_STAKE`.

    For the predicted class half of its lead over the runner-up, since what it loses the other may gain; if classes are
    independent (`multi_label`) its distance to 1/2. For a class that is not predicted (runner_up=None) half of its
    probability.
    """
    if multi_label:
        stake = probability - 0.5 if probability > 0.5 else probability / 2
    else:
        stake = (probability - runner_up) / 2 if runner_up is not None else probability / 2
    return max(stake, SMALLEST_STAKE)


@dataclass(frozen=True)
class Verdict:
    """How far an explanation can be trusted."""

    level: Level
    """"holds" (holds up), "weak" (weakly supported), "poor" (do not trust) or "unchecked" (not checked)."""
    reasons: tuple[Reason, ...]
    """Why, as codes; the first one decided the level."""
    numbers: dict[str, float | int] = field(default_factory=dict)
    """The numbers behind it, by their names in `Explanation.checks`."""
    detail: str = ""
    """Why no comparison was possible, in a sentence, if that is the reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        record = {"level": self.level, "reasons": list(self.reasons), "numbers": dict(self.numbers)}
        return {**record, "detail": self.detail} if self.detail else record


def judge(checks: Mapping[str, Value]) -> Verdict:
    """Return the verdict on an explanation with these checks.

    With fall f of its order, mean fall r of the random orders and stake s, it holds up if (f − r) / s reaches
    `SMALLEST_EFFECT` and chance does as well in at most `LARGEST_CHANCE` of the cases. It is poor if it beats no more
    than half of the random orders or if the model has random weights. Everything in between is weak. If the prediction
    stays even without any word, there is nothing to find: that is weak with its own reason, "nothing_decides".
    Checks of versions before the logarithmic scale have no stake and count as not made.
    """
    level, reason = _compare_with_random(checks)
    reasons: list[Reason] = [reason]
    if checks.get("untrained"):
        level, reasons = "poor", ["untrained_model", reason]
    numbers: dict[str, float | int] = {
        name: value
        for name in (*MEASURED, *TELLING, "probability_empty", "empty_says_same", "special_share")
        if isinstance(value := checks.get(name), int | float) and (name == "special_share" or _was_measured(checks))
    }
    if numbers.get("special_share", 0.0) > LARGEST_SPECIAL_SHARE:
        reasons.append("special_tokens_dominate")
    detail = str(checks[NOT_COMPARABLE]) if reason == "not_comparable" else ""
    return Verdict(level, tuple(reasons), numbers, detail)


def _was_measured(checks: Mapping[str, Value]) -> bool:
    return NOT_COMPARABLE not in checks and all(name in checks for name in MEASURED)


def _compare_with_random(checks: Mapping[str, Value]) -> tuple[Level, Reason]:
    if NOT_COMPARABLE in checks:
        return "unchecked", "not_comparable"
    if not _was_measured(checks):
        return "unchecked", "not_checked"
    fall, random_fall, stake = (float(checks[name]) for name in ("faithfulness", "random_mean", "stake"))
    beaten, orders = int(checks["random_beaten"]), int(checks["random_orderings"])
    excludes_chance = (orders - beaten + 1) / (orders + 1) <= LARGEST_CHANCE
    is_large = (fall - random_fall) / stake >= SMALLEST_EFFECT
    if excludes_chance and is_large:
        return "holds", "beats_random"
    if _stays_without_words(checks):
        return "weak", "nothing_decides"
    if 2 * beaten <= orders:
        return "poor", "no_better_than_random"
    return "weak", "small_effect" if excludes_chance else "chance_not_excluded"


def _stays_without_words(checks: Mapping[str, Value]) -> bool:
    """Say whether the probability falls by less than half a stake when all words are removed, or the strongest.

    Near a tie a small fall changes the class, and with three classes another one may overtake: if an empty document
    gets another label, the text decides.

    If the prediction changed without the strongest sentences (`metrics.check`), something in the text decides,
    whatever the model says about an empty document.
    """
    if "passages_trials" in checks or not all(name in checks for name in (*TELLING, "probability_empty")):
        return False
    if not checks.get("empty_says_same", True):  # checks of earlier versions lack it
        return False
    probability, stake = float(checks["probability"]), float(checks["stake"])
    return all(probability - float(checks[name]) < stake / 2 for name in ("probability_empty", "probability_without"))
