"""Effective attention beside attention (`methods/attention_weights`): single heads, and what is cancelled in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sightline.methods.attention_weights import effective_attention
from sightline.passes.trace import Trace
from sightline.settings.values import check_head, check_layer

if TYPE_CHECKING:
    import pandas as pd

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EffectiveHead:
    """The attention of one head beside its effective attention, and what is cancelled in every head."""

    layer: int
    head: int
    attention: Values
    """(n, n)."""
    effective: Values
    """(n, n); weights may be negative."""
    cancelled: Values
    """(L, H): the share of every head's squared weights that has no effect."""
    width: int
    """Dimensions of a head; nothing is cancelled in texts of up to so many tokens."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per head, the largest share first: layer, head, cancelled."""
        import pandas as pd

        layers, heads = np.indices(self.cancelled.shape)
        frame = pd.DataFrame({"layer": layers.ravel(), "head": heads.ravel(), "cancelled": self.cancelled.ravel()})
        return frame.sort_values("cancelled", ascending=False, kind="stable", ignore_index=True)


def effective_head(trace: Trace, layer: int, head: int) -> EffectiveHead:
    """Return one head's attention and effective attention, with the cancelled share of all heads."""
    layer, head = check_layer(layer, trace.layer_count), check_head(head, trace.head_count)
    return EffectiveHead(
        layer=layer,
        head=head,
        attention=np.asarray(trace.attentions[layer].head(head).dense()[0], dtype=np.float64),
        effective=effective_attention(trace, layer)[head],
        cancelled=cancelled_share(trace),
        width=int(trace.block(layer).values.shape[2]),
    )


def cancelled_share(trace: Trace) -> Values:
    """Return the share of every head's squared weights that has no effect, ‖A − A_eff‖² / ‖A‖², (L, H), in [0, 1]."""
    shares = []
    for layer in range(trace.layer_count):
        weights = np.asarray(trace.attentions[layer].dense(), dtype=np.float64)
        removed = ((weights - effective_attention(trace, layer)) ** 2).sum(axis=(1, 2))
        shares.append(removed / (weights**2).sum(axis=(1, 2)))
    return np.asarray(np.clip(np.array(shares), 0.0, 1.0))
