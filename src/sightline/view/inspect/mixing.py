"""The section on how layers mix tokens: relevance matrices, attention graphs, the readout over layers, anisotropy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sightline.analysis.inspection import GRAPH_TOKENS, MATRIX_TOKENS
from sightline.view import plots
from sightline.view.inspect.parts import Picture, Section, Table

if TYPE_CHECKING:
    from sightline.analysis import Inspection

NAMED_TOKENS = 40
"""Tokens up to which panels side by side name them."""


def mixing_section(inspection: Inspection) -> Section:
    """Return relevance matrices and the attention graph, for documents short enough to read them."""
    n = len(inspection.encoding)
    sentences = []
    parts: list[Picture | Table] = [
        Picture(
            f"{name}-relevance-matrices",
            f"Relevance matrices of {name}",
            "How much of every input token (column) is in every token (row) after each layer.",
            partial(
                plots.relevance_matrices,
                matrices,
                inspection.encoding.tokens,
                title=f"Relevance matrices of {name}",
            ),
        )
        for name, matrices in inspection.relevance.items()
    ]
    if not parts:
        sentences.append(f"Relevance matrices are drawn for up to {MATRIX_TOKENS} tokens; this document has {n:,}.")
    if inspection.graph is not None:
        parts.append(
            Picture(
                "attention-graph",
                "Attention as a graph",
                "Layers from bottom to top; the wider a line, the more the token above attends to the token below. "
                "The prediction is read from the orange node.",
                partial(
                    plots.attention_graph,
                    inspection.graph,
                    inspection.encoding.tokens,
                    readout=inspection.readout,
                    title="Attention graph, mean of the heads",
                ),
            )
        )
    else:
        sentences.append(f"The attention graph is drawn for up to {GRAPH_TOKENS} tokens; this document has {n:,}.")
    parts += _compared_parts(inspection)
    return Section("mixing", "How layers mix the tokens", tuple(sentences), tuple(parts))


def _compared_parts(inspection: Inspection) -> list[Picture | Table]:
    """Return graphs side by side, the readout's row over the layers, and anisotropy, as far as there are any."""
    parts: list[Picture | Table] = []
    tokens = inspection.encoding.tokens
    if inspection.graphs:
        parts.append(
            Picture(
                "attention-graphs",
                "Raw attention, rollout and flow",
                "Residual connections included. Raw attention is drawn between neighbouring layers; of rollout and "
                "flow, a line below a layer shows how much of an input token is in the token above. Each layer has "
                "its own scale: lines of different layers cannot be compared.",
                partial(
                    plots.attention_graphs,
                    inspection.graphs,
                    tokens,
                    readout=inspection.readout,
                    title="Raw attention, rollout and flow",
                ),
            )
        )
    rows = {
        name: explanation.layers
        for name, explanation in inspection.explanations.items()
        if explanation.layers is not None and explanation.layer_kind in ("cumulative", "separate")
    }
    if len(rows) > 1 and len(tokens) <= NAMED_TOKENS:
        parts.append(
            Picture(
                "readout-over-layers",
                "The readout over the layers",
                "What the token that the prediction is read from holds of every input token after each layer.",
                partial(plots.layer_panels, rows, tokens, title="The readout over the layers"),
            )
        )
    if inspection.anisotropy is not None:
        frame = inspection.anisotropy.to_frame()
        names = {"hidden": "hidden states", "y": "attention outputs y", "T": "vectors T", "T_in_row": "T of one row"}
        parts += [
            Picture(
                "anisotropy",
                "Anisotropy",
                "Mean cosine between two vectors: near 1, all point the same way. y are the outputs of the attention "
                "blocks, T the transformed vectors they are sums of.",
                partial(
                    plots.layer_curves,
                    {names[name]: frame[name].to_numpy() for name in frame if name in names},
                    unit="mean cosine",
                    title="Anisotropy over the layers",
                ),
            ),
            Table("anisotropy", "Anisotropy over the layers", frame),
        ]
    return parts
