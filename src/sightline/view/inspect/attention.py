"""Sections on attention: relations between tokens, the attention that tokens receive, and how attribution compares.

Similarities stand beside their chance levels, in tables and dots; words that disagree are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from sightline.analysis.relation_table import Direction
from sightline.view import plots
from sightline.view.plots.style import CATEGORIES
from sightline.view.sections.pages import Picture, Section, Table
from sightline.view.words.phrases import percent
from sightline.view.words.takeaways import chosen_heads, reference_counts, relation_frame, saturated_sides

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import Disagreement, Inspection, RelationCounts, Similarity, SimilarityTable

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
        filter_sentence(inspection),
        "" if settings.word is None else word_instances(inspection, settings.word)[1],
    )
    figure = Picture(
        "relations",
        "Most attended and most attending words",
        f"How often each word is among the {k} strongest partners of other tokens; {count_name(inspection)}. The black "
        "tick is the reference: what as many instances of an average listed word would have, listed independently of "
        f"each other. {saturation_sentence(inspection, inspection.relations)}".rstrip(),
        partial(
            plots.ranked_bars,
            _relation_rankings(inspection),
            title=f"Relations {where}" + ("" if settings.filter is None else ", without stop words"),
            caption=f"Partners among the top {k}, {count_name(inspection)}.",
        ),
    )
    return Section(
        "relations",
        "Which tokens attend to which",
        tuple(filter(None, sentences)),
        (figure, *_relation_tables(inspection, where)),
    )


def _relation_tables(inspection: Inspection, where: str) -> list[Table]:
    """Return the counts by word and by position, of all words, of words listed both ways, and of one word."""
    settings, counted = inspection.settings, count_name(inspection)
    shown, everything = inspection.relations, inspection.all_relations
    kinds = [
        ("type", "", "Words", shown),
        ("position", "", "Words at their positions,", shown),
        *([] if everything is shown else [("type", "-all-words", "All words", everything)]),
    ]
    tables = [
        (
            f"{side}-by-{by}{end}",
            f"{what} by how often they are {side} ({counted})",
            _relation_frame(inspection, relations, side, by),
        )
        for by, end, what, relations in kinds
        for side in _SIDES
    ]
    top = 2 * settings.top_k
    tables += [
        (
            f"relations-intersection{end}",
            f"Words{which} among both the {top} most attended and the {top} most attending",
            whole_numbers(
                inspection.relations.intersection(
                    settings.layer,
                    settings.head,
                    by=by,
                    head_weights=inspection.head_weights,
                    count=settings.counting,
                    top=top,
                )
            ),
        )
        for by, end, which in _INTERSECTIONS
    ]
    most = tables[0][2]["type"]
    if word := settings.word or (most.iloc[0] if len(most) else None):
        instances, left_out = word_instances(inspection, word)
        if len(instances):
            title = f"Instances of “{word}”, {where} ({counted}). {left_out}".rstrip()
            tables.append(("word-instances", title, instances))
    return [Table(name, title, frame, folded=True) for name, title, frame in tables]


_SIDES: tuple[Direction, ...] = ("attended", "attending")
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
    figure = Picture(
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
    )
    frames = [
        (
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
        frames.append(("sinks", "Tokens at multiples of 512", totals.sinks_frame()))
    token = f"“{position.token}” at position {position.position:,}"
    frames += [
        ("position", f"What {token} receives in every head, and its rank among all tokens", position.to_frame()),
        ("received-by-token", "Attention received by every token", totals.to_frame()),
    ]
    listed = [Table(name, title, frame, folded=True) for name, title, frame in frames]
    return Section("received", "Where attention goes", tuple(filter(None, sentences)), (figure, *listed))


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


def saturation_sentence(inspection: Inspection, relations: RelationCounts) -> str:
    """Return a sentence on saturation: counts cannot rank words if lists contain all or most possible tokens."""
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
    """Return the fraction of possible tokens that the lists contain, where it is most of them."""
    settings = inspection.settings
    shares = {
        side: relations.saturation(side, settings.layer, settings.head, count=settings.counting) for side in _SIDES
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


def _relation_rankings(inspection: Inspection) -> list[plots.Ranking]:
    panels = []
    for side, colour in zip(_SIDES, (CATEGORIES[0], CATEGORIES[2]), strict=True):
        frame = _relation_frame(inspection, inspection.relations, side, "type").head(inspection.settings.top_k)
        references = reference_counts(inspection, side, frame["instances"]).tolist()
        words, counts = frame["type"].tolist(), frame["count"].tolist()
        panels.append(plots.Ranking(f"most {side}", words, counts, "count", colour, references))
    return panels


HOW_TO_READ = (
    "Each number is shown beside its chance level: the same statistic after the attribution scores were shuffled among "
    "the tokens. A number inside the grey range is no evidence of similarity."
)
_NAMES = {
    "cosine": "cosine",
    "cosine_normalised": "cosine, normalised",
    "cosine_thresholded": "cosine, thresholded",
    "kendall": "Kendall τ-b",
    "spearman": "Spearman",
    "rbo": "RBO",
    "average_overlap": "average overlap",
    "jaccard": "Jaccard, top 5 %",
}
_LISTS = {
    "high_attention_low_attribution": "high attention, low attribution",
    "low_attention_high_attribution": "low attention, high attribution",
}


def comparison_section(inspection: Inspection, name: str) -> Section:
    """Return how attention and the scores of one method agree on the document."""
    settings = inspection.similarity[name]
    notes = dict.fromkeys(similarity.note for similarity in settings if similarity.note)
    parts: list[Picture | Table] = []
    measures = measured_dots(settings)
    if measures:
        parts.append(
            Picture(
                f"{name}-similarity",
                "Similarity and chance levels",
                "Dots are measured; grey bands hold 95 % of the values of shuffled scores.",
                partial(
                    plots.similarity_dots,
                    measures,
                    title=f"Attention against {name}",
                ),
            )
        )
    parts += similarity_tables(settings, name)
    where = chosen_heads(inspection)
    parts += [
        Table(
            f"{name}-{side.replace('_', '-')}",
            f"Words with {_LISTS[side]}, by attention {where}",
            disagreement_frame(words),
            folded=True,
        )
        for side, words in inspection.disagreements[name].items()
        if words
    ]
    return Section(f"similarity-{name}", f"Attention against {name}", (HOW_TO_READ, *notes), tuple(parts))


def similarity_tables(similarity: SimilarityTable | Sequence[Similarity], name: str) -> list[Table]:
    """Return one table over all words, and one without the words that the filter drops."""
    from sightline.analysis import similarity_layout

    tables = []
    for masked, words in ((False, "all words"), (True, "without stop words and punctuation")):
        frame = similarity_layout(similarity, masked=masked)
        if len(frame):
            title = f"Attention against {name}, {words}, with chance levels"
            tables.append(Table(f"{name}-similarity-{'masked' if masked else 'unmasked'}", title, frame, folded=True))
    return tables


def measured_dots(similarity: SimilarityTable | Sequence[Similarity]) -> dict[str, list[plots.Measured]]:
    """Return the panels of the dot plot: statistic -> one dot per setting.

    Of a document there is one value, and a range of chance; over a data set a mean with its interval, and mean chance.
    """
    panels: dict[str, list[plots.Measured]] = {}
    if isinstance(similarity, Sequence):
        for each in similarity:
            name = setting_name(each.layers, each.scaled, each.masked, each.by_document)
            for statistic, value in each.values.items():
                chance = each.chance[statistic]
                dot = plots.Measured(name, value, value, value, chance.mean, chance.low, chance.high)
                panels.setdefault(_NAMES.get(statistic, statistic), []).append(dot)
    else:
        for cell in similarity.cells:
            name = setting_name(cell.layers, cell.scaled, cell.masked)
            mean, chance_level = cell.mean, cell.chance
            dot = plots.Measured(name, mean.mean, mean.low, mean.high, chance_level, chance_level, chance_level)
            panels.setdefault(_NAMES.get(cell.statistic, cell.statistic), []).append(dot)
    return panels


def setting_name(layers: str, scaled: bool, masked: bool, by_document: bool = False) -> str:
    """Return "last layer, scaled, masked"."""
    from sightline.analysis.similarity import scaling_name

    where = {"last": "last layer", "all": "all layers", "lower": "lower half", "upper": "upper half"}.get(
        layers, f"layer {layers}"
    )
    return ", ".join([where, *([scaling_name(scaled, by_document)] if scaled else []), *(["masked"] if masked else [])])


def disagreement_frame(words: Sequence[Disagreement]) -> pd.DataFrame:
    """Return one row per word."""
    import pandas as pd

    columns = ["text", "position", "attention", "attribution", "attention_rank", "attribution_rank"]
    return pd.DataFrame([[getattr(word, name) for name in columns] for word in words], columns=columns)
