"""The sections of a document's page: which pictures and tables show an inspection, and how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sightline.analysis.inspection import Inspection
from sightline.methods.layer_kind import LayerKind
from sightline.view import plots
from sightline.view.inspect.attention import filter_sentence, relations_section, totals_section
from sightline.view.inspect.comparison import comparison_section
from sightline.view.inspect.mixing import mixing_section
from sightline.view.plots.style import AGAINST, FOR, PLAIN
from sightline.view.sections.pages import Links, Picture, Section, Table
from sightline.view.words.lists import describe_verdicts
from sightline.view.words.sentences import further_sentences, notices, prediction_sentence
from sightline.view.words.takeaways import takeaways

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import AttributionRow, AttributionTable
    from sightline.results.explanation import Explanation

NAMED_TOKENS = 40
"""Tokens of the heat map that names them."""


def document_sections(inspection: Inspection) -> list[Section]:
    """Return the sections in the order of the page; a sentence stands for each part that has nothing to show."""
    return [
        takeaways_section(inspection),
        *([texts_section(inspection)] if len(inspection.explanations) > 1 else []),
        *(attribution_section(inspection, name) for name in inspection.explanations),
        *([importance_section(inspection)] if inspection.importance is not None else []),
        maps_section(inspection),
        relations_section(inspection),
        totals_section(inspection),
        *(comparison_section(inspection, name) for name in inspection.explanations),
        *(
            layers_section(inspection, name)
            for name, explanation in inspection.explanations.items()
            if explanation.layers is not None
        ),
        mixing_section(inspection),
    ]


def takeaways_section(inspection: Inspection) -> Section:
    """Return the sentences to read first, with links to the pictures below."""
    return Section("takeaways", "Takeaways", (), (Links(tuple(takeaways(inspection))),))


def texts_section(inspection: Inspection) -> Section:
    """Return one passage on the colours of every method, one below the other."""
    picture = Picture(
        "texts",
        "The text by method",
        "The passage where the first method is strongest. Blue counts for the class, orange against it; violet: the "
        "method has no sign.",
        partial(plots.text_overlays, inspection.explanations, title="One text, several methods"),
    )
    return Section("texts", "All methods on one text", (), (picture,))


def attribution_section(inspection: Inspection, name: str) -> Section:
    """Return the words that moved the explained number most."""
    explanation = inspection.explanations[name]
    by_type, by_position = inspection.by_type[name], inspection.by_position[name]
    sides = "Blue words count for the class, orange words against it." if explanation.signed else ""
    explained = inspection.explanations
    verdicts = dict(zip(explained, describe_verdicts(list(explained.values())), strict=True))
    sentences = (
        f"{prediction_sentence(explanation)} The scores below, by the method {name}, show what moved the "
        f"{explanation.target.description()}. {sides}",
        *notices(explanation),
        " ".join([*verdicts[name].sentences, *further_sentences(explanation)]),
        _sink_sentence(inspection, by_position),
        filter_sentence(inspection),
    )
    return Section(
        f"words-{name}",
        f"Which words mattered: {name}",
        tuple(filter(None, sentences)),
        (
            Picture(
                f"{name}-text",
                "The text",
                "The passage with the strongest scores. The deeper the colour, the larger the score.",
                partial(plots.text_overlay, explanation, total=True, title=f"{name} on the text"),
            ),
            Picture(
                f"{name}-words",
                "Strongest words",
                f"The scores of all instances of a word are summed. {by_type.note}".strip(),
                partial(
                    plots.ranked_bars, attribution_rankings(explanation, by_type), title=f"Strongest words by {name}"
                ),
            ),
            Table(f"{name}-by-type", "Strongest words, summed over instances", _of_one_document(by_type.to_frame())),
            Table(f"{name}-by-position", "Strongest words by position", _of_one_document(by_position.to_frame())),
            Table(
                f"{name}-token-ranks",
                "Ranks of special tokens and punctuation",
                inspection.token_ranks[name].drop(columns=["low", "high", "documents"]),
                "1 is the strongest token of the document; chance is the rank of a token like any other.",
            ),
        ),
    )


def _sink_sentence(inspection: Inspection, listed: AttributionTable) -> str:
    """Return which listed words stand at positions that draw attention whatever word is there."""
    sinks = {sink.position for sink in inspection.totals.sinks if sink.flagged}
    frame = listed.to_frame()
    words = [f"“{row.text}” ({row.position:,})" for row in frame.itertuples() if row.position in sinks]
    if not words:
        return ""
    return (
        f"Of the words listed by position, {', '.join(words)} stand at multiples of 512, which receive far more "
        "attention than their neighbours: their scores probably belong to the position, not to the word."
    )


def attribution_rankings(explanation: Explanation, table: AttributionTable) -> list[plots.Ranking]:
    """Return the panels of a bar chart: for and against, or a single one for a method without signs."""
    label = explanation.target.label
    if not explanation.signed:
        rows = table.positive
        return [_attribution_ranking("strongest", rows, PLAIN)]
    return [
        _attribution_ranking(title, rows, colour)
        for title, rows, colour in (
            (f"for “{label}”", table.positive, FOR),
            (f"against “{label}”", table.negative, AGAINST),
        )
    ]


def _attribution_ranking(title: str, rows: Sequence[AttributionRow], colour: str) -> plots.Ranking:
    intervals = [(row.low, row.high) for row in rows if row.low is not None and row.high is not None]
    return plots.Ranking(
        title, [row.text for row in rows], [row.score for row in rows], "score", colour, intervals=intervals
    )


def importance_section(inspection: Inspection) -> Section:
    """Return the importance of every head."""
    importance = inspection.importance
    assert importance is not None
    frame = importance_frame(importance)
    most = frame.iloc[0]
    return Section(
        "heads",
        "Which heads matter",
        (
            "A head is important if small changes of its weights would change the "
            f"{inspection.first.target.description()} strongly (first-order Taylor expansion). Values are scaled so "
            "that the least important head has 0 and the most important one has 1; here that is head "
            f"{most['head']:.0f} of layer {most['layer']:.0f}.",
        ),
        (
            Picture(
                "head-importance",
                "Head importance",
                "One cell per head; the brighter, the more important for this document.",
                partial(plots.head_importance_map, importance),
            ),
            Table("head-importance", "Heads by importance", frame),
        ),
    )


def importance_frame(importance: np.ndarray) -> pd.DataFrame:
    """Return one row per head, most important first: rank, layer, head, importance."""
    import pandas as pd

    layer, head = (axis.ravel() for axis in np.indices(importance.shape))
    order = np.argsort(-importance.ravel(), kind="stable")
    return pd.DataFrame(
        {
            "rank": np.arange(1, importance.size + 1),
            "layer": layer[order],
            "head": head[order],
            "importance": importance.ravel()[order],
        }
    )


def maps_section(inspection: Inspection) -> Section:
    """Return the attention of all heads as small pictures and of one head as a large one."""
    head_map, tokens = inspection.head_map, inspection.encoding.tokens
    here = f"layer {head_map.layer}, head {head_map.head}"
    chosen = inspection.settings.layer is not None or inspection.settings.head is not None
    best = "the most important one" if inspection.importance is not None else "the first of the last layer"
    why = "as requested" if chosen else best
    # The window of a long document is a thin diagonal of the square map, so it is drawn straightened instead.
    if inspection.windows is None:
        grid = Picture(
            "attention-maps",
            "All heads",
            "One small picture per head. Rows attend to columns: a diagonal is attention to neighbours, a vertical "
            "line a token that many others attend to.",
            partial(
                plots.attention_grid,
                inspection.maps.pixels,
                tokens=inspection.maps.tokens,
                importance=inspection.importance,
            ),
        )
    else:
        grid = Picture(
            "attention-windows",
            "The windows of all heads",
            "The document runs from top to bottom, the distance to the attended token from left to right, with the "
            "token itself in the middle. A vertical line is attention to a fixed distance.",
            partial(
                plots.attention_grid,
                inspection.windows,
                tokens=len(inspection.encoding),
                importance=inspection.importance,
                title="Windows of all heads",
                caption="Row: position of the attending token; column: distance to the attended token, 0 in the "
                "middle.",
            ),
        )
    if head_map.window is None:
        draw = partial(plots.attention_map, head_map.image, tokens, title=f"Attention of {here}")
    else:
        draw = partial(
            plots.window_map, head_map.window, tokens, reach=head_map.reach, title=f"Attention of {here}, by distance"
        )
    pictures = [
        grid,
        Picture(
            f"attention-layer-{head_map.layer}-head-{head_map.head}",
            f"One head: {here}",
            f"The head ({why}) in detail; colours follow the square root of the weight.",
            draw,
        ),
    ]
    if head_map.tile is not None:
        span = (0, len(head_map.tile))
        pictures.append(
            Picture(
                f"attention-layer-{head_map.layer}-head-{head_map.head}-tile",
                f"The first {len(head_map.tile)} tokens of that head",
                "One pixel per weight.",
                partial(
                    plots.attention_map,
                    head_map.tile,
                    tokens,
                    rows=span,
                    columns=span,
                    title=f"Attention of {here}, first {len(head_map.tile)} tokens",
                ),
            )
        )
    return Section("maps", "What attends to what", (), tuple(pictures))


_LAYER_NOTES: dict[LayerKind, str] = {
    "additive": "The layers add up to the scores, shown below with their own colour scale.",
    "averaged": "The mean of the layers is the score, shown below with its own colour scale.",
    "cumulative": "Each row is the result up to its layer; the last row shows the scores.",
    "separate": "Each row explains its own layer; the rows do not add up to the scores.",
}


def layers_section(inspection: Inspection, name: str) -> Section:
    """Return the scores of one method by layer."""
    explanation = inspection.explanations[name]
    layers = explanation.layers
    assert layers is not None
    strongest = sorted({token for word in explanation.top(NAMED_TOKENS, level="token") for token in word.tokens})
    tokens = explanation.tokens
    kind = explanation.layer_kind or "separate"
    draw = partial(plots.layer_heat_map, kind=kind, signed=explanation.signed)
    hues = "Blue counts for, orange against." if explanation.signed else "Brighter is larger."
    parts = [
        Picture(
            f"{name}-layers",
            "The whole document",
            _LAYER_NOTES[kind],
            partial(
                draw,
                layers,
                tokens,
                special=np.flatnonzero(explanation.encoding.special).tolist(),
                title=f"{name} by layer",
                caption=hues,
            ),
        )
    ]
    if len(strongest) < len(tokens) and strongest:
        parts.append(
            Picture(
                f"{name}-layers-strongest",
                f"The {len(strongest)} strongest tokens",
                "In document order; special tokens are left out.",
                partial(
                    draw,
                    layers[:, strongest],
                    [tokens[i] for i in strongest],
                    title=f"{name} by layer, strongest tokens",
                    caption=hues,
                ),
            )
        )
    return Section(
        f"layers-{name}", f"Scores by layer: {name}", ("One row per layer, layer 0 at the top.",), tuple(parts)
    )


def _of_one_document(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the columns that are the same in all rows of one document: positions of types, instances at one position."""
    by_type = bool((frame["position"] == -1).all())
    return frame.drop(columns=["position" if by_type else "instances", "documents"])
