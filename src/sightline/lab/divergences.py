"""How far two distributions are apart, and how even one is. All over the last axis, differentiable, zeros allowed.

    JSD(p, q) = ½ KL(p‖m) + ½ KL(q‖m),  m = (p + q)/2,  in nats: at most ln 2
    TVD(p, q) = ½ Σ_j |p_j − q_j|
    normalised entropy = −Σ_j p_j ln p_j / ln n,  n the number of real tokens

JSD rather than KL, because sparse weights have zeros, where KL is infinite. Lin 1991 (JSD); used for attention by
Jain & Wallace 2019 and Wiegreffe & Pinter 2019.
"""

from __future__ import annotations

import torch
from torch import Tensor


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """Return JSD(p, q) of distributions (..., n) in nats: (...)."""
    middle = (p + q) / 2
    return (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """Return TVD(p, q) of distributions (..., n): (...), from 0 to 1."""
    return (p - q).abs().sum(dim=-1) / 2


def normalised_entropy(p: Tensor, counts: Tensor | int | None = None) -> Tensor:
    """Return H(p)/ln n of distributions (..., n); `counts` (...) says how many entries are real tokens, all by default.

    0 for a distribution over a single token.
    """
    entropy = -torch.special.xlogy(p, p).sum(dim=-1)
    size = torch.as_tensor(p.shape[-1] if counts is None else counts, dtype=p.dtype, device=p.device)
    return torch.where(size > 1, entropy / size.clamp(min=2).log(), torch.zeros_like(entropy))


def _relative_entropy(p: Tensor, reference: Tensor) -> Tensor:
    """KL(p‖reference), where p_j = 0 adds nothing; reference is positive wherever p is."""
    # Where p is 0 the logarithm's gradient would be infinite: it is taken of 1 there.
    positive = p > 0
    ratio = torch.where(positive, p, 1) / torch.where(positive, reference, 1)
    return torch.where(positive, p * ratio.log(), 0).sum(dim=-1)
