"""Verdict: how far an explanation can be trusted, judged from its checks by named thresholds.

The check deletes the words an explanation ranks highest and compares the mean fall of the probability with that of R
random orders of the same words (`metrics.check`). `judge` turns those numbers into a level with machine-readable
reasons; `view.words.sentences` turns the result into prose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["holds", "weak", "poor", "unchecked"]
Reason = Literal[
    "beats_random",
    "no_better_than_random",
    "chance_not_excluded",
    "small_effect",
    "untrained_model",
    "not_checked",
    "not_comparable",
    "special_tokens_dominate",
]
Value = float | int | str | bool

# The thresholds were chosen by argument, not by measurement: each constant gives its reason.
LARGEST_CHANCE = 0.1
"""How often a random order may do as well as an explanation that holds up. If b of R random orders are beaten, one more
random order is among the best R − b + 1 of R + 1 with probability (R − b + 1) / (R + 1): 2/21 if 19 of 20 are beaten,
3/21 if 18 are. Beating all of fewer than 9 orders is never enough."""
SMALLEST_FALL = 0.05
"""Smallest fall of the probability that matters, both by itself and beyond the fall caused by random words: deleting
any words changes a prediction by about a twentieth, however regularly that happens."""
LARGEST_SPECIAL_SHARE = 0.5
"""Share of the total magnitude on special tokens above which the words, which are all a reader sees, are the smaller
part."""

MEASURED = ("faithfulness", "random_mean", "random_beaten", "random_orderings")
"""Entries of `Explanation.checks` that the comparison with random orders makes."""
NOT_COMPARABLE = "faithfulness_check"
"""Entry of `Explanation.checks` that says in a sentence why there was nothing to compare."""


@dataclass(frozen=True)
class Verdict:
    """How far an explanation can be trusted."""

    level: Level
    """"holds", "weak", "poor" or "unchecked"."""
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

    It holds up if deleting its strongest words lowers the probability by at least `SMALLEST_FALL`, and by as much more
    than deleting random words, and if chance does as well in at most `LARGEST_CHANCE` of the cases. It is poor if it
    beats no more than half of the random orders or if the model has random weights. Everything in between is weak.
    """
    level, reason = _compare_with_random(checks)
    reasons: list[Reason] = [reason]
    if checks.get("untrained"):
        level, reasons = "poor", ["untrained_model", reason]
    numbers: dict[str, float | int] = {
        name: value
        for name in (*MEASURED, "special_share")
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
    fall, random_fall = float(checks["faithfulness"]), float(checks["random_mean"])
    beaten, orders = int(checks["random_beaten"]), int(checks["random_orderings"])
    if 2 * beaten <= orders:
        return "poor", "no_better_than_random"
    if (orders - beaten + 1) / (orders + 1) > LARGEST_CHANCE:
        return "weak", "chance_not_excluded"
    if min(fall, fall - random_fall) < SMALLEST_FALL:
        return "weak", "small_effect"
    return "holds", "beats_random"
