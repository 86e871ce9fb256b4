"""Feature importance by brute force: one backward pass per position, one forward pass per removed part."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sightline as sl
from sightline.errors import OptionError, UnsupportedError
from sightline.lab.feature_importance import dependence_norms, encode_document
from tests.models.test_single_attention import CLASSES, ids_of, tiny_single
from tests.tiny_models import tiny_ids, tiny_model


@pytest.fixture(scope="module", params=CLASSES)
def model(request):
    return sl.load(tiny_single(request.param, projection="sparsemax"))


def normalise(values, attended):
    values = np.where(attended, values, 0.0)
    return values / values.sum()


def test_all_representations_at_once_equal_one_backward_each(model):
    module = model.network.module
    ids = torch.tensor(ids_of(9))
    leaf = module.model.embeddings(ids).detach().requires_grad_()
    hidden = encode_document(module.model.encoder, leaf)
    seeds = torch.randn(3, *hidden.shape, dtype=hidden.dtype, generator=torch.Generator().manual_seed(0))
    norms = dependence_norms(module.model.encoder, leaf.detach(), seeds)
    for k in range(3):
        for p in range(9):
            (gradient,) = torch.autograd.grad(seeds[k, p] @ hidden[p], leaf, retain_graph=True)
            torch.testing.assert_close(norms[k, p], gradient.norm(dim=-1), rtol=1e-9, atol=1e-12)


def test_every_importance_by_hand(model):
    encoding = model.encode(ids=ids_of(8, seed=3))
    importance = sl.lab.feature_importance(model, encoding, by_facet=True)
    module, attended = model.network.module, importance.attended
    assert attended.tolist() == [False, *[True] * 6, False]
    leaf = module.model.embeddings(torch.from_numpy(encoding.ids)).detach().requires_grad_()
    hidden = encode_document(module.model.encoder, leaf)
    weights = module.model.attention.weights(hidden[None], torch.from_numpy(attended)[None])[0]
    output = torch.softmax(module.decode(weights @ hidden), dim=-1)
    gradients = torch.autograd.grad(output.max(), (leaf, hidden), retain_graph=True)
    for computed, expected in ((importance.gradient_x, gradients[0]), (importance.gradient_h, gradients[1])):
        np.testing.assert_allclose(computed, normalise(expected.norm(dim=-1).numpy(), attended), atol=1e-12)
    changes = np.zeros(8)
    for i in range(1, 7):
        rest = torch.arange(8) != i
        context = (weights[rest] / weights[rest].sum()) @ hidden[rest]
        other = torch.softmax(module.decode(context), dim=-1)
        changes[i] = float((other - output).abs().sum() / 2)
    np.testing.assert_allclose(importance.leave_out_h, normalise(changes, attended), atol=1e-12)
    for i in range(1, 7):
        probabilities = model.trace(encoding.drop([i])).probabilities
        changes[i] = np.abs(probabilities - output.detach().numpy()).sum() / 2
    np.testing.assert_allclose(importance.leave_out_x, normalise(changes, attended), atol=1e-12)
    (gradient,) = torch.autograd.grad(hidden[3].norm(), leaf, retain_graph=True)
    np.testing.assert_allclose(
        importance.representations[3], normalise(gradient.norm(dim=-1).numpy(), attended), atol=1e-12
    )
    (gradient,) = torch.autograd.grad(hidden[3, 5], leaf, retain_graph=True)
    np.testing.assert_allclose(importance.facets[5, 3], normalise(gradient.norm(dim=-1).numpy(), attended), atol=1e-12)
    row = importance.representations[3][attended]
    assert importance.entropies[3] == pytest.approx(-(row * np.log(row)).sum() / np.log(6))


def test_ties_are_counted(model):
    importance = sl.lab.feature_importance(model, model.encode(ids=ids_of(8, seed=3)))
    zeros = int((importance.attention[importance.attended] == 0).sum())
    _, ties = importance.correlation("gradient_x")
    assert ties == zeros * (zeros - 1) // 2
    assert list(importance.to_frame().columns)[:3] == ["token", "attended", "attention"]


@pytest.mark.parametrize("removal", ["renormalise", "zero"])
def test_a_representation_with_all_the_weight_can_be_left_out(removal):
    model = sl.load(tiny_single(projection="sparsegen0.999"))
    importance = sl.lab.feature_importance(model, model.encode(ids=ids_of(6)), removal=removal)
    assert importance.attention.max() == 1
    assert np.isfinite(importance.leave_out_h).all()


def test_what_is_not_defined_is_refused(model):
    with pytest.raises(OptionError, match="Unknown removal 'cut'"):
        sl.lab.feature_importance(model, model.encode(ids=ids_of(5)), removal="cut")
    with pytest.raises(OptionError, match="Unknown importance 'magic'"):
        sl.lab.feature_importance(model, model.encode(ids=ids_of(5))).correlation("magic")
    other = tiny_model("bert")
    with pytest.raises(UnsupportedError, match="single attention"):
        sl.lab.feature_importance(other, other.encode(ids=tiny_ids("bert")))
