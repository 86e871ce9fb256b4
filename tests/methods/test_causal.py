"""Causal models: who may see whom, where a classifier reads, and what rollout and flow make of it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification, BertLMHeadModel

from sightline.api.load import load
from sightline.errors import OptionError, UnsupportedError
from sightline.methods.attention_weights import even_attention, rollout_rows
from tests.tiny_models import DECODERS, SINGLE_PRECISION, tiny_ids, tiny_model, tiny_module

PAD = 0


@pytest.fixture(params=DECODERS)
def model(request):
    return tiny_model(request.param)


def document(model, n=9):
    return model.encode(ids=tiny_ids("gpt2", n))  # the decoders share their marks


def exactness(model):
    return 1e-5 if model.network.config.model_type in SINGLE_PRECISION else 1e-12


def silent(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.explain(*arguments, **options)


def test_no_token_attends_to_a_later_one(model):
    trace = model.trace(document(model))
    for attention in trace.attentions:
        assert not np.triu(attention.dense(), 1).any()


@pytest.mark.parametrize(("family", "windows"), [("mistral", (5, 5, 5)), ("qwen2", (9, 9, 4)), ("phi3", (6, 6, 6))])
def test_a_sliding_window_holds_the_last_tokens(family, windows):
    model = tiny_model(family)
    for attention, window in zip(model.trace(document(model)).attentions, windows, strict=True):
        seen = attention.dense() != 0
        assert (seen == (np.tril(np.ones((9, 9))) - np.tril(np.ones((9, 9)), -window) == 1)).all()


def test_a_classifier_reads_the_last_token_that_is_not_a_pad(model):
    ids = tiny_ids("gpt2", 9)
    for given, place in ((ids, 8), ([*ids, PAD, PAD], 8), ([PAD], 0)):
        trace = model.trace(model.encode(ids=given))
        np.testing.assert_array_equal(np.flatnonzero(trace.readout), [place])
        expected = tiny_module(model.network.config.model_type)(torch.tensor([given])).logits[0].detach().numpy()
        np.testing.assert_allclose(trace.logits, expected, atol=exactness(model))


# The library has no head for tokens of Gemma 3.
@pytest.mark.parametrize("family", [family for family in DECODERS if family != "gemma3_text"])
def test_tokens_behind_the_one_that_is_read_change_nothing(family):
    model = tiny_model(family, auto=AutoModelForTokenClassification)
    for name in ("cat", "gradient", "rollout", "alti", "lrp", "attnlrp", "occlusion"):
        scores = silent(model, document(model), name, target=1, position=4).scores
        np.testing.assert_array_equal(scores[5:], 0)
        assert scores[:5].any()


@pytest.mark.parametrize("family", DECODERS)
def test_the_next_token_is_what_a_language_model_says_behind_the_last(family):
    model = tiny_model(family, auto=AutoModelForCausalLM)
    assert model.task == "causal_lm"
    encoding = document(model)
    explanation = model.explain(encoding, "gradient")
    logits = tiny_module(family, auto=AutoModelForCausalLM)(torch.tensor([tiny_ids("gpt2", 9)])).logits[0]
    assert explanation.prediction.index == int(logits[-1].argmax())
    assert explanation.target.position == 8
    assert model.explain(encoding, "gradient", position=3).prediction.index == int(logits[3].argmax())


@pytest.mark.parametrize("name", ["rollout", "flow"])
def test_methods_that_follow_attention_say_that_early_tokens_are_favoured(model, name):
    with pytest.warns(UserWarning, match=f"In a causal model {name} favours early tokens"):
        explanation = model.explain(document(model), name)
    assert explanation.checks["causal"] is True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.explain(document(model), name, receptive_field=True).checks["causal"] is True
        assert "causal" not in tiny_model("bert").explain(document(tiny_model("bert")), name).checks


def even_model(family):
    """A model whose attention says nothing: queries are zero."""
    module = tiny_module(family)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "q_proj" in name:
                parameter.zero_()
            elif "qkv_proj" in name:
                parameter[:32] = 0
            elif "c_attn" in name:  # (in, out), or a bias
                parameter[..., :32] = 0
    return load(module)


@pytest.mark.parametrize("options", [{}, {"head": 1}, {"residual": False}, {"layer": 1}])
@pytest.mark.parametrize("name", ["rollout", "flow"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "qwen2", "phi3"])
def test_by_receptive_field_even_attention_is_flat(family, name, options):
    model = even_model(family)
    flat = model.explain(document(model), name, receptive_field=True, **options)
    seen = flat.scores > 0  # of a sliding window, one layer or two see only the last tokens
    np.testing.assert_allclose(flat.scores[seen], 1 / seen.sum(), atol=1e-7)
    assert seen[-4:].all()
    assert seen.all() or family in ("mistral", "qwen2", "phi3")
    if family in ("gpt2", "llama"):
        plain = silent(model, document(model), name, **options).scores
        assert plain[:-1].argmax() == 0


def test_rescaled_rollout_is_the_quotient_written_out(model):
    trace = model.trace(document(model))
    n = trace.token_count
    even = []
    for layer, attention in enumerate(trace.attentions):
        windows = {
            "mistral": 5,
            "phi3": 6,
            "qwen2": (n, n, 4)[layer],
            "gemma2": (5, n, 5)[layer],
            "gemma3_text": (5, 5, n)[layer],
        }
        window = windows.get(model.network.config.model_type, n)
        seen = np.tril(np.ones((n, n))) - np.tril(np.ones((n, n)), -window)
        even.append(seen / seen.sum(axis=1, keepdims=True))
        np.testing.assert_allclose(even_attention(attention).dense()[0], even[-1])

    def rolled(layers):
        product = np.eye(n)
        for matrix in layers:
            product = (matrix + np.eye(n)) / 2 @ product
        return product[-1]

    means = [attention.dense().mean(axis=0) for attention in trace.attentions]
    expected = rolled(means) / rolled(even)
    explanation = model.explain(document(model), "rollout", receptive_field=True)
    np.testing.assert_allclose(explanation.scores, expected / expected.sum(), atol=1e-12)
    np.testing.assert_allclose(explanation.layers[-1], explanation.scores, atol=1e-12)
    np.testing.assert_allclose(rolled(means), rollout_rows(trace.mean_attentions, trace.readout), atol=1e-12)


@pytest.mark.parametrize("name", ["rollout", "flow"])
def test_where_all_tokens_see_each_other_there_is_nothing_to_rescale(name):
    model = tiny_model("bert")
    with pytest.raises(OptionError, match="is for causal models"):
        model.explain(document(model), name, receptive_field=True)


def test_masks_stored_by_older_releases_are_not_leftover_weights(tmp_path):
    tiny_module("gpt2", dtype=torch.float32).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights |= {"transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8), "transformer.h.0.attn.masked_bias": torch.ones(1)}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert load(tmp_path).network.untrained is False


def test_an_encoder_that_predicts_the_next_token_is_refused_and_fills_in_masks():
    module = BertLMHeadModel(tiny_module("bert").config)
    with pytest.raises(UnsupportedError, match="its tokens also see those after them.*task='masked_lm'"):
        load(module)
    assert load(module, task="masked_lm").task == "masked_lm"


def test_an_encoder_run_as_a_decoder_is_refused():
    with pytest.raises(UnsupportedError, match="set up as a decoder"):
        tiny_model("bert", is_decoder=True)


@pytest.mark.parametrize("method", ["attcat", "alti", "occlusion", "integrated_gradients", "kernel_shap"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral"])
def test_a_classifier_without_a_pad_token_reads_the_last_token_of_every_document_of_a_batch(family, method):
    module = tiny_module(family, pad_token_id=None)
    model = load(module)
    options = {"integrated_gradients": {"steps": 4}}.get(method, {})
    documents = [[5, 6, 7, 8, 0], [11, 0, 12], [0], [1, 2]]  # with ids that fill up a batch elsewhere
    encodings = [model.encode(ids=ids) for ids in documents]
    together = silent(model, encodings, method, target=1, **options)
    for ids, encoding, explanation in zip(documents, encodings, together, strict=True):
        logits = module(torch.tensor([ids])).logits[0].detach()
        np.testing.assert_allclose(model.trace(encoding).logits, logits, atol=exactness(model))
        np.testing.assert_allclose(explanation.prediction.logits, logits, atol=exactness(model))
        alone = silent(model, encoding, method, target=1, **options)
        np.testing.assert_allclose(explanation.scores, alone.scores, atol=1e-10)
        assert model.trace(encoding).readout.tolist() == [0.0] * (len(ids) - 1) + [1.0]
    assert module.config.pad_token_id is None
