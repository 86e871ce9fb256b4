"""Attribution: what a method returns; and the attributions of windows merged into that of their document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.methods.layer_kind import LayerKind, resolve_layer_kind
from sightline.passes.trace import Window

Array = NDArray[np.floating[Any]]
Check = float | int | bool | str
COUNTS = frozenset(
    {"model_calls", "evaluations", "clipped_rows", "settled_by_bounds", "settled_by_flow", "settled_by_cut"}
)
"""Checks that add up over windows."""
SUMS_OF_SCORES = frozenset({"relevance_given", "relevance_kept"})
"""Checks that are sums of scores, and are weighted like them; of all others, the worst window stands for the rest."""


@dataclass(frozen=True)
class Attribution:
    """The result of a method: scores (n,), scores by layer (L, n), checks of their quality, further named arrays."""

    scores: Array
    layers: Array | None = None
    checks: Mapping[str, Check] = field(default_factory=dict)
    extras: Mapping[str, Array] = field(default_factory=dict)
    layer_kind: LayerKind | None = None
    """How `layers` relate to `scores`; "separate" unless given, None without layers."""

    def __post_init__(self) -> None:
        kind = resolve_layer_kind(self.layer_kind, has_layers=self.layers is not None)
        object.__setattr__(self, "layer_kind", kind)


def merge_windows(tokens: int, parts: Iterable[tuple[Window, Attribution]]) -> Attribution:
    """Return the attribution of a document of n `tokens` from those of its windows.

    s_i = Σ_w share_w · s_{w,i} over the windows w that hold token i; the same for scores by layer. The marks around the
    text and the other text of a pair are in every window. Counts add up, a flag holds if it holds for every window,
    and of other checks the largest is reported. Further arrays of the method belong to single windows and are left
    out.
    """
    scores = np.zeros(tokens)
    layers: Array | None = None
    kind: LayerKind | None = None
    checks: dict[str, Check] = {}
    for window, attribution in parts:
        scores[window.positions] += window.share * attribution.scores
        if attribution.layers is not None:
            layers = np.zeros((len(attribution.layers), tokens)) if layers is None else layers
            layers[:, window.positions] += window.share * attribution.layers
            kind = attribution.layer_kind
        for name, value in attribution.checks.items():
            weighted = window.share * float(value) if name in SUMS_OF_SCORES else value
            checks[name] = _merge_check(name, checks.get(name), weighted)
    return Attribution(scores, layers=layers, checks=checks, layer_kind=kind)


def _merge_check(name: str, before: Check | None, value: Check) -> Check:
    if before is None or isinstance(before, str) or isinstance(value, str):
        return value if before is None else before
    if isinstance(value, bool):
        return bool(before) and value
    if name in COUNTS | SUMS_OF_SCORES:
        return before + value
    return value if abs(value) > abs(before) else before
