"""Projections: how a row of attention scores z becomes a row of weights p ≥ 0 that sums to 1.

| kind | weights | zeros |
|---|---|---|
| softmax | p_j ∝ exp z_j | never |
| sparsemax | argmin ‖p − z‖₂ on the simplex = [z_j − τ]₊ | yes |
| sparsegen | sparsemax(g(z)/(1−λ)), λ < 1: λ → 1 puts all weight on one score, λ → −∞ spreads it evenly | yes |
| entmax | [(α−1)z_j − τ]₊^(1/(α−1)), α ≥ 1: 1 is softmax, 2 is sparsemax | for α > 1 |

Martins & Astudillo 2016 (sparsemax); Laha et al. 2018 (sparsegen; g is the identity, exp or the square of each score);
Peters, Niculae & Martins 2019 (entmax). The weights run over the last axis; a score of −∞ gets no weight.

On a CPU they are computed by `projection_kernels`, several times faster than by sorting, and elsewhere by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sightline.errors import OptionError

ProjectionKind = Literal["softmax", "sparsemax", "sparsegen", "entmax"]
Transform = Literal["identity", "exp", "square"]
LARGEST = 1e12
"""Largest α and −λ: the weights are those of the limit long before, and far beyond scores overflow."""


@dataclass(frozen=True)
class Projection:
    """A projection with its parameters, checked when it is made. Call it on scores (..., n)."""

    kind: ProjectionKind = "softmax"
    lam: float = 0.0
    """λ of sparsegen."""
    alpha: float = 1.5
    """α of entmax."""
    transform: Transform = "identity"
    """g of sparsegen."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ProjectionKind):
            known = ", ".join(get_args(ProjectionKind))
            raise OptionError(f"Unknown projection '{self.kind}'. Use one of: {known}.")
        if self.transform not in get_args(Transform):
            known = ", ".join(get_args(Transform))
            raise OptionError(f"Unknown transform '{self.transform}' of sparsegen. Use one of: {known}.")
        if self.kind == "sparsegen" and not -LARGEST <= self.lam < 1:
            raise OptionError(
                f"sparsegen needs lam < 1 (and at least {-LARGEST:.0e}), not {self.lam}: at 1 all weight is on the "
                "largest score."
            )
        if self.kind == "entmax" and not 1 <= self.alpha <= LARGEST:
            raise OptionError(
                f"entmax needs alpha >= 1 (and at most {LARGEST:.0e}), not {self.alpha}: 1 is softmax and 2 is "
                "sparsemax."
            )

    @staticmethod
    def named(name: str) -> Projection:
        """Return the projection of a short name: softmax, sparsemax, entmax15, or entmax1.3 for another α."""
        if name == "entmax15":
            return Projection("entmax", alpha=1.5)
        if name.startswith("entmax") and name != "entmax":
            try:
                return Projection("entmax", alpha=float(name.removeprefix("entmax")))
            except ValueError:
                raise OptionError(f"Unknown projection '{name}'. Write for example entmax15 or entmax1.3.") from None
        if name.startswith("sparsegen") and name != "sparsegen":
            try:
                return Projection("sparsegen", lam=float(name.removeprefix("sparsegen")))
            except ValueError:
                raise OptionError(f"Unknown projection '{name}'. Write for example sparsegen0.5.") from None
        return Projection(cast(ProjectionKind, name))

    @property
    def name(self) -> str:
        """The short name, as `named` reads it."""
        if self.kind == "entmax":
            return "entmax15" if self.alpha == 1.5 else f"entmax{self.alpha:g}"
        return f"sparsegen{self.lam:g}" if self.kind == "sparsegen" else self.kind

    @property
    def tsallis(self) -> float:
        """The α of the entmax that this projection is, once its scores are transformed."""
        if self.kind == "entmax":
            return self.alpha
        return 1.0 if self.kind == "softmax" else 2.0

    def scale(self, scores: Tensor) -> Tensor:
        """Return the scores that the entmax of `tsallis` takes: g(z)/(1−λ) for sparsegen, else z."""
        if self.kind != "sparsegen":
            return scores
        if self.transform != "identity":
            transformed = scores.exp() if self.transform == "exp" else scores.square()
            # exp(−∞) = 0 and (−∞)² = ∞: what is masked stays masked.
            scores = transformed.masked_fill(scores == -torch.inf, -torch.inf)
        return scores / (1 - self.lam)

    def __call__(self, scores: Tensor) -> Tensor:
        """Return the weights (..., n), on the autograd path."""
        return entmax(self.scale(scores), self.tsallis)

    def pull_back(self, weights: Tensor, gradient: Tensor) -> Tensor:
        """Return ∂y/∂z (..., n) from the weights p and ∂y/∂p; only for scores that are not transformed."""
        assert self.transform == "identity"
        pulled = entmax_gradient(weights, gradient, self.tsallis)
        return pulled / (1 - self.lam) if self.kind == "sparsegen" else pulled


SOFTMAX = Projection()


@cache
def _parse_projection(name: str) -> Projection:
    return Projection.named(name)


def projection_of(config: Any) -> Projection:
    """Return the projection that the heads of a model use: `config.attention_projection`, else softmax."""
    name = getattr(config, "attention_projection", None)
    return SOFTMAX if name is None else _parse_projection(str(name))


def entmax(scores: Tensor, alpha: float) -> Tensor:
    """Return α-entmax over the last axis, differentiable once; rows of −∞ become zeros (NaN for softmax)."""
    if alpha == 1:
        return torch.softmax(scores, dim=-1)
    return cast(Tensor, _Entmax.apply(scores, alpha))  # type: ignore[no-untyped-call]


def entmax_gradient(weights: Tensor, gradient: Tensor, alpha: float) -> Tensor:
    """Return ∂y/∂z from the weights p and ∂y/∂p, both (..., n): Jᵀ·∂p, also for α = 1 (softmax)."""
    if alpha == 1:
        product = gradient * weights
        return product - weights * product.sum(dim=-1, keepdim=True)
    if weights.device.type == "cpu":
        return _pull_back(weights, gradient, alpha)
    shares = torch.where(weights > 0, weights ** (2 - alpha), 0)
    product = shares * gradient
    return product - shares * (product.sum(dim=-1, keepdim=True) / shares.sum(dim=-1, keepdim=True))


class _Entmax(torch.autograd.Function):
    """The compiled kernels, or the bisection, as an operation of torch."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, alpha: float) -> Tensor:
        # Half precision is projected in single precision: numpy has no bfloat16, and thresholds need the digits.
        rows = _rows(scores)
        if not rows.numel():
            weights = rows
        elif rows.device.type == "cpu":
            from sightline.attention.projection_kernels import project_rows

            weights = torch.empty_like(rows)
            project_rows(rows.numpy(), rows.amax(dim=-1).numpy(), alpha, weights.numpy())
        else:
            weights = bisect_entmax(rows, alpha)
        weights = weights.view(scores.shape).to(scores.dtype)
        ctx.save_for_backward(weights)
        ctx.alpha = alpha
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        return entmax_gradient(weights, gradient, ctx.alpha), None


def _pull_back(weights: Tensor, gradient: Tensor, alpha: float) -> Tensor:
    from sightline.attention.projection_kernels import pull_back_rows

    rows = _rows(weights)
    result = torch.empty_like(rows)
    if rows.numel():
        pull_back_rows(rows.numpy(), _rows(gradient).numpy(), alpha, result.numpy())
    return result.view(weights.shape).to(weights.dtype)


def _rows(tensor: Tensor) -> Tensor:
    """(..., n) -> (R, n), contiguous and detached, in float32 or float64."""
    precise = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    return precise.detach().reshape(-1, tensor.shape[-1]).contiguous()


def bisect_entmax(scores: Tensor, alpha: float) -> Tensor:
    """Return α-entmax over the last axis for α > 1; the threshold τ is bisected to the precision of the scores."""
    largest = scores.amax(dim=-1, keepdim=True)
    scaled = (alpha - 1) * (scores - largest.masked_fill(largest == -torch.inf, 0))

    def weights_above(threshold: Tensor) -> Tensor:
        return (scaled - threshold).clamp(min=0) ** (1 / (alpha - 1))

    # The largest scaled score is 0. With τ = −1 it alone has weight 1; with the highest τ all n scores are equal.
    threshold = torch.full_like(largest, -1)
    width = 1 - scores.shape[-1] ** (1 - alpha)
    while width > torch.finfo(scores.dtype).eps / 4:
        width /= 2
        middle = threshold + width
        threshold = torch.where(weights_above(middle).sum(dim=-1, keepdim=True) >= 1, middle, threshold)
    weights = weights_above(threshold)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)
