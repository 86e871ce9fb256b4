"""Sections on attention alone: who looks at whom, and where attention gathers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sightline.analysis.relation_table import Direction
from sightline.view import plots
from sightline.view.inspect.parts import Picture, Section, Table
from sightline.view.plots.style import CATEGORIES
from sightline.view.words.sentences import percent

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import RelationCounts
    from sightline.view.inspect.numbers import Inspection

FOLLOWED_WORDS = 8
"""Words whose places in the document are shown."""


def relations_section(found: Inspection) -> Section:
    """Counts of the strongest partners, by word and by position."""
    settings = found.settings
    k, where = found.relations.k, _where(found)
    said = (
        f"For every token the {k} tokens it attends to most, and the {k} tokens that attend to it most, were counted "
        f"{where}. A word counts as often as it is on such a list.",
        "Heads count by their importance." if settings.scaled else "",
        filter_sentence(found),
    )
    top = settings.top_k
    by_type = {side: _relation_frame(found, found.relations, side, "type") for side in ("attended", "attending")}
    parts: list[Picture | Table] = [
        Picture(
            "relations",
            "Most attended to and most attending words",
            f"How often each word is among the {k} strongest partners of others, instances added up.",
            partial(
                plots.ranked_bars,
                _relation_rankings(found, found.relations, top),
                title=f"Relations {where}" + ("" if settings.filter is None else ", without stop words"),
            ),
        )
    ]
    if settings.filter is not None:
        parts.append(
            Picture(
                "relations-all-words",
                "The same with stop words and punctuation",
                "Function words and punctuation often take most of the attention.",
                partial(
                    plots.ranked_bars,
                    _relation_rankings(found, found.all_relations, top),
                    title=f"Relations {where}, all words",
                ),
            )
        )
    counts = {
        f"{side} to" if side == "attended" else side: found.relations.counts(
            side, settings.layer, settings.head, found.head_weights
        )
        for side in ("attended", "attending")
    }
    parts.append(
        Picture(
            "relations-by-position",
            "Where in the document",
            "The same counts at every position of the document; words left out have none.",
            partial(
                plots.lines_over_positions,
                counts,
                found.encoding.tokens,
                unit="count",
                title=f"Relations by position, {where}",
            ),
        )
    )
    words = by_type["attended"]["type"].head(FOLLOWED_WORDS).tolist()
    instances = {word: found.relations.instances(word)["position"].tolist() for word in words}
    if instances:
        parts.append(
            Picture(
                "instances",
                "Where the most attended words stand",
                "One tick for each place where the word occurs.",
                partial(
                    plots.instances_of_words,
                    instances,
                    len(found.encoding),
                    title="Instances of the most attended words",
                ),
            )
        )
    parts += [Table(f"{side}-by-type", f"Words by how often they are {side}", frame) for side, frame in by_type.items()]
    parts += [
        Table(
            f"{side}-by-position",
            f"Words where they stand, by how often they are {side}",
            _relation_frame(found, found.relations, side, "position"),
        )
        for side in ("attended", "attending")
    ]
    parts.append(
        Table(
            "relations-intersection",
            f"Words among the {2 * top} most attended and the {2 * top} most attending",
            whole_numbers(
                found.relations.intersection(
                    settings.layer, settings.head, head_weights=found.head_weights, top=2 * top
                )
            ),
        )
    )
    return Section("relations", "Who looks at whom", tuple(filter(None, said)), tuple(parts))


def totals_section(found: Inspection) -> Section:
    """Attention received, with the sinks that come from copied position embeddings."""
    totals, settings, position = found.totals, found.settings, found.position
    flagged = [sink.position for sink in totals.sinks if sink.flagged]
    said = [
        "A head gives every token's attention away, so 1 is what an average token receives.",
        "Heads are weighted by their importance." if settings.scaled else "",
    ]
    if flagged:
        said.append(
            f"{len(flagged)} of the {len(totals.sinks)} tokens at multiples of 512 receive at least three times as "
            "much as their neighbours: probably an artefact of copied position embeddings, not of the text."
        )
    elif totals.sinks:
        said.append(
            f"None of the {len(totals.sinks)} tokens at multiples of 512 receives three times as much as its "
            "neighbours: no sign of sinks from copied position embeddings."
        )
    marked = sorted({0, *flagged})
    lines = {
        "lower half of the layers": totals.over("lower"),
        "upper half of the layers": totals.over("upper"),
        "all layers": totals.over("all"),
    }
    if settings.layer is not None:
        lines[f"layer {settings.layer}"] = totals.over(settings.layer)
        if settings.head is not None:
            lines[f"layer {settings.layer}, head {settings.head}"] = totals.per_head(settings.layer, settings.head)
    token = f"“{position.token}” at position {position.position:,}"
    parts: list[Picture | Table] = [
        Picture(
            "received",
            "Attention received along the document",
            "Orange dots mark the first token and the sinks at multiples of 512.",
            partial(
                plots.lines_over_positions,
                lines,
                found.encoding.tokens,
                sinks=marked,
                unit="received",
                title="Attention received",
            ),
        ),
        Picture(
            "received-by-layer",
            "Layer by layer",
            "Brighter positions receive more.",
            partial(
                plots.layers_over_positions,
                totals.per_layer(),
                sinks=flagged,
                unit="received",
                title="Attention received by layer",
            ),
        ),
        Picture(
            "position",
            f"One token in all heads: {token}",
            f"The colour is what it receives, the number its rank among all {len(found.encoding):,} tokens.",
            partial(
                plots.position_profile,
                position.received,
                position.ranks,
                title=f"What {token} receives",
                caption=f"#1: no other of the {len(found.encoding):,} tokens receives more in that head.",
            ),
        ),
    ]
    parts += [
        Table(
            f"received-{half}",
            f"Words that receive most, {name}",
            totals.top(settings.top_k, half, filter=settings.filter),  # type: ignore[arg-type]
        )
        for half, name in (("all", "all layers"), ("lower", "lower half"), ("upper", "upper half"))
    ]
    if totals.sinks:
        parts.append(Table("sinks", "Tokens at multiples of 512", totals.sinks_frame()))
    parts.append(Table("received-by-token", "Attention received by every token", totals.to_frame()))
    return Section("received", "Where attention gathers", tuple(filter(None, said)), tuple(parts))


def filter_sentence(found: Inspection) -> str:
    """Say which words lists leave out, and how many tokens remain."""
    chosen = found.settings.filter
    if chosen is None:
        return ""
    kept = int(chosen.keep_tokens(found.encoding).sum())
    share = percent(kept / len(found.encoding))
    return f"Lists are {chosen.description()}: {kept:,} of {len(found.encoding):,} tokens ({share}) are ranked."


def whole_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with columns of whole floats as integers: a count of 12 is not 12.0."""
    whole = [name for name in frame if frame[name].dtype.kind == "f" and (frame[name] == np.floor(frame[name])).all()]
    return frame.astype(dict.fromkeys(whole, np.int64))


def _relation_frame(found: Inspection, relations: RelationCounts, side: Direction, by: str) -> pd.DataFrame:
    table = relations.by_type if by == "type" else relations.by_position
    settings = found.settings
    rows = 5 * settings.top_k
    return whole_numbers(table(side, settings.layer, settings.head, head_weights=found.head_weights, top=rows))


def _relation_rankings(found: Inspection, relations: RelationCounts, top: int) -> list[plots.Ranking]:
    panels = []
    for side, title, colour in (
        ("attended", "most attended to", CATEGORIES[0]),
        ("attending", "most attending", CATEGORIES[2]),
    ):
        frame = _relation_frame(found, relations, side, "type").head(top)  # type: ignore[arg-type]
        panels.append(plots.Ranking(title, frame["type"].tolist(), frame["count"].tolist(), "count", colour))
    return panels


def _where(found: Inspection) -> str:
    layer, head = found.settings.layer, found.settings.head
    if layer is not None:
        return f"in layer {layer}" + (f", head {head}" if head is not None else "")
    return f"in head {head} of every layer" if head is not None else "over all layers and heads"
