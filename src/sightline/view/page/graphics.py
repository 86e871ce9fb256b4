"""Maps of heads and curves as the page gets them.

Maps have one byte a pixel, smaller ones for all heads, finer ones for a few. A map of s × s pixels puts cell (i, j) of
n × n in pixel (⌊i·s/n⌋, ⌊j·s/n⌋), which is the mean of its cells. If s divides S, or S = n, every pixel of the map of S
× S lies inside one of the map of s × s: the smaller map is the mean of the larger one's pixels, each counted as often
as it has cells, and nothing is lost by making one from the other.

Curves show the probability without the highest-ranked words, per method, with random orders beside it.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.text.units import units_of

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation, RemovalCurve
    from sightline.results.inside import Inside
    from sightline.results.report import Entry
    from sightline.view.words.sentences import VerdictText

EDGE = 256
"""Pixels along the maps that all heads get, where there is room."""
FINE_BYTES = 700_000
"""Compressed bytes of the finer maps that the most important heads get beyond that."""


def pool_maps(maps: NDArray[np.floating[Any]], n: int, edge: int) -> NDArray[np.float32]:
    """Make maps (…, S, S) of n × n cells smaller: (…, edge, edge), or as they are where that cannot be done exactly."""
    size = maps.shape[-1]
    if size <= edge or (size < n and size % edge):
        return maps.astype(np.float32, copy=False)
    first = -(-np.arange(size) * n // size)  # the first token of every pixel, ⌈p·n/S⌉
    tokens = np.diff(first, append=n)
    starts = np.searchsorted(first * edge // n, np.arange(edge))
    cells = np.add.reduceat(tokens, starts)
    sums = np.add.reduceat(maps * tokens[:, None].astype(np.float64), starts, axis=-2)
    sums = np.add.reduceat(sums * tokens, starts, axis=-1)
    means: NDArray[np.float32] = (sums / np.outer(cells, cells)).astype(np.float32)
    return means


def encode_maps(maps: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Code maps (…, s, s) as q = 255·√(weight/peak) in one byte a pixel; returns q and the peaks (…).

    The square root keeps the faint parts of a map, where most of it is.
    """
    peak = maps.max(axis=(-2, -1), keepdims=True)
    share = np.divide(maps, peak, out=np.zeros_like(maps), where=peak > 0)
    return np.rint(255 * np.sqrt(np.maximum(share, 0))).astype(np.uint8), peak[..., 0, 0].astype(np.float32)


def heads_by_importance(inside: Inside) -> list[tuple[int, int]]:
    """Every (layer, head), the most important first; without importances the upper layers: they are next to the end."""
    places = np.repeat(np.arange(inside.layers), inside.heads)
    rank = places if inside.importance is None else inside.importance.ravel()
    return [divmod(int(head), inside.heads) for head in np.argsort(-rank, kind="stable")]


def fine_maps(inside: Inside) -> Iterator[tuple[int, int, NDArray[np.uint8], NDArray[np.float32]]]:
    """Yield layer, head, coded map (S, S) and peak (1,) of the most important heads, while `FINE_BYTES` last."""
    left = FINE_BYTES
    for layer, head in heads_by_importance(inside):
        coded, peak = encode_maps(inside.images[layer, head])
        left -= len(zlib.compress(coded.tobytes(), 9))
        if left < 0:
            return
        yield layer, head, coded, peak.reshape(1)


@dataclass(frozen=True)
class CurveSeries:
    """One line of a curve: y at every x, and the interval around it if there is one."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class CurvePlot:
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


def removal_curves(
    entries: Sequence[Entry], targets: Sequence[str], titles: Mapping[str, str], verdicts: Sequence[VerdictText]
) -> list[CurvePlot]:
    """Return one plot per target of the explanations that were checked.

    `targets` and `verdicts` are the name of the target and the verdict of each entry.

    One line per method, under its title. The band spans the random orders of all of them, from the lowest to the
    highest, at the numbers of words where most of them were measured.
    """
    plots: dict[str, list[tuple[str, Explanation, RemovalCurve]]] = {}
    notes: dict[str, list[str]] = {}
    for (method, _, explanation), target, verdict in zip(entries, targets, verdicts, strict=True):
        if explanation.removal is not None:
            plots.setdefault(target, []).append((titles[method], explanation, explanation.removal))
            notes.setdefault(target, []).append(f"{titles[method]} – {verdict.words}. {verdict.sentences[0]}")
    return [_removal_plot(target, lines, notes[target]) for target, lines in plots.items()]


def _removal_plot(
    target: str, shown: Sequence[tuple[str, Explanation, RemovalCurve]], notes: Sequence[str]
) -> CurvePlot:
    counts = [removed_words(explanation, removal) for _, explanation, removal in shown]
    lines = [
        CurveSeries(title, x, removal.probabilities.tolist())
        for (title, _, removal), x in zip(shown, counts, strict=True)
    ]
    verb = "masked" if shown[0][2].replacement == "mask" else "deleted"
    common, _ = Counter(map(tuple, counts)).most_common(1)[0]
    pooled = [removal.random for (_, _, removal), x in zip(shown, counts, strict=True) if tuple(x) == common]
    random = np.unique(np.concatenate(pooled), axis=0)
    chance = CurveSeries(
        f"{len(random)} random order{'s' if len(random) > 1 else ''}",
        list(common),
        random.mean(axis=0).tolist(),
        random.min(axis=0).tolist(),
        random.max(axis=0).tolist(),
    )
    return CurvePlot(
        name=f"Probability of {target} without the highest-ranked words",
        x=f"words {verb} (logarithmic)",
        y=f"probability of {target}",
        series=[*lines, chance],
        notes=notes,
        footnote=describe_points(shown[0][2]),
    )


def removed_words(explanation: Explanation, removal: RemovalCurve) -> list[int]:
    """Return how many words were removed at each point of a curve."""
    if removal.counts is not None:
        return [int(count) for count in removal.counts]
    words = len(units_of(explanation.encoding, "word"))
    return [round(share * words) for share in removal.ratios.tolist()]


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
        f"{sentence}. Each point takes {orderings + 1} model calls; with --check-calls {calls} (in Python "
        f"check_budget={calls}) there are {len(scale)} points."
    )
