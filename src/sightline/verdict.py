"""Verdict: how far an explanation can be trusted, judged from its checks by named thresholds.

The check removes the words an explanation ranks highest, and random sets of the same size, and compares the falls of
the probability (`metrics.check`). `judge` turns those numbers into a level with machine-readable reasons;
`view.words.sentences` turns the result into prose.

A fall is measured against the *stake*: the fall that would change the prediction. So the same rule serves a prediction
of 54 % and one of 99.97 %.
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
    "nothing_decides",
    "untrained_model",
    "not_checked",
    "not_comparable",
    "special_tokens_dominate",
]
Value = float | int | str | bool

LARGEST_CHANCE = 0.1
"""How often a random order may do as well as an explanation that holds up. If b of R random orders are beaten, one more
random order is among the best R − b + 1 of R + 1 with probability (R − b + 1) / (R + 1): 1/10 if all of 9 are beaten,
2/21 if 19 of 20 are. Beating all of fewer than 9 orders is never enough."""
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
PASSAGES = (
    "passages_removed",
    "passages_share",
    "passages_label",
    "passages_probability",
    "passages_random_changed",
    "passages_trials",
)
"""Entries about the document without its strongest sentences (`metrics.passages`)."""
CHECK_ENTRIES = (
    *MEASURED,
    *TELLING,
    "faithfulness_percentile",
    "probability_empty",
    "empty_says_same",
    "check_calls",
    "check_replacement",
    "mask_faithfulness",
    "mask_random_mean",
    "mask_level",
    "replacements_agree",
    "faithfulness_check",
    *PASSAGES,
)
"""All entries of `Explanation.checks` that a check makes: they belong to the scores that were checked."""
NOT_COMPARABLE = "faithfulness_check"
"""Entry of `Explanation.checks` that says in a sentence why there was nothing to compare."""


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

    If the prediction changed without the strongest sentences (`metrics.passages`), something in the text decides,
    whatever the model says about an empty document.
    """
    if "passages_trials" in checks or not all(name in checks for name in (*TELLING, "probability_empty")):
        return False
    if not checks.get("empty_says_same", True):  # checks of earlier versions lack it
        return False
    probability, stake = float(checks["probability"]), float(checks["stake"])
    return all(probability - float(checks[name]) < stake / 2 for name in ("probability_empty", "probability_without"))
