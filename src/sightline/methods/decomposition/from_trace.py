"""The attention block of a layer as a trace recorded it, ready to be decomposed."""

from __future__ import annotations

import torch
from torch import nn

from sightline.attention import DenseAttention, StreamedAttention
from sightline.attention.protocol import DENSE_LIMIT
from sightline.errors import ModelError, SizeError
from sightline.methods.decomposition.block import AttentionBlock, BranchNorm, Norm, reconstruction_error
from sightline.passes.trace import Trace

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
        branch_norm=None
        if weights.branch_norm is None
        else BranchNorm(weights.branch_norm.gain.detach(), weights.branch_norm.eps),
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
