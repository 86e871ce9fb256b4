"""Curves for the page: the probability while words are deleted, per method, with random orders beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.explanation import Explanation, RemovalCurve
    from sightline.report import Entry


_COMPARED = ("faithfulness", "random_mean", "random_beaten", "random_orderings")
"""Checks that a plot repeats in words."""


@dataclass(frozen=True)
class CurveSeries:
    """One line of a curve: y at every x, and the interval around it if there is one."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Curve:
    """A plot of lines, and what it shows in sentences."""

    name: str
    x: str
    y: str
    series: Sequence[CurveSeries]
    notes: Sequence[str] = ()
    footnote: str = ""
    """How it was measured, in small print below the plot."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values as the page reads them; missing intervals are left out."""
        series = [
            {
                name: value if isinstance(value, str) else list(value)
                for name, value in vars(line).items()
                if value is not None
            }
            for line in self.series
        ]
        plot = {"name": self.name, "x": self.x, "y": self.y, "series": series, "notes": list(self.notes)}
        return {**plot, "footnote": self.footnote} if self.footnote else plot


def removal_curves(entries: Sequence[Entry], targets: Sequence[str]) -> list[Curve]:
    """Return one plot per target of the explanations that were checked; `targets` names the target of each entry.

    One line per method; the band spans the random orders from the lowest to the highest. Explanations compared with
    other orders, or at other shares, get a plot of their own.
    """
    plots: dict[tuple[str, bytes, bytes], list[tuple[str, Explanation, RemovalCurve]]] = {}
    for (method, _, explanation), target in zip(entries, targets, strict=True):
        removal = explanation.removal
        if removal is not None and all(name in explanation.checks for name in _COMPARED):
            key = target, removal.ratios.tobytes(), removal.random.tobytes()
            plots.setdefault(key, []).append((method, explanation, removal))
    return [_removal_plot(target, lines) for (target, _, _), lines in plots.items()]


def _removal_plot(target: str, shown: Sequence[tuple[str, Explanation, RemovalCurve]]) -> Curve:
    first = shown[0][2]
    percent = (100 * first.ratios).round(6).tolist()
    lines = [CurveSeries(method, percent, removal.probabilities.tolist()) for method, _, removal in shown]
    orderings = len(first.random)
    chance = CurveSeries(
        f"{orderings} random ordering{'s' if orderings > 1 else ''}",
        percent,
        first.random.mean(axis=0).tolist(),
        first.random.min(axis=0).tolist(),
        first.random.max(axis=0).tolist(),
    )
    return Curve(
        name=f"What is left of {target} when the highest-ranked words are deleted",
        x="% of the words deleted",
        y="probability",
        series=[*lines, chance],
        notes=[_note(method, explanation) for method, explanation, _ in shown],
        footnote=describe_points(first),
    )


def describe_points(removal: RemovalCurve) -> str:
    """Return at how many counts of words the model was run, and why not at more."""
    from sightline.metrics.check import scale_counts

    orderings = len(removal.random)
    if removal.counts is None:
        return f"Besides the whole document, every line has {len(removal.ratios) - 1} points."
    measured = [count for count in removal.counts.tolist() if count]
    points = "1 point" if len(measured) == 1 else f"{len(measured)} points"
    sentence = (
        f"Besides the whole document, every line has {points}, measured without "
        f"{', '.join(f'{count:,}' for count in measured)} of the words"
    )
    scale = scale_counts(round(measured[-1] / float(removal.ratios[-1])))
    if len(measured) >= len(scale):
        return f"{sentence}."
    calls = len(scale) * (orderings + 1) + 2
    return (
        f"{sentence}. Each point takes {orderings + 1} model calls; with check_budget={calls} in Python there are "
        f"{len(scale)} points."
    )


def _note(method: str, explanation: Explanation) -> str:
    """Return "attcat beats 20 of 20 random orderings: …"."""
    checks = explanation.checks
    own, random, beaten, orderings = (checks[name] for name in _COMPARED)
    own, random = (f"{float(value):.2g}".replace("-", "−") for value in (own, random))
    return (
        f"{method} beats {beaten} of {orderings} random orderings: deleting its "
        f"highest-ranked words lowers the probability by {own} on average; deleting random words lowers it by {random}."
    )
