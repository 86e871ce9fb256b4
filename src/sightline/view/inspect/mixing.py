"""How layers mix tokens: relevance matrices, attention graphs, anisotropy, effective attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sightline.analysis.inspection import EFFECTIVE_TOKENS, GRAPH_TOKENS, MATRIX_TOKENS
from sightline.view import plots
from sightline.view.sections.pages import Picture, Section, Table
from sightline.view.words.sentences import percent

if TYPE_CHECKING:
    from sightline.analysis import EffectiveHead, Inspection, LayerAnisotropy

NAMED_TOKENS = 40
"""Tokens up to which panels side by side name them."""
NO_SHARE = 1e-6
"""Share of the squared weights up to which rounding alone may have removed it."""


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
    if inspection.effective is not None:
        sentences.append(effective_sentence(inspection.effective, n))
        parts += _effective_parts(inspection.effective, inspection.encoding.tokens)
    elif inspection.settings.effective:
        sentences.append(
            f"Effective attention is computed for up to {EFFECTIVE_TOKENS} tokens; this document has {n:,}."
        )
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
        parts += anisotropy_parts(inspection.anisotropy)
    return parts


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
        Table(f"{stem}anisotropy", title, frame),
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


def _effective_parts(effective: EffectiveHead, tokens: Sequence[str]) -> list[Picture | Table]:
    here = f"layer {effective.layer}, head {effective.head}"
    return [
        Picture(
            "effective-attention",
            f"Attention and effective attention: {here}",
            "Effective attention is attention without the part that the values cancel (Brunner et al. 2020); both give "
            "the same output. Its weights may be negative, and rows need not sum to 1.",
            partial(
                plots.signed_maps,
                {"attention": effective.attention, "effective attention": effective.effective},
                tokens,
                title=f"Effective attention of {here}",
            ),
        ),
        Picture(
            "cancelled-attention",
            "Attention without effect",
            "The share of the squared weights of every head that has no effect on its output.",
            partial(plots.head_importance_map, effective.cancelled, title="Share of attention without effect"),
        ),
        Table("cancelled-attention", "Heads by the share of attention without effect", effective.to_frame()),
    ]
