"""Rules that hand relevance from the output of an operation to its inputs.

A rule takes R, the relevance of the output, and the operation's inputs, and returns the relevance of each input. Rules
are pure; `relevance_mode` puts them in the place of the operations' gradients while an ordinary model runs.

| | positive | classic | attention-aware (AttnLRP) |
|---|---|---|---|
| linear, z_ij = w_ij·x_j | shares of the positive z | the same, x > 0 and x < 0 apart | shares of Σz + bias |
| a + b | shares of the sum, scaled so that ΣR is kept | shares of the sum | shares of the sum |
| attention scores + bias b | all of R, scaled so that ΣR is kept | all of R | shares of the sum; b takes its part |
| a·b, both activations | half each | half each | half each |
| softmax | passes through | passes through | x ⊙ (R − softmax(x)·ΣR) |
| LayerNorm | passes through | passes through | linear, with the variance held fixed |
| RMSNorm | passes through | passes through | passes through: linear, with the root mean square held fixed |
| GELU, ReLU, tanh; scaling by a constant | passes through | passes through | passes through |

Sources: "positive" and "classic" are the two programs of Chefer, Gur & Wolf 2021 (Transformer Interpretability Beyond
Attention Visualization) with α = 1, β = 0; the third is Achtibat et al. 2024 (AttnLRP). Cost: about that of an ordinary
backward pass; twice that for "positive" and "classic", whose linear maps are split by sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import linear

EPSILON = 1e-9
"""Keeps quotients finite where contributions cancel."""
LINEAR_ROWS = 512
"""Rows of a linear map that are handled at once, so that the temporaries of a rule stay small and in cache."""

ENTRIES = 2**20
"""Entries of an activation that are handled at once. Larger temporaries would leave the cache, and be given back to the
system and fetched again for every one of a dozen operations."""

RuleSet = Literal["positive", "classic"]
LinearRule = Callable[[Tensor, Tensor, Tensor, "Tensor | None", Tensor], Tensor]
"""(R (…, out), x (…, in), weight (out, in), bias (out,), output (…, out)) -> relevance of x."""
AddRule = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(R, a, b) -> relevance of a and of b."""
MatmulRule = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(R, a, b, a·b) -> relevance of a and of b."""
CopyRule = Callable[[Tensor, Tensor], Tensor]
SoftmaxRule = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""(R, x, softmax(x), dimension) -> relevance of x."""
NormRule = Callable[[Tensor, Tensor, Tensor, Sequence[int], "Tensor | None", float], Tensor]
"""(R, x, output, normalised shape, gain, eps) -> relevance of x."""


def share(R: Tensor, total: Tensor) -> Tensor:
    """R / total, and 0 where there is nothing to share."""
    shifted = total + EPSILON
    shares = R / shifted
    if _has_zero(total) or not _is_finite(shares):
        shifted.masked_fill_(shifted == 0, EPSILON)
        shares = (R / shifted).masked_fill_(total == 0, 0)
    return shares


def share_signed(R: Tensor, total: Tensor) -> Tensor:
    """R / (total + ε·sign(total)), and 0 where there is nothing to share: the ε-rule's quotient, at most R/total."""
    shares = R / total.sign().mul_(EPSILON).add_(total)
    return shares if _is_finite(shares) else shares.masked_fill_(total == 0, 0)


def nonzero(R: Tensor, x: Tensor) -> Tensor:
    """R as it is, but nothing for an entry that is zero or infinite (a mask).

    The published programs treat copies and slices of an activation, and the mask added to attention scores, as sums
    with one part: x/(x + ε)·R. Without that ε their numbers are met to 1e-7 only.
    """

    def rule(R: Tensor, x: Tensor) -> tuple[Tensor]:
        finite = x.clamp(min=torch.finfo(x.dtype).min)
        relevance = torch.div(finite, finite + EPSILON, out=finite).mul_(R)
        return (relevance if _is_finite(relevance) else _times(x, share(R, x)),)

    return by_entries(rule, R, x)[0]


def positive_linear(R: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, output: Tensor) -> Tensor:
    """R_j = Σ_i z⁺_ij / (Σ_k z⁺_ik) · R_i with z_ij = w_ij·x_j; the bias takes nothing.

    z⁺ = (z + |z|)/2, so that one product besides the output gives the sums: 2·Σ_k z⁺_ik = z_i + Σ_k |w_ik||x_k|.
    """
    weight_magnitude = weight.abs()

    def rule(R: Tensor, x: Tensor, output: Tensor) -> Tensor:
        magnitude = x.abs()
        doubled = linear(magnitude, weight_magnitude).add_(output)
        if bias is not None:
            doubled -= bias
        doubled.clamp_(min=0)
        S = R / (doubled + 2 * EPSILON)
        if _reaches_zero(doubled):
            S.masked_fill_(doubled == 0, 0)
        return (S @ weight).mul_(x).addcmul_(magnitude, S @ weight_magnitude)

    return by_rows(rule, R, x, output)


def classic_linear(R: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, output: Tensor) -> Tensor:
    """The same with positive and negative inputs apart, so that each of the two groups is handed the whole of R_i."""
    positive, negative = _signs(weight)

    def rule(R: Tensor, x: Tensor, output: Tensor) -> Tensor:
        x_positive, x_negative = _signs(x)
        above = share(R, linear(x_positive, positive))
        below = share(R, linear(x_negative, negative))
        return x_positive * (above @ positive) + x_negative * (below @ negative)

    return by_rows(rule, R, x, output)


def epsilon_linear(R: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, output: Tensor) -> Tensor:
    """R_j = Σ_i z_ij / (Σ_k z_ik + b_i) · R_i: what falls to the bias is gone."""
    return by_rows(lambda R, x, output: (share_signed(R, output) @ weight).mul_(x), R, x, output)


def plain_add(R: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """R_a = a/(a + b)·R, entry by entry."""
    return _shares_of_sum(share, R, a, b)


def epsilon_add(R: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The same with the ε-rule's quotient."""
    return _shares_of_sum(share_signed, R, a, b)


def positive_add(R: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Shares as in `plain_add`, then each side scaled to its part |ΣR_a| / (|ΣR_a| + |ΣR_b|) of ΣR.

    The sums run over the whole tensor: one document at a time.
    """
    sides = plain_add(R, a, b)
    sums = [side.sum() for side in sides]
    both = sums[0].abs() + sums[1].abs()
    first, second = (
        side.mul_(share(share(side_sum.abs(), both) * R.sum(), side_sum))
        for side, side_sum in zip(sides, sums, strict=True)
    )
    return first, second


def matmul_halves(R: Tensor, a: Tensor, b: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """z = a·b (…, i, k)·(…, k, j): half of R by shares of z to each factor."""
    return _half_products(share(R, output), a, b)


def epsilon_matmul_halves(R: Tensor, a: Tensor, b: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """The same with the ε-rule's quotient."""
    return _half_products(share_signed(R, output), a, b)


def masked_softmax(R: Tensor, x: Tensor, output: Tensor, dimension: int) -> Tensor:
    """Pass R through; the scores x are a sum of products and mask."""
    return nonzero(R, x)


def positive_masked_softmax(R: Tensor, x: Tensor, output: Tensor, dimension: int) -> Tensor:
    """The same by `positive_add`: with a second part of zero that is `masked_softmax` scaled so that ΣR is kept."""
    relevance = masked_softmax(R, x, output, dimension)
    total = relevance.sum()
    return relevance.mul_(share(share(total.abs(), total.abs()) * R.sum(), total))


def taylor_softmax(R: Tensor, x: Tensor, output: Tensor, dimension: int) -> Tensor:
    """x ⊙ (R − s·ΣR), s = softmax(x): the first-order term at x; what falls to the constant term is gone."""
    relevance = torch.addcmul(R, output, R.sum(dim=dimension, keepdim=True), value=-1)
    # A key that may not be attended to has x = -∞, s = 0 and R = 0.
    relevance.mul_(x.clamp(min=torch.finfo(x.dtype).min))
    return relevance if _is_finite(relevance) else relevance.masked_fill_(output == 0, 0)


def passed_norm(R: Tensor, x: Tensor, output: Tensor, shape: Sequence[int], gain: Tensor | None, eps: float) -> Tensor:
    """R, unchanged."""
    return R


def fixed_variance_norm(
    R: Tensor, x: Tensor, output: Tensor, shape: Sequence[int], gain: Tensor | None, eps: float
) -> Tensor:
    """LayerNorm as the linear map γ/σ ⊙ (x − mean(x)) + β with σ held fixed, by the ε-rule; β takes its part."""
    dimensions = tuple(range(-len(shape), 0))
    deviation = (x.var(dim=dimensions, keepdim=True, unbiased=False) + eps).sqrt()
    S = share_signed(R, output) / deviation
    S = S if gain is None else S * gain
    return x * (S - S.mean(dim=dimensions, keepdim=True))


def sum_shares(R: Tensor, x: Tensor, dimensions: tuple[int, ...]) -> Tensor:
    """x_k/(Σ_k x_k)·R for a sum or mean over `dimensions`; R has them with length 1."""
    return x * share(R, x.sum(dim=dimensions, keepdim=True))


def by_rows(rule: Callable[[Tensor, Tensor, Tensor], Tensor], R: Tensor, x: Tensor, output: Tensor) -> Tensor:
    """Apply rule(R, x, output) to LINEAR_ROWS rows at a time, and skip rows without relevance.

    The rules of linear maps treat every row by itself. In the last layer of a classifier only the row that is read has
    relevance.
    """
    relevance = torch.empty_like(x, memory_format=torch.contiguous_format)
    R_all, x_all, output_all, relevance_all = (t.reshape(-1, t.shape[-1]) for t in (R, x, output, relevance))
    for start in range(0, len(x_all), LINEAR_ROWS):
        rows = slice(start, start + LINEAR_ROWS)
        if _is_zero(R_all[rows]):
            relevance_all[rows] = 0
        else:
            relevance_all[rows] = rule(R_all[rows], x_all[rows], output_all[rows])
    return relevance


def by_entries(rule: Callable[..., tuple[Tensor, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
    """Apply a rule that treats every entry by itself to about ENTRIES of them at a time."""
    first = tensors[0]
    if first.numel() <= ENTRIES or any(tensor.shape != first.shape for tensor in tensors):
        return rule(*tensors)
    rows = [tensor.reshape(-1, tensor.shape[-1]) for tensor in tensors]
    step = max(1, ENTRIES // first.shape[-1])
    results: tuple[Tensor, ...] = ()
    for start in range(0, len(rows[0]), step):
        parts = rule(*(tensor[start : start + step] for tensor in rows))
        results = results or tuple(torch.empty_like(rows[0], memory_format=torch.contiguous_format) for _ in parts)
        for result, part in zip(results, parts, strict=True):
            result[start : start + step] = part
    return tuple(result.view(first.shape) for result in results)


@dataclass(frozen=True)
class Rules:
    """One rule per operation."""

    name: str
    linear: LinearRule
    add: AddRule
    matmul: MatmulRule
    softmax: SoftmaxRule
    norm: NormRule
    copy: CopyRule | None
    """For an activation that several operations read, and for a slice of one; None: R is only summed and moved."""
    additive: bool
    """The relevance handed on from a sum of relevances is the sum of what each would hand on."""
    seed_is_value: bool
    """The output's relevance is the target's value; else it is 1 (the gradient of the target by the logits)."""
    bias_absorbs: bool
    """Biases of linear maps and of attention scores (learned scores of distances) take their part; else nothing."""


POSITIVE = Rules(
    name="positive",
    linear=positive_linear,
    add=positive_add,
    matmul=matmul_halves,
    softmax=positive_masked_softmax,
    norm=passed_norm,
    copy=nonzero,
    additive=False,
    seed_is_value=False,
    bias_absorbs=False,
)
CLASSIC = Rules(
    name="classic",
    linear=classic_linear,
    add=plain_add,
    matmul=matmul_halves,
    softmax=masked_softmax,
    norm=passed_norm,
    copy=nonzero,
    additive=True,
    seed_is_value=False,
    bias_absorbs=False,
)
ATTENTION_AWARE = Rules(
    name="attention_aware",
    linear=epsilon_linear,
    add=epsilon_add,
    matmul=epsilon_matmul_halves,
    softmax=taylor_softmax,
    norm=fixed_variance_norm,
    copy=None,
    additive=True,
    seed_is_value=True,
    bias_absorbs=True,
)
RULE_SETS: dict[RuleSet, Rules] = {"positive": POSITIVE, "classic": CLASSIC}


def fitted(R: Tensor, like: Tensor) -> Tensor:
    """Sum R over the dimensions along which `like` was broadcast."""
    return R.sum_to_size(like.shape)


# Masks cost as much as ten sums, and are mostly empty: a smallest value or a sum tells whether one is needed at all.


def _is_zero(x: Tensor) -> bool:
    """Whether all numbers are zero."""
    return x.numel() == 0 or all(not bool(extreme) for extreme in (x.amin(), x.amax()))


def _has_zero(x: Tensor) -> bool:
    return _reaches_zero(x.abs())


def _reaches_zero(x: Tensor) -> bool:
    """Whether a tensor without negative numbers has a zero."""
    return x.numel() > 0 and not bool(x.amin() > 0)


def _is_finite(x: Tensor) -> bool:
    """Whether all numbers are finite; may also say no where they are, if their sum is too large."""
    return bool(torch.isfinite(x.sum()))


def _signs(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.clamp(min=0), x.clamp(max=0)


def _times(x: Tensor, S: Tensor) -> Tensor:
    """x ⊙ S; an infinite x (a mask) has no relevance."""
    product = x * S
    return fitted(product if _is_finite(product) else torch.where(torch.isfinite(x), product, 0), x)


def _shares_of_sum(
    quotient: Callable[[Tensor, Tensor], Tensor], R: Tensor, a: Tensor, b: Tensor
) -> tuple[Tensor, Tensor]:
    """a ⊙ S and b ⊙ S with S the quotient of R and a + b."""

    def rule(R: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        S = quotient(R, a + b)
        return _times(a, S), _times(b, S)

    first, second = by_entries(rule, R, a, b)
    return first, second


def _half_products(S: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Half of a ⊙ (S·bᵀ) and of b ⊙ (aᵀ·S)."""
    S.mul_(0.5)  # before the products: the relevance of attention weights is ten times as large
    sides = (fitted(S @ b.transpose(-1, -2), a), fitted(a.transpose(-1, -2) @ S, b))
    return sides[0].mul_(a), sides[1].mul_(b)
