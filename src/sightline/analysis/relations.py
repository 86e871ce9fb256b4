"""Who attends to whom: the k strongest partners of every token in every layer and head, and what they add up to.

For token i, *attended* are the k tokens of largest weight in its row, *attending* the k of largest weight in its
column, among the positions that may attend (a window, the global tokens). A filter takes tokens out of both sides
before ranking: relations are then those of the sub-matrix of the tokens that stay (weights unchanged). Without a filter
specials are partners like all others, though tables list words only.

Counts are what tables show (`relation_counts`): how often a position is among the k attended (attending) of others. One
layer's lists are held at a time: O(H·n·k) memory, counts O(L·H·n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sightline.analysis.filters import TokenFilter
from sightline.analysis.relation_table import Counts, RelationCounts
from sightline.analysis.restriction import top_partners
from sightline.analysis.source import AttentionSource, Booleans, Progress, layer_number, track
from sightline.arguments import check_count, check_head, check_one_of, check_position
from sightline.attention import Attention, TopK
from sightline.text import Encoding

if TYPE_CHECKING:
    import pandas as pd

Side = Literal["attended", "attending"]


@dataclass(frozen=True, eq=False)
class LayerRelations:
    """The strongest partners of every token in one layer; -1 where a token has fewer than k (or is filtered out)."""

    encoding: Encoding
    layer: int
    attended: TopK
    """values and indices (H, n, k)."""
    attending: TopK

    def of_token(self, position: int, head: int, direction: Side = "attended") -> list[tuple[int, float]]:
        """Return the partners of one token in one head, strongest first: (position, weight)."""
        partners = self._side(direction)
        head = check_head(head, len(partners.indices))
        position = check_position(position, len(self.encoding))
        pairs = zip(partners.indices[head, position], partners.values[head, position], strict=True)
        return [(int(partner), float(weight)) for partner, weight in pairs if partner >= 0]

    def to_frame(self, direction: Side = "attended", head: int | None = None) -> pd.DataFrame:
        """Return one row per relation: layer, head, position, token, rank, partner, partner_token, weight."""
        import pandas as pd

        partners = self._side(direction)
        heads = range(len(partners.indices)) if head is None else [check_head(head, len(partners.indices))]
        tokens = np.array(self.encoding.tokens, dtype=object)
        indices, values = partners.indices[heads], partners.values[heads]
        which, position, rank = np.nonzero(indices >= 0)
        partner = indices[which, position, rank]
        return pd.DataFrame(
            {
                "layer": self.layer,
                "head": np.asarray(heads)[which],
                "position": position,
                "token": tokens[position],
                "rank": rank + 1,
                "partner": partner,
                "partner_token": tokens[partner],
                "weight": values[which, position, rank],
            }
        )

    def _side(self, direction: str) -> TopK:
        check_one_of("direction", direction, ("attended", "attending"))
        partners: TopK = getattr(self, direction)
        return partners


def layer_relations(
    source: AttentionSource, layer: int, k: int = 10, filter: TokenFilter | None = None
) -> LayerRelations:
    """Return the k strongest partners of every token in one layer; fewer where fewer may attend."""
    layer = layer_number(source, layer)
    partners = top_partners(source.attentions[layer], *resolve_partners(source, k, filter))
    return LayerRelations(source.encoding, layer, *partners)


def relation_counts(
    source: AttentionSource, k: int = 10, filter: TokenFilter | None = None, *, progress: Progress | None = None
) -> RelationCounts:
    """Count partners over all layers and heads, one layer in memory at a time."""
    wanted, keep = resolve_partners(source, k, filter)
    layers = [
        layer_counts(source.attentions[layer], wanted, keep)
        for layer in track(range(source.layer_count), "relations", progress)
    ]
    return RelationCounts(source.encoding, k, filter, *(np.stack(side) for side in zip(*layers, strict=True)))


def layer_counts(attention: Attention, k: int, keep: Booleans | None) -> tuple[Counts, Counts, Counts]:
    """Return how often each position is attended, attending and both in one layer, each (H, n)."""
    attended, attending = (partners.indices for partners in top_partners(attention, k, keep))
    n = attention.tokens
    both = [
        np.where((attended_row[:, :, None] == attending_row[:, None, :]).any(axis=-1), attended_row, -1)
        for attended_row, attending_row in zip(attended, attending, strict=True)
    ]
    return tuple(np.stack([_count(indices, n) for indices in side]) for side in (attended, attending, both))  # type: ignore[return-value]


def resolve_partners(source: AttentionSource, k: int, filter: TokenFilter | None) -> tuple[int, Booleans | None]:
    """k, at most one partner a token (a document may be shorter than k), and the tokens that stay."""
    wanted = min(check_count("k", k), len(source.encoding))
    return wanted, None if filter is None else filter.keep_tokens(source.encoding)


def _count(indices: np.ndarray[tuple[int, ...], np.dtype[np.int64]], n: int) -> Counts:
    return np.bincount(indices[indices >= 0], minlength=n).astype(np.uint32)
