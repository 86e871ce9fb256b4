"""Exact window + global attention on the band, in blocks, with a hand-written backward.

Longformer (Beltagy et al. 2020, arXiv:2004.05150): token i attends to the keys {j: |i-j| ≤ w} and to the global tokens;
a global token attends to every token, with projections of its own. Masked tokens are nobody's key.

For a block of rows [s, t) the keys are the G global tokens followed by the tokens [s-w, t+w) of the document:

    A = softmax(q·kᵀ/√e  at allowed keys, -∞ elsewhere),    o = A·v

so that one block costs two ordinary matrix products and no array larger than (H, t-s, G+t-s+2w) exists. The backward
pass computes the blocks of A again instead of storing them: with δ_i = ⟨∂o_i, o_i⟩ and S the scores,

    ∂v = Aᵀ·∂o,    ∂S = A ⊙ (∂o·vᵀ - δ),    ∂q = ∂S·k/√e,    ∂k = ∂Sᵀ·q/√e.

A plan may name another projection than softmax (`attention.projections`); then ∂S is its vector-Jacobian product with
∂A = ∂o·vᵀ. With dropout in training, o = (A ⊙ D)·v with D = 0 or 1/(1-p); D comes from a seed and is drawn again in the
backward pass, where Aᵀ and ∂A are multiplied by it (δ is the same, for Σ_j A_j D_j ⟨∂o, v_j⟩ = ⟨∂o, o⟩).

Shapes: T rows of all documents laid end to end, n tokens of one document, H heads, e width of a head, d = H·e, G global
tokens, w the one-sided window. Slots are those of `BandedAttention`: G global keys first, then slot G+c of row i is key
i-w+c.

Cost: O(n·(G+2w+block)·d) time; memory of q, k, v and o only, forward and backward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sightline.attention.projections import SOFTMAX, Projection

BLOCK_ROWS = 96
"""Few, so that little outside the band is computed, yet enough for efficient matrix products.

64 to 128 are within a few per cent of each other for windows of 128 to 512 and heads 32 or 64 wide.
"""


@dataclass(frozen=True)
class Block:
    """Rows [start, stop) of a document and the window keys [first, last) they may attend to."""

    start: int
    stop: int
    first: int
    last: int
    excluded: Tensor
    """(rows, G+keys) bool: keys a row may not attend to."""
    bias: Tensor
    """(rows, G+keys): -∞ where excluded, 0 elsewhere."""
    blank: Tensor | None
    """(rows, 1) bool: rows without window attention (global or masked tokens); None when there are none."""


@dataclass(frozen=True)
class BandPlan:
    """Who attends to whom in one document, cut into blocks. Layers of one window share it."""

    tokens: int
    window: int
    """One-sided: a token sees `window` tokens on each side."""
    global_tokens: Tensor
    """(G,) positions, ascending."""
    masked: Tensor
    """(n,) bool: tokens that are nobody's key and whose own attention output is zero."""
    blocks: tuple[Block, ...]
    projection: Projection = SOFTMAX
    """The projection of the scores of a row to weights."""

    @staticmethod
    def make(
        global_tokens: Tensor,
        masked: Tensor,
        window: int,
        dtype: torch.dtype,
        block_rows: int = BLOCK_ROWS,
        projection: Projection = SOFTMAX,
    ) -> BandPlan:
        """Cut a document of `len(masked)` tokens into blocks of rows; interior blocks share one mask."""
        tokens, device = len(masked), masked.device
        is_global = torch.zeros_like(masked)
        is_global[global_tokens] = True
        blank = masked | is_global
        blanks = blank.tolist()
        shared: dict[tuple[int, int, int], tuple[Tensor, Tensor]] = {}
        blocks = []
        for start in range(0, tokens, block_rows):
            stop = min(start + block_rows, tokens)
            first, last = max(0, start - window), min(tokens, stop + window)
            shape = (stop - start, start - first, last - stop)
            plain = not any(blanks[first:last])
            if plain and shape in shared:
                excluded, bias = shared[shape]
            else:
                row = torch.arange(start, stop, device=device)[:, None]
                key = torch.arange(first, last, device=device)
                outside = ((row - key).abs() > window) | blank[first:last]
                # A row without window attention still gets one key, itself, so that its softmax is finite; its output
                # is set to zero afterwards.
                outside &= ~((row == key) & blank[first:last])
                excluded = nn.functional.pad(outside, (len(global_tokens), 0), value=False)
                bias = torch.zeros(excluded.shape, dtype=dtype, device=device).masked_fill(excluded, -math.inf)
                if plain:
                    shared[shape] = excluded, bias
            block_blank = blank[start:stop, None] if any(blanks[start:stop]) else None
            blocks.append(Block(start, stop, first, last, excluded, bias, block_blank))
        return BandPlan(tokens, window, global_tokens, masked, tuple(blocks), projection)


def window_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plans: Sequence[BandPlan],
    dropout: float = 0.0,
    *,
    seed: int | None = None,
    global_rows: Tensor | None = None,
) -> Tensor:
    """Return Σ_j A_ij v_j of every row with window attention, zero for masked tokens: (T, H, e).

    query (unscaled), key, value: (T, H, e), documents end to end as in `plans`. dropout: probability that a weight is
    dropped, in training; seed: which ones, drawn if absent. global_rows: what to return for the global tokens of all
    documents, (ΣG, H, e), in order; zero if absent.
    """
    drop = _Dropout(dropout, draw_seed(dropout) if seed is None else seed)
    inputs = (query, key, value, global_rows, tuple(plans), drop)
    return cast(Tensor, _WindowAttention.apply(*inputs))  # type: ignore[no-untyped-call]


def draw_seed(dropout: float) -> int:
    """Draw a seed for the dropout of weights; without dropout nothing is drawn."""
    return int(torch.randint(2**62, ())) if dropout else 0


@dataclass(frozen=True)
class _Dropout:
    """Dropout of weights that can be drawn again: the same block gets the same mask."""

    probability: float
    seed: int

    def mask(self, weights: Tensor, plan_number: int, block: Block) -> Tensor | None:
        """Return 0 or 1/(1-p) for every weight of a block, or None without dropout."""
        if not self.probability:
            return None
        generator = torch.Generator(weights.device)
        generator.manual_seed((self.seed + 1_000_003 * plan_number + block.start) % 2**63)
        kept = torch.rand(weights.shape, generator=generator, dtype=torch.float32, device=weights.device)
        return (kept >= self.probability).to(weights.dtype) / (1 - self.probability)


class _WindowAttention(torch.autograd.Function):
    """Computes blocks of A in the forward pass, drops them, and computes them again in the backward pass.

    Rows of global tokens are put into the one output that is kept; added afterwards they would need a copy of it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        global_rows: Tensor | None,
        plans: tuple[BandPlan, ...],
        dropout: _Dropout,
    ) -> Tensor:
        output = torch.empty_like(query, memory_format=torch.contiguous_format)
        for number, (plan, (q, k, v, o)) in enumerate(_documents(plans, query, key, value, output)):
            global_values = v[:, plan.global_tokens]
            for block, weights in block_weights(q, k, plan):
                dropped = dropout.mask(weights, number, block)
                if dropped is not None:
                    weights = weights * dropped
                rows = torch.bmm(weights, block_keys(v, global_values, block))
                o[:, block.start : block.stop] = zero_blank_rows(rows, block)
        ctx.positions = None
        if global_rows is not None:
            ctx.positions = _global_positions(plans)
            output.index_copy_(0, ctx.positions, global_rows)
        ctx.save_for_backward(query, key, value, output)
        ctx.plans, ctx.dropout = plans, dropout
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None, None, None]:
        query, key, value, output = ctx.saved_tensors
        gradients = [torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (query, key, value)]
        scale = 1 / math.sqrt(query.shape[-1])
        documents = _documents(ctx.plans, query, key, value, output, output_gradient, *gradients)
        for number, (plan, document) in enumerate(documents):
            q, k, v, o, do, dq, dk, dv = document
            G, tokens = len(plan.global_tokens), plan.global_tokens
            global_keys, global_values = k[:, tokens], v[:, tokens]
            for block, weights in block_weights(q, k, plan):
                rows, keys = slice(block.start, block.stop), slice(block.first, block.last)
                do_rows = zero_blank_rows(do[:, rows], block)
                scores = torch.bmm(do_rows, block_keys(v, global_values, block).transpose(1, 2))
                dropped = ctx.dropout.mask(weights, number, block)
                used = weights if dropped is None else weights * dropped
                dv_keys = torch.bmm(used.transpose(1, 2), do_rows)
                if dropped is not None:
                    scores.mul_(dropped)
                if plan.projection == SOFTMAX:
                    scores.sub_((do_rows * o[:, rows]).sum(-1, keepdim=True)).mul_(weights)
                else:
                    scores = plan.projection.pull_back(weights, scores)
                dq[:, rows] = torch.bmm(scores, block_keys(k, global_keys, block)).mul_(scale)
                dk_keys = torch.bmm(scores.transpose(1, 2), q[:, rows] * scale)
                dk[:, keys] += dk_keys[:, G:]
                dv[:, keys] += dv_keys[:, G:]
                if G:
                    dk.index_add_(1, tokens, dk_keys[:, :G])
                    dv.index_add_(1, tokens, dv_keys[:, :G])
        global_gradient = None if ctx.positions is None else output_gradient.index_select(0, ctx.positions)
        return gradients[0], gradients[1], gradients[2], global_gradient, None, None


def plain_window_attention(
    query: Tensor, key: Tensor, value: Tensor, plan: BandPlan
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The same for one document (n, H, e) by ordinary operations; also returns the blocks of A, on the autograd path.

    For code that replaces the backward rules of `matmul`, `softmax` and the like while the network runs.
    Keeps A: O(n·(G+2w+block)·H) memory.
    """
    q, k, v = (t.transpose(0, 1) for t in (query / math.sqrt(query.shape[-1]), key, value))
    global_keys, global_values = k[:, plan.global_tokens], v[:, plan.global_tokens]
    outputs, blocks = [], []
    windows = [(block.first, block.last) for block in plan.blocks]
    parts = zip(
        plan.blocks,
        slices(q, [(block.start, block.stop) for block in plan.blocks]),
        slices(k, windows),
        slices(v, windows),
        strict=True,
    )
    for block, rows, keys, values in parts:
        # Apart, because autograd keeps what is multiplied: the window's keys are a view, joined they would be a copy.
        parts_of_scores = [torch.matmul(rows, keys.transpose(1, 2))]
        if len(plan.global_tokens):
            parts_of_scores.insert(0, torch.matmul(rows, global_keys.transpose(1, 2)))
            values = torch.cat((global_values, values), dim=1)
        weights = zero_blank_rows(torch.softmax(_join(parts_of_scores, block), dim=-1), block)
        outputs.append(torch.matmul(weights, values))
        blocks.append(weights)
    return torch.cat(outputs, dim=1).transpose(0, 1), tuple(blocks)


def _join(scores: Sequence[Tensor], block: Block) -> Tensor:
    """Return the scores (H, rows, ·) of all keys side by side, -∞ for excluded keys: (H, rows, G+keys)."""
    return cast(Tensor, _Joined.apply(block.bias, *scores))  # type: ignore[no-untyped-call]


class _Joined(torch.autograd.Function):
    """Joins scores and adds 0 or -∞, a tenth of the cost of a mask, in one step.

    Softmax hands nothing back to a key without weight, so that all that comes back belongs to the scores.
    """

    @staticmethod
    def forward(ctx: Any, bias: Tensor, *scores: Tensor) -> Tensor:
        ctx.widths = [part.shape[-1] for part in scores]
        joined = scores[0].new_empty(*scores[0].shape[:-1], sum(ctx.widths))
        biases, pieces = (tensor.split_with_sizes(ctx.widths, -1) for tensor in (bias, joined))
        for part, part_bias, piece in zip(scores, biases, pieces, strict=True):
            torch.add(part, part_bias, out=piece)
        return joined

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *gradient.split_with_sizes(ctx.widths, -1)


def slices(heads: Tensor, bounds: Sequence[tuple[int, int]]) -> tuple[Tensor, ...]:
    """Return heads[:, first:last] for each pair of bounds; heads (H, n, e).

    Their gradients are added up in one array. Ordinary slices would each fill an array of zeros as large as `heads`.
    """
    return cast("tuple[Tensor, ...]", _Slices.apply(heads, tuple(bounds)))  # type: ignore[no-untyped-call]


class _Slices(torch.autograd.Function):
    """Slices that may overlap, with one array for all their gradients."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, bounds: tuple[tuple[int, int], ...]) -> tuple[Tensor, ...]:
        ctx.bounds, ctx.shape = bounds, heads.shape
        return tuple(heads[:, first:last] for first, last in bounds)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].new_zeros(ctx.shape)
        for (first, last), gradient in zip(ctx.bounds, gradients, strict=True):
            total[:, first:last] += gradient
        return total, None


def window_weights(query: Tensor, key: Tensor, plan: BandPlan) -> Tensor:
    """Return the attention weights of one document in slots, (H, n, G+2w+1), from unscaled query and key (n, H, e)."""
    q, k = query.transpose(0, 1), key.transpose(0, 1)
    return in_slots((weights for _, weights in block_weights(q, k, plan)), plan, query)


def window_weight_gradient(output_gradient: Tensor, value: Tensor, plan: BandPlan) -> Tensor:
    """∂A^h_ij = ⟨∂o^h_i, v^h_j⟩ at allowed keys, in slots (H, n, G+2w+1); output_gradient and value (n, H, e)."""
    return in_slots(window_weight_gradient_blocks(output_gradient, value, plan), plan, value)


def window_weight_gradient_blocks(output_gradient: Tensor, value: Tensor, plan: BandPlan) -> Iterator[Tensor]:
    """The same in blocks (H, rows, G+keys), also at keys that are not allowed."""
    do, v = output_gradient.transpose(0, 1), value.transpose(0, 1)
    global_values = v[:, plan.global_tokens]
    for block in plan.blocks:
        yield torch.bmm(do[:, block.start : block.stop], block_keys(v, global_values, block).transpose(1, 2))


def in_slots(blocks: Iterable[Tensor], plan: BandPlan, like: Tensor) -> Tensor:
    """Lay blocks (H, rows, G+keys) out in slots (H, n, G+2w+1), zero where no weight is.

    `like` (n, H, e) gives heads, dtype and device.
    """
    G, width = len(plan.global_tokens), 2 * plan.window + 1
    slots = like.new_empty(like.shape[1], plan.tokens, G + width)
    for block, values in zip(plan.blocks, blocks, strict=True):
        rows = slice(block.start, block.stop)
        allowed = zero_blank_rows(values.masked_fill(block.excluded, 0), block)
        slots[:, rows, :G] = allowed[:, :, :G]
        # With the keys start-w … stop+w-1 as columns, slot c of row i is column i+c: one strided view reads them all.
        before = block.first - (block.start - plan.window)
        after = (block.stop + plan.window) - block.last
        aligned = nn.functional.pad(allowed[:, :, G:], (before, after))
        heads, count, columns = aligned.shape
        slots[:, rows, G:] = aligned.as_strided((heads, count, width), (count * columns, columns + 1, 1))
    return slots


def global_products(rows: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor) -> Tensor:
    """⟨r^h_g, W^h·x_j + b^h⟩ for rows r (G, H, e), weight (d, d), bias (d,) and hidden x (n, d): (H, G, n).

    For few rows ⟨r, W·x_j⟩ = ⟨Wᵀ·r, x_j⟩ saves the projection of all n tokens. With r = q/√e and the projection of the
    keys these are the scores of global attention; with r = ∂o and that of the values, the gradient of its weights.
    """
    G, H, e = rows.shape
    r = rows.transpose(0, 1)
    if e < G:
        projected = nn.functional.linear(hidden, weight, bias).view(-1, H, e)
        return torch.matmul(r, projected.permute(1, 2, 0))
    folded = torch.matmul(r, weight.view(H, e, -1)).view(H * G, hidden.shape[1])
    # The bias adds one number to a whole row: softmax cannot see it, but parameter gradients stay complete.
    constant = torch.matmul(r, bias.view(H, e, 1))
    return torch.matmul(folded, hidden.T).view(H, G, len(hidden)) + constant


def global_output(weights: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, *, dropped: bool = False) -> Tensor:
    """Σ_j A^h_gj (W^h·x_j + b^h) for weights A (H, G, n) whose rows sum to 1 unless some are `dropped`: (G, H, e).

    For few rows the sum over tokens is taken before the projection.
    """
    H, G, n = weights.shape
    e = len(bias) // H
    if e < G:
        projected = nn.functional.linear(hidden, weight, bias).view(n, H, e)
        return torch.matmul(weights, projected.transpose(0, 1)).transpose(0, 1)
    mixed = torch.matmul(weights.reshape(H * G, n), hidden).view(H, G, hidden.shape[1])
    constant = bias.view(H, 1, e)
    if dropped:
        constant = constant * weights.sum(dim=-1, keepdim=True)
    output = torch.matmul(mixed, weight.view(H, e, -1).transpose(1, 2)) + constant
    return output.transpose(0, 1)


def _documents(plans: Sequence[BandPlan], *packed: Tensor) -> Iterator[tuple[BandPlan, list[Tensor]]]:
    """Yield the plan of every document and its rows of every packed tensor, heads first: (H, n, e) views."""
    start = 0
    for plan in plans:
        yield plan, [tensor[start : start + plan.tokens].transpose(0, 1) for tensor in packed]
        start += plan.tokens


def _global_positions(plans: Sequence[BandPlan]) -> Tensor:
    """Return the rows of the global tokens of all documents in a packed tensor."""
    start, positions = 0, []
    for plan in plans:
        positions.append(plan.global_tokens + start)
        start += plan.tokens
    return torch.cat(positions)


def block_weights(query: Tensor, key: Tensor, plan: BandPlan) -> Iterator[tuple[Block, Tensor]]:
    """Yield A of every block, (H, rows, G+keys), from unscaled query and key (H, n, e)."""
    scale = 1 / math.sqrt(query.shape[-1])
    global_keys = key[:, plan.global_tokens]
    for block in plan.blocks:
        scores = torch.bmm(
            query[:, block.start : block.stop] * scale, block_keys(key, global_keys, block).transpose(1, 2)
        )
        yield block, plan.projection(scores.add_(block.bias))


def block_keys(heads: Tensor, global_rows: Tensor, block: Block) -> Tensor:
    """Return the rows of the global tokens, then those of the window of a block: (H, G+keys, e)."""
    rows = heads[:, block.first : block.last]
    return torch.cat((global_rows, rows), dim=1) if global_rows.shape[1] else rows


def zero_blank_rows(rows: Tensor, block: Block) -> Tensor:
    """Return `rows` with zeros at rows without window attention."""
    return rows if block.blank is None else rows.masked_fill(block.blank, 0)
