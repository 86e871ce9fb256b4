"""The attention of one Longformer layer: banded or by ordinary operations, of all rows or of the first rows only.

Each takes the library's self-attention module (for its projections), the layer's input x (T, d) with documents end to
end and the plan of every document, and returns a `BandedRecord`, whose `output` (…, H·e) is the input of the output
projection. The module's parameters are used directly, so that they receive gradients.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

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
