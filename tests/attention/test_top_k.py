"""Top k: exact, stable on ties, restricted to the positions a token may attend to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.attention import DenseAttention, TopK
from tests.attention.bands import Band, bands, make_band


def brute_force(matrices: np.ndarray, allowed: np.ndarray, k: int) -> TopK:
    """For every row: the allowed columns sorted by falling weight (stable), the first k of them."""
    heads, n, _ = matrices.shape
    values, indices = np.zeros((heads, n, k), matrices.dtype), np.full((heads, n, k), -1)
    for h in range(heads):
        for i in range(n):
            columns = np.flatnonzero(allowed[i])
            best = columns[np.argsort(-matrices[h, i, columns], kind="stable")][:k]
            values[h, i, : len(best)], indices[h, i, : len(best)] = matrices[h, i, best], best
    return TopK(values, indices)


def assert_same(actual: TopK, expected: TopK) -> None:
    assert np.array_equal(actual.indices, expected.indices)
    assert np.array_equal(actual.values, expected.values)
    assert actual.values.dtype == expected.values.dtype
    assert actual.indices.dtype == np.int64


def reach(band: Band) -> np.ndarray:
    n = band.local.shape[1]
    return np.array([[band.may_attend(i, j) for j in range(n)] for i in range(n)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@settings(deadline=None, max_examples=120)
@given(data=st.data(), k=st.integers(1, 12))
def test_a_band_gives_the_same_as_sorting_the_allowed_cells(dtype: type, data: st.DataObject, k: int) -> None:
    band = data.draw(bands(dtype, largest=50))
    attention, full, allowed = band.attention, band.attention.dense(), reach(band)
    assert_same(attention.top_attended(k), brute_force(full, allowed, k))
    assert_same(attention.top_attending(k), brute_force(full.swapaxes(1, 2), allowed.T, k))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), k=st.integers(1, 12), masked=st.booleans())
def test_full_matrices_give_the_same_as_sorting(dtype: type, seed: int, n: int, k: int, masked: bool) -> None:
    rng = np.random.default_rng(seed)
    allowed = rng.random((n, n)) < 0.5 if masked else np.ones((n, n), dtype=bool)
    weights = (rng.integers(-3, 4, size=(2, n, n)) / 8 * allowed).astype(dtype)
    attention = DenseAttention(weights, allowed if masked else None)
    assert_same(attention.top_attended(k), brute_force(weights, allowed, k))
    assert_same(attention.top_attending(k), brute_force(weights.swapaxes(1, 2), allowed.T, k))


def test_negative_weights_are_not_displaced_by_the_zeros_around_a_band() -> None:
    negative = make_band(np.random.default_rng(0), n=12, window=1, global_tokens=(), values="negative").attention
    for top in (negative.top_attended(3), negative.top_attending(3)):
        assert sorted(top.indices[0, 5]) == [4, 5, 6]
        assert (top.values[0, 5] < 0).all()


def test_places_without_a_partner_hold_position_minus_one_and_weight_zero() -> None:
    top = DenseAttention(np.full((1, 2, 2), 0.5)).top_attended(4)
    assert top.indices.tolist() == [[[0, 1, -1, -1], [0, 1, -1, -1]]]
    assert top.values.tolist() == [[[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]]]


def test_a_causal_layer_never_points_to_the_future() -> None:
    n = 6
    causal = np.tril(np.ones((n, n), dtype=bool))
    attention = DenseAttention(causal / causal.sum(1, keepdims=True), causal)
    attended, attending = attention.top_attended(n).indices[0], attention.top_attending(n).indices[0]
    for i in range(n):
        assert sorted(attended[i]) == [-1] * (n - 1 - i) + list(range(i + 1))
        assert sorted(attending[i]) == [-1] * i + list(range(i, n))


def test_the_allowed_positions_survive_every_reduction() -> None:
    causal = np.tril(np.ones((3, 3), dtype=bool))
    attention = DenseAttention(np.stack([causal * -1.0, causal * -2.0]), causal)
    for reduced in (
        attention.head(1),
        attention.mean(),
        attention.max(),
        attention.min(),
        attention.multiply(attention),
    ):
        assert reduced.top_attended(2).indices[0].tolist() == [[0, -1], [0, 1], [0, 1]]
