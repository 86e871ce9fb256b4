"""The feed-forward block of a Longformer layer, row by row: LayerNorm(W₂·gelu(W₁·x) + x).

It runs in chunks of rows, so that its widest temporaries stay small and in cache. Its backward needs W₁·x, four times
as wide as x and so a third of what a forward keeps. On long documents that is computed again instead.

Cost: for documents of more than `KEPT_ROWS` tokens one more product, 8 d² on 59 d² of a forward and backward (14 %),
and 8 instead of 11 rows of width d per token and layer.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import linear

CHUNK_ROWS = 512
KEPT_ROWS = 8192
"""Up to here a base-shape model of twelve layers keeps less than 4 GB, and time counts more than memory."""


def feed_forward(layer: Any, x: Tensor) -> Tensor:
    """Return the block's output for x (T, d), in chunks of rows; `layer` is the library's."""
    if len(x) <= CHUNK_ROWS:
        return cast(Tensor, layer.output(layer.intermediate(x), x))
    dense = layer.intermediate.dense
    frozen = not (dense.weight.requires_grad or dense.bias.requires_grad)
    recomputes = len(x) > KEPT_ROWS and x.requires_grad and frozen
    widen = _widen if recomputes else lambda intermediate, rows: intermediate(rows)
    chunks = x.split(CHUNK_ROWS)  # type: ignore[no-untyped-call]
    return torch.cat([layer.output(widen(layer.intermediate, chunk), chunk) for chunk in chunks])


def _widen(intermediate: Any, x: Tensor) -> Tensor:
    """gelu(W₁·x) (rows, 4d), of which only x is kept for the backward."""
    return cast(Tensor, _Widened.apply(x, intermediate))  # type: ignore[no-untyped-call]


class _Widened(torch.autograd.Function):
    """Computes W₁·x in the forward and again in the backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, intermediate: Any) -> Tensor:
        ctx.intermediate = intermediate
        ctx.save_for_backward(x)
        return cast(Tensor, intermediate(x))

    @staticmethod
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        dense, activate = ctx.intermediate.dense, ctx.intermediate.intermediate_act_fn
        with torch.enable_grad():
            before = linear(x.detach(), dense.weight, dense.bias).requires_grad_()
            # By `forward`: a backward must not meet hooks that another thread has set for its own pass.
            after = getattr(activate, "forward", activate)(before)
        (gradient,) = torch.autograd.grad(after, before, output_gradient)
        return gradient @ dense.weight, None
