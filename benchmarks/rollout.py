"""Rollout of one row over 12 layers, against multiplying the full matrices.

Shape: 4,096 tokens, a window of 512, one global token; the head means of 12 layers, rows sum to 1. With Â = (Ā + I)/2
the row r of Â^L … Â^1 is a vector carried down from the top, v ← (v·Ā + v)/2, one pass over each band (Abnar and
Zuidema, 2020). The full form multiplies the matrices, ready made, residual included. It runs in full: 11 products of
n×n matrices, about half a minute on one core.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from benchmarks import harness
from benchmarks.attention import random_layer
from sightline.attention import BandedAttention

READOUT = 0


def make_layers(tokens: int, window: int, count: int) -> list[BandedAttention]:
    """Head means of `count` layers, bottom first."""
    return [random_layer(tokens, heads=1, window=window, seed=layer) for layer in range(count)]


def row_rollout(layers: Sequence[BandedAttention]) -> np.ndarray:
    """Row READOUT of Â^L … Â^1, from the top down, (n,)."""
    row = np.zeros(layers[0].tokens, dtype=np.float32)
    row[READOUT] = 1
    for layer in reversed(layers):
        row = (layer.left(row)[0] + row) / 2
    return row


def residual_matrix(layer: BandedAttention) -> torch.Tensor:
    """Â = (Ā + I)/2, (n, n)."""
    matrix = torch.from_numpy(layer.dense()[0])
    matrix.diagonal().add_(1)
    return matrix.div_(2)


def full_rollout(matrices: Iterable[torch.Tensor]) -> torch.Tensor:
    """Â^L … Â^1, (n, n)."""
    return functools.reduce(lambda below, matrix: matrix @ below, matrices)


def prepare_rows(**shape: int) -> harness.Work:
    """For the measurement of memory."""
    row_rollout(make_layers(tokens=64, window=4, count=1))
    layers = make_layers(**shape)
    return lambda: row_rollout(layers)


def prepare_matrices(**shape: int) -> harness.Work:
    """For the measurement of memory: every matrix is made when its turn comes, as anyone short of memory would."""
    layers = make_layers(**shape)
    return lambda: full_rollout(residual_matrix(layer) for layer in layers)


def main() -> None:
    """Compare, check that both forms agree, report."""
    report = harness.start("rollout", __doc__)
    shape = {"tokens": 512, "window": 64, "count": 4} if report.quick else {"tokens": 4096, "window": 512, "count": 12}
    report.fact("shape", shape)
    layers = make_layers(**shape)
    matrices = [residual_matrix(layer) for layer in layers]
    products: list[torch.Tensor] = []
    report.compare(
        "rollout",
        ours=lambda: row_rollout(layers),
        reference=lambda: products.append(full_rollout(matrices)),
        target=500,
        repeats=15,
    )
    report.fact("largest difference", float(np.abs(row_rollout(layers) - products[0][READOUT].numpy()).max()))
    # from the third layer on the products need the same memory again and again
    report.memory("rows", "benchmarks.rollout:prepare_rows", **shape)
    report.memory("full matrices", "benchmarks.rollout:prepare_matrices", **(shape | {"count": 3}))
    report.finish()


if __name__ == "__main__":
    main()
