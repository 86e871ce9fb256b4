"""Random bands in the slot layout, and the slow construction of their full matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from sightline.attention import BandedAttention


@dataclass(frozen=True)
class Band:
    """The arrays of a BandedAttention, and a generator for whatever else a test needs."""

    local: np.ndarray
    global_rows: np.ndarray
    global_tokens: np.ndarray
    rng: np.random.Generator
    block_size: int | None = None

    @property
    def attention(self) -> BandedAttention:
        return BandedAttention(self.local, self.global_rows, self.global_tokens, self.block_size)

    @cached_property
    def global_set(self) -> frozenset[int]:
        return frozenset(self.global_tokens.tolist())

    @property
    def window(self) -> int:
        return (self.local.shape[2] - len(self.global_tokens)) // 2

    def may_attend(self, i: int, j: int) -> bool:
        """The rule of the layout in words: near each other, or one of the two is global."""
        near = abs(i - j) <= self.window and (
            self.block_size is None or abs(i // self.block_size - j // self.block_size) <= 1
        )
        return near or i in self.global_set or j in self.global_set

    def slow_dense(self) -> np.ndarray:
        """The full matrices, one cell at a time from the slots."""
        heads, n, _ = self.local.shape
        place = {int(token): g for g, token in enumerate(self.global_tokens)}
        out = np.zeros((heads, n, n), self.local.dtype)
        for i in range(n):
            for j in range(n):
                if i in place:
                    out[:, i, j] = self.global_rows[:, place[i], j]
                elif j in place:
                    out[:, i, j] = self.local[:, i, place[j]]
                elif abs(i - j) <= self.window:
                    out[:, i, j] = self.local[:, i, len(place) + j - i + self.window]
        return out


def make_band(
    rng: np.random.Generator,
    heads: int = 2,
    n: int = 20,
    window: int = 3,
    global_tokens: tuple[int, ...] = (0,),
    values: str = "weights",
    dtype: type = np.float64,
    block_size: int | None = None,
) -> Band:
    """Random values of one kind in every place that holds a weight, 0 in all others.

    weights: positive, rows sum to 1, as attention; signed: as gradients; negative: all below the zeros around them;
    ties: few different numbers.
    """
    positions = np.array(global_tokens, dtype=np.int64)
    count = len(positions)
    draw = {
        "weights": lambda shape: rng.exponential(size=shape) ** 2,
        "signed": lambda shape: rng.normal(size=shape),
        "negative": lambda shape: -rng.exponential(size=shape),
        "ties": lambda shape: rng.integers(-1, 2, size=shape) / 4.0,
    }[values]
    local, rows = draw((heads, n, count + 2 * window + 1)), draw((heads, count, n))
    keys = np.arange(n)[:, None] - window + np.arange(2 * window + 1)
    outside = (keys < 0) | (keys >= n) | np.isin(keys, positions)
    if block_size is not None:
        outside |= np.abs(keys // block_size - np.arange(n)[:, None] // block_size) > 1
    local[:, :, count:][:, outside] = 0
    local[:, positions] = 0
    if values == "weights":
        local /= np.maximum(local.sum(-1, keepdims=True), 1e-300)
        rows /= rows.sum(-1, keepdims=True)
    return Band(local.astype(dtype), rows.astype(dtype), positions, rng, block_size)


@st.composite
def bands(draw: st.DrawFn, dtype: type = np.float64, largest: int = 100) -> Band:
    """Any window (wider than the text or ending at blocks, too), any global tokens in any order, any length from 1."""
    n = draw(st.integers(1, largest))
    window = draw(st.integers(0, 40))
    positions = st.integers(0, n - 1)
    global_tokens = draw(
        st.one_of(st.just([]), st.just(list(range(n))), st.lists(positions, unique=True, max_size=min(n, 5)))
    )
    return make_band(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        heads=draw(st.integers(1, 3)),
        n=n,
        window=window,
        global_tokens=tuple(global_tokens),
        values=draw(st.sampled_from(["weights", "signed", "negative", "ties"])),
        dtype=dtype,
        block_size=draw(st.one_of(st.none(), st.integers(1, 20))),
    )
