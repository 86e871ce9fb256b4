"""Models of types without an entry in `families`: what needs embeddings and logits only is exact, the rest refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers
from captum.attr import IntegratedGradients
from transformers import (
    AutoConfig,
    AutoModelForAudioClassification,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    LEDConfig,
)

import sightline as sl
from sightline.errors import ModelError, UnsupportedError
from sightline.methods import METHODS
from sightline.models.config import check_open_type
from sightline.models.model_types import MAPPINGS
from sightline.settings.explain import UNSEEN_METHODS
from tests.contract.test_contract import QUICK
from tests.tiny_models import SIZES, UNSEEN_FACTS, randomise, tiny_ids, tiny_module
from tests.tiny_tokenizers import wordpiece

pytestmark = pytest.mark.filterwarnings("ignore:Sightline knows only the embeddings")
TYPES = tuple(UNSEEN_FACTS)
OFFERED = {
    *("gradient", "input_x_gradient", "integrated_gradients", "gradient_shap", "owen", "occlusion", "lime"),
    *("kernel_shap", "random"),
}


@pytest.fixture(scope="module", params=TYPES)
def model(request):
    return sl.load(tiny_module(request.param))


def document(model, n=9, seed=0):
    return model.encode(ids=tiny_ids("bert", n, seed))


def library_logits(model, encoding, **inputs):
    ids = torch.from_numpy(encoding.ids)[None]
    return model.network.module(**(inputs or {"input_ids": ids})).logits[0]


def test_logits_and_embedding_gradient_equal_the_library_s(model):
    encoding = document(model)
    embedded = model.network.module.get_input_embeddings()(torch.from_numpy(encoding.ids)[None]).requires_grad_()
    logits = library_logits(model, encoding, inputs_embeds=embedded)
    (expected,) = torch.autograd.grad(logits[1], embedded)
    trace = model.trace(encoding, target=1, quantity="logit")
    np.testing.assert_allclose(trace.logits, logits.detach().numpy(), atol=1e-10)
    np.testing.assert_allclose(trace.embedding_gradient, expected[0].numpy(), atol=1e-10)


def test_integrated_gradients_equal_captum_s(model):
    encoding = document(model)
    table = model.network.module.get_input_embeddings()
    baseline = encoding.ids.copy()
    baseline[~encoding.special] = 7
    end, start = (table(torch.from_numpy(ids)[None]).detach() for ids in (encoding.ids, baseline))
    engine = IntegratedGradients(lambda points: model.network.module(inputs_embeds=points).logits[:, 1])
    expected = engine.attribute(end, start, n_steps=20, internal_batch_size=1).sum(-1)[0].numpy()
    scores = model.explain(
        encoding,
        "integrated_gradients",
        target=1,
        steps=20,
        baseline=[7] * int((~encoding.special).sum()),
        quantity="logit",
    ).scores
    np.testing.assert_allclose(scores, expected, atol=1e-8)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", sorted(OFFERED))
def test_every_offered_method_keeps_its_promises(model, method):
    options = QUICK.get(method, {})
    encodings = [document(model, n, n) for n in (9, 7)]
    together = model.explain(encodings, method, **options)
    for encoding, explanation in zip(encodings, together, strict=True):
        assert explanation.scores.shape == (len(encoding),)
        assert np.isfinite(explanation.scores).all()
        np.testing.assert_array_equal(model.explain(encoding, method, **options).scores, explanation.scores)


def test_all_other_methods_are_refused_before_anything_runs(model):
    refused = model.methods_not_offered
    assert set(refused) == set(METHODS.names()) - OFFERED
    passes = model.network.forward_passes
    for method in refused:
        with pytest.raises(
            UnsupportedError, match=f"'{method}' needs the layers or the attention of a model, and of .* Use one of"
        ):
            model.explain(document(model), method)
    with pytest.raises(UnsupportedError, match="does not know the layers"):
        model.inspect(document(model))
    assert model.network.forward_passes == passes


@pytest.mark.filterwarnings("ignore:The integral along the path stopped")
def test_defaults_report_and_check_work(model):
    assert model.default_methods == UNSEEN_METHODS
    encoding = document(model)
    report = model.report(encoding, check=True)
    assert report.inside is None
    assert tuple(report.explanations) == UNSEEN_METHODS
    assert report.first.check is not None


def test_documents_of_different_length_are_never_padded(model):
    encodings = [document(model, n, n) for n in (4, 9, 4, 6)]
    for encoding, logits in zip(encodings, model.network.run_many(encodings), strict=True):
        np.testing.assert_allclose(logits, library_logits(model, encoding).detach(), atol=1e-10)


def test_loading_says_what_is_not_offered():
    with pytest.warns(UserWarning, match="only the embeddings and logits of 'fnet' models, .* not offered: .*rollout"):
        sl.load(tiny_module("fnet"))


def test_a_folder_is_loaded_as_data(tmp_path):
    for model_type in ("xlnet", "fnet"):
        tokenizer = wordpiece()
        folder = tmp_path / model_type
        tiny_module(model_type, vocab_size=len(tokenizer), dtype=torch.float32, pad_token_id=0).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model = sl.load(folder)
        explanation = model.explain("The old mill.")
        assert explanation.method == "integrated_gradients"
        assert model.network.config.model_type == model_type


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n_layer": 10**6}, "'n_layer' .* to 512"),
        ({"d_model": 10**12}, "'d_model' .* to 16,777,216"),
        ({"d_inner": 16_000_000}, "do not fit its config"),
        ({"summary_type": "../../etc/passwd"}, "'summary_type' .* a plain name"),
        ({"summary_type": {"a": {"b": 1}}}, "'summary_type' .* a number, a plain name"),
        ({"dropout": float("nan")}, "could not be read|finite number|NaN"),
        ({"is_encoder_decoder": True}, "read a text twice"),
        ({"auto_map": {"AutoConfig": "c.C"}}, "never runs code"),
    ],
)
def test_a_config_that_asks_for_something_else_is_refused(changes, sentence, tmp_path):
    tiny_module("xlnet", dtype=torch.float32).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises((ModelError, UnsupportedError), match=sentence):
        sl.load(tmp_path)


def test_models_made_of_several_models_are_refused():
    with pytest.raises(UnsupportedError, match="made of several models .text_config, vision_config"):
        check_open_type("clip", {})


SMALL = {
    **SIZES,
    "num_hidden_layers": 2,
    "vocab_size": 128,
    "num_labels": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.mark.parametrize(
    ("auto", "model_type"), [(AutoModelForSequenceClassification, "bart"), (AutoModelForQuestionAnswering, "led")]
)
def test_a_model_that_looks_its_words_up_twice_is_refused(auto, model_type, tmp_path):
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    windows = {"attention_window": 4} if model_type == "led" else {}
    config = AutoConfig.for_model(model_type, vocab_size=64, decoder_attention_heads=2, **sizes, **windows)
    module = auto.from_config(config)
    module.save_pretrained(tmp_path)
    for source in (tmp_path, module):
        with pytest.raises(UnsupportedError, match=r"no head on the encoder alone .*, or Longformer for long texts\.$"):
            sl.load(source)


def test_the_library_has_no_head_on_the_encoder_of_led():
    """If this fails, LED's encoder, a Longformer, can be supported."""
    heads = [task for task, mapping in MAPPINGS.items() if LEDConfig in getattr(transformers, mapping)]
    assert heads == ["question_answering"]


PICTURES = {"image_size": 16, "patch_size": 8}
WAVES = {"conv_dim": [8, 8], "conv_kernel": [4, 4], "conv_stride": [2, 2], "num_conv_pos_embedding_groups": 2}


@pytest.mark.parametrize(
    ("auto", "model_type", "facts", "sentence"),
    [
        (AutoModelForImageClassification, "vit", PICTURES, "'vit' read pictures, and Sightline explains models that"),
        (
            AutoModelForImageClassification,
            "dinov2",
            PICTURES,
            "'dinov2' read pictures, and Sightline explains models that",
        ),
        (AutoModelForAudioClassification, "wav2vec2", WAVES, "'wav2vec2' read sound, and Sightline explains models"),
        (AutoModelForSequenceClassification, "layoutlm", {}, r"place of every word on its page besides .* \(bbox\)"),
    ],
)
def test_a_model_that_reads_something_other_than_text_is_refused(auto, model_type, facts, sentence, tmp_path):
    module = auto.from_config(AutoConfig.for_model(model_type, **SMALL | facts))
    module.save_pretrained(tmp_path)
    for source in (tmp_path, module):
        for task in (None, "sequence_classification"):
            with pytest.raises(UnsupportedError, match=sentence):
                sl.load(source, task=task)


def test_a_model_that_pools_tokens_loads_from_a_folder(tmp_path):
    tiny_module("funnel").save_pretrained(tmp_path)
    assert len(sl.load(tmp_path).explain(document(sl.load(tmp_path)), method="gradient").scores) == 9


@pytest.mark.parametrize(
    ("model_type", "facts", "sentence"),
    [
        ("canine", {}, "'canine' model has no table of word embeddings"),
        ("perceiver", {"d_model": 32, "d_latents": 32, "num_latents": 4}, "'perceiver' model has no table of word"),
        ("ibert", {}, "word embeddings of this 'ibert' model returns more than vectors"),
        ("nystromformer", {"num_landmarks": 4, "segment_means_seq_len": 64}, "cannot be run: shape"),
    ],
)
def test_a_model_that_cannot_be_explained_is_refused_when_it_is_loaded(model_type, facts, sentence):
    config = AutoConfig.for_model(model_type, **SMALL | facts)
    with pytest.raises((ModelError, UnsupportedError), match=sentence):
        sl.load(AutoModelForSequenceClassification.from_config(config))


@pytest.mark.parametrize(
    ("auto", "model_type", "facts"),
    [
        # It scales embeddings in place.
        (AutoModelForSequenceClassification, "ctrl", {"n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 64}),
        (AutoModelForSequenceClassification, "yoso", {}),
        (AutoModelForSequenceClassification, "rembert", {"input_embedding_size": 16, "output_embedding_size": 16}),
        (AutoModelForSequenceClassification, "roformer", {}),
        (AutoModelForSequenceClassification, "mixtral", {"num_key_value_heads": 2, "num_local_experts": 2}),
        (AutoModelForCausalLM, "mamba", {"state_size": 4}),
    ],
    ids=str,
)
def test_architectures_of_every_kind_are_explained_from_outside(auto, model_type, facts):
    config = AutoConfig.for_model(model_type, **SMALL | facts)
    module = randomise(auto.from_config(config))
    model = sl.load(module)
    encoding = document(model)
    expected = module(torch.from_numpy(encoding.ids)[None]).logits[0].detach().numpy()
    np.testing.assert_allclose(
        model.trace(encoding).logits, expected[-1] if expected.ndim == 2 else expected, atol=1e-4
    )
    for method in ("gradient", "integrated_gradients", "occlusion", "lime", "kernel_shap"):
        assert np.isfinite(model.explain(encoding, method, **QUICK.get(method, {})).scores).all()
    assert "rollout" in model.methods_not_offered


@pytest.mark.parametrize("model_type", ["xlnet", "xlm"])
def test_a_language_model_that_sees_later_tokens_does_not_predict_the_next_one(model_type, tmp_path):
    """Without the masks of its training XLNet sees the token that it is to predict; XLM hides words instead."""
    facts = {**SMALL, **UNSEEN_FACTS["xlnet"]} if model_type == "xlnet" else {**SMALL, "emb_dim": 32, "n_heads": 4}
    module = randomise(AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **facts)))
    module.save_pretrained(tmp_path)
    for source in (tmp_path, module):
        with pytest.raises(
            UnsupportedError, match=rf"This '{model_type}' model sees the tokens that follow, .* next token"
        ):
            sl.load(source, task="causal_lm")
    if model_type == "xlm":
        assert sl.load(tmp_path).task == "masked_lm"
