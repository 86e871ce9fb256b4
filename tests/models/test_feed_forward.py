"""The feed-forward block in chunks: the same numbers whether widened rows are kept or computed again."""

from __future__ import annotations

import pytest
import torch

from sightline.models.longformer import layer as block
from tests.tiny_models import tiny_module


@pytest.fixture
def layer(monkeypatch):
    monkeypatch.setattr(block, "CHUNK_ROWS", 4)
    module = tiny_module("longformer")
    return module.requires_grad_(False).base_model.encoder.layer[0]


def differentiate(layer, rows=10):
    """The block's output, the gradient of a weighted sum of it, and how many numbers were kept for the backward."""
    kept = []
    weights = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}

    def keep(tensor):
        kept.append(0 if tensor.untyped_storage().data_ptr() in weights else tensor.numel())
        return tensor

    generator = torch.Generator().manual_seed(0)
    width = layer.intermediate.dense.in_features
    x, factors = (torch.randn(rows, width, dtype=torch.float64, generator=generator) for _ in range(2))
    x.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = block.feed_forward(layer, x)
    return output.detach(), torch.autograd.grad((output * factors).sum(), x)[0], sum(kept)


def test_computing_widened_rows_again_changes_no_number_and_keeps_fewer(layer, monkeypatch):
    output, gradient, kept = differentiate(layer)
    monkeypatch.setattr(block, "KEPT_ROWS", 9)
    output_again, gradient_again, kept_again = differentiate(layer)
    assert torch.equal(output_again, output)
    torch.testing.assert_close(gradient_again, gradient, rtol=1e-12, atol=1e-12)
    rows, dense = 10, layer.intermediate.dense
    assert kept - kept_again == rows * (dense.out_features - dense.in_features)


def test_rows_are_kept_where_the_weights_have_gradients(layer, monkeypatch):
    expected = [gradient.clone() for gradient in weight_gradients(layer)]
    monkeypatch.setattr(block, "KEPT_ROWS", 9)
    for gradient, other in zip(weight_gradients(layer), expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-12, atol=1e-12)


def weight_gradients(layer):
    parameters = list(layer.requires_grad_().intermediate.dense.parameters())
    x = torch.arange(10.0, dtype=torch.float64)[:, None] * torch.linspace(-1, 1, layer.intermediate.dense.in_features)
    return torch.autograd.grad(block.feed_forward(layer, x.double().requires_grad_()).square().sum(), parameters)


def test_a_hook_set_after_the_forward_is_not_met_in_the_backward(layer, monkeypatch):
    monkeypatch.setattr(block, "KEPT_ROWS", 9)
    x = torch.ones(10, layer.intermediate.dense.in_features, dtype=torch.float64, requires_grad=True)
    output = block.feed_forward(layer, x)
    seen = []
    for module in layer.modules():
        module.register_forward_hook(lambda *_: seen.append("met"))
    torch.autograd.grad(output.sum(), x)
    assert not seen
