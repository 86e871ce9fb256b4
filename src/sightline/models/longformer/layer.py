"""The parts of one Longformer layer: its attention, and its feed-forward block.

The attention is banded or computed by ordinary operations, of all rows or of the first rows only. Each form takes the
library's self-attention module (for its projections), the layer's input x (T, d) with documents end to end and the plan
of every document, and returns a `BandedRecord`, whose `output` (…, H·e) is the input of the output projection. The
module's parameters are used directly, so that they receive gradients.

The feed-forward block, row by row: LayerNorm(W₂·gelu(W₁·x) + x). It runs in chunks of rows, so that its widest
temporaries stay small and in cache. Its backward needs W₁·x, four times as wide as x and so a third of what a forward
keeps. On long documents that is computed again instead.

Cost: for documents of more than `KEPT_ROWS` tokens one more product, 8 d² on 59 d² of a forward and backward (14 %),
and 8 instead of 11 rows of width d per token and layer.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from sightline.models.longformer.band_kernel import (
    BandPlan,
    draw_seed,
    global_output,
    global_products,
    plain_window_attention,
    window_attention,
)
from sightline.models.longformer.record import BandedRecord
from sightline.models.recording import Packed


def banded_attention(attention: Any, x: Tensor, plans: tuple[BandPlan, ...], layout: Packed) -> BandedRecord:
    """Compute all rows: window rows in blocks, global rows folded."""
    query, key, value = (_heads(project(x), attention) for project in _projections(attention))
    dropout = _dropout(attention)
    seed = draw_seed(dropout)  # before the global rows draw their masks: seeded training depends on the order
    rows = [
        _global_rows(attention, document, plan, plan.global_tokens)
        for document, plan in zip(_documents(x, layout), plans, strict=True)
        if len(plan.global_tokens)
    ]
    global_rows = _heads(torch.cat(rows), attention) if rows else None
    output = window_attention(query, key, value, plans, dropout, seed=seed, global_rows=global_rows).flatten(1)
    return BandedRecord(
        attention, x.detach(), layout, plans, output, layout, query.detach(), key.detach(), value.detach()
    )


def plain_attention(attention: Any, x: Tensor, plans: tuple[BandPlan, ...], layout: Packed) -> BandedRecord:
    """Compute all rows by ordinary operations, nothing folded; `record.probabilities` holds A on the autograd path."""
    query, key, value = (_heads(project(x), attention) for project in _projections(attention))
    outputs, probabilities = [], []
    parts = zip(plans, *(_documents(tensor, layout) for tensor in (x, query, key, value)), strict=True)
    for plan, document, q, k, v in parts:
        output, blocks = plain_window_attention(q, k, v, plan)
        if len(plan.global_tokens):
            rows, weights = _plain_global_rows(attention, document, plan, plan.global_tokens)
            output = output.index_copy(0, plan.global_tokens, rows)
            blocks = (*blocks, weights)
        outputs.append(output)
        probabilities.append(blocks)
    return BandedRecord(
        attention,
        x.detach(),
        layout,
        plans,
        torch.cat(outputs).flatten(1),
        layout,
        query.detach(),
        key.detach(),
        value.detach(),
        tuple(probabilities),
    )


def first_rows_attention(attention: Any, x: Tensor, plans: tuple[BandPlan, ...], layout: Packed) -> BandedRecord:
    """Compute the first row of every document only: output (B, H·e), one row per document in the record's `layout`.

    Keys and values are projected only for the tokens that this row attends to.
    """
    outputs = []
    for document, plan in zip(_documents(x, layout), plans, strict=True):
        if bool(plan.masked[0]):
            outputs.append(0 * document[:1])  # zero, but on the autograd path
        elif 0 in plan.global_tokens:
            outputs.append(_global_rows(attention, document, plan, plan.global_tokens[:1]))
        else:
            block = plan.blocks[0]
            window = torch.arange(block.first, block.last, device=x.device)
            attended = document[torch.cat((plan.global_tokens, window))[~block.excluded[0]]]
            query, key, value = (
                _heads(project(rows), attention).transpose(0, 1)
                for project, rows in zip(_projections(attention), (document[:1], attended, attended), strict=True)
            )
            scores = torch.matmul(query / math.sqrt(attention.head_dim), key.transpose(1, 2))
            weights = nn.functional.dropout(plan.projection(scores), _dropout(attention))
            outputs.append(torch.matmul(weights, value).view(1, -1))
    return BandedRecord(attention, x.detach(), layout, plans, torch.cat(outputs), Packed((1,) * len(plans)))


def plain_first_rows_attention(attention: Any, x: Tensor, plans: tuple[BandPlan, ...], layout: Packed) -> BandedRecord:
    """The same by ordinary operations, for documents whose first token is global and not masked."""
    documents = zip(_documents(x, layout), plans, strict=True)
    rows = [_plain_global_rows(attention, document, plan, plan.global_tokens[:1]) for document, plan in documents]
    output = torch.cat([row for row, _ in rows]).flatten(1)
    probabilities = tuple((weights,) for _, weights in rows)
    first_rows = Packed((1,) * len(plans))
    return BandedRecord(attention, x.detach(), layout, plans, output, first_rows, probabilities=probabilities)


def _plain_global_rows(attention: Any, x: Tensor, plan: BandPlan, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the attention output (G, H, e) and weights (H, G, n) of the global tokens `rows` (G,), nothing folded."""
    query = _heads(attention.query_global(x[rows]), attention) / math.sqrt(attention.head_dim)
    key = _heads(attention.key_global(x), attention)
    value = _heads(attention.value_global(x), attention)
    scores = torch.matmul(query.transpose(0, 1), key.permute(1, 2, 0))
    weights = torch.softmax(scores.masked_fill(plan.masked, -math.inf), dim=-1)
    return torch.matmul(weights, value.transpose(0, 1)).transpose(0, 1), weights


def _global_rows(attention: Any, x: Tensor, plan: BandPlan, rows: Tensor) -> Tensor:
    """Return the attention output (G, H·e) of the global tokens `rows` (G,) of one document x (n, d)."""
    query = _heads(attention.query_global(x[rows]), attention) / math.sqrt(attention.head_dim)
    scores = global_products(query, attention.key_global.weight, attention.key_global.bias, x)
    weights = plan.projection(scores.masked_fill(plan.masked, -math.inf))
    dropout = _dropout(attention)
    if dropout:
        weights = nn.functional.dropout(weights, dropout)
    value = attention.value_global
    return global_output(weights, value.weight, value.bias, x, dropped=dropout > 0).flatten(1)


def _dropout(attention: Any) -> float:
    """Return the probability that a weight is dropped: the library's setting in training, else 0."""
    return float(attention.dropout) if attention.training else 0.0


def _projections(attention: Any) -> tuple[nn.Module, nn.Module, nn.Module]:
    return attention.query, attention.key, attention.value


def _heads(projected: Tensor, attention: Any) -> Tensor:
    """(rows, H·e) -> (rows, H, e)."""
    return projected.view(len(projected), attention.num_heads, attention.head_dim)


def _documents(packed: Tensor, layout: Packed) -> tuple[Tensor, ...]:
    """Split the rows by document; slices would each cost a gradient of the size of the whole batch."""
    return tuple(packed.split_with_sizes(list(layout.lengths)))


CHUNK_ROWS = 512
KEPT_ROWS = 8192
"""Up to this length a base-shape model of twelve layers keeps less than 4 GB, and time matters more than memory."""


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
