"""The inside of an imaginary model: known attention over a real encoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.analysis.internals import inside
from sightline.attention import BandedAttention, DenseAttention
from sightline.attention.protocol import TopK
from sightline.results.inside import Inside, Relations
from sightline.text import Encoding


@dataclass
class KnownAttention:
    """Attention (L, H, n, n) in the form that the analysis reads."""

    encoding: Encoding
    weights: np.ndarray

    @property
    def layer_count(self) -> int:
        return self.weights.shape[0]

    @property
    def head_count(self) -> int:
        return self.weights.shape[1]

    @property
    def attentions(self) -> list[DenseAttention]:
        return [DenseAttention(layer) for layer in self.weights]

    @property
    def received(self) -> np.ndarray:
        return self.weights.sum(axis=2)


def known_attention(encoded: Encoding, layers: int = 2, heads: int = 3, seed: int = 0) -> KnownAttention:
    """Return random attention whose rows sum to one."""
    n = len(encoded)
    weights = np.random.default_rng(seed).exponential(size=(layers, heads, n, n)) ** 2
    return KnownAttention(encoded, weights / weights.sum(axis=-1, keepdims=True))


def sample_inside(encoded: Encoding, **options) -> Inside:
    """Return relations, maps and totals of random attention, with head importance."""
    attention = known_attention(encoded)
    importance = np.arange(1.0, 1 + attention.layer_count * attention.head_count).reshape(
        attention.layer_count, attention.head_count
    )
    return inside(attention, **{"k": 3, "thumbnail": 8, "image": 16, "importance": importance, **options})


@dataclass
class KnownBands:
    """Banded attention, one band per layer, in the form that the analysis reads."""

    encoding: Encoding
    attentions: list[BandedAttention]

    @property
    def layer_count(self) -> int:
        return len(self.attentions)

    @property
    def head_count(self) -> int:
        return self.attentions[0].heads


def banded_inside(encoded: Encoding, window: int = 4, layers: int = 2, heads: int = 3, **options) -> Inside:
    """Return the inside of a long document whose heads each attend to one distance: head h to 2h - 2 tokens away."""
    n = len(encoded)
    local = np.full((heads, n, 2 * window + 1), 0.01)
    for head in range(heads):
        local[head, :, window + 2 * head - 2] = 0.9
    outside = np.arange(n)[:, None] + np.arange(-window, window + 1)
    local[:, (outside < 0) | (outside >= n)] = 0.0
    bands = [BandedAttention(local, np.zeros((heads, 0, n)), np.zeros(0, dtype=np.int64)) for _ in range(layers)]
    importance = np.arange(1.0, 1 + layers * heads).reshape(layers, heads)
    return inside(
        KnownBands(encoded, bands), **{"k": 3, "thumbnail": 8, "image": 16, "importance": importance} | options
    )


def long_inside(n: int, layers: int = 6, heads: int = 12, image: int = 256, seed: int = 0) -> Inside:
    """Return an inside as large as that of a long document: partners in a window, weights of all sizes."""
    generator = np.random.default_rng(seed)

    def lists(k: int) -> TopK:
        near = np.arange(n)[:, None] + generator.integers(-64, 65, (n, k))
        values = np.sort(generator.exponential(size=(n, k)), axis=1)[:, ::-1] / 50
        return TopK(values, np.clip(near, 0, n - 1))

    def maps(size: int) -> np.ndarray:
        place = np.arange(size)
        near = np.abs(place[:, None] - place) <= size // 32 + 1
        return (generator.random((layers, heads, size, size)) * near).astype(np.float32)

    relations = {"all": Relations(lists(8), lists(8))}
    relations |= {f"layer-{layer}": Relations(lists(6), lists(6)) for layer in range(layers)}
    return Inside(
        tokens=n,
        layers=layers,
        heads=heads,
        k=8,
        relations=relations,
        received=generator.exponential(size=(layers, heads, n)).astype(np.float32),
        thumbnails=maps(48),
        images=maps(image),
    )
