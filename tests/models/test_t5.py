"""T5's encoder under a head for tokens: the library's attention, and every method that is offered."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification

from sightline.api.load import load
from sightline.errors import UnsupportedError
from sightline.methods import METHODS
from sightline.settings.explain import DEFAULT_METHODS
from tests.contract.test_contract import QUICK
from tests.tiny_models import randomise, tiny_ids

EXACT = 1e-6
"""T5's norm computes its variance in single precision whatever the weights are."""


def t5(auto=AutoModelForTokenClassification, dtype=torch.float64, kind="t5", **facts):
    sizes = {"d_model": 32, "d_kv": 10, "d_ff": 64, "num_layers": 3, "num_heads": 4, "vocab_size": 128, "num_labels": 3}
    config = AutoConfig.for_model(kind, relative_attention_num_buckets=8, **sizes, **facts)
    return randomise(auto.from_config(config, attn_implementation="eager")).to(dtype)


KINDS = [("t5", "relu"), ("t5", "gated-gelu"), ("mt5", "gated-gelu")]


@pytest.fixture(scope="module", params=KINDS, ids=" ".join)
def model(request):
    kind, feed_forward = request.param
    return load(t5(kind=kind, feed_forward_proj=feed_forward))


def document(model, n=9, seed=0):
    return model.encode(ids=[*tiny_ids("bert", n, seed)[1:-1], 1])


def test_attention_its_gradient_and_hidden_states_equal_the_library_s(model):
    encoding = document(model)
    module = t5(kind=model.network.config.model_type, feed_forward_proj=model.network.config.feed_forward_proj)
    outputs = module(torch.from_numpy(encoding.ids)[None], output_attentions=True, output_hidden_states=True)
    for weights in outputs.attentions:
        weights.retain_grad()
    outputs.logits[0, 3, 1].backward()
    trace = model.trace(encoding, target=1, position=3, quantity="logit")
    np.testing.assert_allclose(trace.logits, outputs.logits[0, 3].detach(), atol=EXACT)
    for layer in range(trace.layer_count):
        expected = outputs.attentions[layer]
        np.testing.assert_allclose(trace.attentions[layer].dense(), expected[0].detach(), atol=EXACT)
        np.testing.assert_allclose(trace.attention_gradients[layer].dense(), expected.grad[0], atol=EXACT)
        np.testing.assert_allclose(trace.hidden_states[layer], outputs.hidden_states[layer][0].detach(), atol=EXACT)


def test_float32_logits_equal_the_library_s():
    encoding = document(load(t5(dtype=torch.float32)))
    model = load(t5(dtype=torch.float32))
    expected = t5(dtype=torch.float32)(torch.from_numpy(encoding.ids)[None]).logits[0].detach()
    np.testing.assert_allclose(model.network.run([encoding])[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", METHODS.names())
def test_every_method_is_finite_repeatable_and_independent_of_the_batch(model, method):
    encodings = [document(model, n, n) for n in (9, 7)]
    options = {"position": 2, **QUICK.get(method, {})}
    together = model.explain(encodings, method, **options)
    for encoding, explanation in zip(encodings, together, strict=True):
        assert explanation.scores.shape == (len(encoding),)
        assert np.isfinite(explanation.scores).all()
        alone = model.explain(encoding, method, **options).scores
        np.testing.assert_allclose(alone, explanation.scores, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", ["t5", "mt5", "umt5"])
def test_a_classifier_with_a_decoder_is_refused(kind):
    with pytest.raises(UnsupportedError, match="reads? a text twice, in an encoder and in a decoder"):
        load(t5(AutoModelForSequenceClassification, kind=kind))


def test_a_folder_is_loaded(tmp_path):
    t5(dtype=torch.float32).save_pretrained(tmp_path)
    model = load(tmp_path)
    assert (model.task, model.max_tokens) == ("token_classification", 512)
    assert model.default_methods == DEFAULT_METHODS
