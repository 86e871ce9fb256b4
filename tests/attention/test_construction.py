"""What an Attention accepts, what it refuses and in which words, and how much memory it takes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from sightline.attention import Attention, BandedAttention, DenseAttention
from sightline.attention.compiled import compiled
from sightline.errors import InputError, OptionError, SizeError
from tests.attention.bands import make_band


@pytest.fixture
def band() -> BandedAttention:
    return make_band(np.random.default_rng(0), heads=2, n=10, window=2, global_tokens=(4, 0)).attention


@pytest.fixture
def dense() -> DenseAttention:
    return DenseAttention(np.random.default_rng(0).random((2, 10, 10)))


def test_both_layouts_follow_the_protocol(band: BandedAttention, dense: DenseAttention) -> None:
    for attention in (band, dense):
        assert isinstance(attention, Attention)
        assert (attention.heads, attention.tokens, attention.dtype) == (2, 10, np.float64)


def test_repr_says_layout_and_size(band: BandedAttention, dense: DenseAttention) -> None:
    assert repr(dense) == "DenseAttention(heads=2, tokens=10, float64)"
    assert repr(band) == "BandedAttention(heads=2, tokens=10, window=2, global_tokens=[4, 0], float64)"
    everywhere = make_band(np.random.default_rng(0), n=30, global_tokens=tuple(range(30))).attention
    assert "[0, 1, 2, 3, 4, 5, 6, 7, … 30 in all]" in repr(everywhere)


def test_nbytes_counts_what_is_stored(band: BandedAttention, dense: DenseAttention) -> None:
    assert dense.nbytes == 2 * 10 * 10 * 8
    assert band.nbytes == (2 * 10 * (2 + 5) + 2 * 2 * 10) * 8


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.float32, np.float32),
        (torch.float64, np.float64),
        (torch.float16, np.float32),
        (torch.bfloat16, np.float32),
        (torch.int64, np.float64),
    ],
)
def test_float32_and_float64_are_kept_and_others_widened(given: torch.dtype, kept: type) -> None:
    attention = DenseAttention(torch.ones(1, 3, 3, dtype=given))
    assert attention.dtype == kept
    assert attention.received().dtype == attention.left(np.ones(3)).dtype == attention.image(2).dtype == kept


def test_torch_weights_are_detached_and_memory_is_shared() -> None:
    weights = torch.rand(2, 3, 3, requires_grad=True)
    attention = DenseAttention(weights)
    assert not attention.weights.requires_grad
    assert attention.weights.data_ptr() == weights.data_ptr()
    assert attention.head(1).weights.data_ptr() == weights[1].data_ptr()


def test_read_only_and_reversed_numpy_arrays_are_accepted() -> None:
    weights = np.arange(9.0).reshape(3, 3)
    weights.flags.writeable = False
    assert np.array_equal(DenseAttention(weights).dense()[0], weights)
    assert np.array_equal(DenseAttention(weights[::-1]).dense()[0], weights[::-1])


def test_two_dimensions_are_one_head() -> None:
    assert DenseAttention(np.eye(3)).heads == 1


@pytest.mark.parametrize(
    ("weights", "allowed", "message"),
    [
        (np.ones((2, 3, 4)), None, r"\(heads, n, n\).*\(2, 3, 4\)"),
        (np.ones(3), None, r"\(heads, n, n\)"),
        (np.ones((0, 3, 3)), None, "none of them 0"),
        (np.ones((1, 0, 0)), None, "none of them 0"),
        (np.full((1, 2, 2), np.nan), None, "NaN"),
        (np.array([[np.inf, -np.inf], [0, 0]]), None, "infinite"),
        (np.array([["a"]]), None, "numbers"),
        (np.ones((1, 2, 2)), np.ones((2, 2)), "booleans"),
        (np.ones((1, 2, 2)), np.ones((3, 3), dtype=bool), r"\(2, 2\)"),
        (np.ones((1, 2, 2)), np.eye(2, dtype=bool), "not 0 lies where `allowed` is False"),
    ],
)
def test_dense_refuses_what_is_not_attention(weights: np.ndarray, allowed: np.ndarray | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DenseAttention(weights, allowed)


def test_finite_weights_whose_sum_overflows_are_accepted() -> None:
    assert DenseAttention(np.full((2, 2), 3e38, dtype=np.float32)).tokens == 2


def spoiled(heads: int = 1, n: int = 8, window: int = 2, **changes: object) -> dict[str, object]:
    """The arrays of a valid band of zeros, with changes."""
    arrays = {
        "local": np.zeros((heads, n, 1 + 2 * window + 1)),
        "global_rows": np.zeros((heads, 1, n)),
        "global_tokens": [3],
    }
    return arrays | changes


def with_weight_at(row: int, slot: int) -> np.ndarray:
    local = np.zeros((1, 8, 6))
    local[0, row, slot] = 0.1
    return local


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (spoiled(local=np.zeros((8, 6))), r"\(heads, n, G\+2w\+1\)"),
        (spoiled(local=np.zeros((1, 8, 7))), "odd number of window slots"),
        (spoiled(local=np.zeros((1, 8, 1))), "odd number of window slots"),
        (spoiled(global_rows=np.zeros((1, 2, 8))), r"\(1, 1, 8\), not \(1, 2, 8\)"),
        (spoiled(global_tokens=[8]), "outside the 8 tokens"),
        (spoiled(global_tokens=[-1]), "outside the 8 tokens"),
        (spoiled(global_tokens=[3, 3]), "twice"),
        (spoiled(global_tokens=[0.5]), "positions"),
        (spoiled(global_tokens=3), "positions"),
        (spoiled(local=np.full((1, 8, 6), np.nan)), "NaN"),
        (spoiled(global_rows=np.full((1, 1, 8), np.inf)), "infinite"),
        (spoiled(local=with_weight_at(0, 1)), "before the first"),
        (spoiled(local=with_weight_at(1, 1)), "before the first"),
        (spoiled(local=with_weight_at(7, 4)), "after the last"),
        (spoiled(local=with_weight_at(6, 5)), "after the last"),
        (spoiled(local=with_weight_at(4, 2)), "Window slots of global keys"),
        (spoiled(local=with_weight_at(3, 0)), "Rows of global tokens"),
        (spoiled(local=with_weight_at(3, 2)), "Rows of global tokens"),
    ],
)
def test_banded_refuses_arrays_that_break_the_layout(arrays: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BandedAttention(**arrays)


@pytest.mark.parametrize(("row", "slot"), [(0, 3), (0, 5), (1, 2), (7, 3), (7, 1), (6, 4), (4, 0), (0, 0)])
def test_banded_accepts_a_weight_in_every_other_place(row: int, slot: int) -> None:
    assert BandedAttention(**spoiled(local=with_weight_at(row, slot))).received().sum() == pytest.approx(0.1)


@pytest.mark.parametrize("layout", ["band", "dense"])
@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda a: a.row(10), OptionError, r"Row 10 asked for, the document has 10 \(0-9\)"),
        (lambda a: a.row(-1), OptionError, "Row -1"),
        (lambda a: a.row(1.5), OptionError, "whole number"),
        (lambda a: a.column(10), OptionError, "Column 10"),
        (lambda a: a.allowed(10), OptionError, "Row 10"),
        (lambda a: a.head(2), OptionError, r"Head 2 asked for, the layer has 2 \(0-1\)"),
        (lambda a: a.top_attended(0), OptionError, "k must be a whole number of at least 1, not 0"),
        (lambda a: a.top_attending("3"), OptionError, "k must be a whole number"),
        (lambda a: a.image(0), OptionError, "size must be a whole number of at least 1, not 0"),
        (lambda a: a.image(4, pool="sum"), OptionError, "pool='sum' is not known. Use one of: mean, max"),
        (lambda a: a.left(np.ones(9)), InputError, r"\(10,\) or \(2, 10\), not \(9,\)"),
        (lambda a: a.left(np.full(10, np.nan)), InputError, "NaN"),
        (lambda a: a.right(np.ones((9, 3))), InputError, r"not \(9, 3\)"),
        (lambda a: a.right(np.ones((3, 10, 1))), InputError, r"not \(3, 10, 1\)"),
        (lambda a: a.mean([1.0]), InputError, r"\(2,\), not \(1,\)"),
        (lambda a: a.mean([1.0, -1.0]), InputError, "sum to 0"),
        (lambda a: a.multiply(a.mean()), InputError, "same layout"),
        (lambda a: a.dense(limit=1599), SizeError, r"received\(\)"),
    ],
)
def test_a_wrong_question_gets_a_clear_answer(
    request: pytest.FixtureRequest, layout: str, ask: object, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        ask(request.getfixturevalue(layout))


def test_layouts_do_not_mix(band: BandedAttention, dense: DenseAttention) -> None:
    other = make_band(np.random.default_rng(0), heads=2, n=10, window=2, global_tokens=(0, 4)).attention
    for a, b in ((band, dense), (dense, band), (band, other)):
        with pytest.raises(InputError, match="same layout"):
            a.multiply(b)


def test_full_matrices_are_refused_above_two_gigabytes_by_default() -> None:
    long = BandedAttention(np.zeros((2, 20_000, 1)), np.zeros((2, 0, 20_000)), np.zeros(0, dtype=int))
    with pytest.raises(SizeError, match=r"2 heads, 20000 × 20000\) would take 6.4 GB"):
        np.asarray(long)


@pytest.mark.slow
def test_a_band_of_a_hundred_thousand_tokens_answers_every_question_without_its_matrix() -> None:
    n, w = 100_000, 2  # one full matrix would take 40 GB
    local = np.zeros((1, n, 1 + 2 * w + 1), dtype=np.float32)
    local[0, w + 1 : n - w, 1:] = 0.2
    attention = BandedAttention(local, np.full((1, 1, n), 1 / n, dtype=np.float32), [0])
    stored = local.sum(dtype=np.float64) + 1
    assert attention.received().sum(dtype=np.float64) == pytest.approx(stored)
    assert attention.right(np.ones(n)).sum(dtype=np.float64) == pytest.approx(stored)
    assert attention.top_attended(2).indices[0, 500].tolist() == [498, 499]
    assert attention.top_attending(2).indices[0, 500].tolist() == [498, 499]
    assert attention.image(10).mean() * n * n == pytest.approx(stored, rel=1e-5)
    assert attention.multiply(attention).relu().abs().max().row(500).sum() == pytest.approx(0.2)
    assert attention.column(500).sum() == pytest.approx(1, rel=1e-4)


@pytest.mark.slow
def test_numba_is_loaded_only_by_the_operations_that_need_it() -> None:
    program = (
        "import sys, numpy as np; from sightline.attention import DenseAttention; a = DenseAttention(np.eye(3)); "
        "a.received(); assert 'numba' not in sys.modules; a.top_attended(1); assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_kernels_compile_where_nothing_can_be_cached() -> None:
    namespace: dict[str, object] = {}
    exec(compile("def double(x):\n    return 2 * x\n", "/nowhere/kernel.py", "exec"), namespace)
    assert compiled(namespace["double"])(21) == 42
