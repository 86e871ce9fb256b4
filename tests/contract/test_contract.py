"""What every method promises on every family: new methods and families are found in the registries and tested here.

`make test-fast` tests three families that differ most: an encoder, the band and a decoder.
"""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

from sightline.errors import UnsupportedError
from sightline.methods import METHODS
from sightline.models.shared_weights import hash_weights
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model

QUICK = {
    "gradient_shap": {"samples": 5},
    "integrated_gradients": {"steps": 5},
    "kernel_shap": {"samples": 20},
    "layer_conductance": {"steps": 4},
    "lime": {"samples": 20},
}
"""Options that keep slow methods short; the promises do not depend on them."""
TOKENS = 9


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


@pytest.fixture(params=METHODS.names())
def method(request, model):
    if request.param in model.methods_not_offered:
        with pytest.raises(UnsupportedError, match="Use one of"):
            model.explain(document(model), request.param)
        pytest.skip("not offered")
    return METHODS.get(request.param)


@pytest.fixture(scope="module")
def explained(model):
    """Explanations of the plain document by method: what one test computed, the others read."""
    return {}


@pytest.fixture
def plain(model, method, explained):
    if method.name not in explained:
        explained[method.name] = explain(model, method, document(model))
    return explained[method.name]


def explain(model, method, document, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.explain(document, method.name, **QUICK.get(method.name, {}), **options)


def document(model, n=TOKENS, seed=0):
    return model.encode(ids=tiny_ids(model.network.config.model_type, n, seed))


def hook_count(model) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks)
        for module in model.network.module.modules()
    )


def test_scores_are_finite_and_aligned_with_the_tokens(model, method, plain):
    assert plain.scores.shape == (len(document(model)),) == (len(plain.tokens),)
    assert np.isfinite(plain.scores).all()
    if plain.layers is not None:
        assert plain.layers.shape[1] == len(plain.tokens)
        assert np.isfinite(plain.layers).all()
    if not method.signed:
        assert (plain.scores >= 0).all()


def test_layers_relate_to_the_scores_as_stated(plain):
    if plain.layers is None:
        assert plain.layer_kind is None
        return
    layers = plain.layers.astype(float)
    expected = {
        "additive": layers.sum(axis=0),
        "averaged": layers.mean(axis=0),
        "cumulative": layers[-1],
        "separate": plain.scores,
    }[plain.layer_kind]
    np.testing.assert_allclose(plain.scores, expected, rtol=1e-5, atol=1e-9)


def test_the_same_input_gives_the_same_scores_bit_for_bit(model, method, plain):
    np.testing.assert_array_equal(explain(model, method, document(model)).scores, plain.scores)


def test_a_batch_gives_what_single_documents_give(model, method, plain):
    other = document(model, TOKENS - 2, seed=1)
    together = explain(model, method, [document(model), other])
    for explanation, alone in zip(together, (plain, explain(model, method, other)), strict=True):
        np.testing.assert_allclose(explanation.scores, alone.scores, rtol=1e-5, atol=1e-9)


def test_the_target_is_respected(model, method):
    encoding = document(model)
    first, second = (explain(model, method, encoding, target=c) for c in (0, 1))
    assert (first.target.index, second.target.index) == (0, 1)
    assert np.allclose(first.scores, second.scores) != method.class_specific


def test_the_model_is_left_as_it_was(model, method):
    weights, hooks = hash_weights(model.network.module), hook_count(model)
    explain(model, method, document(model))
    assert hash_weights(model.network.module) == weights
    assert hook_count(model) == hooks
    assert all(parameter.grad is None for parameter in model.network.module.parameters())


def test_hooks_are_removed_after_an_exception(model, method, monkeypatch):
    hooks = hook_count(model)

    def fail(*_args, **_kwargs):
        raise RuntimeError("broken on purpose")

    # The head runs after all hooks have been placed.
    monkeypatch.setattr(type(model.network.module), "forward", fail)
    with contextlib.suppress(RuntimeError):
        explain(model, method, document(model))
    assert hook_count(model) == hooks


def test_one_token_is_enough(model, method):
    encoding = model.encode(ids=tiny_ids(model.network.config.model_type, 1))
    explanation = explain(model, method, encoding)
    assert explanation.scores.shape == (1,)
    assert np.isfinite(explanation.scores).all()


def test_an_explanation_survives_saving(plain, tmp_path):
    plain.save(tmp_path / "explanation.json")
    loaded = type(plain).load(tmp_path / "explanation.json")
    np.testing.assert_array_equal(loaded.scores, plain.scores)
    assert loaded.checks == plain.checks
    assert loaded.layer_kind == plain.layer_kind
