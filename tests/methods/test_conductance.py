"""Layer conductance against captum, its own completeness, and integrated gradients as its first layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import LayerConductance

from sightline.errors import OptionError
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model, tiny_module

pytestmark = pytest.mark.slow

IDS = tiny_ids("bert", 8)
BASELINE = [IDS[0], *[0] * 6, IDS[-1]]


def conductance(family="bert", n=8, **options):
    model = tiny_model(family)
    return model.explain(model.encode(ids=tiny_ids(family, n)), "layer_conductance", target=1, **options)


def captum_conductance(layer: int, steps: int) -> np.ndarray:
    """Captum's sum at the output of a layer (-1: of the embeddings).

    It takes the gradient at the left of every step: its error is in proportion to the step.
    """
    module = tiny_module()
    place = module.bert.embeddings if layer < 0 else module.bert.encoder.layer[layer]
    words = module.get_input_embeddings()
    method = LayerConductance(lambda e: module(inputs_embeds=e).logits, place)
    attributions = method.attribute(
        words(torch.tensor([IDS])).detach(),
        baselines=words(torch.tensor([BASELINE])).detach(),
        target=1,
        n_steps=steps,
        method="riemann_trapezoid",
    )
    attributions = attributions[0] if isinstance(attributions, tuple) else attributions
    return attributions[0].sum(-1).detach().numpy()


@pytest.mark.parametrize("hidden", ["input", "output"])
def test_every_layer_is_the_limit_of_captum_s_sums(hidden):
    layers = conductance(embeddings="word", hidden=hidden, steps=64, quantity="logit").layers
    for layer, scores in enumerate(layers):
        coarse, fine = (captum_conductance(layer - (hidden == "input"), steps) for steps in (400, 800))
        np.testing.assert_allclose(scores, 2 * fine - coarse, atol=2e-5)
        assert np.abs(scores).max() > 0.01


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_adds_up_to_the_change_of_the_output(family):
    explanation = conductance(family, n=7, tolerance=5e-3, max_evaluations=513, quantity="logit")
    assert explanation.checks["converged"]
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 7))
    pad = np.where(encoding.special, encoding.ids, model.network.token_id("pad"))
    rise = model.trace(encoding).logits[1] - model.trace(encoding.replace_ids(pad)).logits[1]
    np.testing.assert_allclose(explanation.layers.sum(axis=1), rise, rtol=6e-3)
    np.testing.assert_allclose(explanation.scores, explanation.layers.mean(axis=0), atol=1e-15)


def test_the_first_layer_s_input_is_integrated_gradients():
    model = tiny_model("longformer")
    encoding = model.encode(ids=tiny_ids("longformer", 12))
    expected = model.explain(encoding, "integrated_gradients", target=1, steps=60).scores
    explanation = model.explain(encoding, "layer_conductance", target=1, steps=64, layer=0)
    np.testing.assert_allclose(explanation.scores, expected, atol=1e-5)


def test_the_last_layer_s_output_matters_at_the_readout_only():
    layers = conductance(hidden="output", steps=8).layers
    assert np.abs(layers[-1, 1:]).max() < 1e-12 < abs(layers[-1, 0])


def test_one_layer_can_be_chosen_and_a_wrong_one_is_refused():
    explanation = conductance(steps=8, layer=-1)
    np.testing.assert_array_equal(explanation.scores, explanation.layers[-1])
    with pytest.raises(OptionError, match="Layer 3 asked for, the model has 3"):
        conductance(layer=3)


def test_memory_does_not_decide_the_result(monkeypatch):
    expected = conductance(steps=8).layers
    monkeypatch.setattr("sightline.methods.conductance.BATCH_TOKENS", 8)
    np.testing.assert_allclose(conductance(steps=8).layers, expected, atol=1e-12)


def test_a_walk_without_steps_is_refused():
    model = tiny_model()
    with pytest.raises(OptionError, match="at least one step, not 0"):
        model.explain(model.encode(ids=tiny_ids()), "layer_conductance", steps=0)
