"""How the scores by layer (L, n) of an explanation relate to its scores (n,).

additive    they sum to the scores: Σ_l layers[l] = scores (CAT, AttCAT, received attention)
averaged    their mean is the scores: Σ_l layers[l] / L = scores (Grad-SAM, layer conductance)
cumulative  layer l holds the result of the layers up to l, the last one the scores (rollout, flow, ALTI)
separate    every layer is an explanation of its own (raw attention, relevance); nothing follows from their sum
"""

from __future__ import annotations

from typing import Literal, get_args

LayerKind = Literal["additive", "averaged", "cumulative", "separate"]


def resolve_layer_kind(kind: LayerKind | None, *, has_layers: bool) -> LayerKind | None:
    """Return None without layers, and "separate" where layers come without a statement."""
    if kind is not None and kind not in get_args(LayerKind):
        raise ValueError(f"layer_kind must be one of {', '.join(get_args(LayerKind))}, not {kind!r}")
    if not has_layers:
        return None
    return kind or "separate"
