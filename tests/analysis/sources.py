"""Attention with known weights over a document with known words, for tests of everything that looks inside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.attention import Attention, DenseAttention
from sightline.text import Encoding
from tests.attention.bands import make_band
from tests.sample_explanations import encoding


@dataclass
class Source:
    """An AttentionSource made of layers that a test chose."""

    encoding: Encoding
    attentions: list[Attention]

    @property
    def layer_count(self) -> int:
        return len(self.attentions)

    @property
    def head_count(self) -> int:
        return self.attentions[0].heads

    @cached_property
    def received(self) -> np.ndarray:
        return np.stack([layer.received() for layer in self.attentions])

    @cached_property
    def matrices(self) -> np.ndarray:
        """(L, H, n, n), for brute force."""
        return np.stack([layer.dense() for layer in self.attentions])

    def dense(self) -> Source:
        """The same weights on full matrices, with the same allowed positions."""
        layers = []
        for layer in self.attentions:
            allowed = np.stack([layer.allowed(i) for i in range(layer.tokens)])
            layers.append(DenseAttention(layer.dense(), allowed))
        return Source(self.encoding, layers)


def banded_source(text: str | None = None, layers: int = 3, heads: int = 2, window: int = 3, seed: int = 0) -> Source:
    """Random bands over a real document, first token global."""
    document = encoding() if text is None else encoding(text)
    rng = np.random.default_rng(seed)
    n = len(document)
    return Source(document, [make_band(rng, heads, n, window, (0,)).attention for _ in range(layers)])
