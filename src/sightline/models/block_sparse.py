"""BigBird with observable block-sparse attention (Zaheer et al. 2020, "Big Bird").

The tokens are cut into blocks of b. Tokens of the first and of the last block are global: they attend to all tokens,
and all tokens attend to them. A token of another block also attends to its own block and to the two blocks next to it,
and to r random blocks:

    block 0   x x x x x x x            x  attended
    block 1   3 x x . . . x            3  the first block, attended 1+r times (here r = 2)
    block 2   3 x x x . . x
    block 3   3 . x x x . x
    block 4   3 . . x x x x
    block 5   3 . . . x x x
    block 6   x x x x x x x

transformers draws the random blocks in training only. In evaluation all r of them are the first block, so that its
keys occur 1+r times in every row in between: their scores grow by log(1+r), and A_ij is the sum over the copies. (The
weights that the library returns hold one copy, so their rows do not sum to 1.) That leaves a window and global tokens,
the layout of `BandedAttention`. Texts of up to (5+2r)·b tokens are read with full attention, as in the library.

Shapes: n tokens, N = n rounded up to whole blocks, R = N/b - 2 blocks between the global ones, H heads, e width of a
head. Cost O(H·n·b) time and memory for a sparse text, O(H·n²) for a short one.

`use_blocks(model)` puts a `BlockSparseSelfAttention` in the place of every self-attention module of the library, around
the same projections; everything else of the library runs unmodified. Two things differ from the library, on purpose:

- every document of a batch is read as if it were alone. The library takes the last block of the *padded* batch for
  global, so that there the logits of a document depend on its neighbours;
- a short text does not change how later texts are read. The library switches to full attention for good.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint
from transformers import AttentionMaskInterface, PreTrainedModel

from sightline.attention import Attention, BandedAttention, DenseAttention
from sightline.errors import ModelError
from sightline.models.recording import Summary, active_recorder


@dataclass(frozen=True)
class BlockPlan:
    """How one document is read."""

    tokens: int
    """n."""
    block_size: int
    """b."""
    random_blocks: int
    """r."""
    sparse: bool
    """Whether the document is longer than (5+2r)·b tokens and the model's attention is sparse."""
    hidden: Tensor | None = None
    """(n,) bool: keys that no token attends to; None if there are none."""

    @property
    def blocks(self) -> int:
        """N/b."""
        return -(-self.tokens // self.block_size)

    @property
    def global_tokens(self) -> Tensor:
        """The tokens of the first and of the last block."""
        positions = torch.arange(self.tokens)
        return positions[(positions < self.block_size) | (positions >= (self.blocks - 1) * self.block_size)]


class Parts(NamedTuple):
    """Numbers about the pairs that attend, in blocks."""

    columns: Tensor
    """(H, R·b, 2b): rows in between with the keys of the first and the last block."""
    window: Tensor
    """(H, R, b, 3b): rows in between with the keys of their own block and its neighbours."""
    rows: Tensor
    """(H, 2b, N): the rows of the first and the last block."""


def attend(query: Tensor, key: Tensor, value: Tensor, plan: BlockPlan) -> Tensor:
    """Return Σ_j A_ij v_j, (n, H·e); query, key and value (n, H, e)."""
    if not plan.sparse:
        return mix(parts_of(query, key, plan), value, plan)
    b, v = plan.block_size, _in_blocks(value, plan)
    weights = _sparse_weights(query, key, plan)
    between = (weights.window @ _windows(v, b)).flatten(1, 2) + weights.columns @ _ends(v, b)
    return _as_rows(weights.rows @ v, between, plan)


def parts_of(query: Tensor, key: Tensor, plan: BlockPlan) -> tuple[Tensor, ...]:
    """Return A as tensors on the autograd path: one matrix for a short text, else `Parts` with H as first of 3 axes."""
    return _flatten(_sparse_weights(query, key, plan)) if plan.sparse else (_full_weights(query, key, plan),)


def mix(parts: tuple[Tensor, ...], value: Tensor, plan: BlockPlan) -> Tensor:
    """Return Σ_j A_ij v_j, (n, H·e), from the parts of A, as one product per row.

    `attend` adds two products, which is faster; but rules of relevance for a product and for a sum are not the same.
    """
    if not plan.sparse:
        return (parts[0] @ value.transpose(0, 1)).transpose(0, 1).flatten(1)
    b, v, weights = plan.block_size, _in_blocks(value, plan), _unflatten(parts, plan)
    windows = _windows(v, b)
    ends = _ends(v, b).unsqueeze(1).expand(-1, windows.shape[1], -1, -1)
    columns = weights.columns.view(*weights.window.shape[:3], 2 * b)
    between = torch.cat((columns, weights.window), dim=-1) @ torch.cat((ends, windows), dim=2)
    return _as_rows(weights.rows @ v, between.flatten(1, 2), plan)


def _as_rows(of_ends: Tensor, between: Tensor, plan: BlockPlan) -> Tensor:
    """Put rows of the first and the last block (H, 2b, e) and those in between (H, R·b, e) in order, (n, H·e)."""
    first, last = of_ends.chunk(2, dim=1)
    mixed = torch.cat((first, between, last), dim=1)[:, : plan.tokens].transpose(0, 1).flatten(1)
    # As in the library: a hidden token of a sparse text reads nothing.
    return mixed if plan.hidden is None else mixed.masked_fill(plan.hidden[:, None], 0)


def weights_of(query: Tensor, key: Tensor, plan: BlockPlan) -> Attention:
    """Return A as an operator; query and key (n, H, e)."""
    return assemble(parts_of(query, key, plan), plan)


def assemble(parts: tuple[Tensor, ...], plan: BlockPlan) -> Attention:
    """Return tensors in the shapes of `parts_of` as an operator."""
    return _as_band(_unflatten(parts, plan), plan) if plan.sparse else DenseAttention(parts[0])


def products_of(rows: Tensor, keys: Tensor, plan: BlockPlan) -> Attention:
    """Return ⟨rows_i, keys_j⟩ at the pairs that attend, 0 elsewhere, as an operator; rows and keys (n, H, e)."""
    return assemble(product_parts(rows, keys, plan), plan)


def product_parts(rows: Tensor, keys: Tensor, plan: BlockPlan) -> tuple[Tensor, ...]:
    """Return the same in the shapes of `parts_of`."""
    if not plan.sparse:
        products = rows.transpose(0, 1) @ keys.permute(1, 2, 0)
        return (products if plan.hidden is None else products.masked_fill(plan.hidden, 0),)
    parts = _products(rows, keys, plan)
    absent = _absent(plan, parts.window.device)
    return _flatten(Parts(*(part.masked_fill(mask, 0) for part, mask in zip(parts, absent, strict=True))))


def _flatten(parts: Parts) -> tuple[Tensor, ...]:
    """Return the parts with the rows of all windows in one axis, (H, R·b, 3b)."""
    return parts.columns, parts.window.flatten(1, 2), parts.rows


def _unflatten(parts: tuple[Tensor, ...], plan: BlockPlan) -> Parts:
    columns, window, rows = parts
    return Parts(columns, window.view(len(window), -1, plan.block_size, window.shape[-1]), rows)


def _full_weights(query: Tensor, key: Tensor, plan: BlockPlan) -> Tensor:
    """Return A of a short text, (H, n, n)."""
    scores = query.transpose(0, 1) @ key.permute(1, 2, 0) / math.sqrt(query.shape[-1])
    if plan.hidden is not None:
        scores = scores.masked_fill(plan.hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(-1)


def _sparse_weights(query: Tensor, key: Tensor, plan: BlockPlan) -> Parts:
    """Return A of a long text."""
    b = plan.block_size
    scores = _products(query / math.sqrt(query.shape[-1]), key, plan)
    copies = scores.columns.new_zeros(5 * b)
    copies[:b] = math.log1p(plan.random_blocks)
    # A finite number, so that a text whose tokens are all hidden has weights as well.
    lowest = torch.finfo(copies.dtype).min
    absent = _absent(plan, copies.device)
    columns, window, rows = (part.masked_fill(mask, lowest) for part, mask in zip(scores, absent, strict=True))
    joint = (torch.cat((columns.view(*window.shape[:3], 2 * b), window), dim=-1) + copies).softmax(-1)
    return Parts(joint[..., : 2 * b].flatten(1, 2), joint[..., 2 * b :], rows.softmax(-1))


def _products(rows: Tensor, keys: Tensor, plan: BlockPlan) -> Parts:
    """Return ⟨rows_i, keys_j⟩ of blocks that attend to each other."""
    b = plan.block_size
    left, right = _in_blocks(rows, plan), _in_blocks(keys, plan)
    between = left[:, b:-b]
    windows = right.unfold(1, 3 * b, b)  # (H, R, e, 3b)
    return Parts(
        between @ _ends(right, b).transpose(1, 2),
        between.reshape(len(between), -1, b, between.shape[2]) @ windows,
        _ends(left, b) @ right.transpose(1, 2),
    )


def _absent(plan: BlockPlan, device: torch.device) -> Parts:
    """Return which keys are absent: padding, hidden ones, and in windows those of the global blocks (in `columns`)."""
    b, more = plan.block_size, plan.blocks * plan.block_size - plan.tokens
    hidden = torch.zeros(plan.tokens, dtype=torch.bool, device=device) if plan.hidden is None else plan.hidden
    keys = pad(hidden, (0, more), value=True)
    in_window = keys.clone()
    in_window[:b] = in_window[-b:] = True
    return Parts(torch.cat((keys[:b], keys[-b:])), in_window.unfold(0, 3 * b, b)[:, None], keys)


def _as_band(parts: Parts, plan: BlockPlan) -> BandedAttention:
    """Lay the parts out in the slots of a band with w = 2b-1: key j of row i is in slot j - i + w of the window."""
    n, b = plan.tokens, plan.block_size
    tokens = plan.global_tokens
    width, count, heads = 4 * b - 1, len(tokens), len(parts.rows)
    local = parts.rows.new_zeros(heads, plan.blocks * b, count + width)
    local[:, b:-b, :count] = parts.columns[..., :count]
    by_block = local.view(heads, plan.blocks, b, count + width)[:, 1:-1, :, count:]
    for row in range(b):  # of every block
        by_block[:, :, row, b - 1 - row : width - row] = parts.window[:, :, row]
    return BandedAttention(local[:, :n], parts.rows[:, :count, :n], tokens, b)


def _in_blocks(rows: Tensor, plan: BlockPlan) -> Tensor:
    """(n, H, e) -> (H, N, e), zero at the padding."""
    return pad(rows.transpose(0, 1), (0, 0, 0, plan.blocks * plan.block_size - plan.tokens))


def _windows(tensor: Tensor, b: int) -> Tensor:
    """Return every block in between with its neighbours, (H, R, 3b, ·) of (H, N, ·)."""
    return tensor.unfold(1, 3 * b, b).transpose(-1, -2)


def _ends(tensor: Tensor, b: int) -> Tensor:
    """Return the first and the last block of (H, N, ·), (H, 2b, ·)."""
    return torch.cat((tensor[:, :b], tensor[:, -b:]), dim=1)


BLOCKS = "sightline-blocks"
"""The name under which the mask of the model is registered with transformers: (B, N) instead of (B, 1, N, N)."""
LONGEST_COMPARISON = 4096
"""Longest random input on which the attention is compared with the library's at load."""

_LENGTHS: ContextVar[tuple[int, ...] | None] = ContextVar("sightline_block_lengths", default=None)


@contextmanager
def documents_of(lengths: Sequence[int]) -> Iterator[None]:
    """Set the length of each document for the attention; by default all are as long as the padded batch."""
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
    _compare(base, layers[0].attention.self, config)
    base.set_attention_type("original_full")  # the library neither pads nor chooses the attention
    for layer in layers:
        layer.attention.self = BlockSparseSelfAttention(layer.attention.self, config)
    config._attn_implementation = BLOCKS


def _keep_mask(*_args: Any, attention_mask: Tensor | None = None, **_: Any) -> Tensor | None:
    """Return the mask (B, N) as it is."""
    return attention_mask


AttentionMaskInterface.register(BLOCKS, _keep_mask)


@torch.no_grad()
def _compare(base: Any, attention: Any, config: Any) -> None:
    """Raise ModelError unless the attention of the library and ours compute the same from random input.

    How random blocks are chosen in evaluation depends on the version of the library. Copies in double precision are
    compared: the rounding of half types is larger than the difference that matters.
    """
    library = copy.deepcopy(attention).double().eval()
    ours = BlockSparseSelfAttention(library, config)
    b = ours.block_size
    tokens = (6 + 2 * ours.random_blocks) * b
    if base.attention_type != "block_sparse" or tokens > LONGEST_COMPARISON:
        return
    weight = ours.query.weight
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(1, tokens, weight.shape[1], generator=generator).to(weight)
    blocked, band, rows, keys = base.create_masks_for_block_sparse_attn(hidden.new_ones(1, tokens), b)
    expected = library(hidden, band, rows, keys, blocked, blocked)[0]
    difference = float((ours(hidden)[0] - expected).abs().max() / expected.abs().max().clamp_min(1e-30))
    if not difference < 1e-3:  # also if it is not a number
        raise ModelError(
            f"BigBird's attention differs from that of the installed transformers by {difference:.1e} of its largest "
            "value. Its random blocks may be chosen in another way; install a version that Sightline was tested with."
        )
