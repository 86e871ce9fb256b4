"""Distributions over the last axis: projections of scores, divergences, and normalised entropy.

`project` takes an array of numpy or torch. The divergences are differentiable, and zeros are allowed:

    JSD(p, q) = ½ KL(p‖m) + ½ KL(q‖m),  m = (p + q)/2,  in nats: at most ln 2
    TVD(p, q) = ½ Σ_j |p_j − q_j|
    normalised entropy = −Σ_j p_j ln p_j / ln n,  n the number of real tokens

JSD rather than KL, because sparse weights have zeros, where KL is infinite. Lin 1991 (JSD); used for attention by
Jain & Wallace 2019 and Wiegreffe & Pinter 2019.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.attention.projections import Projection, ProjectionKind, Transform
from sightline.errors import InputError


def project(
    z: Any,
    kind: ProjectionKind = "softmax",
    *,
    lam: float = 0.0,
    alpha: float = 1.5,
    transform: Transform = "identity",
    mask: Any = None,
) -> Any:
    """Return weights over the last axis of the scores `z` (..., n), as an array or tensor of the same type.

    `attention.projections` has the formulas. A tensor stays on the autograd path.

    kind: "softmax", "sparsemax", "sparsegen" or "entmax".
    lam: λ < 1 of sparsegen.
    alpha: α ≥ 1 of entmax.
    transform: g of sparsegen.
    mask: booleans that broadcast to `z`, False where the weight must be 0; masked scores are removed before projecting.

    Examples
    --------
    >>> from sightline.lab import project
    >>> project([1.0, 0.5, -1.0], "sparsemax")
    array([0.75, 0.25, 0.  ])
    """
    chosen = Projection(kind, float(lam), float(alpha), transform)
    scores = z if isinstance(z, Tensor) else torch.from_numpy(_as_floats(z))
    if scores.ndim == 0 or scores.shape[-1] == 0:
        raise InputError(f"Scores need at least one entry on the last axis; their shape is {tuple(scores.shape)}.")
    if not scores.is_floating_point():
        scores = scores.to(torch.get_default_dtype())
    if bool(torch.isnan(scores).any() | (scores == torch.inf).any()):
        raise InputError("Scores must be finite numbers (or −∞ for positions without weight), and some are NaN or ∞.")
    if mask is not None:
        allowed = torch.as_tensor(mask, device=scores.device).to(torch.bool)
        try:
            scores = scores.masked_fill(~allowed, -torch.inf)
        except RuntimeError:
            raise InputError(
                f"The mask of shape {tuple(allowed.shape)} does not fit scores of shape {tuple(scores.shape)}."
            ) from None
    empty = (scores == -torch.inf).all(dim=-1)
    if bool(empty.any()):
        row = empty.nonzero()[0].tolist()
        raise InputError(f"Row {row or 0} has no score that is left by the mask, so no weights can sum to 1.")
    weights = chosen(scores)
    return weights if isinstance(z, Tensor) else weights.numpy()


def _as_floats(z: Any) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        array = np.asarray(z)
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Scores are an array of numbers, not {type(z).__name__}.") from None


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
    # The gradient of log 0 would be infinite, so zeros are replaced by 1 there.
    positive = p > 0
    ratio = torch.where(positive, p, 1) / torch.where(positive, reference, 1)
    return torch.where(positive, p * ratio.log(), 0).sum(dim=-1)
