"""Sections on attention alone: relations between tokens, and the attention that tokens receive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from sightline.analysis.relation_table import Direction
from sightline.view import plots
from sightline.view.plots.style import CATEGORIES
from sightline.view.sections.pages import Picture, Section, Table
from sightline.view.words.sentences import percent
from sightline.view.words.takeaways import chosen_heads, reference_counts, relation_frame, saturated_sides

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import Inspection, RelationCounts

FOLLOWED_WORDS = 8
"""Words whose positions in the document are shown."""
NEARLY_FULL = 0.75
"""Share of the possible tokens in the lists from which counts are called partly saturated."""


def relations_section(inspection: Inspection) -> Section:
    """Return the counts of the strongest partners, by word and by position."""
    settings = inspection.settings
    k, where = inspection.relations.k, chosen_heads(inspection)
    sentences = (
        f"For every token, the {k} tokens it attends to most and the {k} tokens that attend to it most are listed, "
        f"{where}. {_counting_sentence(inspection)}",
        "Each list counts by the importance of its head." if settings.scaled else "",
        saturation_sentence(inspection, inspection.relations),
        filter_sentence(inspection),
        "" if settings.word is None else word_instances(inspection, settings.word)[1],
    )
    top, counted = settings.top_k, _figure_caption(inspection)
    by_type = {
        side: _relation_frame(inspection, inspection.relations, side, "type") for side in ("attended", "attending")
    }
    parts: list[Picture | Table] = [
        Picture(
            "relations",
            "Most attended and most attending words",
            f"How often each word is among the {k} strongest partners of other tokens; {count_name(inspection)}. The "
            "black tick is the reference: what as many instances of an average listed word would have, listed "
            f"independently of each other. {saturation_sentence(inspection, inspection.relations)}".rstrip(),
            partial(
                plots.ranked_bars,
                _relation_rankings(inspection, inspection.relations, top),
                title=f"Relations {where}" + ("" if settings.filter is None else ", without stop words"),
                caption=counted,
            ),
        )
    ]
    if settings.filter is not None:
        parts.append(
            Picture(
                "relations-all-words",
                "The same, including stop words and punctuation",
                saturation_sentence(inspection, inspection.all_relations)
                or "Function words and punctuation often receive most of the attention.",
                partial(
                    plots.ranked_bars,
                    _relation_rankings(inspection, inspection.all_relations, top),
                    title=f"Relations {where}, all words",
                    caption=counted,
                ),
            )
        )
    counts = {
        side: inspection.relations.counts(
            side, settings.layer, settings.head, inspection.head_weights, count=settings.counting
        )
        for side in ("attended", "attending")
    }
    long = len(inspection.encoding) > plots.LONG_DOCUMENT
    parts.append(
        Picture(
            "relations-by-position",
            "Counts along the document",
            "The mean count of the tokens of each stretch of the document, with the word that is counted most in the "
            "highest stretches; words that are left out have a count of 0."
            if long
            else "The counts of the tokens at every position of the document; tokens that are left out have 0.",
            partial(
                plots.density_over_positions if long else plots.lines_over_positions,
                counts,
                inspection.encoding.tokens,
                unit="count",
                title=f"Relations along the document, {where}",
                caption=counted,
            ),
        )
    )
    words = by_type["attended"]["type"].head(FOLLOWED_WORDS).tolist()
    instances = {word: inspection.relations.instances(word)["position"].tolist() for word in words}
    if instances:
        parts.append(
            Picture(
                "instances",
                "Positions of the most attended words",
                "One row per word, with a tick at every position where the word occurs.",
                partial(
                    plots.instances_of_words,
                    instances,
                    len(inspection.encoding),
                    title="Instances of the most attended words",
                ),
            )
        )
    word = settings.word or (words[0] if words else None)
    parts += [] if word is None else _word_parts(inspection, word, where)
    parts += [
        Table(
            f"{side}-by-type",
            f"Words by how often they are {side} ({count_name(inspection)})",
            frame,
        )
        for side, frame in by_type.items()
    ]
    parts += [
        Table(
            f"{side}-by-position",
            f"Words at their positions, by how often they are {side} ({count_name(inspection)})",
            _relation_frame(inspection, inspection.relations, side, "position"),
        )
        for side in ("attended", "attending")
    ]
    parts += [
        Table(
            f"relations-intersection{suffix}",
            f"Words{names} among both the {2 * top} most attended and the {2 * top} most attending",
            whole_numbers(
                inspection.relations.intersection(
                    settings.layer,
                    settings.head,
                    by=by,
                    head_weights=inspection.head_weights,
                    count=settings.counting,
                    top=2 * top,
                )
            ),
        )
        for by, suffix, names in _INTERSECTIONS
    ]
    return Section("relations", "Which tokens attend to which", tuple(filter(None, sentences)), tuple(parts))


_INTERSECTIONS: tuple[tuple[Literal["type", "position"], str, str], ...] = (
    ("type", "", ""),
    ("position", "-by-position", " at their positions"),
)


def word_instances(inspection: Inspection, word: str) -> tuple[pd.DataFrame, str]:
    """Return each instance of one word with its counts, and a sentence if lists leave it out or it does not occur.

    A word that the filter leaves out is counted among all words.
    """
    settings = inspection.settings
    for relations in (inspection.relations, inspection.all_relations):
        frame = relations.instances(
            word, settings.layer, settings.head, head_weights=inspection.head_weights, count=settings.counting
        )
        if len(frame):
            left_out = f"The lists leave out “{word}”; its instances are counted and ranked among all words."
            return whole_numbers(frame), "" if relations is inspection.relations else left_out
    return whole_numbers(frame), f"The word “{word}” does not occur in the document."


def _word_parts(inspection: Inspection, word: str, where: str) -> list[Picture | Table]:
    """Return the counts of every instance of one word; nothing if the word does not occur."""
    frame, left_out = word_instances(inspection, word)
    if not len(frame):
        return []
    title = f"Instances of “{word}”, {where}"
    return [
        Picture(
            "word-instances",
            f"Every instance of “{word}”",
            "How often each instance is attended and attending, by its position in the document; "
            f"{count_name(inspection)}. {left_out}".rstrip(),
            partial(
                plots.instance_counts,
                frame["position"].tolist(),
                {side: frame[side].tolist() for side in ("attended", "attending")},
                len(inspection.encoding),
                title=title,
                caption=_figure_caption(inspection),
            ),
        ),
        Table("word-instances", f"{title} ({count_name(inspection)})", frame),
    ]


def totals_section(inspection: Inspection) -> Section:
    """Return the attention received, with the sinks that come from copied position embeddings."""
    totals, settings, position = inspection.totals, inspection.settings, inspection.position
    flagged = [sink.position for sink in totals.sinks if sink.flagged]
    sentences = [
        "The attention of every token sums to 1, so 1 is what an average token receives.",
        "Heads are weighted by their importance." if settings.scaled else "",
    ]
    if flagged:
        sentences.append(
            f"{len(flagged)} of the {len(totals.sinks)} tokens at multiples of 512 receive at least three times as "
            "much as their neighbours: probably an artefact of copied position embeddings, not a property of the text."
        )
    elif totals.sinks:
        sentences.append(
            f"None of the {len(totals.sinks)} tokens at multiples of 512 receives three times as much as its "
            "neighbours: no sign of sinks from copied position embeddings."
        )
    marked = sorted({0, *flagged})
    lines = {
        "lower half of the layers": totals.over("lower"),
        "upper half of the layers": totals.over("upper"),
        "all layers": totals.over("all"),
    }
    tables = {"all": "over all layers and heads", "lower": "lower half", "upper": "upper half"}
    if settings.layer is not None or settings.head is not None:
        lines[chosen_heads(inspection)] = totals.over(settings.layers, settings.head)
        tables = {"chosen": chosen_heads(inspection)}
    token = f"“{position.token}” at position {position.position:,}"
    parts: list[Picture | Table] = [
        Picture(
            "received",
            "Attention received along the document",
            "Orange dots mark the first token and the sinks at multiples of 512.",
            partial(
                plots.lines_over_positions,
                lines,
                inspection.encoding.tokens,
                sinks=marked,
                unit="received",
                title="Attention received",
            ),
        ),
        Picture(
            "received-by-layer",
            "Attention received by layer",
            "One row per layer; brighter positions receive more.",
            partial(
                plots.layers_over_positions,
                totals.per_layer(),
                labels=inspection.encoding.tokens,
                sinks=flagged,
                unit="received",
                title="Attention received by layer",
            ),
        ),
        Picture(
            "position",
            f"One token in all heads: {token}",
            f"The colour shows what it receives, the number its rank among all {len(inspection.encoding):,} tokens.",
            partial(
                plots.position_profile,
                position.received,
                position.ranks,
                title=f"Attention received by {token}",
                caption=f"#1: none of the {len(inspection.encoding):,} tokens receives more in that head.",
            ),
        ),
    ]
    parts += [
        Table(
            f"received-{layers}",
            f"Words that receive the most attention, {name}",
            totals.top(
                settings.top_k,
                settings.layers if layers == "chosen" else layers,  # type: ignore[arg-type]
                settings.head,
                filter=settings.filter,
            ),
        )
        for layers, name in tables.items()
    ]
    if totals.sinks:
        parts.append(Table("sinks", "Tokens at multiples of 512", totals.sinks_frame()))
    parts.append(Table("received-by-token", "Attention received by every token", totals.to_frame()))
    return Section("received", "Where attention goes", tuple(filter(None, sentences)), tuple(parts))


def filter_sentence(inspection: Inspection) -> str:
    """Return which words the lists leave out, and how many tokens remain."""
    chosen = inspection.settings.filter
    if chosen is None:
        return ""
    remaining = int(chosen.keep_tokens(inspection.encoding).sum())
    share = percent(remaining / len(inspection.encoding))
    return (
        f"Lists are {chosen.description()}: {remaining:,} of {len(inspection.encoding):,} tokens ({share}) are ranked."
    )


def count_name(inspection: Inspection) -> str:
    """Return what a count of relations counts, for captions."""
    if inspection.settings.counting == "tokens":
        return "each querying token counted once per instance"
    return "each list of a layer and head counted"


def _figure_caption(inspection: Inspection) -> str:
    """Return how relations were counted as a sentence, for figures that leave the page."""
    counted = count_name(inspection)
    return f"Partners among the top {inspection.relations.k}, {counted}."


def saturation_sentence(inspection: Inspection, relations: RelationCounts) -> str:
    """Return how far counts fail to rank words because lists hold every token that they could, or most of them."""
    sides = saturated_sides(inspection, relations)
    settings = inspection.settings
    if not sides:
        return _partial_saturation(inspection, relations)
    one_head = settings.layer is not None and settings.head is not None
    lists = "every list" if one_head or settings.counting == "pairs" else "at least one list of every token"
    return (
        f"Counts of {' and '.join(sides)} words are saturated and do not rank words: in a text this short, every token "
        f"is among the {relations.k} most {' and '.join(sides)} ones in {lists} that can hold it."
    )


def _partial_saturation(inspection: Inspection, relations: RelationCounts) -> str:
    """Return which share of the possible tokens the lists hold, where it is most of them."""
    settings = inspection.settings
    sides: tuple[Direction, ...] = ("attended", "attending")
    shares = {
        side: relations.saturation(side, settings.layer, settings.head, count=settings.counting) for side in sides
    }
    full = {side: share for side, share in shares.items() if share is not None and share >= NEARLY_FULL}
    if not full:
        return ""
    held = " and ".join(f"{percent(share)} of the {side} words" for side, share in full.items())
    return (
        f"Counts are partly saturated: in a text this short, lists of {relations.k} hold {held} that they could hold, "
        "so that small differences between counts say little."
    )


def _counting_sentence(inspection: Inspection) -> str:
    if inspection.settings.counting == "tokens":
        return (
            "The count of a word is the number of tokens with any part of the word in at least one of their lists: "
            "every querying token counts once, over all of these lists and all instances of the word."
        )
    return "The count of a word is the number of these lists that contain it, one list per token, layer and head."


def whole_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with columns of whole floats as integers: 12 rather than 12.0."""
    whole = [name for name in frame if frame[name].dtype.kind == "f" and (frame[name] == np.floor(frame[name])).all()]
    return frame.astype(dict.fromkeys(whole, np.int64))


def _relation_frame(inspection: Inspection, relations: RelationCounts, side: str, by: str) -> pd.DataFrame:
    return whole_numbers(relation_frame(inspection, side, relations, by=by, top=5 * inspection.settings.top_k))


def _relation_rankings(inspection: Inspection, relations: RelationCounts, top: int) -> list[plots.Ranking]:
    panels = []
    for side, title, colour in (
        ("attended", "most attended", CATEGORIES[0]),
        ("attending", "most attending", CATEGORIES[2]),
    ):
        frame = _relation_frame(inspection, relations, side, "type").head(top)
        panels.append(
            plots.Ranking(
                title,
                frame["type"].tolist(),
                frame["count"].tolist(),
                "count",
                colour,
                references=reference_counts(inspection, side, relations, frame["instances"]).tolist(),
            )
        )
    return panels
