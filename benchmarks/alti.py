"""ALTI contributions of one attention layer of base shape (12 heads, 768 wide), random weights.

Dense: streamed over tiles, against the materialised form, which holds the vector of every head and pair, (H, n, n, d),
and applies the LayerNorm as a matrix, as the published program does.
Band: a Longformer layer of 4,096 tokens, window 512, one global token. There is no other form to compare with (the
materialised one would take 600 GB), so the ratios say how far it stays below a limit.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from benchmarks import harness
from sightline.attention import BandedAttention, DenseAttention
from sightline.methods.decomposition.block import AttentionBlock, Norm, measure_contributions

HEADS, HEAD_WIDTH = 12, 64
WIDTH = HEADS * HEAD_WIDTH
BAND_SECONDS, BAND_MEGABYTES, DENSE_MEGABYTES = 4.0, 600.0, 1000.0
"""Limits: a layer of the band of 4,096 tokens; a dense layer of 512 tokens."""


def block(attention: DenseAttention | BandedAttention) -> AttentionBlock:
    """Return a post-LN block with random parts around the given attention."""
    n = attention.tokens
    return AttentionBlock(
        attention=attention,
        values=torch.randn(n, HEADS, HEAD_WIDTH),
        output_weight=torch.randn(WIDTH, WIDTH) / WIDTH**0.5,
        inputs=torch.randn(n, WIDTH),
        output_bias=torch.randn(WIDTH),
        norm=Norm(torch.rand(WIDTH) + 0.5, torch.randn(WIDTH), 1e-5),
        global_values=torch.randn(n, HEADS, HEAD_WIDTH) if isinstance(attention, BandedAttention) else None,
    )


def dense_block(n: int) -> AttentionBlock:
    """A layer in which every token attends to every token."""
    torch.manual_seed(0)
    return block(DenseAttention(torch.randn(HEADS, n, n).softmax(-1)))


def band_block(n: int, window: int) -> AttentionBlock:
    """A Longformer layer: `window` tokens to each side and token 0, which attends to all."""
    torch.manual_seed(0)
    keys = torch.arange(n)[:, None] - window + torch.arange(2 * window + 1)
    local = torch.rand(HEADS, n, 2 * window + 2)
    local[:, :, 1:] *= (keys > 0) & (keys < n)
    local[:, 0] = 0
    local[:, 1:] /= local[:, 1:].sum(-1, keepdim=True)
    return block(BandedAttention(local, torch.randn(HEADS, 1, n).softmax(-1), [0]))


def in_double(parts: AttentionBlock) -> AttentionBlock:
    """Return the same block in float64; it follows the precision of its attention."""
    assert isinstance(parts.attention, DenseAttention)
    return replace(parts, attention=DenseAttention(parts.attention.weights.double()))


def materialised(parts: AttentionBlock) -> Tensor:
    """ALTI with p = 1 by its definition, all vectors at once, (n, n)."""
    assert isinstance(parts.attention, DenseAttention)
    assert parts.norm is not None
    n = parts.attention.tokens
    projection = parts.output_weight.view(WIDTH, HEADS, HEAD_WIDTH)
    projected = torch.einsum("nhe,dhe->hnd", parts.values, projection)
    vectors = torch.einsum("hij,hjd->hijd", parts.attention.weights, projected).sum(0)
    vectors += torch.einsum("ij,id->ijd", torch.eye(n), parts.inputs)
    received = vectors.sum(1) + parts.output_bias
    linear = (torch.eye(WIDTH) - 1 / WIDTH) * parts.norm.weight
    vectors = vectors @ linear / parts.norm.deviation(received).unsqueeze(1)
    output = torch.nn.functional.layer_norm(
        received, (WIDTH,), parts.norm.weight, parts.norm.bias, eps=parts.norm.eps
    ).unsqueeze(1)
    gains = (output.abs().sum(-1) - (vectors - output).abs().sum(-1)).clamp_min(0)
    return gains / gains.sum(-1, keepdim=True)


def prepare_dense(tokens: int) -> harness.Work:
    """Return the streamed form, for measuring memory."""
    parts = dense_block(tokens)
    return lambda: measure_contributions(parts)


def prepare_materialised(tokens: int) -> harness.Work:
    """Return the materialised form, for measuring memory."""
    parts = dense_block(tokens)
    return lambda: materialised(parts)


def prepare_band(tokens: int, window: int) -> harness.Work:
    """Return the band form, for measuring memory."""
    parts = band_block(tokens, window)
    return lambda: measure_contributions(parts)


def main() -> None:
    """Run the comparison."""
    report = harness.start("alti", __doc__)
    few, many, long, window = (64, 128, 512, 64) if report.quick else (256, 512, 4096, 256)

    parts = dense_block(few)
    exact = measure_contributions(in_double(parts)).attention.dense()[0]
    ours_error = abs(measure_contributions(parts).attention.dense()[0] - exact).max()
    their_error = abs(materialised(parts).numpy() - exact).max()
    report.fact("largest float32 error", {"ours": float(ours_error), "materialised": float(their_error)})
    report.compare(
        f"dense {few}, time",
        ours=lambda: measure_contributions(parts),
        reference=lambda: materialised(parts),
        target=None if report.quick else 25,
        reference_repeats=3,
    )
    ours = report.memory(f"dense {few}", "benchmarks.alti:prepare_dense", tokens=few)
    theirs = report.memory(f"dense {few}, materialised", "benchmarks.alti:prepare_materialised", tokens=few)
    report.ratio(f"dense {few}, memory", theirs, ours, None if report.quick else 15)
    ours = report.memory(f"dense {many}", "benchmarks.alti:prepare_dense", tokens=many)
    report.ratio(f"dense {many}, memory limit", DENSE_MEGABYTES, ours, target=1)

    parts = band_block(long, window)
    variants = {
        "p=1": lambda: measure_contributions(parts),
        "p=2": lambda: measure_contributions(parts, p=2),
        "norm": lambda: measure_contributions(parts, kind="norm"),
    }
    seconds = {name: harness.median_seconds(variant, repeats=3) for name, variant in variants.items()}
    report.fact(f"band {long}, CPU seconds a layer", {name: round(value, 3) for name, value in seconds.items()})
    report.ratio(f"band {long}, time limit", BAND_SECONDS, seconds["p=1"], target=1)
    ours = report.memory(f"band {long}", "benchmarks.alti:prepare_band", tokens=long, window=window)
    report.ratio(f"band {long}, memory limit", BAND_MEGABYTES, ours, target=1)
    report.finish()


if __name__ == "__main__":
    main()
