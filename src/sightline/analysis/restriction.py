"""The strongest partners among some of the tokens only.

Tokens that a filter drops must not take places in anyone's list: their rows and columns leave the ranking before it is
made. The weights of dropped tokens are set to -1, below every weight there is, in a copy of the layer; what is then
found with -1 is no partner. O(stored weights) time and memory.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sightline.analysis.source import Booleans
from sightline.attention import Attention, BandedAttention, DenseAttention, StreamedAttention, TopK
from sightline.errors import UnsupportedError

_DROPPED = -1.0


def top_partners(attention: Attention, k: int, keep: Booleans | None = None) -> tuple[TopK, TopK]:
    """Return top_attended(k) and top_attending(k) of the tokens in `keep` (n,) among themselves; None keeps all.

    attention: weights that are not negative. Tokens that are not kept have no partners (index -1, value 0).
    """
    if keep is None or keep.all():
        return attention.top_attended(k), attention.top_attending(k)
    ranked = _mark_dropped(attention, torch.from_numpy(~keep))
    return _clear_dropped(ranked.top_attended(k), keep), _clear_dropped(ranked.top_attending(k), keep)


def _mark_dropped(attention: Attention, dropped: Tensor) -> Attention:
    """The same layer with -1 for every weight in a dropped row or column."""
    if isinstance(attention, DenseAttention):
        weights = attention.weights.clone()
        allowed = np.stack([attention.allowed(i) for i in range(attention.tokens)])
        gone = (dropped[:, None] | dropped) & torch.from_numpy(allowed)
        weights[:, gone] = _DROPPED
        return DenseAttention(weights, allowed)
    if isinstance(attention, BandedAttention):
        return _mark_dropped_slots(attention, dropped)
    if isinstance(attention, StreamedAttention):
        return attention.change(lambda rows, start: _mark_dropped_rows(rows, start, dropped))
    raise UnsupportedError(f"Attention of type {type(attention).__name__} cannot be filtered.")


def _mark_dropped_rows(rows: Tensor, start: int, dropped: Tensor) -> Tensor:
    gone = dropped[start : start + rows.shape[1], None] | dropped
    return rows.masked_fill(gone, _DROPPED)


def _mark_dropped_slots(attention: BandedAttention, dropped: Tensor) -> BandedAttention:
    n, positions = attention.tokens, attention.global_tokens
    is_global = torch.zeros(n, dtype=torch.bool)
    is_global[positions] = True
    keys = torch.arange(n)[:, None] - attention.window + torch.arange(2 * attention.window + 1)
    keys = keys.clamp(0, n - 1)
    # Slots of global keys and rows of global tokens hold no weight here and must stay 0.
    stored = attention.window_places() & ~is_global[keys] & ~is_global[:, None]
    window_gone = stored & (dropped[keys] | dropped[:, None])
    columns_gone = ~is_global[:, None] & (dropped[positions] | dropped[:, None])
    local = attention.local.clone()
    local[:, torch.cat((columns_gone, window_gone), dim=1)] = _DROPPED
    rows = attention.global_rows.clone()
    rows[:, dropped[positions][:, None] | dropped] = _DROPPED
    return BandedAttention(local, rows, positions, attention.block_size)


def _clear_dropped(partners: TopK, keep: Booleans) -> TopK:
    """Take out what was found only because a list has k places."""
    none = (partners.values == _DROPPED) | ~keep[None, :, None]
    return TopK(np.where(none, 0, partners.values), np.where(none, -1, partners.indices))
