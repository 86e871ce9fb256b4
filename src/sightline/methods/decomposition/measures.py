"""How much a source vector T_ij has to do with the output y_i: three measures, for a tile of pairs at a time.

With output projection and LayerNorms folded into F^h (e, d), T_ij = s_i · Σ_h A^h_ij F^h v^h_j for i ≠ j. So the
vectors of one key and r rows are the product of an (r × H) and an (H × d) matrix, and their Euclidean lengths need only
the H × H Gram matrix of the key's F^h v^h. The vectors T_ii hold the residual too; they are few and come whole.

Each measure has two functions: `for_keys` computes what depends on the keys alone and returns the function that
measures a tile, weights (H, r, K) to (r, K); `own` measures T_ii, (R, d) to (R,). Shapes: R selected rows, r of them in
a tile, K keys, H heads, e width of a head, d width of the model.

A gain ‖y‖ - ‖y - T‖ is a small difference of large numbers: at 768 dimensions and 512 tokens float32 would keep three
digits of it. Both gains are therefore summed from their small parts, which also makes them exactly 0 for T = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from sightline.methods.decomposition.rows import KEYS, TILE_ELEMENTS

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
