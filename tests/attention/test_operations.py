"""Every operation on a band, and on full matrices, equals the plain numpy form on the full matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.attention import Attention, DenseAttention, StreamedAttention
from tests.attention.bands import Band, bands, make_band

TOLERANCE = {np.float64: 1e-12, np.float32: 1e-6}
PRECISIONS = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def assert_close(actual: np.ndarray, expected: np.ndarray, dtype: type) -> None:
    """Equal to rounding, measured against the largest number (at least 1)."""
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max(initial=0) <= TOLERANCE[dtype] * max(1.0, np.abs(expected).max(initial=0))


def pooled(matrices: np.ndarray, size: int, pool: str) -> np.ndarray:
    """The picture, one pixel at a time."""
    heads, n, _ = matrices.shape
    s = min(size, n)
    pixel = np.array([i * s // n for i in range(n)])
    out = np.empty((heads, s, s))
    for a in range(s):
        for b in range(s):
            block = matrices[:, pixel == a][:, :, pixel == b]
            out[:, a, b] = block.mean((1, 2)) if pool == "mean" else block.max((1, 2))
    return out


def stream(matrices: np.ndarray) -> StreamedAttention:
    """Rows cut out of full matrices when they are asked for."""
    weights = torch.from_numpy(matrices)
    heads, n, _ = matrices.shape
    return StreamedAttention(lambda some, start, stop: weights[some, start:stop], heads, n, weights.dtype)


class Case:
    """One random band with arguments for every operation."""

    def __init__(self, band: Band) -> None:
        heads, n = band.local.shape[:2]
        rng = band.rng
        self.i, self.h = int(rng.integers(n)), int(rng.integers(heads))
        self.v, self.per_head = rng.normal(size=n) / n, rng.normal(size=(heads, n)) / n
        self.columns, self.columns_per_head = rng.normal(size=(n, 7)) / n, rng.normal(size=(heads, n, 3)) / n
        self.weights = rng.uniform(0.1, 1, size=heads)
        self.size = int(rng.integers(1, 12))


OPERATIONS = {
    "row": (lambda a, c: a.row(c.i), lambda A, c: A[:, c.i]),
    "column": (lambda a, c: a.column(c.i), lambda A, c: A[:, :, c.i]),
    "received": (lambda a, c: a.received(), lambda A, c: A.sum(1)),
    "left": (lambda a, c: a.left(c.v), lambda A, c: c.v @ A),
    "left, a vector per head": (lambda a, c: a.left(c.per_head), lambda A, c: np.einsum("hi,hij->hj", c.per_head, A)),
    "right": (lambda a, c: a.right(c.v), lambda A, c: A @ c.v),
    "right, a vector per head": (lambda a, c: a.right(c.per_head), lambda A, c: np.einsum("hij,hj->hi", A, c.per_head)),
    "right, columns": (lambda a, c: a.right(c.columns[None].repeat(a.heads, 0)), lambda A, c: A @ c.columns),
    "right, columns per head": (lambda a, c: a.right(c.columns_per_head), lambda A, c: A @ c.columns_per_head),
    "head": (lambda a, c: a.head(c.h).dense(), lambda A, c: A[c.h : c.h + 1]),
    "mean": (lambda a, c: a.mean().dense(), lambda A, c: A.mean(0, keepdims=True)),
    "weighted mean": (
        lambda a, c: a.mean(c.weights).dense(),
        lambda A, c: np.average(A, axis=0, weights=c.weights)[None],
    ),
    "max": (lambda a, c: a.max().dense(), lambda A, c: A.max(0, keepdims=True)),
    "min": (lambda a, c: a.min().dense(), lambda A, c: A.min(0, keepdims=True)),
    "relu": (lambda a, c: a.relu().dense(), lambda A, c: np.maximum(A, 0)),
    "abs": (lambda a, c: a.abs().dense(), lambda A, c: np.abs(A)),
    "multiply": (lambda a, c: a.multiply(a.relu()).dense(), lambda A, c: A * np.maximum(A, 0)),
    "mean image": (lambda a, c: a.image(c.size), lambda A, c: pooled(A, c.size, "mean")),
    "max image": (lambda a, c: a.image(c.size, pool="max"), lambda A, c: pooled(A, c.size, "max")),
    "np.asarray": (lambda a, c: np.asarray(a), lambda A, c: A),
}


@PRECISIONS
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_dense_puts_every_slot_in_its_cell(dtype: type, data: st.DataObject) -> None:
    band = data.draw(bands(dtype, largest=60))
    dense = band.attention.dense()
    assert dense.dtype == dtype
    assert np.array_equal(dense, band.slow_dense())


@PRECISIONS
@pytest.mark.parametrize("layout", ["banded", "dense", "streamed"])
@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_every_operation_equals_numpy_on_the_full_matrices(layout: str, dtype: type, data: st.DataObject) -> None:
    band = data.draw(bands(dtype))
    case = Case(band)
    full = band.attention.dense()
    layouts = {
        "banded": lambda: band.attention,
        "dense": lambda: DenseAttention(full),
        "streamed": lambda: stream(full),
    }
    attention: Attention = layouts[layout]()
    for name, (operation, reference) in OPERATIONS.items():
        try:
            assert_close(operation(attention, case), reference(full.astype(np.float64), case), dtype)
        except Exception as error:
            raise AssertionError(f"operation '{name}'") from error


def test_long_sums_keep_single_precision() -> None:
    band = make_band(np.random.default_rng(0), n=3001, window=100, global_tokens=(0, 17), dtype=np.float32)
    attention, full = band.attention, band.attention.dense().astype(np.float64)
    v = band.rng.random(3001)
    assert_close(attention.received(), full.sum(1), np.float32)
    assert_close(attention.left(v), v @ full, np.float32)
    assert_close(attention.right(v), full @ v, np.float32)
    assert_close(attention.right(v[:, None].repeat(3, 1))[:, :, 1], full @ v, np.float32)
    assert_close(attention.image(7), pooled(full, 7, "mean"), np.float32)


@pytest.mark.parametrize("columns", [1, 2, 64])
def test_right_takes_a_matrix_of_columns(columns: int) -> None:
    rng = np.random.default_rng(0)
    weights, matrix = rng.normal(size=(3, 5, 5)), rng.normal(size=(5, columns))
    assert_close(DenseAttention(weights).right(matrix), weights @ matrix, np.float64)


def test_an_array_that_fits_both_readings_is_one_vector_a_head() -> None:
    rng = np.random.default_rng(0)
    weights, square = rng.normal(size=(4, 4, 4)), rng.normal(size=(4, 4))
    attention = DenseAttention(weights)
    assert_close(attention.right(square), np.einsum("hij,hj->hi", weights, square), np.float64)
    assert_close(attention.right(square[None].repeat(4, 0)), weights @ square, np.float64)


def test_mean_weights_may_be_negative_and_need_no_norm() -> None:
    weights = np.random.default_rng(0).normal(size=(3, 4, 4))
    expected = (5 * weights[0] - weights[2]) / 4
    assert_close(DenseAttention(weights).mean([5, 0, -1]).dense()[0], expected, np.float64)


@settings(deadline=None, max_examples=60)
@given(band=bands(largest=40))
def test_a_row_may_attend_its_window_and_the_global_tokens(band: Band) -> None:
    attention, n = band.attention, band.local.shape[1]
    for i in range(n):
        assert attention.allowed(i).tolist() == [band.may_attend(i, j) for j in range(n)]


def test_results_own_their_memory() -> None:
    weights = np.random.default_rng(0).normal(size=(2, 5, 5))
    attention = DenseAttention(weights)
    before = attention.dense()
    for result in (attention.row(1), attention.column(1), attention.dense(), attention.received()):
        result[:] = 7
    assert np.array_equal(attention.dense(), before)
