"""Methods of the spine against their formulas, written out in float64 on the library's own tensors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from sightline.api.load import load
from sightline.errors import OptionError
from tests.tiny_models import tiny_ids, tiny_model, tiny_module

TARGET = 2
IDS = tiny_ids("bert", 10)


def log_odds(logits):
    return torch.softmax(logits, -1)[TARGET].logit()


class Library:
    """The library's eager BERT, with every tensor a formula may ask for."""

    def __init__(self):
        module = tiny_module()
        embedded = module.get_input_embeddings()(torch.tensor([IDS])).detach().requires_grad_()
        outputs = module(inputs_embeds=embedded, output_attentions=True, output_hidden_states=True)
        for tensor in (*outputs.attentions, *outputs.hidden_states):
            tensor.retain_grad()
        log_odds(outputs.logits[0]).backward()
        self.module = module
        self.e, self.de = embedded[0].detach().numpy(), embedded.grad[0].numpy()
        self.A = torch.stack([a[0] for a in outputs.attentions]).detach().numpy()  # (L, H, n, n)
        self.dA = torch.stack([a.grad[0] for a in outputs.attentions]).numpy()
        self.x = torch.stack([x[0] for x in outputs.hidden_states]).detach().numpy()  # (L+1, n, d)
        self.dx = torch.stack([x.grad[0] for x in outputs.hidden_states]).numpy()
        self.L, self.H, self.n, _ = self.A.shape

    def value(self, ids):
        return log_odds(self.module(torch.tensor([ids])).logits[0]).item()


@pytest.fixture(scope="module")
def lib():
    return Library()


def scores(method, **options):
    model = tiny_model()
    return model.explain(model.encode(ids=IDS), method, target=TARGET, **options).scores


def rolled(layers):
    product = np.eye(layers[0].shape[0])
    for A in layers:
        A = A + np.eye(len(A))
        product = (A / A.sum(1, keepdims=True)) @ product
    return product


def test_raw_attention_is_the_readout_row_of_the_last_layer(lib):
    np.testing.assert_allclose(scores("raw_attention"), lib.A[-1].mean(0)[0], atol=1e-12)
    np.testing.assert_allclose(scores("raw_attention", layer=0, head=2), lib.A[0, 2, 0], atol=1e-12)
    np.testing.assert_allclose(scores("raw_attention", fusion="max"), lib.A[-1].max(0)[0], atol=1e-12)


def test_received_attention_sums_columns(lib):
    columns = lib.A.mean(1).sum(1)
    np.testing.assert_allclose(scores("received_attention"), columns.sum(0), atol=1e-12)
    np.testing.assert_allclose(scores("received_attention", layers="lower"), columns[0], atol=1e-12)
    np.testing.assert_allclose(scores("received_attention", layers="upper"), columns[1:].sum(0), atol=1e-12)
    np.testing.assert_allclose(scores("received_attention", layers=-1, head=3), lib.A[-1, 3].sum(0), atol=1e-12)


@pytest.mark.parametrize("fusion", ["max", "min"])
def test_raw_and_received_attention_fuse_heads_before_they_are_read(lib, fusion):
    fused = getattr(lib.A, fusion)(axis=1)
    np.testing.assert_allclose(scores("raw_attention", layer=1, fusion=fusion), fused[1, 0], atol=1e-12)
    np.testing.assert_allclose(scores("received_attention", fusion=fusion), fused.sum((0, 1)), atol=1e-12)
    np.testing.assert_allclose(scores("received_attention", layers=0, fusion=fusion), fused[0].sum(0), atol=1e-12)


def test_raw_and_received_attention_weigh_heads_by_importance(lib):
    weights = np.random.default_rng(0).random((lib.L, lib.H))
    fused = np.einsum("lh,lhij->lij", weights / weights.sum(1, keepdims=True), lib.A)
    np.testing.assert_allclose(scores("raw_attention", head_weights=weights), fused[-1, 0], atol=1e-12)
    np.testing.assert_allclose(scores("received_attention", head_weights=weights), fused.sum((0, 1)), atol=1e-12)


@pytest.mark.parametrize("method", ["raw_attention", "received_attention"])
@pytest.mark.parametrize("options", [{"fusion": "max"}, {"head_weights": [[1.0, 2.0, 3.0, 4.0]] * 3}])
def test_a_single_head_cannot_be_fused(method, options):
    with pytest.raises(OptionError, match="head= chooses one head"):
        scores(method, head=1, **options)


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_rollout_row_equals_the_product_of_full_matrices(lib, fusion):
    fused = getattr(lib.A, fusion)(axis=1)
    np.testing.assert_allclose(scores("rollout", fusion=fusion), rolled(fused)[0], atol=1e-12)
    np.testing.assert_allclose(scores("rollout", fusion=fusion, layer=1), rolled(fused[:2])[0], atol=1e-12)


def test_rollout_of_one_head_goes_through_the_layers_below_it(lib):
    expected = lib.A[1, 3][0] @ rolled(lib.A.mean(1)[:1])
    np.testing.assert_allclose(scores("rollout", layer=1, head=3), expected, atol=1e-12)


def test_rollout_weighs_heads_and_can_leave_the_residual_out(lib):
    weights = np.arange(1.0, 1 + lib.L * lib.H).reshape(lib.L, lib.H)
    fused = np.einsum("lh,lhij->lij", weights / weights.sum(1, keepdims=True), lib.A)
    np.testing.assert_allclose(scores("rollout", head_weights=weights.tolist()), rolled(fused)[0], atol=1e-12)
    plain = np.linalg.multi_dot(list(lib.A.mean(1)[::-1]))
    np.testing.assert_allclose(scores("rollout", residual=False), plain[0], atol=1e-12)


def test_rollout_layers_are_the_rows_of_every_partial_product(lib):
    model = tiny_model()
    layers = model.explain(model.encode(ids=IDS), "rollout").layers
    for layer in range(lib.L):
        np.testing.assert_allclose(layers[layer], rolled(lib.A.mean(1)[: layer + 1])[0], atol=1e-12)


def test_gradient_is_the_normalised_length(lib):
    norms = np.linalg.norm(lib.de, axis=1)
    np.testing.assert_allclose(scores("gradient"), norms / norms.sum(), atol=1e-12)


def test_input_x_gradient_and_its_forms(lib):
    signed = (lib.e * lib.de).sum(1)
    np.testing.assert_allclose(scores("input_x_gradient"), signed, atol=1e-12)
    np.testing.assert_allclose(scores("input_x_gradient", form="abs"), np.abs(signed), atol=1e-12)
    np.testing.assert_allclose(scores("input_x_gradient", form="clip"), np.clip(signed, 0, None), atol=1e-12)
    np.testing.assert_allclose(scores("input_x_gradient", form="mean"), (lib.e * lib.de).mean(1), atol=1e-12)


def test_attention_gradient_methods(lib):
    np.testing.assert_allclose(scores("grads"), lib.dA[-1].mean(0)[0], atol=1e-12)
    np.testing.assert_allclose(scores("attgrads"), (lib.A * np.clip(lib.dA, 0, None)).mean((0, 1, 2)), atol=1e-12)
    weights = lib.dA[-1].mean((1, 2))
    gradcam = np.clip((weights[:, None] * lib.A[-1, :, 0]).mean(0), 0, None)
    assert gradcam.any()
    np.testing.assert_allclose(scores("attention_gradcam"), gradcam, atol=1e-12)


def test_cat_and_attcat_use_the_layers_inputs(lib):
    activation = (lib.x * lib.dx).sum(-1)
    columns = lib.A.mean((1, 2))
    np.testing.assert_allclose(scores("cat"), activation[:-1].sum(0), atol=1e-12)
    np.testing.assert_allclose(scores("attcat"), (columns * activation[:-1]).sum(0), atol=1e-12)
    np.testing.assert_allclose(scores("attcat", hidden="output"), (columns * activation[1:]).sum(0), atol=1e-12)
    np.testing.assert_allclose(scores("attcat", aggregate="product"), (columns * activation[:-1]).prod(0), atol=1e-12)


def test_attcat_s_attention_factors(lib):
    activation = (lib.x * lib.dx).sum(-1)[:-1]
    for option, factor in {
        "readout": lib.A.mean(1)[:, 0],
        "row": lib.A.mean((1, 3)),
        "sum": lib.A.mean(1).sum(1),
    }.items():
        np.testing.assert_allclose(scores("attcat", attention=option), (factor * activation).sum(0), atol=1e-12)


def test_with_outputs_the_last_term_vanishes_for_every_token_but_the_readout():
    model = tiny_model()
    layers = model.explain(model.encode(ids=IDS), "cat", hidden="output").layers
    assert np.abs(layers[-1, 1:]).max() < 1e-12 < abs(layers[-1, 0])


@pytest.mark.parametrize("replacement", ["pad", "delete"])
def test_occlusion_is_the_drop_of_the_log_odds(lib, replacement):
    expected = np.zeros(lib.n)
    for i in range(1, lib.n - 1):
        ids = [*IDS[:i], *([] if replacement == "delete" else [0]), *IDS[i + 1 :]]
        expected[i] = lib.value(IDS) - lib.value(ids)
    np.testing.assert_allclose(scores("occlusion", replacement=replacement), expected, atol=1e-12)


def test_random_scores_depend_on_the_seed_alone():
    np.testing.assert_array_equal(scores("random", seed=3), np.random.default_rng(3).random(len(IDS)))


def test_heads_that_count_against_the_target_give_zeros_and_a_warning():
    model = tiny_model(num_attention_heads=1)
    encoding = model.encode(ids=IDS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        both_ways = [model.explain(encoding, "attention_gradcam", target=way).scores for way in ((0, 1), (1, 0))]
    # One head has one weight, whose sign the other way round is the other one.
    assert sorted(bool(scores.any()) for scores in both_ways) == [False, True]
    assert [str(warning.message) for warning in caught] == [
        "All scores of attention_gradcam are zero: the heads' mean gradients count against the target."
    ]


@pytest.mark.parametrize("method", ["gradient", "attgrads", "attention_gradcam", "partial_lrp"])
def test_a_class_that_depends_on_nothing_gives_zeros_and_a_warning(method):
    module = tiny_module()
    torch.nn.init.zeros_(module.classifier.weight)
    model = load(module)
    with pytest.warns(UserWarning, match=f"All scores of {method} are zero"):
        assert not model.explain(model.encode(ids=IDS), method, target=1).scores.any()


def test_cat_and_attcat_by_relevance_are_sums_of_what_attnlrp_gives_the_layers(lib):
    model = tiny_model()
    relevance = model.explain(model.encode(ids=IDS), "attnlrp", target=TARGET).layers
    np.testing.assert_allclose(scores("cat", slope="relevance"), relevance.sum(0), atol=1e-12)
    received = lib.A.mean(axis=(1, 2))
    np.testing.assert_allclose(scores("attcat", slope="relevance"), (received * relevance).sum(0), atol=1e-12)
