"""From the numbers of one document to the sections of its page: which pictures and tables, and how to read them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sightline.layer_kind import LayerKind
from sightline.view import plots
from sightline.view.inspect.attention import filter_sentence, relations_section, totals_section
from sightline.view.inspect.comparison import comparison_section
from sightline.view.inspect.numbers import GRAPH_TOKENS, MATRIX_TOKENS, Inspection
from sightline.view.inspect.parts import Picture, Section, Table
from sightline.view.plots.style import AGAINST, FOR, PLAIN
from sightline.view.words.sentences import check_sentences, describe_verdict, notices, prediction_sentence

if TYPE_CHECKING:
    import pandas as pd

    from sightline.analysis import AttributionTable
    from sightline.explanation import Explanation

NAMED_TOKENS = 40
"""Tokens of the heat map that names them."""


def sections(found: Inspection) -> list[Section]:
    """Return the sections in the order of the page; a part that has nothing to show is left out with a sentence."""
    return [
        *(attribution_section(found, name) for name in found.explanations),
        *([importance_section(found)] if found.importance is not None else []),
        maps_section(found),
        relations_section(found),
        totals_section(found),
        *(comparison_section(found, name) for name in found.explanations),
        *(layers_section(found, name) for name, one in found.explanations.items() if one.layers is not None),
        rollout_section(found),
    ]


def attribution_section(found: Inspection, name: str) -> Section:
    """Which words moved the number that is explained."""
    explanation = found.explanations[name]
    sides = "Blue words speak for the class, orange ones against it." if explanation.signed else ""
    said = (
        f"{prediction_sentence(explanation)} The numbers below say what moved the {explanation.target.description()}, "
        f"by the method {name}. {sides}",
        *notices(explanation),
        " ".join([*describe_verdict(explanation.verdict).sentences, *check_sentences(explanation.checks)]),
        filter_sentence(found),
    )
    by_type, by_position = found.by_type[name], found.by_position[name]
    return Section(
        f"words-{name}",
        f"Which words mattered: {name}",
        tuple(filter(None, said)),
        (
            Picture(
                f"{name}-text",
                "The text",
                "The passage where the scores are strongest. The deeper the colour, the larger the score.",
                partial(plots.text_overlay, explanation, title=f"{name} on the text"),
            ),
            Picture(
                f"{name}-words",
                "Strongest words",
                f"The scores of all instances of a word are added up. {by_type.note}".strip(),
                partial(
                    plots.ranked_bars, attribution_rankings(explanation, by_type), title=f"Strongest words by {name}"
                ),
            ),
            Table(f"{name}-by-type", "Strongest words, instances added up", _of_one_document(by_type.to_frame())),
            Table(f"{name}-by-position", "Strongest words where they stand", _of_one_document(by_position.to_frame())),
        ),
    )


def attribution_rankings(explanation: Explanation, table: AttributionTable) -> list[plots.Ranking]:
    """The panels of a bar chart: for and against, or one for a method without signs."""
    label = explanation.target.label
    if not explanation.signed:
        rows = table.positive
        return [plots.Ranking("strongest", [r.text for r in rows], [r.score for r in rows], "score", PLAIN)]
    return [
        plots.Ranking(title, [row.text for row in rows], [row.score for row in rows], "score", colour)
        for title, rows, colour in (
            (f"for “{label}”", table.positive, FOR),
            (f"against “{label}”", table.negative, AGAINST),
        )
    ]


def importance_section(found: Inspection) -> Section:
    """How much each head matters."""
    importance = found.importance
    assert importance is not None
    frame = importance_frame(importance)
    most = frame.iloc[0]
    return Section(
        "heads",
        "Which heads matter",
        (
            "A head is important when the loss would change much if its weights changed a little (first-order Taylor "
            "expansion). Numbers are scaled so that the least important head has 0 and the most important one has 1; "
            f"here that is head {most['head']:.0f} of layer {most['layer']:.0f}.",
        ),
        (
            Picture(
                "head-importance",
                "Head importance",
                "One cell a head; the brighter, the more important for this document.",
                partial(plots.head_importance_map, importance),
            ),
            Table("head-importance", "Heads by importance", frame),
        ),
    )


def importance_frame(importance: np.ndarray) -> pd.DataFrame:
    """Return one row a head, most important first: rank, layer, head, importance."""
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


def maps_section(found: Inspection) -> Section:
    """Attention of all heads as pictures, one head in full."""
    one, tokens = found.one_head, found.encoding.tokens
    here = f"layer {one.layer}, head {one.head}"
    chosen = found.settings.layer is not None or found.settings.head is not None
    why = "as asked for" if chosen else "the most important one" if found.importance is not None else "the first"
    pictures = [
        Picture(
            "attention-maps",
            "All heads",
            "One small picture a head: row = the token that attends, column = the token attended to. A diagonal looks "
            "at neighbours, a vertical line is a token that many look at.",
            partial(
                plots.attention_grid,
                found.maps.pixels,
                tokens=found.maps.tokens,
                importance=found.importance,
            ),
        ),
        Picture(
            f"attention-layer-{one.layer}-head-{one.head}",
            f"One head: {here}",
            f"The head ({why}) in full; colours follow the square root of the weight.",
            partial(plots.attention_map, one.image, tokens, title=f"Attention of {here}"),
        ),
    ]
    if found.windows is not None:
        pictures.insert(
            1,
            Picture(
                "attention-windows",
                "The windows of all heads",
                "The diagonals above, straightened: from top to bottom the document, from left to right the distance "
                "to the token attended to, the token itself in the middle. A vertical line is a head that looks at a "
                "fixed distance.",
                partial(
                    plots.attention_grid,
                    found.windows,
                    tokens=len(found.encoding),
                    importance=found.importance,
                    title="Windows of all heads",
                    caption="Row: position of the token that attends; column: distance to the token attended to, "
                    "itself in the middle.",
                ),
            ),
        )
    if one.tile is not None:
        span = (0, len(one.tile))
        pictures.append(
            Picture(
                f"attention-layer-{one.layer}-head-{one.head}-tile",
                f"The first {len(one.tile)} tokens of it",
                "One pixel a weight.",
                partial(
                    plots.attention_map,
                    one.tile,
                    tokens,
                    rows=span,
                    columns=span,
                    title=f"Attention of {here}, first {len(one.tile)} tokens",
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


def layers_section(found: Inspection, name: str) -> Section:
    """A method layer by layer."""
    explanation = found.explanations[name]
    layers = explanation.layers
    assert layers is not None
    strongest = sorted({token for word in explanation.top(NAMED_TOKENS, level="token") for token in word.tokens})
    tokens = explanation.tokens
    kind = explanation.layer_kind or "separate"
    draw = partial(plots.layer_heat_map, kind=kind, signed=explanation.signed)
    hues = "Blue is for, orange against." if explanation.signed else "Brighter is more."
    parts = [
        Picture(
            f"{name}-layers",
            "The whole document",
            _LAYER_NOTES[kind],
            partial(draw, layers, tokens, title=f"{name} by layer", caption=hues),
        )
    ]
    if len(strongest) < len(tokens) and strongest:
        parts.append(
            Picture(
                f"{name}-layers-strongest",
                f"The {len(strongest)} strongest tokens",
                "In the order of the document; special tokens are left out.",
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
        f"layers-{name}", f"Layer by layer: {name}", ("One row per layer, layer 0 at the top.",), tuple(parts)
    )


def rollout_section(found: Inspection) -> Section:
    """Relevance matrices and the attention graph, for inputs short enough to see something in them."""
    n = len(found.encoding)
    parts: list[Picture | Table] = []
    said = []
    if found.relevance is not None:
        parts.append(
            Picture(
                "relevance-matrices",
                "Relevance matrices of attention rollout",
                "How much of every input token is in every token after each layer.",
                partial(
                    plots.relevance_matrices,
                    found.relevance,
                    found.encoding.tokens,
                    title="Relevance matrices of attention rollout",
                ),
            )
        )
    else:
        said.append(f"Relevance matrices are drawn for up to {MATRIX_TOKENS} tokens; this document has {n:,}.")
    if found.graph is not None:
        parts.append(
            Picture(
                "attention-graph",
                "Attention as a graph",
                "Layers from bottom to top; the wider a line, the more the token above attends to the token below. "
                "The orange node is the one the prediction is read from.",
                partial(
                    plots.attention_graph,
                    found.graph,
                    found.encoding.tokens,
                    readout=found.readout,
                    title="Attention graph, heads averaged",
                ),
            )
        )
    else:
        said.append(f"The attention graph is drawn for up to {GRAPH_TOKENS} tokens; this document has {n:,}.")
    return Section("mixing", "How layers mix the tokens", tuple(said), tuple(parts))


def _of_one_document(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out what says nothing about one document: positions of types, the instances of one place, documents."""
    by_type = bool((frame["position"] == -1).all())
    return frame.drop(columns=["position" if by_type else "instances", "documents"])
