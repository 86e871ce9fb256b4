"""The takeaways of an inspection: up to five sentences, each with the name of the figure or page that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sightline.view.words.headline import headline
from sightline.view.words.phrases import count, format_number

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import Inspection, RelationCounts
    from sightline.analysis.relation_table import Direction

CLEARLY_MORE = 1.5
"""Ratio to the average word from which a word counts as listed often, beyond what its frequency explains."""
TEXT_PAGE = "page.html"
"""The page of the explained text in the folder of an inspection."""


class Takeaway(NamedTuple):
    """One sentence, and what shows it."""

    sentence: str
    shown_in: str
    """The name of a picture, or the file of a page."""


def takeaways(inspection: Inspection) -> list[Takeaway]:
    """Return what a reader should know first: the words, the heads, where attention goes, what attends to what."""
    first = next(iter(inspection.explanations))
    candidates = [
        Takeaway(headline(inspection.first), TEXT_PAGE),
        _heads(inspection),
        _received(inspection),
        _relations(inspection),
        _similarity(inspection, first),
    ]
    return [takeaway for takeaway in candidates if takeaway is not None]


def _heads(inspection: Inspection) -> Takeaway | None:
    """Which head matters most, and how few heads make up half of the importance."""
    importance = inspection.importance
    if importance is None or importance.sum() <= 0:
        return None
    layer, head = (int(place) for place in np.unravel_index(np.argmax(importance), importance.shape))
    ranked = np.sort(importance.ravel())[::-1]
    half = int(np.searchsorted(np.cumsum(ranked), ranked.sum() / 2)) + 1
    sentence = (
        f"Head {head} of layer {layer} matters most; {half} of {count(importance.size, 'head')} "
        f"{'has' if half == 1 else 'have'} half of the total importance."
    )
    return Takeaway(sentence, "head-importance")


def _received(inspection: Inspection) -> Takeaway | None:
    """Which word receives the most attention, where that is not the effect of its position."""
    settings = inspection.settings
    sinks = {sink.position for sink in inspection.totals.sinks if sink.flagged}
    most = inspection.totals.top(len(sinks) + 1, settings.layers, settings.head, filter=settings.filter)
    most = most[~most["position"].isin(sinks)]
    if most.empty:
        return None
    row = most.iloc[0]
    where = "" if settings.layer is None and settings.head is None else f" {chosen_heads(inspection)}"
    aside = f", beside the {count(len(sinks), 'sink')} at multiples of 512" if sinks else ""
    sentence = (
        f"Of the listed words, “{row['text']}” at position {int(row['position']):,} receives the most attention{where}"
        f"{aside}, {format_number(float(row['received']), '.2g')} times as much as an average token."
    )
    return Takeaway(sentence, "received")


def chosen_heads(inspection: Inspection) -> str:
    """Return "in layer 3, head 1", "in head 1 of every layer" or "over all layers and heads"."""
    layer, head = inspection.settings.layer, inspection.settings.head
    if layer is not None:
        return f"in layer {layer}" + (f", head {head}" if head is not None else "")
    return f"in head {head} of every layer" if head is not None else "over all layers and heads"


def _relations(inspection: Inspection) -> Takeaway | None:
    """Which word is most often among the strongest partners of others, unless it only has many instances."""
    if "attended" in saturated_sides(inspection, inspection.relations):
        return None
    frame = relation_frame(inspection, "attended", top=1)
    if frame.empty:
        return None
    row = frame.iloc[0]
    ratio = float(row["mean"]) / max(reference_count(inspection, "attended"), 1e-12)
    if ratio < CLEARLY_MORE:
        return None
    sentence = (
        f"“{row['type']}” is most often among the {inspection.relations.k} strongest partners of other tokens; each of "
        f"its {count(int(row['instances']), 'instance')} is listed {format_number(ratio, '.2g')} times as often as an "
        "average word."
    )
    return Takeaway(sentence, "relations")


def saturated_sides(inspection: Inspection, relations: RelationCounts) -> list[Direction]:
    """Return the directions in which the counted lists contain every possible token."""
    settings = inspection.settings
    sides: tuple[Direction, ...] = ("attended", "attending")
    return [
        side
        for side in sides
        if relations.saturation(side, settings.layer, settings.head, count=settings.counting) == 1
    ]


def relation_frame(
    inspection: Inspection,
    side: str,
    relations: RelationCounts | None = None,
    *,
    by: str = "type",
    top: int | None = None,
) -> pd.DataFrame:
    """Return how often words ("type") or positions are listed in one direction, by the settings of the inspection."""
    settings, relations = inspection.settings, relations or inspection.relations
    table = relations.by_type if by == "type" else relations.by_position
    return table(
        side,  # type: ignore[arg-type]
        settings.layer,
        settings.head,
        head_weights=inspection.head_weights,
        count=settings.counting,
        top=top,
    )


def reference_count(inspection: Inspection, side: str) -> float:
    """Return how often the average listed word (one instance) is counted: the reference for the counts of words."""
    frame = relation_frame(inspection, side)
    return float((frame["mean"] * frame["instances"]).sum() / frame["instances"].sum()) if len(frame) else 0.0


def reference_counts(inspection: Inspection, side: str, instances: pd.Series[int]) -> pd.Series[float]:
    """Return how often as many instances of the average listed word are counted, if listed independently.

    Of c̄ per instance, m instances have m·c̄ lists, or N (1 - (1 - c̄/N)^m) of the N tokens where each counts once.
    """
    average = reference_count(inspection, side)
    if inspection.settings.counting == "pairs":
        return average * instances
    tokens = len(inspection.encoding)
    return tokens * (1.0 - (1.0 - average / tokens) ** instances)


def _similarity(inspection: Inspection, name: str) -> Takeaway | None:
    """Whether attention and the first method rank words alike, beside chance."""
    filtered = inspection.settings.filter is not None
    measured = [
        similarity
        for similarity in inspection.similarity.get(name, ())
        if "spearman" in similarity.values and similarity.masked == filtered and not similarity.scaled
    ]
    if not measured:
        return None
    similarity = next((each for each in measured if each.layers == "all"), measured[0])
    value, chance = similarity.values["spearman"], similarity.chance["spearman"]
    range_ = f"{format_number(chance.low, '.2f')} to {format_number(chance.high, '.2f')}"
    verdict = (
        f"which is within what shuffled scores give ({range_})"
        if chance.low <= value <= chance.high
        else f"while shuffled scores give {range_}"
    )
    sentence = f"Attention and {name} rank the words with Spearman's ρ = {format_number(value, '.2f')}, {verdict}."
    return Takeaway(sentence, f"{name}-similarity")
