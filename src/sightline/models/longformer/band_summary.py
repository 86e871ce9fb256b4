"""Sums over banded attention without laying it out in slots: what most methods need, at a third of the cost.

Everything is computed block by block from the same products as in the forward pass (`band_kernel`). Shapes as there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.models.longformer.band_kernel import (
    BandPlan,
    Block,
    block_keys,
    block_weights,
    in_slots,
    zero_blank_rows,
)


@dataclass
class WindowSums:
    """Sums over the window rows of one document."""

    mean: Tensor
    """Head mean in slots, (1, n, G+2w+1)."""
    received: Tensor
    """Column sums, (H, n)."""
    rows: Tensor
    """readout · A, (H, n)."""
    gradient_received: Tensor | None
    """Column sums of A ⊙ relu(∂y/∂A), (H, n), where a gradient was given."""


def window_sums(
    query: Tensor, key: Tensor, value: Tensor, plan: BandPlan, readout: Tensor, output_gradient: Tensor | None
) -> WindowSums:
    """Sum over the window rows; query (unscaled), key, value and output_gradient (n, H, e), readout (n,)."""
    q, k, v = (tensor.transpose(0, 1) for tensor in (query, key, value))
    received, rows = (query.new_zeros(query.shape[1], plan.tokens) for _ in range(2))
    gradient, positive = None, None
    if output_gradient is not None:
        gradient, positive = output_gradient.transpose(0, 1), torch.zeros_like(received)
    global_values = v[:, plan.global_tokens]
    means = []
    for block, weights in block_weights(q, k, plan):
        block_rows = zero_blank_rows(weights, block)
        means.append(block_rows.mean(dim=0, keepdim=True))
        _add(received, block_rows.sum(dim=1), plan, block)
        row_weights = readout[block.start : block.stop]
        if bool(row_weights.any()):
            _add(rows, torch.matmul(row_weights, block_rows), plan, block)
        if gradient is None or positive is None:
            continue
        row_gradients = gradient[:, block.start : block.stop]
        if bool(row_gradients.any()):
            products = torch.bmm(row_gradients, block_keys(v, global_values, block).transpose(1, 2))
            _add(positive, products.relu_().mul_(block_rows).sum(dim=1), plan, block)
    return WindowSums(in_slots(means, plan, query[:, :1]), received, rows, positive)


def _add(total: Tensor, block_sums: Tensor, plan: BandPlan, block: Block) -> None:
    """Add the sums of one block's columns (H, G+keys) to those of the document (H, n)."""
    G = len(plan.global_tokens)
    total[:, block.first : block.last] += block_sums[:, G:]
    if G:
        total.index_add_(1, plan.global_tokens, block_sums[:, :G])
