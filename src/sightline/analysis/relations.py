"""Who attends to whom: the k strongest partners of every token in every layer and head, and their counts.

For token i, *attended* are the k tokens of largest weight in its row, *attending* the k of largest weight in its
column, among the positions that may attend (a window, the global tokens). A filter removes tokens from both sides
before ranking: relations are then those of the sub-matrix of the kept tokens (weights unchanged). Without a filter,
specials are partners like all others, though tables list words only.

Counts are what tables show (`relation_counts`): how often a position is among the k attended (attending) of others, by
lists or with every querying token counted once (`relation_table`). One layer's lists are held at a time, and the pairs
(token, partner) that occurred in any layer or head, at most n·k per layer and head: O(L·H·n·k log) time. The pairs
(token, word) and (token, type) follow from them: every partner is mapped to the first token of its word or type.

Dropped tokens must not take up places in any list, so they leave the ranking before it is made: in a copy of the layer
their weights are set to -1, below every real weight, and partners found with -1 are discarded. O(stored weights) time
and memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightline.analysis.filters import TokenFilter
from sightline.analysis.relation_table import (
    DIRECTIONS,
    SHORT_DOCUMENT,
    Counts,
    Grouping,
    RelationCounts,
    TokenCounts,
    first_of_type,
)
from sightline.analysis.source import AttentionSource, Booleans, track
from sightline.attention import Attention, BandedAttention, DenseAttention, StreamedAttention, TopK
from sightline.errors import UnsupportedError
from sightline.progress import Progress
from sightline.settings.values import check_count
from sightline.text import Encoding
from sightline.text.units import units_of

if TYPE_CHECKING:
    pass

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
    """Return the layer with -1 for every weight in a dropped row or column."""
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
    # Slots of global keys and rows of global tokens contain no weight here and must stay 0.
    stored = attention.window_places() & ~is_global[keys] & ~is_global[:, None]
    window_gone = stored & (dropped[keys] | dropped[:, None])
    columns_gone = ~is_global[:, None] & (dropped[positions] | dropped[:, None])
    local = attention.local.clone()
    local[:, torch.cat((columns_gone, window_gone), dim=1)] = _DROPPED
    rows = attention.global_rows.clone()
    rows[:, dropped[positions][:, None] | dropped] = _DROPPED
    return BandedAttention(local, rows, positions, attention.block_size)


def _clear_dropped(partners: TopK, keep: Booleans) -> TopK:
    """Return the lists without the entries that only fill them up to k."""
    none = (partners.values == _DROPPED) | ~keep[None, :, None]
    return TopK(np.where(none, 0, partners.values), np.where(none, -1, partners.indices))


Indices = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger[Any]]


def relation_counts(
    source: AttentionSource,
    k: int = 10,
    filter: TokenFilter | None = None,
    *,
    distinct: bool = True,
    progress: Progress | None = None,
) -> RelationCounts:
    """Count partners over all layers and heads, one layer in memory at a time.

    distinct=False counts only pairs and skips the counts of tokens, which would double the time.
    """
    wanted, keep = resolve_partners(source, k, filter)
    groupings = _groupings(source.encoding)
    sides = {side: _Counting(groupings, source.head_count if distinct else 0) for side in DIRECTIONS}
    for layer in track(range(source.layer_count), "relations", progress):
        for side, indices in zip(DIRECTIONS, _layer_partners(source.attentions[layer], wanted, keep), strict=True):
            sides[side].add(indices)
    attended, attending, mutual = (np.stack(sides[side].pairs) for side in DIRECTIONS)
    return RelationCounts(
        source.encoding,
        k,
        filter,
        attended,
        attending,
        mutual,
        distinct={(side, grouping): sides[side].by(grouping) for side in sides for grouping in groupings}
        if distinct
        else {},
        visible_pairs=_visible_pairs(source, keep) if distinct and len(source.encoding) <= SHORT_DOCUMENT else None,
    )


def _groupings(encoding: Encoding) -> dict[Grouping, Indices]:
    """Return the representative token of each token (n,) where positions, words or types are counted."""
    words, positions = units_of(encoding, "word"), np.arange(len(encoding))
    first_of_word = np.where(words.of_token >= 0, np.append(words.first_tokens, 0)[words.of_token], positions)
    return {
        "token": positions,
        "word": first_of_word,
        "token type": first_of_type(units_of(encoding, "token")),
        "word type": first_of_type(words),
    }


def _visible_pairs(source: AttentionSource, keep: Booleans | None) -> Indices:
    """Return how many pairs of kept tokens may be listed in each layer, and in any layer, (L + 1,). O(L·n²)."""
    n = len(source.encoding)
    listed = np.arange(n) if keep is None else np.flatnonzero(keep)
    anywhere = np.zeros((len(listed), len(listed)), dtype=np.bool_)
    pairs = []
    for layer in range(source.layer_count):
        attention = source.attentions[layer]
        visible = np.array([attention.allowed(int(i))[listed] for i in listed], dtype=np.bool_).reshape(anywhere.shape)
        pairs.append(int(visible.sum()))
        anywhere |= visible
    return np.array([*pairs, int(anywhere.sum())], dtype=np.int64)


def _layer_partners(attention: Attention, k: int, keep: Booleans | None) -> tuple[Indices, Indices, Indices]:
    """Return the partners of every token in one layer, attended, attending and in both lists, each (H, n, k), or -1."""
    attended, attending = (partners.indices for partners in top_partners(attention, k, keep))
    both = [
        np.where((attended_row[:, :, None] == attending_row[:, None, :]).any(axis=-1), attended_row, -1)
        for attended_row, attending_row in zip(attended, attending, strict=True)
    ]
    return attended, attending, np.stack(both)


class _Counting:
    """Counts of one direction, updated layer by layer; without heads, only of pairs."""

    def __init__(self, groupings: Mapping[Grouping, Indices], heads: int) -> None:
        """groupings: the representative of each token, (n,), by what is counted."""
        self.groupings = groupings
        self.tokens = len(groupings["token"])
        self.pairs: list[Counts] = []
        """One (H, n) per layer."""
        self.layers: dict[Grouping, list[Counts]] = {grouping: [] for grouping in groupings}
        self.lists: dict[Grouping, list[Counts]] = {grouping: [] for grouping in groupings}
        self.any = _PairSet(self.tokens)
        self.heads = [_PairSet(self.tokens) for _ in range(heads)]

    def add(self, indices: Indices) -> None:
        """Add the partners (H, n, k) of one layer."""
        self.pairs.append(np.stack([_count(row, self.tokens) for row in indices]))
        if self.heads:
            layer = _PairSet(self.tokens)
            layer.merge(np.concatenate([pair_set.add(row) for pair_set, row in zip(self.heads, indices, strict=True)]))
            self.any.merge(layer.codes)
            for grouping, groups in self.groupings.items():
                self.layers[grouping].append(layer.join(groups).counts())
                self.lists[grouping].append(np.stack([_count(_join(row, groups), self.tokens) for row in indices]))

    def by(self, grouping: Grouping) -> TokenCounts:
        """Return how many tokens list each group."""
        groups = self.groupings[grouping]
        return TokenCounts(
            total=self.any.join(groups).counts(),
            by_layer=np.stack(self.layers[grouping]),
            by_head=np.stack([pair_set.join(groups).counts() for pair_set in self.heads]),
            within_head=np.stack(self.lists[grouping]),
        )


def _join(indices: Indices, groups: Indices) -> Indices:
    """Replace the partners (n, k) of every token with their representatives, each once, or -1."""
    joined = np.sort(np.where(indices >= 0, groups[indices], -1), axis=1)
    joined[:, 1:][joined[:, 1:] == joined[:, :-1]] = -1
    return joined


class _PairSet:
    """A set of pairs (token i, partner j), coded as i·n + j, ascending."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        kind = np.int32 if tokens**2 < 2**31 else np.int64
        self.codes: Codes = np.empty(0, dtype=kind)

    def add(self, indices: Indices) -> Codes:
        """Add the partners (n, k) of every token; returns their codes."""
        codes = np.arange(self.tokens)[:, None] * self.tokens + indices
        listed = codes[indices >= 0].astype(self.codes.dtype)
        self.merge(listed)
        return listed

    def merge(self, codes: Codes) -> None:
        """Add pairs by their codes."""
        merged = np.concatenate((self.codes, codes))
        merged.sort()  # np.union1d hashes, which takes ten times as long
        is_first = np.ones(len(merged), dtype=np.bool_)
        np.not_equal(merged[1:], merged[:-1], out=is_first[1:])
        self.codes = merged[is_first]

    def join(self, groups: Indices) -> _PairSet:
        """Return the pairs (token i, groups[j]), each once. groups: (n,) positions."""
        joined = _PairSet(self.tokens)
        querying, partners = np.divmod(self.codes, self.tokens)
        joined.merge((querying * self.tokens + groups[partners]).astype(self.codes.dtype))
        return joined

    def counts(self) -> Counts:
        """Return how many tokens have each position as a partner, (n,)."""
        return np.bincount(self.codes % self.tokens, minlength=self.tokens).astype(np.uint32)


def resolve_partners(source: AttentionSource, k: int, filter: TokenFilter | None) -> tuple[int, Booleans | None]:
    """Return k, at most the number of tokens, and the mask of kept tokens."""
    wanted = min(check_count("k", k), len(source.encoding))
    return wanted, None if filter is None else filter.keep_tokens(source.encoding)


def _count(indices: Indices, n: int) -> Counts:
    return np.bincount(indices[indices >= 0], minlength=n).astype(np.uint32)
