"""Projections against brute force: the definition solved by a root finder, and Jacobians by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.spatial.distance import jensenshannon

import sightline as sl
from sightline.attention.projections import Projection, bisect_entmax, entmax_gradient
from sightline.errors import InputError, OptionError
from sightline.lab import jensen_shannon, normalised_entropy, total_variation

KINDS = {
    "softmax": {"kind": "softmax"},
    "sparsemax": {"kind": "sparsemax"},
    "sparsegen": {"kind": "sparsegen", "lam": 0.4},
    "sparsegen, negative": {"kind": "sparsegen", "lam": -2.0},
    "sparsegen of exp": {"kind": "sparsegen", "lam": 0.4, "transform": "exp"},
    "sparsegen of squares": {"kind": "sparsegen", "lam": 0.4, "transform": "square"},
    "entmax 1.5": {"kind": "entmax"},
    "entmax 1.2": {"kind": "entmax", "alpha": 1.2},
    "entmax 3": {"kind": "entmax", "alpha": 3.0},
}


def brute_force(z, kind, lam=0.0, alpha=1.5, transform="identity"):
    """One row by its definition: the threshold searched by a root finder of scipy."""
    if kind == "softmax" or (kind == "entmax" and alpha == 1):
        shifted = np.exp(z - z.max())
        return shifted / shifted.sum()
    if kind == "sparsegen":
        z = {"identity": z, "exp": np.exp(z), "square": z**2}[transform] / (1 - lam)
    power = 1 / (alpha - 1) if kind == "entmax" else 1.0
    scaled = z * (alpha - 1) if kind == "entmax" else z

    def weights(threshold):
        return np.maximum(scaled - threshold, 0) ** power

    threshold = brentq(lambda t: weights(t).sum() - 1, scaled.max() - 1.001, scaled.max(), xtol=1e-15)
    return weights(threshold)


rows = st.lists(st.floats(-4, 4), min_size=1, max_size=9)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(z=rows)
def test_weights_solve_the_definition(options, z):
    weights = sl.lab.project(np.array(z), **options)
    np.testing.assert_allclose(weights, brute_force(np.array(z), **options), atol=1e-9)
    assert weights.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_gradients_are_those_of_finite_differences(options):
    # Scores without a tie at the threshold, where the projections have a kink.
    z = torch.tensor([[0.3, 1.1, -0.4, 0.9], [2.0, 0.1, 0.2, 0.35]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: sl.lab.project(x, **options), z)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 1.3])
def test_the_gradient_from_the_weights_is_that_of_autograd(alpha):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, 5, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(3, 5, 7, generator=generator, dtype=torch.float64)
    weights = Projection("entmax", alpha=alpha)(z)
    (expected,) = torch.autograd.grad(weights, z, gradient)
    torch.testing.assert_close(entmax_gradient(weights.detach(), gradient, alpha), expected, rtol=0, atol=1e-14)


def test_the_compiled_kernels_and_bisection_agree_with_the_entmax_package():
    import entmax

    generator = torch.Generator().manual_seed(1)
    for spread in (0.05, 1.0, 20.0):
        z = spread * torch.randn(40, 130, generator=generator, dtype=torch.float64)
        torch.testing.assert_close(sl.lab.project(z, "sparsemax"), entmax.sparsemax(z), rtol=0, atol=1e-12)
        torch.testing.assert_close(sl.lab.project(z, "entmax"), entmax.entmax15(z), rtol=0, atol=1e-12)
        weights = sl.lab.project(z, "entmax", alpha=1.25)
        torch.testing.assert_close(weights, entmax.entmax_bisect(z, 1.25), rtol=0, atol=1e-12)
        torch.testing.assert_close(bisect_entmax(z, 2), entmax.sparsemax(z), rtol=0, atol=1e-12)
        torch.testing.assert_close(bisect_entmax(z, 1.5), entmax.entmax15(z), rtol=0, atol=1e-12)
        torch.testing.assert_close(bisect_entmax(z, 1.25), weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("alpha", [1.05, 1.5, 2, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_bisection_gives_the_weights_of_the_compiled_kernels(alpha, dtype, tolerance):
    """Other devices than the CPU bisect; the kernels run on the CPU only."""
    z = 1000 + 3 * torch.randn(2, 30, 70, generator=torch.Generator().manual_seed(2), dtype=dtype)
    z[0, :, 40:] = -torch.inf
    z[1, 0] = -torch.inf
    z[1, 1] = 7.0
    weights = bisect_entmax(z, alpha)
    torch.testing.assert_close(weights, Projection("entmax", alpha=alpha)(z), rtol=0, atol=tolerance)
    assert (weights[0, :, 40:] == 0).all()
    assert (weights[1, 0] == 0).all()
    assert bisect_entmax(z[..., :1], alpha).shape == (2, 30, 1)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_masked_scores_are_removed_before_projecting(options):
    z = np.array([[0.2, 5.0, -0.3, 0.1], [1.0, 0.5, 0.2, 7.0]])
    mask = np.array([[True, False, True, True], [True, True, True, False]])
    weights = sl.lab.project(z, **options, mask=mask)
    for row in range(2):
        np.testing.assert_allclose(weights[row][mask[row]], sl.lab.project(z[row][mask[row]], **options), atol=1e-12)
        assert (weights[row][~mask[row]] == 0).all()


def test_entmax_joins_softmax_and_sparsemax_and_lambda_makes_it_hard():
    z = np.array([0.5, 0.1, -0.2])
    np.testing.assert_allclose(sl.lab.project(z, "entmax", alpha=1), sl.lab.project(z))
    np.testing.assert_allclose(sl.lab.project(z, "entmax", alpha=2), sl.lab.project(z, "sparsemax"))
    np.testing.assert_array_equal(sl.lab.project(z, "sparsegen", lam=0.999), [1, 0, 0])
    np.testing.assert_allclose(sl.lab.project(z, "sparsegen", lam=-1e9), np.full(3, 1 / 3), atol=1e-8)


def test_kind_and_type_of_the_scores_are_kept():
    assert sl.lab.project([1, 2], "sparsemax").dtype == np.float64
    assert sl.lab.project(np.float32([1, 2]), "entmax").dtype == np.float32
    assert isinstance(sl.lab.project(torch.ones(2)), torch.Tensor)
    half = sl.lab.project(torch.tensor([0.5, 0.25, -1], dtype=torch.bfloat16), "sparsemax")
    assert half.dtype == torch.bfloat16
    assert half.tolist() == [0.625, 0.375, 0.0]


def test_weights_of_large_scores_in_single_precision_sum_to_one():
    z = 1000 + torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
    for options in ({"kind": "sparsemax"}, {"kind": "entmax"}, {"kind": "sparsegen", "lam": 0.99}):
        torch.testing.assert_close(sl.lab.project(z, **options).sum(-1), torch.ones(50), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "sparsegen", "lam": 1.0}, "lam < 1"),
        ({"kind": "sparsegen", "lam": float("nan")}, "lam < 1"),
        ({"kind": "entmax", "alpha": 0.5}, "alpha >= 1"),
        ({"kind": "hardmax"}, "Unknown projection 'hardmax'"),
        ({"kind": "sparsegen", "transform": "cube"}, "Unknown transform 'cube'"),
    ],
)
def test_parameters_out_of_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        sl.lab.project(np.zeros(3), **options)


def test_scores_that_cannot_be_projected_are_refused():
    with pytest.raises(InputError, match="NaN"):
        sl.lab.project([0.0, np.nan])
    with pytest.raises(InputError, match="at least one entry"):
        sl.lab.project(np.zeros((2, 0)))
    with pytest.raises(InputError, match=r"Row \[1\] has no score"):
        sl.lab.project(np.zeros((2, 3)), mask=[[True] * 3, [False] * 3])
    with pytest.raises(InputError, match="does not fit"):
        sl.lab.project(np.zeros((2, 3)), mask=[True, False])


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax15", "entmax1.3", "sparsegen0.5"])
def test_short_names_are_read_back(name):
    assert Projection.named(name).name == name


def test_divergences_are_those_of_scipy_and_numpy():
    generator = torch.Generator().manual_seed(0)
    p, q = (Projection("sparsemax")(torch.randn(6, 9, generator=generator, dtype=torch.float64)) for _ in range(2))
    expected = jensenshannon(p.numpy(), q.numpy(), axis=-1) ** 2
    np.testing.assert_allclose(jensen_shannon(p, q).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(total_variation(p, q).numpy(), np.abs((p - q).numpy()).sum(-1) / 2)
    one_hot = torch.eye(4, dtype=torch.float64)
    assert float(jensen_shannon(one_hot[0], one_hot[1])) == pytest.approx(np.log(2))
    assert float(normalised_entropy(torch.full((4,), 0.25))) == pytest.approx(1)
    assert float(normalised_entropy(torch.tensor([0.5, 0.5, 0, 0]), counts=2)) == pytest.approx(1)
    assert float(normalised_entropy(torch.ones(1))) == 0


def test_the_gradient_of_the_divergence_is_finite_at_zeros():
    p = torch.tensor([1.0, 0.0, 0.0], requires_grad=True)
    q = torch.tensor([0.0, 0.0, 1.0])
    (gradient,) = torch.autograd.grad(jensen_shannon(p, q), p)
    assert torch.isfinite(gradient).all()
