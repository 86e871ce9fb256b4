"""The attention of one Longformer layer in one pass: weights, their gradients and values, computed on demand.

The same record serves the banded encoder (packed documents; q, k and v are stored) and the library's (padded documents;
q, k and v are projected again when needed). Shapes as in `band_kernel`.

Most methods need sums over banded attention only. `window_sums` computes them without laying it out in slots, at a
third of the cost, block by block from the same products as in the forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sightline.attention import BandedAttention
from sightline.attention.projections import SOFTMAX, Projection
from sightline.models.longformer.band_kernel import (
    BandPlan,
    Block,
    block_keys,
    block_weights,
    global_products,
    in_slots,
    window_weight_gradient,
    window_weight_gradient_blocks,
    window_weights,
    zero_blank_rows,
)
from sightline.models.recording import Layout, Summary


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


WIDE_WINDOW = 512
"""One-sided window up to which a short document keeps the model's own window; published models have 256 at most."""


@dataclass(frozen=True)
class Batch:
    """The documents of a padded batch: their lengths, global tokens and masked tokens."""

    padded: int
    """N, the common padded length."""
    lengths: tuple[int, ...]
    """Tokens up to the last unmasked one, at least 1."""
    global_tokens: tuple[Tensor, ...]
    """(G,) per document, ascending."""
    masked: tuple[Tensor, ...]
    """(n,) bool per document: masked tokens before its end."""

    @staticmethod
    def from_mask(attention_mask: Tensor) -> Batch:
        """Read the encoder's attention mask (B, N): negative masked, positive global, zero local."""
        lengths, global_tokens, masked = [], [], []
        for row in attention_mask:
            seen = (row >= 0).nonzero()
            length = int(seen[-1]) + 1 if len(seen) else 1
            lengths.append(length)
            global_tokens.append((row[:length] > 0).nonzero()[:, 0])
            masked.append(row[:length] < 0)
        return Batch(attention_mask.shape[1], tuple(lengths), tuple(global_tokens), tuple(masked))

    def plans(self, window: int, dtype: torch.dtype, projection: Projection = SOFTMAX) -> tuple[BandPlan, ...]:
        """One plan per document for a one-sided window; equal documents share it.

        A window beyond both the longest document and `WIDE_WINDOW` is cut down: it would only widen every row of
        weights with slots that no token fills, and a config may name any number.
        """
        window = min(window, max(WIDE_WINDOW, *self.lengths))
        shared: dict[tuple[object, ...], BandPlan] = {}
        plans = []
        for global_tokens, masked in zip(self.global_tokens, self.masked, strict=True):
            key = (len(masked), tuple(global_tokens.tolist()), tuple(masked.nonzero()[:, 0].tolist()))
            if key not in shared:
                shared[key] = BandPlan.make(global_tokens, masked, window, dtype, projection=projection)
            plans.append(shared[key])
        return tuple(plans)

    def pack(self, padded: Tensor) -> Tensor:
        """(B, N, d) -> (T, d): documents end to end."""
        if len(set(self.lengths)) == 1:
            return padded[:, : self.lengths[0]].flatten(0, 1)
        return padded.flatten(0, 1).index_select(0, self._positions(padded.device))

    def unpack(self, packed: Tensor) -> Tensor:
        """(T, d) -> (B, N, d), zero at the padding."""
        documents = len(self.lengths)
        if len(set(self.lengths)) == 1:
            rows = packed.view(documents, self.lengths[0], -1)
            return nn.functional.pad(rows, (0, 0, 0, self.padded - self.lengths[0]))
        empty = packed.new_zeros(documents * self.padded, packed.shape[1])
        return empty.index_copy(0, self._positions(packed.device), packed).view(documents, self.padded, -1)

    def first_rows(self, packed: Tensor) -> Tensor:
        """Return the first row of every document: (B, d)."""
        return packed.index_select(0, self.first_positions(packed.device))

    def first_positions(self, device: torch.device) -> Tensor:
        """Return the packed row of the first token of every document: (B,)."""
        return torch.tensor([0, *self.lengths[:-1]], device=device).cumsum(0)

    def _positions(self, device: torch.device) -> Tensor:
        """Return the row of the flattened padded batch that each packed row comes from: (T,)."""
        return torch.cat(
            [torch.arange(length, device=device) + i * self.padded for i, length in enumerate(self.lengths)]
        )


@dataclass(frozen=True)
class BandedRecord:
    """The attention of one layer for a batch of documents."""

    attention: Any
    """The library's self-attention module, for its projections."""
    hidden: Tensor
    """Input of the layer, detached, in `hidden_layout`."""
    hidden_layout: Layout
    plans: tuple[BandPlan, ...]
    """One per document."""
    output: Tensor
    """Σ_j A_ij v_j before the output projection, on the autograd path, in `layout`."""
    layout: Layout
    """Layout of `output`; where the layer was evaluated for the first rows only, each document has one row."""
    query: Tensor | None = None
    """(T, H, e) unscaled, in `hidden_layout`, as `key` and `value`; projected again from `hidden` when absent."""
    key: Tensor | None = None
    value: Tensor | None = None
    probabilities: tuple[tuple[Tensor, ...], ...] = ()
    """Of a plain pass only: A of every document on the autograd path, in the parts that `assemble` puts together.

    These are the blocks (H, rows, G+keys) of window rows and then the global rows (H, G, n); where the layer was
    evaluated for the first row only, a global token's, that row (H, 1, n) alone.
    """

    def weights(self, document: int) -> BandedAttention:
        """Return the attention weights A of all rows of one document."""
        return self._attention(document, *self.weight_slots(document))

    @torch.no_grad()
    def weight_slots(self, document: int) -> tuple[Tensor, Tensor]:
        """Return the weights of window rows in slots (H, n, G+2w+1), and of global rows (H, G, n)."""
        query, key = (self._rows(name, document) for name in ("query", "key"))
        return window_weights(query, key, self.plans[document]), self._global_rows(document)

    @torch.no_grad()
    def gradient(self, document: int, output_gradient: Tensor) -> BandedAttention:
        """Return ∂y/∂A of one document from ∂y/∂output in `layout`: (n, H·e), or (1, H·e) for the first row only."""
        plan = self.plans[document]
        gradient = self._all_rows(document, output_gradient)
        local = window_weight_gradient(gradient, self._rows("value", document), plan)
        global_rows = self._global_products(gradient[plan.global_tokens], self.attention.value_global, document)
        return self._attention(document, local, global_rows.masked_fill(plan.masked, 0))

    @torch.no_grad()
    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Return sums of A (and of A ⊙ relu(∂y/∂A)), computed from blocks without laying them out in slots."""
        plan = self.plans[document]
        readout = readout.to(self.hidden)
        gradient = None if output_gradient is None else self._all_rows(document, output_gradient)
        query, key, value = (self._rows(name, document) for name in ("query", "key", "value"))
        sums = window_sums(query, key, value, plan, readout, gradient)
        global_rows = self._global_rows(document)
        positive = None
        if gradient is not None and sums.gradient_received is not None:
            rows = self._global_products(gradient[plan.global_tokens], self.attention.value_global, document)
            positive = sums.gradient_received + (global_rows * rows.relu_()).sum(dim=1)
        return Summary(
            mean=self._attention(document, sums.mean, global_rows.mean(dim=0, keepdim=True)),
            received=sums.received + global_rows.sum(dim=1),
            rows=sums.rows + torch.matmul(readout[plan.global_tokens], global_rows),
            gradient_received=positive,
        )

    @torch.no_grad()
    def values(self, document: int) -> Tensor:
        """Return the value vectors v (n, H, e) that window rows mix, bias included."""
        return self._rows("value", document)

    @torch.no_grad()
    def global_values(self, document: int) -> Tensor:
        """Return the value vectors (n, H, e) that global rows mix, bias included."""
        return self._heads(self.attention.value_global(self._hidden(document)))

    @torch.no_grad()
    def assemble(self, document: int, parts: Sequence[Tensor]) -> BandedAttention:
        """Return tensors shaped like `probabilities[document]` (their gradients or relevances) as an Attention.

        Values at pairs that may not attend are dropped. Parts of one head stand for all.
        """
        plan = self.plans[document]
        blocks, (heads, G) = len(plan.blocks), (len(parts[0]), len(plan.global_tokens))
        if self._has_first_row_alone(document):
            local = parts[0].new_zeros(heads, plan.tokens, G + 2 * plan.window + 1)
            rows = nn.functional.pad(parts[0], (0, 0, 0, G - 1))
        else:
            local = in_slots(parts[:blocks], plan, parts[0].new_empty(plan.tokens, heads, 0))
            rows = parts[blocks] if G else local.new_zeros(heads, 0, plan.tokens)
        return self._attention(document, local, rows.masked_fill(plan.masked, 0))

    @torch.no_grad()
    def gradient_parts(self, document: int, output_gradient: Tensor) -> Iterator[Tensor]:
        """Yield ∂y/∂A in the parts of `probabilities`, from ∂y/∂output in `layout`."""
        plan = self.plans[document]
        gradient = self._all_rows(document, output_gradient)
        rows = plan.global_tokens
        if self._has_first_row_alone(document):
            rows = rows[:1]
        else:
            yield from window_weight_gradient_blocks(gradient, self._rows("value", document), plan)
        if len(rows):
            yield self._global_products(gradient[rows], self.attention.value_global, document)

    def _has_first_row_alone(self, document: int) -> bool:
        """Whether a plain pass evaluated the first row of a document only, that of a global token."""
        return len(self.plans[document].global_tokens) > 0 and len(self.probabilities[document]) == 1

    def _attention(self, document: int, local: Tensor, global_rows: Tensor) -> BandedAttention:
        return BandedAttention(local, global_rows, self.plans[document].global_tokens)

    def _global_rows(self, document: int) -> Tensor:
        """Return the rows of A that belong to global tokens, (H, G, n)."""
        plan, x = self.plans[document], self._hidden(document)
        query = self._heads(self.attention.query_global(x[plan.global_tokens])) / math.sqrt(self.attention.head_dim)
        scores = self._global_products(query, self.attention.key_global, document)
        return plan.projection(scores.masked_fill(plan.masked, -math.inf))

    def _all_rows(self, document: int, output_gradient: Tensor) -> Tensor:
        """Return ∂y/∂output (n, H, e), zero at rows that were not evaluated."""
        rows = output_gradient.reshape(len(output_gradient), -1)
        return self._heads(nn.functional.pad(rows, (0, 0, 0, self.plans[document].tokens - len(rows))))

    def _hidden(self, document: int) -> Tensor:
        return self.hidden_layout.cut(self.hidden, document)

    def _rows(self, name: str, document: int) -> Tensor:
        """Return query, key or value of one document: (n, H, e)."""
        projected: Tensor | None = getattr(self, name)
        if projected is not None:
            return self.hidden_layout.cut(projected, document)
        return self._heads(getattr(self.attention, name)(self._hidden(document)))

    def _heads(self, rows: Tensor) -> Tensor:
        """(rows, H·e) -> (rows, H, e)."""
        return rows.view(len(rows), self.attention.num_heads, self.attention.head_dim)

    def _global_products(self, rows: Tensor, projection: Any, document: int) -> Tensor:
        return global_products(rows, projection.weight, projection.bias, self._hidden(document))


def library_attentions(
    records: Sequence[BandedRecord], batch: Batch, length: int
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...] | None]:
    """Return the weights in the library's form, per layer (B, H, length, G+2w+1), and global rows (B, H, N, G) or None.

    G is the largest number of global tokens in the batch; documents with fewer have empty columns.
    """
    G = max(len(tokens) for tokens in batch.global_tokens)
    local, global_rows = [], []
    for record in records:
        shape = (len(batch.lengths), record.attention.num_heads)
        slots = record.hidden.new_zeros(*shape, length, G + 2 * record.plans[0].window + 1)
        columns = record.hidden.new_zeros(*shape, batch.padded, G)
        for document, n in enumerate(batch.lengths):
            window_part, global_part = record.weight_slots(document)
            g = global_part.shape[1]
            slots[document, :, :n, :g] = window_part[:, :, :g]
            slots[document, :, :n, G:] = window_part[:, :, g:]
            columns[document, :, :n, :g] = global_part.transpose(1, 2)
        local.append(slots)
        global_rows.append(columns)
    return tuple(local), tuple(global_rows) if G else None
