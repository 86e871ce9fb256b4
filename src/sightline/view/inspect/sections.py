"""The sections of a document's page: which pictures and tables show an inspection, and how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sightline.analysis.inspection import EFFECTIVE_TOKENS
from sightline.methods.layer_kind import LayerKind
from sightline.view import plots
from sightline.view.inspect.attention import comparison_section, filter_sentence, relations_section, totals_section
from sightline.view.plots.style import AGAINST, FOR, PLAIN
from sightline.view.sections.pages import Links, Picture, Section, Table
from sightline.view.words.phrases import percent
from sightline.view.words.sentences import further_sentences, notices, prediction_sentence
from sightline.view.words.takeaways import takeaways
from sightline.view.words.verdict import describe_verdict

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import AttributionRow, AttributionTable, EffectiveHead, Inspection, LayerAnisotropy
    from sightline.results.explanation import Explanation

NAMED_TOKENS = 40
"""Tokens of the heat map that names them."""
NO_SHARE = 1e-6
"""Share of the squared weights up to which rounding alone may have removed it."""


def document_sections(inspection: Inspection) -> list[Section]:
    """Return the sections in the order of the page: the figures that a paper prints, and all tables on request."""
    names = list(inspection.explanations)
    return [
        takeaways_section(inspection),
        *(attribution_section(inspection, name) for name in names),
        heads_section(inspection),
        relations_section(inspection),
        totals_section(inspection),
        *(comparison_section(inspection, name) for name in names),
        *(layers_section(inspection, name) for name in names if inspection.explanations[name].layers is not None),
        *([anisotropy_section(inspection.anisotropy)] if inspection.anisotropy is not None else []),
    ]


def takeaways_section(inspection: Inspection) -> Section:
    """Return the sentences to read first, with links to what shows them."""
    return Section("takeaways", "Takeaways", (), (Links(tuple(takeaways(inspection))),))


def attribution_section(inspection: Inspection, name: str) -> Section:
    """Return the words that moved the explained number most."""
    explanation = inspection.explanations[name]
    by_type, by_position = inspection.by_type[name], inspection.by_position[name]
    sentences = (
        f"{prediction_sentence(explanation)} The scores below, by the method {name}, show what moved the "
        f"{explanation.target.description()}.",
        *notices(explanation),
        " ".join([*describe_verdict(explanation).sentences, *further_sentences(explanation)]),
        _sink_sentence(inspection, by_position),
        filter_sentence(inspection),
    )
    return Section(
        f"words-{name}",
        f"Which words mattered: {name}",
        tuple(filter(None, sentences)),
        (
            Table(
                f"{name}-by-type",
                "Strongest words, summed over instances",
                _of_one_document(by_type.to_frame()),
                by_type.note,
            ),
            Table(
                f"{name}-by-position",
                "Strongest words by position",
                _of_one_document(by_position.to_frame()),
                folded=True,
            ),
            Table(
                f"{name}-token-ranks",
                "Ranks of special tokens and punctuation",
                inspection.token_ranks[name].drop(columns=["low", "high", "documents"]),
                "1 is the strongest token of the document; chance is the rank of a token like any other.",
                folded=True,
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


def heads_section(inspection: Inspection) -> Section:
    """Return how much every head matters, and the attention of all of them; one head in full where it is asked for."""
    sentences: list[str] = []
    parts: list[Picture | Table] = []
    if inspection.importance is not None:
        most = importance_frame(inspection.importance).iloc[0]
        sentences.append(
            "A head is important if small changes of its weights would change the "
            f"{inspection.first.target.description()} strongly (first-order Taylor expansion). Values are scaled so "
            "that the least important head has 0 and the most important one has 1; here that is head "
            f"{most['head']:.0f} of layer {most['layer']:.0f}."
        )
        parts += importance_parts(inspection.importance)
    parts.append(_map_of_all_heads(inspection))
    if inspection.settings.layer is not None or inspection.settings.head is not None:
        parts.append(_map_of_one_head(inspection))
    if inspection.effective is not None:
        sentences.append(effective_sentence(inspection.effective, len(inspection.encoding)))
        title = "Heads by the share of attention without effect"
        parts.append(Table("cancelled-attention", title, inspection.effective.to_frame(), folded=True))
    elif inspection.settings.effective:
        sentences.append(
            f"Effective attention is computed for up to {EFFECTIVE_TOKENS} tokens; this document has "
            f"{len(inspection.encoding):,}."
        )
    return Section("heads", "Which heads matter", tuple(sentences), tuple(parts))


def importance_parts(
    importance: np.ndarray, *, stem: str = "", over: str = "", sentence: str = "The brighter, the more important."
) -> list[Picture | Table]:
    """Return map and table of head importance; stem: before file names; over: after titles."""
    title = f"Head importance{over}"
    return [
        Picture(f"{stem}head-importance", title, sentence, partial(plots.head_importance_map, importance, title=title)),
        Table(f"{stem}head-importance", f"Heads by importance{over}", importance_frame(importance), folded=True),
    ]


def _map_of_all_heads(inspection: Inspection) -> Picture:
    """Return all heads as small pictures, with the windows of a long document straightened.

    A window is a thin diagonal of the square map of a long document.
    """
    inside = inspection.inside
    draw = partial(plots.attention_grid, tokens=inside.tokens, importance=inside.importance)
    if inside.windows is None:
        return Picture(
            "attention-maps",
            "All heads",
            "One small picture per head. Rows attend to columns: a diagonal is attention to neighbours, a vertical "
            "line a token that many others attend to.",
            partial(draw, inside.thumbnails),
        )
    return Picture(
        "attention-windows",
        "The windows of all heads",
        "The document runs from top to bottom, the distance to the attended token from left to right, with the "
        "token itself in the middle. A vertical line is attention to a fixed distance.",
        partial(
            draw,
            inside.windows.thumbnails,
            title="Windows of all heads",
            caption="Row: position of the attending token; column: distance to the attended token, 0 in the middle.",
        ),
    )


def _map_of_one_head(inspection: Inspection) -> Picture:
    layer, head = inspection.head
    here, tokens, inside = f"layer {layer}, head {head}", inspection.encoding.tokens, inspection.inside
    if inside.windows is None:
        draw = partial(plots.attention_map, inside.images[layer, head], tokens, title=f"Attention of {here}")
    else:
        draw = partial(
            plots.window_map,
            inside.windows.maps[layer, head],
            tokens,
            reach=int(inside.windows.reach[layer]),
            title=f"Attention of {here}, by distance",
        )
    return Picture(
        f"attention-layer-{layer}-head-{head}",
        f"One head: {here}",
        "Colours follow the square root of the weight.",
        draw,
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


_LAYER_NOTES: dict[LayerKind, str] = {
    "additive": "The layers add up to the scores, shown below.",
    "averaged": "The mean of the layers is the score, shown below.",
    "cumulative": "Each row is the result up to its layer; the last row shows the scores.",
    "separate": "Each row explains its own layer; the rows do not add up to the scores.",
}


def layers_section(inspection: Inspection, name: str) -> Section:
    """Return the scores of one method by layer, drawn for as many tokens as can be named: the strongest ones."""
    import pandas as pd

    explanation = inspection.explanations[name]
    layers, tokens = explanation.layers, explanation.tokens
    assert layers is not None
    kind = explanation.layer_kind or "separate"
    hues = "Blue counts for, orange against." if explanation.signed else "Brighter is larger."
    shown, which = list(range(len(tokens))), "One row per layer, layer 0 at the top."
    special = np.flatnonzero(explanation.encoding.special).tolist()
    if len(tokens) > NAMED_TOKENS:
        shown = sorted({token for word in explanation.top(NAMED_TOKENS, level="token") for token in word.tokens})
        which, special = f"{which} The {len(shown)} strongest tokens, in document order.", []
    figure = Picture(
        f"{name}-layers",
        f"{name} by layer",
        f"{which} {_LAYER_NOTES[kind]}",
        partial(
            plots.layer_heat_map,
            layers[:, shown],
            [tokens[i] for i in shown],
            kind=kind,
            signed=explanation.signed,
            special=special,
            title=f"{name} by layer",
            caption=hues,
        ),
    )
    frame = pd.DataFrame(
        {"position": np.arange(len(tokens)), "text": list(tokens)}
        | {f"layer_{number}": row for number, row in enumerate(layers)}
    )
    table = Table(f"{name}-by-layer", "Scores of every token by layer", frame, folded=True)
    return Section(f"layers-{name}", f"Scores by layer: {name}", (), ((figure, table) if shown else (table,)))


def anisotropy_section(anisotropy: LayerAnisotropy) -> Section:
    """Return whether representations point the same way."""
    return Section("anisotropy", "Do representations point the same way", (), tuple(anisotropy_parts(anisotropy)))


def _of_one_document(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the columns that are the same in all rows of one document: positions of types, instances at one position."""
    by_type = bool((frame["position"] == -1).all())
    return frame.drop(columns=["position" if by_type else "instances", "documents"])


def anisotropy_parts(anisotropy: LayerAnisotropy, *, stem: str = "", of: str = "") -> list[Picture | Table]:
    """Return curves and table of the anisotropy over the layers; stem: before file names; of: after titles."""
    frame = anisotropy.to_frame()
    names = {"hidden": "hidden states", "y": "attention outputs y", "T": "vectors T", "T_in_row": "T of one row"}
    title = f"Anisotropy over the layers{of}"
    return [
        Picture(
            f"{stem}anisotropy",
            f"Anisotropy{of}",
            "Mean cosine between two vectors: near 1, all point the same way. y are the outputs of the attention "
            "blocks, T the transformed vectors they are sums of.",
            partial(
                plots.layer_curves,
                {names[name]: frame[name].to_numpy() for name in frame if name in names},
                unit="mean cosine",
                title=title,
            ),
        ),
        Table(f"{stem}anisotropy", title, frame, folded=True),
    ]


def effective_sentence(effective: EffectiveHead, tokens: int) -> str:
    """Return how much of the attention has no effect on the output, and in which head most."""
    if not (effective.cancelled > NO_SHARE).any():
        return (
            f"All attention has an effect: a text of {tokens:,} tokens is not longer than a head is wide "
            f"({effective.width} dimensions), so that the values of its tokens do not cancel."
        )
    most = effective.to_frame().iloc[0]
    return (
        f"On average, {percent(float(effective.cancelled.mean()))} of the squared attention weights of a head have no "
        f"effect on its output, because the values that they weight cancel; in head {most['head']:.0f} of layer "
        f"{most['layer']:.0f} it is {percent(most['cancelled'])}. Effective attention is the rest."
    )
