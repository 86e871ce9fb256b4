"""Word vectors to start from: latent semantic analysis of the training packages, no label used.

A network that starts from random word vectors learns only the words it happens to see in the few thousand chunks of its
training. Word pieces that occur in the same chunks should be alike from the start (Deerwester et al. 1990, Indexing by
latent semantic analysis): with X[c, w] = log(1 + count of piece w in chunk c) · idf(w), rows of length 1, the
truncated X ≈ U Σ Vᵀ gives piece w the vector (V √Σ)[w], here scaled to the spread a random start would have.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import svds


def chunk_counts(
    streams: Sequence[tuple[str, Sequence[int]]], vocabulary_size: int, chunk: int, seed: int
) -> csr_matrix:
    """Return counts (chunks, pieces) of streams given as (side, ids), with equally many chunks of every side."""
    sides: dict[str, list[Sequence[int]]] = {}
    for side, ids in streams:
        sides.setdefault(side, []).extend(ids[start : start + chunk] for start in range(0, len(ids), chunk))
    size = min(map(len, sides.values()))
    chosen = [ids for side in sides for ids in random.Random(seed).sample(sides[side], size)]
    rows = np.repeat(np.arange(len(chosen)), [len(ids) for ids in chosen])
    columns = np.concatenate([np.asarray(ids) for ids in chosen])
    counts = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(chosen), vocabulary_size))
    counts.sum_duplicates()
    return counts


def latent_vectors(counts: csr_matrix, width: int, spread: float, seed: int) -> torch.Tensor:
    """Return vectors (pieces, width) of standard deviation `spread`; pieces never counted get random ones."""
    present = np.asarray((counts > 0).sum(0)).ravel()
    inverse_frequency = np.log((1 + counts.shape[0]) / (1 + present))
    weighted = counts.copy()
    weighted.data = np.log1p(weighted.data)
    weighted = weighted @ diags(inverse_frequency)
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(1)).ravel())
    weighted = diags(1 / np.maximum(lengths, 1e-12)) @ weighted
    generator = np.random.default_rng(seed)
    start = generator.standard_normal(min(weighted.shape))
    _, strength, directions = svds(weighted, k=width, v0=start)
    vectors = directions.T * np.sqrt(strength)
    # Every piece to the same length: a frequent piece is not a more important one. LayerNorm would do the same.
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unseen = norms[:, 0] < 1e-9
    vectors[unseen] = generator.standard_normal((int(unseen.sum()), width))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return torch.tensor(vectors * spread * np.sqrt(width), dtype=torch.float32)
