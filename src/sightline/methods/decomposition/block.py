"""The attention block as a sum of one vector per source token, and the contribution of each.

The output y_i of an attention block is a sum over the tokens j it reads: with all heads, the output projection, the
residual and the LayerNorm taken together (Kobayashi et al. 2021),

    post-LN   T_ij = L(Σ_h A^h_ij W_O^h v^h_j + δ_ij x_i) / σ_i      y_i = Σ_j T_ij + L(b_O) / σ_i + β
    pre-LN    T_ij =   Σ_h A^h_ij W_O^h v^h_j + δ_ij x_i             y_i = Σ_j T_ij + b_O

    pre-LN with a norm behind the attention (Gemma 2 and 3)
              T_ij = γ ⊙ Σ_h A^h_ij W_O^h v^h_j / ρ_i + δ_ij x_i     y_i = Σ_j T_ij + γ ⊙ b_O / ρ_i

where v holds the bias of the value projection (and, in a pre-LN block, the LayerNorm of its input), L(z) = γ ⊙ (z - z̄),
z̄ being the mean over the d components, and σ_i is the deviation of the vector that the LayerNorm receives; ρ_i is the
root mean square of the vector that the RMSNorm receives. b_O and β belong to no token. L is linear and the same for all
pairs, so it is folded into W_O once, and so is γ.

How much of y_i comes from j (each row then divided by its sum):

    "norm"  c_ij = ‖T_ij‖₂                                          Kobayashi et al. 2021
    "alti"  c_ij = max(0, ‖y_i‖_p - ‖y_i - T_ij‖_p), p = 1 or 2      Ferrando, Gállego and Costa-jussà 2022

Through the second LayerNorm (Modarressi et al. 2022, GlobEnc) the feed-forward branch is left out of the decomposition
but not of the statistics: T'_ij = L₂(T_ij) / σ'_i, where σ'_i is the deviation of y_i + FFN(y_i), the real input of the
LayerNorm, and "alti" compares T'_ij with the real output of the layer.

Shapes: n tokens, H heads, e width of a head, d width of the model. Cost for N pairs (n² dense, n·(G+2w+1) on a band):
p = 1 takes O(N·H·d) time, "norm" and p = 2 O(N·(H² + d)); memory beside the result is O(n·d), never O(N·d).

`attention_block` returns the block of a layer as a trace recorded it, ready to be decomposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from sightline.attention import Attention, BandedAttention, DenseAttention, StreamedAttention
from sightline.attention.arrays import Floats
from sightline.attention.protocol import DENSE_LIMIT
from sightline.errors import ModelError, OptionError, SizeError
from sightline.methods.decomposition.measures import (
    BandRows,
    EuclideanGain,
    ManhattanGain,
    MatrixRows,
    Measure,
    Projection,
    SlotRows,
    VectorNorm,
)
from sightline.models.families import RootMeanSquareNorm
from sightline.passes.trace import Trace

DecompositionKind = Literal["alti", "norm"]


@dataclass(frozen=True)
class Norm:
    """A LayerNorm: weight γ (d,), bias β (d,) or None, eps."""

    weight: Tensor
    bias: Tensor | None
    eps: float

    def linear(self, z: Tensor) -> Tensor:
        """L(z) = γ ⊙ (z - z̄), over the last dimension."""
        return self.weight.to(z) * (z - z.mean(-1, keepdim=True))

    def transposed(self, g: Tensor) -> Tensor:
        """Lᵀ(g) = γ ⊙ g - mean(γ ⊙ g), so that ⟨L(z), g⟩ = ⟨z, Lᵀ(g)⟩."""
        scaled = self.weight.to(g) * g
        return scaled - scaled.mean(-1, keepdim=True)

    def deviation(self, z: Tensor) -> Tensor:
        """σ = √(var z + eps), (..., 1)."""
        return (z.var(-1, unbiased=False, keepdim=True) + self.eps).sqrt()

    def shift(self, z: Tensor) -> Tensor:
        """z + β."""
        return z if self.bias is None else z + self.bias.to(z)


@dataclass(frozen=True)
class AttentionBlock:
    """One layer's attention block as it ran on one document; tensors are kept in the precision of `attention`."""

    attention: Attention
    """The weights A: dense (H, n, n), or a band with global rows and columns."""
    values: Tensor
    """v (n, H, e), with the bias of the value projection."""
    output_weight: Tensor
    """W_O (d, H·e), as in `nn.Linear`."""
    inputs: Tensor
    """x (n, d): what the residual adds."""
    output_bias: Tensor | None = None
    """b_O (d,)."""
    norm: Norm | None = None
    """The LayerNorm after the residual sum; None in a pre-LN block, which has none there."""
    branch_norm: RootMeanSquareNorm | None = None
    """The RMSNorm before the residual sum, in a pre-LN block that has one."""
    global_values: Tensor | None = None
    """(n, H, e): what the rows of global tokens mix, where they have a value projection of their own (Longformer)."""
    output: Tensor | None = None
    """y (n, d) as the model computed it; only `reconstruction_error` needs it."""
    second_norm: Norm | None = None
    """The LayerNorm after the feed-forward block, in a post-LN layer."""
    second_input: Tensor | None = None
    """y + FFN(y) (n, d), what the second LayerNorm received; only "alti" through that LayerNorm needs it."""

    def __post_init__(self) -> None:
        assert isinstance(self.attention, DenseAttention | BandedAttention)
        weights = self.attention.weights if isinstance(self.attention, DenseAttention) else self.attention.local
        for name, tensor in tuple(vars(self).items()):
            if isinstance(tensor, Tensor):
                object.__setattr__(self, name, tensor.detach().to(weights))


@dataclass(frozen=True)
class Contributions:
    """What each token contributes to each row of one layer."""

    attention: Attention
    """c as attention of one head, in the layout of the block's; rows sum to 1, rows not asked for are 0."""
    clipped: tuple[int, ...] = ()
    """Rows to which no token contributed; they are given to their own token (a row of the identity)."""
    error: float = 0.0
    """The reconstruction error of the block, where it was checked."""

    @property
    def clipped_rows(self) -> int:
        """How many rows no token contributed to."""
        return len(self.clipped)

    def cut(self, tokens: int) -> Contributions:
        """Return the contributions among the first tokens of a causal model, which read nothing behind them."""
        assert isinstance(self.attention, DenseAttention)
        weights = self.attention.weights[:, :tokens, :tokens]
        clipped = tuple(row for row in self.clipped if row < tokens)
        return Contributions(DenseAttention(weights), clipped, self.error)


@torch.no_grad()
def measure_contributions(
    block: AttentionBlock,
    *,
    kind: DecompositionKind = "alti",
    p: int = 1,
    second_norm: bool = False,
    rows: Sequence[int] | None = None,
) -> Contributions:
    """Return c_ij, what token j contributes to row i (formulas at the top of the module).

    kind: "alti" or "norm"; p: the norm "alti" uses, 1 or 2 ("norm" is always Euclidean).
    second_norm: through the second LayerNorm too. A pre-LN block has none on its residual path, so nothing changes.
    rows: only these rows, all by default; of the top layer, a rollout needs the readout rows alone.
    """
    if p not in (1, 2):
        raise OptionError(f"ALTI distances use p=1 or p=2, not p={p!r}.")
    norms = _norms(block, second_norm)
    folded = _folded_weight(block, norms)
    by_head = folded.view(block.attention.heads, -1, folded.shape[1])
    tables: list[Tensor] = []
    clipped: list[int] = []
    for part in _parts(block, rows):
        table = part.results()
        if len(part.places):
            residual = _linear(block.inputs[part.positions], norms)
            if block.branch_norm is not None:
                # Rows are divided by ρ as a whole below, and the residual must not be.
                residual = residual * block.branch_norm.root(_attended(block, part))
            own_vectors = part.own().flatten(1) @ folded + residual
            if kind == "norm":
                table = _measure(part, VectorNorm(by_head), own_vectors).clamp_min_(0)
            else:
                scale, output = _outcome(block, part, norms)
                gain = ManhattanGain if p == 1 else EuclideanGain
                table = _measure(part, gain(by_head, scale, output), own_vectors * scale).clamp_min_(0)
            clipped += _normalise(table, part)
        tables.append(table)
    return Contributions(_assemble(block, tables), tuple(clipped))


@torch.no_grad()
def project_updates(block: AttentionBlock, directions: Tensor) -> tuple[Attention, Tensor]:
    """Return ⟨T_ij without the residual, g_i⟩, what attention adds along a direction per row, and that direction at x.

    directions: g (n, d), with respect to y; rows of zeros are not computed. The second result is the direction (n, d)
    with respect to x, so that ⟨y_i, g_i⟩ = Σ_j c_ij + ⟨x_i, g'_i⟩ + what the biases add.
    """
    norms = _norms(block, second_norm=False)
    folded = _folded_weight(block, norms)
    by_head = folded.view(block.attention.heads, -1, folded.shape[1])
    carried = torch.zeros_like(directions)
    tables = []
    for part in _parts(block, directions.any(dim=1).nonzero().squeeze(1).tolist()):
        table = part.results()
        if len(part.places):
            scale, _ = _outcome(block, part, norms)
            wanted = directions[part.positions]
            table = _measure(part, Projection(by_head, scale, wanted), part.own().flatten(1) @ folded * scale)
            carried[part.positions] = wanted if block.norm is None else block.norm.transposed(wanted) * scale
        tables.append(table)
    return _assemble(block, tables), carried


@torch.no_grad()
def reconstruction_error(block: AttentionBlock) -> float:
    """Return max_i ‖ŷ_i - y_i‖₂ / ‖y_i‖₂ between ŷ_i = Σ_j T_ij + L(b_O)/σ_i + β and the model's own `output`.

    Rounding (about 1e-6 in float32) means that the vectors T_ij are the whole story; more means that the block was
    described wrongly, and contributions computed from it are void.
    """
    assert block.output is not None
    worst = 0.0
    for part in _parts(block, None):
        if len(part.positions):
            _, rebuilt = _outcome(block, part, _norms(block, second_norm=False))
            real = block.output[part.positions]
            lengths = real.norm(dim=-1).clamp_min(torch.finfo(real.dtype).tiny)
            worst = max(worst, float(((rebuilt - real).norm(dim=-1) / lengths).max()))
    return worst


def roll_out_rows(layers: Sequence[Attention], readout: Floats) -> Floats:
    """Return the readout row of every R^l = C^l … C^1, (L, n); the last is the attribution of the whole model.

    layers: the contributions C^1 … C^L, one head each, bottom first. readout: (n,) weights of the rows that are read,
    e.g. 1 at [CLS]. No identity is added: the residual is already in C. As row vectors, O(L²·N), never an n×n product.
    """
    rows = np.empty((len(layers), len(readout)), dtype=layers[0].dtype)
    for top in range(len(layers)):
        row = readout
        for layer in reversed(layers[: top + 1]):
            row = layer.left(row)[0]
        rows[top] = row
    return rows


def _parts(block: AttentionBlock, rows: Sequence[int] | None) -> list[SlotRows]:
    """Select rows of every table of weights: the matrix of a dense layer; the local and the global rows of a band."""
    attention = block.attention
    selected = _select_rows(rows, attention.tokens)
    if isinstance(attention, DenseAttention):
        return [MatrixRows(attention.weights, selected, selected, block.values)]
    assert isinstance(attention, BandedAttention)
    is_global = torch.isin(selected, attention.global_tokens)
    places = torch.isin(attention.global_tokens, selected).nonzero().squeeze(1)
    global_values = block.values if block.global_values is None else block.global_values
    return [
        BandRows(attention, selected[~is_global], block.values),
        MatrixRows(attention.global_rows, places, attention.global_tokens[places], global_values),
    ]


def _assemble(block: AttentionBlock, tables: list[Tensor]) -> Attention:
    """Return the tables of `_parts` as attention of one head, in the layout of the block's."""
    if isinstance(block.attention, BandedAttention):
        local, global_rows = (table.unsqueeze(0) for table in tables)
        return BandedAttention(local, global_rows, block.attention.global_tokens, block.attention.block_size)
    return DenseAttention(tables[0].unsqueeze(0))


def _select_rows(rows: Sequence[int] | None, tokens: int) -> Tensor:
    """Return the asked rows in ascending order, each once."""
    if rows is None:
        return torch.arange(tokens)
    return torch.tensor(sorted({int(row) for row in rows}), dtype=torch.int64)


def _norms(block: AttentionBlock, second_norm: bool) -> tuple[Norm, ...]:
    """Return the LayerNorms the vectors pass through, in order."""
    if block.norm is None:
        return ()
    if not second_norm:
        return (block.norm,)
    assert block.second_norm is not None
    return (block.norm, block.second_norm)


def _linear(z: Tensor, norms: tuple[Norm, ...]) -> Tensor:
    """Apply the linear parts L of the LayerNorms to (..., d)."""
    for norm in norms:
        z = norm.linear(z)
    return z


def _folded_weight(block: AttentionBlock, norms: tuple[Norm, ...]) -> Tensor:
    """Return W_O with the linear parts of the norms behind it, (H·e, d)."""
    folded = _linear(block.output_weight.T, norms)
    return folded if block.branch_norm is None else folded * block.branch_norm.gain.to(folded)


def _attended(block: AttentionBlock, part: SlotRows) -> Tensor:
    """Return what the output projection makes of the selected rows, (R, d)."""
    projected = part.mixed().flatten(1) @ block.output_weight.T
    return projected if block.output_bias is None else projected + block.output_bias


def _outcome(block: AttentionBlock, part: SlotRows, norms: tuple[Norm, ...]) -> tuple[Tensor, Tensor]:
    """Return s (R, 1), what the norms divide the selected rows by, inverted, and their output y (R, d)."""
    output = _attended(block, part)
    scale = output.new_ones(len(output), 1)
    if block.branch_norm is not None:
        scale = scale / block.branch_norm.root(output)
        output = output * scale * block.branch_norm.gain.to(output)
    output = output + block.inputs[part.positions]
    for number, norm in enumerate(norms):
        if number == 1:
            # The feed-forward branch is not decomposed, but it is in what the second LayerNorm really received.
            assert block.second_input is not None
            output = block.second_input[part.positions]
        deviation = norm.deviation(output)
        scale = scale / deviation
        output = norm.shift(norm.linear(output) / deviation)
    return scale, output


def _measure(part: SlotRows, measure: Measure, own_vectors: Tensor) -> Tensor:
    """Measure every pair of the selected rows, T_ii being `own` (R, d): (stored rows, S)."""
    for keys, tiles in part.groups(own_vectors.shape[1]):
        measure_tile = measure.for_keys(part.values[keys])
        for tile in tiles:
            tile.results.copy_(measure_tile(tile.weights, tile.rows))
    table = part.results()
    table[part.places, part.own_slots] = measure.own(own_vectors)
    return table


def _normalise(table: Tensor, part: SlotRows) -> list[int]:
    """Divide each row by its sum, make selected rows of zeros rows of the identity, and return their positions."""
    sums = table.sum(1, keepdim=True)
    table /= torch.where(sums > 0, sums, 1)
    clipped = sums[part.places, 0] == 0
    table[part.places[clipped], part.own_slots[clipped]] = 1
    return [int(position) for position in part.positions[clipped]]


LARGEST_ERROR = 1e-3
"""Relative error of the parts' sum above which they do not describe the block."""
ROUNDINGS = 8
"""The same in roundings of the model's number type, where these are larger: 0.008 in float16, 0.06 in bfloat16. Errors
of random tiny models of the families and of two trained ones (BERT, Longformer) are below one rounding."""


def attention_block(trace: Trace, layer: int) -> AttentionBlock:
    """Return the attention block of one layer as it ran on the document."""
    parts = trace.block(layer)
    weights = parts.weights
    attention = trace.attentions[layer]
    if isinstance(attention, StreamedAttention):
        size = attention.heads * attention.tokens**2 * attention.dtype.itemsize
        if size > DENSE_LIMIT:
            raise SizeError(
                f"Contributions of tokens need all attention weights of a layer at once, {size / 1e9:.2g} GB for "
                f"{attention.tokens:,} tokens: choose another method (for example attcat or rollout) or a shorter text."
            )
        attention = DenseAttention(attention.dense())
    return AttentionBlock(
        attention=attention,
        values=parts.values,
        output_weight=weights.output_weight,
        inputs=parts.inputs,
        output_bias=weights.output_bias,
        norm=_read_norm(weights.norm),
        branch_norm=weights.branch_norm,
        global_values=parts.global_values,
        output=parts.output,
        second_norm=_read_norm(weights.second_norm),
        second_input=None if weights.second_norm is None else parts.second_input,
    )


def check_reconstruction(trace: Trace, layer: int, block: AttentionBlock) -> float:
    """Return the reconstruction error of a block; raise ModelError if the block is not what the layer computes."""
    error = reconstruction_error(block)
    limit = max(LARGEST_ERROR, ROUNDINGS * torch.finfo(trace.network.dtype).eps)
    if not error <= limit:
        raise ModelError(
            f"The attention of layer {layer} cannot be split into contributions of tokens: their sum differs from the "
            f"layer's output by {error:.2g} of its size (at most {limit:.2g}), because the model's modules compute "
            "something else than their weights say; choose a method that does not split it (for example attcat)."
        )
    return error


def _read_norm(module: nn.LayerNorm | None) -> Norm | None:
    return None if module is None else Norm(module.weight, module.bias, module.eps)
