"""Rows of an attention layer where they are stored, cut into tiles of (rows × keys) for the decomposition.

Attention is stored as a table (H, stored rows, S slots). In a matrix, slot j is key j; in a band, the first G slots are
the global tokens and slot G+w+(j-i) of row i is key j. Either way the slots of successive rows and successive keys lie
at constant distances in memory, so a tile is a *view* of the weights, and of a table that takes one result for each
pair. Dense layers, the global rows of a band and its other rows share one algorithm; only this file knows the layouts.

Tiles come in groups of equal keys, so that what depends on the key alone is computed once a group. Shapes: R selected
rows of n tokens, r of them in a tile, K keys, H heads, e width of a head.

Measures say how much a source vector T_ij has to do with the output y_i, for a tile of pairs at a time. With
output projection and LayerNorms folded into F^h (e, d), T_ij = s_i · Σ_h A^h_ij F^h v^h_j for i ≠ j. So the vectors of
one key and r rows are the product of an (r × H) and an (H × d) matrix, and their Euclidean lengths need only the H × H
Gram matrix of the key's F^h v^h. The vectors T_ii hold the residual too; they are few and come whole.

Every measure has two functions: `for_keys` computes what depends on the keys alone and returns the function that
measures a tile, weights (H, r, K) to (r, K); `own` measures T_ii, (R, d) to (R,). Shapes: R selected rows, r of them in
a tile, K keys, H heads, e width of a head, d width of the model.

A gain ‖y‖ - ‖y - T‖ is a small difference of large numbers: at 768 dimensions and 512 tokens float32 would keep three
digits of it. Both gains are therefore summed from their small parts, which also makes them exactly 0 for T = 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from sightline.attention import BandedAttention

KEYS = 32
"""Keys of a group."""
TILE_ELEMENTS = 2**20
"""Floats of a tile (rows × keys × d), few enough for the processor's cache to hold them while they are worked on."""
MIX_ROWS = 256
"""Rows of a matrix mixed at once, so that a selection of rows is never copied as a whole."""


class Tile(NamedTuple):
    """Some selected rows against the keys of a group."""

    rows: slice
    """Which of the R selected rows."""
    weights: Tensor
    """(H, r, K), a view; any numbers for pairs outside the window."""
    results: Tensor
    """(r, K), a view to be written."""


class SlotRows(ABC):
    """Selected rows of one table of weights, the values they mix, and a table for the results."""

    def __init__(self, weights: Tensor, places: Tensor, positions: Tensor, values: Tensor) -> None:
        self.weights = weights
        """(H, stored rows, S), contiguous."""
        self.places = places
        """(R,) where in the table each selected row is stored, ascending."""
        self.positions = positions
        """(R,) the token of each selected row."""
        self.values = values
        """(n, H, e) the value vectors these rows mix."""
        gaps = (places.diff() != 1).nonzero().squeeze(1) + 1
        self._run_starts: list[int] = gaps.tolist()  # selected rows that do not follow the one before them in memory

    @property
    @abstractmethod
    def own_slots(self) -> Tensor:
        """(R,) the slot in which each row attends to its own token."""

    @abstractmethod
    def mixed(self) -> Tensor:
        """Σ_j A^h_ij v^h_j of the selected rows, (R, H, e)."""

    @abstractmethod
    def groups(self, width: int) -> Iterator[tuple[Tensor, Iterator[Tile]]]:
        """Walk over all pairs that may have weight: K keys (K,) and the tiles of the rows they meet; d = `width`."""

    @abstractmethod
    def results(self) -> Tensor:
        """What was written to the tiles, (stored rows, S); 0 where nothing was."""

    def own(self) -> Tensor:
        """A^h_ii v^h_i of the selected rows, (R, H, e)."""
        weights = self.weights[:, self.places, self.own_slots].T
        return weights.unsqueeze(-1) * self.values[self.positions]

    def _cut(self, first: int, stop: int, keys: int, width: int) -> Iterator[slice]:
        """Cut the selected rows first … stop-1 into runs that are contiguous in memory and fit into a tile."""
        step = max(1, TILE_ELEMENTS // (keys * width))
        starts = self._run_starts
        run_starts = starts[bisect_right(starts, first) : bisect_left(starts, stop)]
        for start, end in zip([first, *run_starts], [*run_starts, stop], strict=True):
            yield from (slice(row, min(row + step, end)) for row in range(start, end, step))


class MatrixRows(SlotRows):
    """Rows stored in full: slot j is key j. A dense layer, or the global rows of a band."""

    def __init__(self, weights: Tensor, places: Tensor, positions: Tensor, values: Tensor) -> None:
        super().__init__(weights, places, positions, values)
        self._table = weights.new_zeros(weights.shape[1:])

    @property
    def own_slots(self) -> Tensor:
        """A token's own slot is its position."""
        return self.positions

    def mixed(self) -> Tensor:
        """One matrix product a head and block of rows."""
        values = self.values.transpose(0, 1)
        starts = range(0, len(self.places), MIX_ROWS)
        blocks = [torch.bmm(self.weights[:, self.places[start : start + MIX_ROWS]], values) for start in starts]
        return torch.cat(blocks, dim=1).transpose(0, 1)

    def groups(self, width: int) -> Iterator[tuple[Tensor, Iterator[Tile]]]:
        """All rows meet all keys."""
        for keys in _key_groups(self.weights.shape[2]):
            rows = self._cut(0, len(self.places), len(keys), width)
            yield keys, (self._tile(part, keys) for part in rows)

    def results(self) -> Tensor:
        """The table as it is."""
        return self._table

    def _tile(self, rows: slice, keys: Tensor) -> Tile:
        return _rectangle(self.weights, self._table, rows, self.places, keys)


class BandRows(SlotRows):
    """Rows of tokens that are not global: the global columns, then the window of 2w+1 slots.

    A tile of the window is a rectangle in (i, j) and reaches up to KEYS-1 slots beyond the window on both sides. There,
    weights are those of other pairs, and results go to slots that the table has on both sides for this purpose only.
    """

    def __init__(self, attention: BandedAttention, positions: Tensor, values: Tensor) -> None:
        super().__init__(attention.local, positions, positions, values)
        self._attention = attention
        self._globals = len(attention.global_tokens)
        self._columns = self.weights.new_zeros(attention.tokens, self._globals)
        self._window = self.weights.new_zeros(attention.tokens, 2 * attention.window + 2 * KEYS - 1)

    @property
    def own_slots(self) -> Tensor:
        """The middle of the window."""
        return torch.full_like(self.positions, self._globals + self._attention.window)

    def mixed(self) -> Tensor:
        """By the band's own product."""
        product = torch.from_numpy(self._attention.right(self.values.transpose(0, 1)))
        return product.transpose(0, 1)[self.positions]

    def groups(self, width: int) -> Iterator[tuple[Tensor, Iterator[Tile]]]:
        """All rows meet the global tokens; after that every key meets the rows within w of it."""
        for columns in _key_groups(self._globals):
            rows = self._cut(0, len(self.places), len(columns), width)
            tiles = (_rectangle(self.weights, self._columns, part, self.places, columns) for part in rows)
            yield self._attention.global_tokens[columns], tiles
        for keys in _key_groups(self.weights.shape[1]):
            reach = torch.tensor([int(keys[0]) - self._attention.window, int(keys[-1]) + self._attention.window + 1])
            first, stop = torch.searchsorted(self.positions, reach).tolist()
            if first < stop:
                yield keys, (self._window_tile(part, keys) for part in self._cut(first, stop, len(keys), width))

    def results(self) -> Tensor:
        """Global columns and window, without the slots beside it."""
        return torch.cat([self._columns, self._window[:, KEYS - 1 : 1 - KEYS]], dim=1)

    def _window_tile(self, rows: slice, keys: Tensor) -> Tile:
        """Slot w + (j-i): one row down at the same key is a step of (slots of a row - 1)."""
        row, key, reach = int(self.positions[rows.start]), int(keys[0]), self._attention.window
        shape = (rows.stop - rows.start, len(keys))

        def view(table: Tensor, middle: int) -> Tensor:
            slots = table.shape[-1]
            strides = (*table.stride()[:-2], slots - 1, 1)
            origin = table.storage_offset() + row * (slots - 1) + key + middle
            return table.as_strided((*table.shape[:-2], *shape), strides, origin)

        return Tile(rows, view(self.weights, self._globals + reach), view(self._window, KEYS - 1 + reach))


def _rectangle(weights: Tensor, table: Tensor, rows: slice, places: Tensor, slots: Tensor) -> Tile:
    """The tile of successive rows and slots that lie in the weights (H, stored, ·) and in the table alike."""
    place, slot = int(places[rows.start]), int(slots[0])
    down = slice(place, place + rows.stop - rows.start)
    across = slice(slot, slot + len(slots))
    return Tile(rows, weights[:, down, across], table[down, across])


def _key_groups(count: int) -> Iterator[Tensor]:
    """Cut 0 … count-1 into groups of KEYS."""
    return (torch.arange(start, min(start + KEYS, count)) for start in range(0, count, KEYS))


TileMeasure = Callable[[Tensor, slice], Tensor]
"""(weights (H, r, K), which of the selected rows) -> (r, K)."""


class Measure(Protocol):
    """A measure bound to the selected rows of one block."""

    def for_keys(self, values: Tensor) -> TileMeasure:
        """Return the function that measures T_ij, i ≠ j, for the keys with these values (K, H, e)."""

    def own(self, vectors: Tensor) -> Tensor:
        """Measure T_ii: (R, d) to (R,)."""


@dataclass(frozen=True)
class VectorNorm:
    """‖T_ij‖₂ up to the factor s_i, which a row shares."""

    folded: Tensor
    """F (H, e, d)."""

    def for_keys(self, values: Tensor) -> TileMeasure:
        """Lengths from the keys' Gram matrices."""
        gram = _gram(values, self.folded)

        def measure(weights: Tensor, rows: slice) -> Tensor:
            return _squared_norms(weights, gram).sqrt()

        return measure

    def own(self, vectors: Tensor) -> Tensor:
        """‖T_ii‖₂, on the scale of the pairs."""
        return vectors.square().sum(-1).sqrt()


@dataclass(frozen=True)
class ManhattanGain:
    """‖y_i‖₁ - ‖y_i - T_ij‖₁ = Σ_k (|y_ik| - |y_ik - T_ijk|)."""

    folded: Tensor
    """F (H, e, d)."""
    scale: Tensor
    """s (R, 1)."""
    output: Tensor
    """y (R, d)."""

    def for_keys(self, values: Tensor) -> TileMeasure:
        """The vectors T of one tile are made, measured in place and forgotten."""
        projected = _project(values, self.folded)

        def measure(weights: Tensor, rows: slice) -> Tensor:
            by_key = _by_key(weights * self.scale[rows])
            shape = torch.Size((*by_key.shape[:2], projected.shape[2]))  # (K, r, d)
            vectors = torch.bmm(by_key, projected, out=self._scratch[: shape.numel()].view(shape))
            vectors.sub_(self.output[rows]).abs_().sub_(self._magnitude[rows])
            return vectors.sum(-1).neg_().T

        return measure

    def own(self, vectors: Tensor) -> Tensor:
        """The gain of T_ii."""
        return (self._magnitude - (self.output - vectors).abs()).sum(-1)

    @cached_property
    def _magnitude(self) -> Tensor:
        """|y|, (R, d)."""
        return self.output.abs()

    @cached_property
    def _scratch(self) -> Tensor:
        """Room for the vectors of a tile: memory that is already mapped takes them much faster than new memory."""
        return self.output.new_empty(max(TILE_ELEMENTS, KEYS * self.output.shape[1]))


@dataclass(frozen=True)
class EuclideanGain:
    """‖y_i‖₂ - ‖y_i - T_ij‖₂ = g / (‖y_i‖₂ + ‖y_i - T_ij‖₂) with g = 2⟨y_i, T_ij⟩ - ‖T_ij‖₂²."""

    folded: Tensor
    """F (H, e, d)."""
    scale: Tensor
    """s (R, 1)."""
    output: Tensor
    """y (R, d)."""

    def for_keys(self, values: Tensor) -> TileMeasure:
        """‖T‖² from the keys' Gram matrices, ⟨y, T⟩ as Σ_h A^h ⟨F^hᵀ y, v^h⟩: no vector of width d is made."""
        gram = _gram(values, self.folded)
        keys = values.permute(1, 2, 0)  # (H, e, K)

        def measure(weights: Tensor, rows: slice) -> Tensor:
            scaled = weights * self.scale[rows]
            inner = (torch.bmm(self._pulled_back[:, rows], keys) * scaled).sum(0)
            return self._gain(2 * inner - _squared_norms(scaled, gram), self._squared_length[rows, None])

        return measure

    def own(self, vectors: Tensor) -> Tensor:
        """The gain of T_ii."""
        return self._gain((vectors * (2 * self.output - vectors)).sum(-1), self._squared_length)

    @cached_property
    def _pulled_back(self) -> Tensor:
        """F^hᵀ y_i, (H, R, e)."""
        return torch.matmul(self.output, self.folded.transpose(1, 2))

    @cached_property
    def _squared_length(self) -> Tensor:
        """‖y_i‖₂², (R,)."""
        return self.output.square().sum(-1)

    @staticmethod
    def _gain(difference: Tensor, squared_length: Tensor) -> Tensor:
        """From g = ‖y‖² - ‖y - T‖² and ‖y‖²; both lengths are 0 only where g is."""
        lengths = squared_length.sqrt() + (squared_length - difference).clamp_min(0).sqrt()
        return difference / torch.where(lengths > 0, lengths, 1)


@dataclass(frozen=True)
class Projection:
    """⟨T_ij, g_i⟩ for one direction g_i per row: Σ_h A^h ⟨F^hᵀ g, v^h⟩, so that no vector of width d is made."""

    folded: Tensor
    """F (H, e, d)."""
    scale: Tensor
    """s (R, 1)."""
    directions: Tensor
    """g (R, d)."""

    def for_keys(self, values: Tensor) -> TileMeasure:
        """One inner product per head and pair."""
        keys = values.permute(1, 2, 0)  # (H, e, K)
        pulled_back = torch.matmul(self.directions * self.scale, self.folded.transpose(1, 2))

        def measure(weights: Tensor, rows: slice) -> Tensor:
            return (torch.bmm(pulled_back[:, rows], keys) * weights).sum(0)

        return measure

    def own(self, vectors: Tensor) -> Tensor:
        """⟨T_ii, g_i⟩."""
        return (vectors * self.directions).sum(-1)


def _project(values: Tensor, folded: Tensor) -> Tensor:
    """F^h v^h_j: values (K, H, e), folded (H, e, d) to (K, H, d)."""
    return torch.bmm(values.transpose(0, 1), folded).transpose(0, 1).contiguous()


def _by_key(weights: Tensor) -> Tensor:
    """(H, r, K) to (K, r, H), as matrix products want it."""
    return weights.permute(2, 1, 0).contiguous()


def _gram(values: Tensor, folded: Tensor) -> Tensor:
    """⟨F^h v^h_j, F^g v^g_j⟩ for every key j and pair of heads, (K, H, H)."""
    projected = _project(values, folded)
    return torch.bmm(projected, projected.transpose(1, 2))


def _squared_norms(weights: Tensor, gram: Tensor) -> Tensor:
    """‖Σ_h a^h F^h v^h_j‖² = aᵀ gram_j a, never below 0 by rounding: weights (H, r, K), gram (K, H, H) to (r, K)."""
    by_key = _by_key(weights)
    return (torch.bmm(by_key, gram) * by_key).sum(-1).clamp_min_(0).T
