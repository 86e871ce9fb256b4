"""What was measured, and what it says about a claim.

A verdict has three parts: what the paper printed, what was measured in the same quantity with its interval, and whether
the two agree, disagree, or cannot be told apart by this sample, with the effect that it would have shown. Whether the
effect is also there where its cause is absent (random weights, shuffled scores) is a column of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.metrics.statistics import difference_ends, mean_interval, share_interval

Verdict = Literal["agrees", "disagrees", "cannot tell"]
Artefact = Literal["yes", "no", "cannot tell", "not tested"]
ROUNDING = 1e-12
"""Smaller effects are rounding."""
_DETECTABLE = 2.8 / (2 * 1.96)
"""Smallest detectable effect per width of a 95 % interval: 2.8 standard errors (power 80 %, two-sided test at 5 %)."""


@dataclass(frozen=True)
class Measured:
    """A mean over documents with its 95 % interval; fewer than six documents have none (NaN)."""

    value: float
    low: float
    high: float
    documents: int

    @classmethod
    def of(cls, values: npt.ArrayLike, seed: int = 0) -> Measured:
        """Return mean and interval of one value per document, (D,); NaN values are left out."""
        array = np.array(values, dtype=np.float64).ravel()
        array = array[np.isfinite(array)]
        return cls(*mean_interval(array, seed=seed), documents=array.size)

    @classmethod
    def paired(cls, first: npt.ArrayLike, second: npt.ArrayLike, *, seed: int = 0) -> Measured:
        """Return the mean of first − second, one value of each per document; NaN where one of them is NaN."""
        return cls.of(np.array(first, dtype=np.float64) - np.array(second, dtype=np.float64), seed)

    @property
    def above_zero(self) -> bool:
        """Whether the interval lies above 0."""
        return self.low > ROUNDING

    @property
    def detectable(self) -> float:
        """The smallest true effect that a sample of this size and spread shows with a probability of 80 %."""
        return (self.high - self.low) * _DETECTABLE

    def columns(self, prefix: str = "") -> dict[str, float]:
        """Return the columns of a table: mean, low and high, with a prefix before their names."""
        names = ("mean", "low", "high") if not prefix else (prefix, f"{prefix}_low", f"{prefix}_high")
        return dict(zip(names, (self.value, self.low, self.high), strict=True))


@dataclass(frozen=True)
class Claim:
    """A statement of the paper that a run can support or contradict."""

    name: str
    """A few words, for tables."""
    sentence: str
    quantity: str
    """The number that is compared, as the paper prints it."""
    where: str
    """Table, figure or section of the paper."""


def claim_of(claims: Sequence[Claim], name: str) -> Claim:
    """Return the claim of that name."""
    return next(claim for claim in claims if claim.name == name)


@dataclass(frozen=True)
class Case:
    """One comparison of a claim: a model, a data set, or a rival method."""

    name: str
    measured: Measured
    published: Sequence[float] = ()
    """The printed numbers of this quantity: one, or those of several models."""
    control: Measured | None = None
    """The same quantity where the effect cannot exist: random weights, shuffled scores."""
    bound: float = 0.0
    """The claim is that the quantity is above this …"""
    below: bool = False
    """… or below it."""
    within: float | None = None
    """Instead, the claim is that the quantity equals the printed number within this tolerance."""
    set_aside: str = ""
    """Why the case does not decide, for example a model that has not learnt its task."""

    def _side(self, measured: Measured) -> int:
        """Return 1 if the interval lies on the side that the claim names, −1 if on the other one, else 0."""
        low, high = measured.low, measured.high
        if self.within is not None:
            bottom, top = min(self.published) - self.within, max(self.published) + self.within
            return 1 if bottom <= low and high <= top else -1 if low > top or high < bottom else 0
        side = int(low > self.bound + ROUNDING) - int(high < self.bound - ROUNDING)
        return -side if self.below else side

    @property
    def artefact(self) -> Artefact:
        """Whether the control shows the same effect: yes if it lies on the same side, and the difference shows nothing.

        A number that has to be close to the printed one is an artefact if the control is close as well.
        """
        side, control = self._side(self.measured), self.control
        if control is None or math.isnan(control.low) or side == 0:
            return "not tested"
        if self.within is not None:
            return "yes" if self._side(control) == side else "no"
        difference = minus_control(self.measured, control)
        further = difference.low > ROUNDING if (side > 0) != self.below else difference.high < -ROUNDING
        if further:
            return "no"
        return "yes" if self._side(control) == side else "cannot tell"

    @property
    def verdict(self) -> Verdict:
        """The verdict by the side on which the interval lies; an artefact disagrees with nothing."""
        side = self._side(self.measured)
        if side == 0 or (side < 0 and self.artefact == "yes"):
            return "cannot tell"
        return "agrees" if side > 0 else "disagrees"

    @property
    def reason(self) -> str:
        """Why the case does not count, or cannot be told; empty if it agrees or disagrees."""
        if self.set_aside or self.verdict != "cannot tell":
            return self.set_aside
        if math.isnan(self.measured.low):
            return "too few documents for an interval"
        return "the control shows as much" if self.artefact == "yes" else "the interval allows both"


@dataclass(frozen=True)
class Finding:
    """What a run says about a claim, case by case."""

    claim: Claim
    cases: Sequence[Case] = ()
    evidence: str = ""
    """Notes on the numbers, or the reason why there are none."""

    @property
    def measured(self) -> list[Case]:
        """The cases that have a value."""
        return [case for case in self.cases if case.measured.documents]

    @property
    def deciding(self) -> list[Case]:
        """The cases that count: those that have a value and are not set aside."""
        return [case for case in self.measured if not case.set_aside]

    @property
    def tally(self) -> Counter[Verdict]:
        """Number of these cases that agree, disagree, or cannot tell."""
        return Counter(case.verdict for case in self.deciding)

    @property
    def verdict(self) -> Verdict:
        """agrees: most cases do and none disagrees. disagrees: some do, and at least as many as agree."""
        agree, disagree = self.tally["agrees"], self.tally["disagrees"]
        if disagree and disagree >= agree:
            return "disagrees"
        return "agrees" if 2 * agree > len(self.deciding) and not disagree else "cannot tell"

    @property
    def reason(self) -> str:
        """Why the claim cannot be told, in one line; empty if it agrees or disagrees."""
        if self.verdict != "cannot tell":
            return ""
        if not self.measured:
            return "not measured: see “Left out”"
        if not self.deciding:
            return "; ".join(dict.fromkeys(case.reason.partition(" (")[0] for case in self.measured))
        if self.tally["agrees"] and self.tally["disagrees"]:
            return "cases contradict each other"
        reasons = Counter(case.reason for case in self.deciding if case.reason)
        return "; ".join(f"{reason} in {number} of {len(self.deciding)}" for reason, number in reasons.items())

    @property
    def artefact(self) -> str:
        """The number of tested cases in which the control shows the effect as well."""
        tested = [case.artefact for case in self.deciding if case.artefact != "not tested"]
        return f"{tested.count('yes')} of {len(tested)}" if tested else "not tested"

    @property
    def detectable(self) -> float:
        """The largest of the effects that the deciding cases would have shown; if none decides, that all would have."""
        effects = [case.measured.detectable for case in self.deciding or self.measured]
        return max((effect for effect in effects if not math.isnan(effect)), default=math.nan)


class Accuracy(NamedTuple):
    """The accuracy of a model, beside that of always naming the largest class."""

    measured: Measured
    majority: float
    gain: Measured
    """Accuracy minus majority."""

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> Accuracy:
        """Return the accuracy of "predicted" against "label" per entry, compared as text: "1" is 1."""
        labels = [str(entry["label"]) for entry in entries]
        hits = np.array([float(str(entry["predicted"]) == str(entry["label"])) for entry in entries])
        majority = max((labels.count(label) / len(labels) for label in set(labels)), default=float("nan"))
        share, low, high = share_interval(hits)
        gain = Measured(share - majority, low - majority, high - majority, hits.size)
        return cls(Measured(share, low, high, hits.size), majority, gain)

    def in_words(self) -> str:
        """Return a sentence."""
        return f"Accuracy {in_words(self.measured)}; the largest class alone gives {self.majority:.3f}."


def minus_control(effect: Measured, control: Measured) -> Measured:
    """Return the effect minus that of the control, with the interval of the difference."""
    means = [(each.value, each.low, each.high) for each in (effect, control)]
    low, high = difference_ends(*means)
    return Measured(effect.value - control.value, float(low), float(high), min(effect.documents, control.documents))


def shared_difference(first: Mapping[Any, float], second: Mapping[Any, float], seed: int = 0) -> Measured:
    """Return the mean of first − second over the documents that have both values, with its interval."""
    return Measured.of([first[key] - second[key] for key in first if key in second], seed)


def in_words(measured: Measured) -> str:
    """Return "0.41 (0.38 to 0.44, 50 documents)"."""
    if not measured.documents:
        return "no value"
    value, low, high = (two_digits(number) for number in (measured.value, measured.low, measured.high))
    ends = "no interval" if measured.low != measured.low else f"{low} to {high}"
    return f"{value} ({ends}, {measured.documents:,} documents)"


def two_digits(value: float) -> str:
    """Return a number with two significant digits, and at most four decimals: 0.41, −0.0083, 12."""
    if value != value:
        return "–"
    places = 4 if value == 0 else min(4, max(0, 1 - math.floor(math.log10(abs(value)))))
    text = f"{value:z.{places}f}"
    return "0" if float(text) == 0 else text.replace("-", "−")
