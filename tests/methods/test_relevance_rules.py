"""Every rule against the sum it stands for, written out term by term; and the mode that puts rules in place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from torch.overrides import _get_current_function_mode_stack

from sightline.errors import UnsupportedError
from sightline.methods.relevance import rules
from sightline.methods.relevance.mode import relevance_mode
from sightline.methods.relevance.rules import ATTENTION_AWARE, CLASSIC, EPSILON, POSITIVE

ALL_RULES = (POSITIVE, CLASSIC, ATTENTION_AWARE)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def quotient(R: float, total: float) -> float:
    return R / (total + EPSILON) if total != 0 else 0.0


def signed_quotient(R: float, total: float) -> float:
    return R / (total + (EPSILON if total >= 0 else -EPSILON))


def test_positive_linear_shares_by_positive_products():
    x, weight, bias, R = random(3, seed=1), random(4, 3, seed=2), random(4, seed=3), random(4, seed=4)
    z = (weight * x).clamp(min=0)
    expected = [sum(z[i, j] * quotient(R[i], z[i].sum()) for i in range(4)) for j in range(3)]
    relevance = rules.positive_linear(R, x, weight, bias, linear(x, weight, bias))
    np.testing.assert_allclose(relevance, expected, rtol=1e-12)


def test_classic_linear_gives_all_relevance_to_positive_and_again_to_negative_inputs():
    x, weight, R = random(5, seed=1), random(4, 5, seed=2), random(4, seed=4)
    z = (weight * x).clamp(min=0)
    expected = []
    for j in range(5):
        group = (x > 0) == (x[j] > 0)
        expected.append(sum(z[i, j] * quotient(R[i], z[i, group].sum()) for i in range(4)))
    np.testing.assert_allclose(rules.classic_linear(R, x, weight, None, linear(x, weight)), expected, rtol=1e-12)


def test_epsilon_linear_shares_by_products_and_leaves_the_bias_its_part():
    x, weight, bias, R = random(3, seed=1), random(4, 3, seed=2), random(4, seed=3), random(4, seed=4)
    z = weight * x
    totals = z.sum(dim=1) + bias
    expected = [sum(z[i, j] * signed_quotient(R[i], totals[i]) for i in range(4)) for j in range(3)]
    relevance = rules.epsilon_linear(R, x, weight, bias, linear(x, weight, bias))
    np.testing.assert_allclose(relevance, expected, rtol=1e-12)
    absorbed = sum(bias[i] * signed_quotient(R[i], totals[i]) for i in range(4))
    np.testing.assert_allclose(relevance.sum() + absorbed, R.sum(), rtol=1e-7)


def test_positive_add_keeps_the_sum_and_splits_it_by_size():
    a, b, R = random(4, 3, seed=1), random(4, 3, seed=2), random(4, 3, seed=3)
    first, second = rules.positive_add(R, a, b)
    plain_first = np.array([[quotient(R[i, j], a[i, j] + b[i, j]) * a[i, j] for j in range(3)] for i in range(4)])
    plain_second = np.array([[quotient(R[i, j], a[i, j] + b[i, j]) * b[i, j] for j in range(3)] for i in range(4)])
    part = abs(plain_first.sum()) / (abs(plain_first.sum()) + abs(plain_second.sum()))
    total = float(R.sum())
    np.testing.assert_allclose(first, plain_first * part * total / plain_first.sum(), rtol=1e-7)
    np.testing.assert_allclose(second, plain_second * (1 - part) * total / plain_second.sum(), rtol=1e-7)
    np.testing.assert_allclose(first.sum() + second.sum(), total, rtol=1e-7)
    for relevance, expected in zip(rules.plain_add(R, a, b), (plain_first, plain_second), strict=True):
        np.testing.assert_allclose(relevance, expected, rtol=1e-12)


def test_a_matrix_product_gives_each_factor_half_by_shares():
    a, b, R = random(2, 3, seed=1), random(3, 4, seed=2), random(2, 4, seed=3)
    left, right = torch.zeros(2, 3), torch.zeros(3, 4)
    left, right = left.double(), right.double()
    for i in range(2):
        for j in range(4):
            total = sum(a[i, k] * b[k, j] for k in range(3))
            for k in range(3):
                part = a[i, k] * b[k, j] * quotient(R[i, j], total) / 2
                left[i, k] += part
                right[k, j] += part
    for relevance, expected in zip(rules.matmul_halves(R, a, b, a @ b), (left, right), strict=True):
        np.testing.assert_allclose(relevance, expected, rtol=1e-10)
    assert sum(
        factor_relevance.sum() for factor_relevance in rules.epsilon_matmul_halves(R, a, b, a @ b)
    ) == pytest.approx(float(R.sum()), rel=1e-7)


def test_softmax_by_its_first_order_term():
    x, R = random(3, 5, seed=1).requires_grad_(), random(3, 5, seed=2)
    s = torch.softmax(x, dim=-1)
    (gradient,) = torch.autograd.grad(s, x, R / s.detach())
    relevance = rules.taylor_softmax(R, x.detach(), s.detach(), -1)
    np.testing.assert_allclose(relevance, (x * gradient).detach(), rtol=1e-10, atol=1e-14)


def test_softmax_gives_nothing_to_keys_that_may_not_be_attended_to():
    x = torch.tensor([0.5, -torch.inf, 1.0], dtype=torch.float64)
    for rule in (rules.taylor_softmax, rules.masked_softmax, rules.positive_masked_softmax):
        relevance = rule(torch.tensor([0.1, 0.0, 0.3], dtype=torch.float64), x, torch.softmax(x, dim=-1), -1)
        assert torch.isfinite(relevance).all()
        assert relevance[1] == 0


def test_layer_norm_is_linear_with_its_variance_held_fixed():
    x, gain, bias, R = random(3, 6, seed=1).requires_grad_(), random(6, seed=2), random(6, seed=3), random(3, 6, seed=4)
    centred = x - x.mean(dim=-1, keepdim=True)
    deviation = (centred.pow(2).mean(dim=-1, keepdim=True) + 1e-5).sqrt().detach()
    output = centred / deviation * gain + bias
    (gradient,) = torch.autograd.grad(output, x, R / output.detach())
    relevance = rules.fixed_variance_norm(R, x.detach(), output.detach(), (6,), gain, 1e-5)
    np.testing.assert_allclose(relevance, (x * gradient).detach(), rtol=1e-6)
    without_bias = rules.fixed_variance_norm(R, x.detach(), (output - bias).detach(), (6,), gain, 1e-5)
    np.testing.assert_allclose(without_bias.sum(), R.sum(), rtol=1e-6)


def test_a_sum_hands_out_shares():
    x, R = random(2, 3, 4, seed=1), random(2, 1, 4, seed=2)
    relevance = rules.sum_shares(R, x, (1,))
    np.testing.assert_allclose(relevance, x * R / x.sum(dim=1, keepdim=True), rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_to_share_gives_zero_or_what_came_in_but_never_nan(dtype):
    zero, ones = torch.zeros(3, 3, dtype=dtype), torch.ones(3, 3, dtype=dtype)
    cancelling = (ones, -ones), (zero, zero), (ones, -ones - EPSILON)
    for a, b in cancelling:
        for rule in (rules.plain_add, rules.positive_add, rules.epsilon_add):
            assert all(torch.isfinite(relevance).all() for relevance in rule(ones, a, b))
        for rule in (rules.matmul_halves, rules.epsilon_matmul_halves):
            assert all(torch.isfinite(relevance).all() for relevance in rule(ones, a, b, a @ b))
        for rule in (rules.positive_linear, rules.classic_linear, rules.epsilon_linear):
            assert torch.isfinite(rule(ones, a, b, None, linear(a, b))).all()


class Small(nn.Module):
    """A linear map, a residual, a gate and a norm, with a broadcast constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.double().requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x + torch.tanh(self.first(x)) * self.second(x)
        rotated = -hidden * 0.5 - torch.ones(1, 4, dtype=x.dtype)
        return self.norm(rotated / 2).sum(dim=0)


@pytest.mark.parametrize("chosen", ALL_RULES, ids=lambda rule_set: rule_set.name)
def test_the_mode_changes_no_output_and_is_gone_afterwards(chosen):
    module, x = Small(), random(3, 4).requires_grad_()
    with relevance_mode(chosen):
        output = module(x)
    assert torch.equal(output, module(x))
    assert not _get_current_function_mode_stack()
    (relevance,) = torch.autograd.grad(output.sum(), x)
    (gradient,) = torch.autograd.grad(module(x).sum(), x)
    assert torch.isfinite(relevance).all()
    assert not torch.allclose(relevance, gradient)


def test_a_gated_product_gives_half_to_each_side():
    a, b = random(3, seed=1).requires_grad_(), random(3, seed=2).requires_grad_()
    with relevance_mode(POSITIVE):
        output = a * b
    for relevance in torch.autograd.grad(output, (a, b), torch.ones_like(output)):
        assert torch.equal(relevance, torch.full_like(relevance, 0.5))


def test_a_mask_lets_no_relevance_through():
    x = random(3).requires_grad_()
    with relevance_mode(POSITIVE):
        output = x * torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
    (relevance,) = torch.autograd.grad(output, x, torch.ones_like(output))
    assert relevance.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "operation", [torch.sin, lambda x: x + 1, lambda x: 1 / x, lambda x: x / x, lambda x: x @ torch.ones(3).double()]
)
def test_an_operation_without_a_rule_is_refused_in_one_sentence(operation):
    x = random(3).requires_grad_()
    with (
        pytest.raises(UnsupportedError, match="has no rule for the operation"),
        relevance_mode(POSITIVE),
    ):
        operation(x)
    assert not _get_current_function_mode_stack()
