"""Integrated gradients against captum, completeness, and the stopping rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients

from sightline.errors import OptionError
from tests.tiny_models import FAMILIES, tiny_ids, tiny_model, tiny_module

IDS = tiny_ids("bert", 10)
BASELINE = [IDS[0], *[0] * 8, IDS[-1]]


def captum_scores(embeddings: str, steps: int) -> np.ndarray:
    """Captum on the library's model: the whole embedding module, or word embeddings fed to inputs_embeds."""
    module = tiny_module()
    ids, baseline = torch.tensor([IDS]), torch.tensor([BASELINE])
    if embeddings == "full":
        method = LayerIntegratedGradients(lambda i: torch.softmax(module(i).logits, -1), module.bert.embeddings)
        found = method.attribute(ids, baselines=baseline, target=1, n_steps=steps, method="gausslegendre")
    else:
        words = module.get_input_embeddings()
        method = IntegratedGradients(lambda e: torch.softmax(module(inputs_embeds=e).logits, -1))
        found = method.attribute(words(ids), baselines=words(baseline), target=1, n_steps=steps)
    return found[0].sum(-1).detach().numpy()


@pytest.mark.parametrize("embeddings", ["full", "word"])
@pytest.mark.parametrize("steps", [5, 20])
def test_fixed_steps_equal_captum(embeddings, steps):
    model = tiny_model()
    found = model.explain(
        model.encode(ids=IDS),
        "integrated_gradients",
        target=1,
        quantity="probability",
        embeddings=embeddings,
        steps=steps,
    )
    np.testing.assert_allclose(found.scores, captum_scores(embeddings, steps), atol=1e-12)
    assert found.checks["evaluations"] == steps


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_add_up_to_the_change_of_the_output(family):
    model = tiny_model(family)
    encoding = model.encode(ids=tiny_ids(family, 12))
    found = model.explain(encoding, "integrated_gradients", target=1, tolerance=5e-3, max_evaluations=513)
    pad = np.where(encoding.special, encoding.ids, model.network.token_id("pad"))
    rise = model.trace(encoding).logits[1] - model.trace(encoding.replace_ids(pad)).logits[1]
    assert found.checks["converged"]
    assert found.scores.sum() == pytest.approx(rise, rel=5e-3)
    assert np.abs(found.scores[encoding.special]).max() == 0  # specials are the same in the baseline


def test_the_adaptive_rule_reaches_the_fine_one_and_reuses_its_evaluations():
    model = tiny_model()
    encoding = model.encode(ids=IDS)
    exact = model.explain(encoding, "integrated_gradients", target=1, steps=300).scores
    before = model.network.backward_passes
    found = model.explain(encoding, "integrated_gradients", target=1)
    error = np.abs(found.scores - exact).sum() / np.abs(exact).sum()
    assert error < 0.01
    assert found.checks["evaluations"] in (9, 17, 33, 65, 129, 257)
    # 10 tokens a document: each doubling is one batch of new points only.
    assert model.network.backward_passes - before == 2 + int(np.log2((found.checks["evaluations"] - 1) / 4))


def test_zero_baseline_keeps_specials():
    model = tiny_model()
    found = model.explain(model.encode(ids=IDS), "integrated_gradients", target=1, baseline="zero")
    assert found.scores[[0, -1]].tolist() == [0.0, 0.0]
    assert np.abs(found.scores[1:-1]).min() > 0


def test_it_says_when_it_did_not_converge():
    model = tiny_model()
    with pytest.warns(UserWarning, match="stopped after 5 evaluations"):
        found = model.explain(model.encode(ids=IDS), "integrated_gradients", max_evaluations=5)
    assert found.checks["converged"] is False


def test_an_input_equal_to_its_baseline_has_zero_scores():
    model = tiny_model()
    found = model.explain(model.encode(ids=BASELINE), "integrated_gradients")
    assert not found.scores.any()
    assert found.checks["converged"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "at least one step"),
        ({"tolerance": 2.0}, "share between 0 and 1"),
        ({"baseline": "noise"}, "must be one of 'pad', 'mask', 'zero'"),
        ({"baseline": "mask"}, "has no mask token"),
        ({"step": 5}, "no option 'step'. Did you mean 'steps'?"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    model = tiny_model()
    with pytest.raises(OptionError, match=message):
        model.explain(model.encode(ids=IDS), "integrated_gradients", **options)
