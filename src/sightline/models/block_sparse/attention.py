"""BigBird with observable attention: the module that replaces the library's self-attention, and the switch.

`use_blocks(model)` puts a `BlockSparseSelfAttention` in the place of every self-attention module of the library, around
the same projections; everything else of the library runs unmodified. Two things differ from the library, on purpose:

- every document of a batch is read as if it were alone. The library takes the last block of the *padded* batch for
  global, so that there the logits of a document depend on its neighbours;
- a short text does not change how later texts are read. The library switches to full attention for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint
from transformers import AttentionMaskInterface, PreTrainedModel

from sightline.attention import Attention
from sightline.errors import ModelError
from sightline.models.block_sparse.kernel import (
    BlockPlan,
    assemble,
    attend,
    mix,
    parts_of,
    product_parts,
    products_of,
    weights_of,
)
from sightline.models.recording import Summary, active_recorder

BLOCKS = "sightline-blocks"
"""The name under which the mask of the model is registered with transformers: (B, N) instead of (B, 1, N, N)."""
LONGEST_COMPARISON = 4096
"""Longest random input on which the attention is compared with the library's at load."""

_LENGTHS: ContextVar[tuple[int, ...] | None] = ContextVar("sightline_block_lengths", default=None)


@contextmanager
def documents_of(lengths: Sequence[int]) -> Iterator[None]:
    """Tell the attention how long each document of the batch is; else all are as long as the padded batch."""
    token = _LENGTHS.set(tuple(lengths))
    try:
        yield
    finally:
        _LENGTHS.reset(token)


@dataclass(frozen=True)
class BlockRecord:
    """The attention of one layer for a padded batch; query, key and value (B, N, H, e), detached."""

    query: Tensor
    key: Tensor
    value: Tensor
    plans: tuple[BlockPlan, ...]
    """One per document."""
    output: Tensor
    """Σ_j A_ij v_j (B, N, H·e), on the autograd path."""
    layout: None = None
    probabilities: tuple[tuple[Tensor, ...], ...] = ()
    """A of every document on the autograd path, as `parts_of` returns it, if the pass runs by ordinary operations."""

    def weights(self, document: int) -> Attention:
        """A of one document: dense for a short text, else a band."""
        return weights_of(self._rows(self.query, document), self._rows(self.key, document), self.plans[document])

    def gradient(self, document: int, output_gradient: Tensor) -> Attention:
        """∂y/∂A^h_ij = ⟨∂y/∂o^h_i, v^h_j⟩ from ∂y/∂o (n, H·e)."""
        values = self.values(document)
        return products_of(output_gradient.reshape(values.shape), values, self.plans[document])

    def gradient_parts(self, document: int, output_gradient: Tensor) -> Iterator[Tensor]:
        """Yield ∂y/∂A in the parts of `probabilities[document]`."""
        values = self.values(document)
        yield from product_parts(output_gradient.reshape(values.shape), values, self.plans[document])

    def summary(self, document: int, readout: Tensor, output_gradient: Tensor | None = None) -> Summary:
        """Sums of A, and of A ⊙ relu(∂y/∂A)."""
        weights = self.weights(document)
        positive = None
        if output_gradient is not None:
            positive = weights.multiply(self.gradient(document, output_gradient).relu()).received()
        return Summary(
            mean=weights.mean(),
            received=torch.from_numpy(weights.received()),
            rows=torch.from_numpy(weights.left(readout)),
            gradient_received=None if positive is None else torch.from_numpy(positive),
        )

    def values(self, document: int) -> Tensor:
        """v (n, H, e)."""
        return self._rows(self.value, document)

    def global_values(self, document: int) -> None:
        """None: every row mixes the same values."""

    def assemble(self, document: int, parts: Sequence[Tensor]) -> Attention:
        """Return tensors shaped like `probabilities[document]` as an operator."""
        return assemble(tuple(part.detach() for part in parts), self.plans[document])

    def _rows(self, batch: Tensor, document: int) -> Tensor:
        return batch[document, : self.plans[document].tokens]


class BlockSparseSelfAttention(nn.Module):
    """Self-attention in BigBird's pattern; parameters keep the names that they have in the library."""

    def __init__(self, original: Any, config: Any) -> None:
        super().__init__()
        self.query, self.key, self.value = original.query, original.key, original.value
        self.heads = int(config.num_attention_heads)
        self.block_size, self.random_blocks = int(config.block_size), int(config.num_random_blocks)
        self.sparse = config.attention_type == "block_sparse"

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return Σ_j A_ij v_j (B, N, d) of hidden states (B, N, d); attention_mask (B, N): False at hidden tokens."""
        documents, padded, _width = hidden_states.shape
        plans = self._plans(_LENGTHS.get() or (padded,) * documents, attention_mask)
        query, key, value = (
            projection(hidden_states).view(documents, padded, self.heads, -1)
            for projection in (self.query, self.key, self.value)
        )
        recorder = active_recorder()
        plain = recorder is not None and recorder.plain
        rows, probabilities = [], []
        for document, plan in enumerate(plans):
            q, k, v = (batch[document, : plan.tokens] for batch in (query, key, value))
            if plain:
                probabilities.append(parts_of(q, k, plan))
                mixed = mix(probabilities[-1], v, plan)
            elif torch.is_grad_enabled() and query.requires_grad:
                # The weights are computed again in the backward pass: kept, they would take 5b numbers per token.
                mixed = checkpoint(attend, q, k, v, plan, use_reentrant=False, preserve_rng_state=False)
            else:
                mixed = attend(q, k, v, plan)
            rows.append(pad(mixed, (0, 0, 0, padded - plan.tokens)))
        output = torch.stack(rows)
        if recorder is not None and recorder.attention:
            q, k, v = (batch.detach() for batch in (query, key, value))
            recorder.layers.append(BlockRecord(q, k, v, plans, output, probabilities=tuple(probabilities)))
        return output, None

    def _plans(self, lengths: Sequence[int], mask: Tensor | None) -> tuple[BlockPlan, ...]:
        b, r = self.block_size, self.random_blocks
        plans = []
        for document, n in enumerate(lengths):
            hidden = None if mask is None or bool(mask[document, :n].all()) else ~mask[document, :n]
            plans.append(BlockPlan(n, b, r, self.sparse and n > (5 + 2 * r) * b, hidden))
        return tuple(plans)


def use_blocks(model: PreTrainedModel) -> None:
    """Replace the self-attention of a BigBird model, after a comparison with the library's (idempotent)."""
    base: Any = model.base_model
    layers = list(base.encoder.layer)
    if isinstance(layers[0].attention.self, BlockSparseSelfAttention):
        return
    config = model.config
    _compare(base, layers[0].attention.self, BlockSparseSelfAttention(layers[0].attention.self, config))
    base.set_attention_type("original_full")  # the library neither pads nor chooses the attention
    for layer in layers:
        layer.attention.self = BlockSparseSelfAttention(layer.attention.self, config)
    config._attn_implementation = BLOCKS


def _keep_mask(*_args: Any, attention_mask: Tensor | None = None, **_: Any) -> Tensor | None:
    """Return the mask (B, N) as it is."""
    return attention_mask


AttentionMaskInterface.register(BLOCKS, _keep_mask)


@torch.no_grad()
def _compare(base: Any, library: Any, ours: BlockSparseSelfAttention) -> None:
    """Raise ModelError unless both compute the same from random input.

    How random blocks are chosen in evaluation depends on the version of the library.
    """
    b = ours.block_size
    tokens = (6 + 2 * ours.random_blocks) * b
    if base.attention_type != "block_sparse" or tokens > LONGEST_COMPARISON:
        return
    weight = ours.query.weight
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(1, tokens, weight.shape[1], generator=generator).to(weight)
    blocked, band, rows, keys = base.create_masks_for_block_sparse_attn(hidden.new_ones(1, tokens), b)
    was_training = library.training
    expected = library.eval()(hidden, band, rows, keys, blocked, blocked)[0]
    library.train(was_training)
    difference = float((ours(hidden)[0] - expected).abs().max() / expected.abs().max().clamp_min(1e-30))
    if not difference < 1e-3:  # also if it is not a number
        raise ModelError(
            f"BigBird's attention differs from that of the installed transformers by {difference:.1e} of its largest "
            "value. Its random blocks may be chosen in another way; install a version that Sightline was tested with."
        )
