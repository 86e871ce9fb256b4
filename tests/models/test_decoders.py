"""Decoders from folders: rotary positions as configs write them, tied weights, pad tokens, and words as targets."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

import sightline as sl
from sightline.errors import InputError, ModelError, TargetError, UnsupportedError
from tests.tiny_models import DECODERS, VOCABULARY, tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import byte_level

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
IDS = tiny_ids("llama", 13)


def save(folder, module, **changes):
    module.to(torch.float32).save_pretrained(folder)
    if changes:
        path = folder / "config.json"
        config = {name: value for name, value in json.loads(path.read_text()).items() if name != "rope_parameters"}
        path.write_text(json.dumps(config | changes))
    return folder


@pytest.mark.parametrize("auto", [AutoModelForCausalLM, AutoModelForSequenceClassification])
@pytest.mark.parametrize("family", DECODERS)
def test_a_folder_gives_what_the_library_computes(family, auto, tmp_path):
    save(tmp_path, tiny_module(family, auto=auto))
    model = sl.load(tmp_path)
    assert model.task == ("causal_lm" if auto is AutoModelForCausalLM else "sequence_classification")
    assert model.network.untrained is False
    module = auto.from_pretrained(tmp_path, attn_implementation="eager").eval()
    expected = module(torch.tensor([IDS])).logits[0].detach()
    logits = model.trace(model.encode(ids=IDS)).logits
    np.testing.assert_allclose(logits, expected[-1] if expected.ndim == 2 else expected, atol=1e-5)


@pytest.mark.parametrize(
    "rotation",
    [
        {"rope_theta": 500.0},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_theta": 500.0, "rope_scaling": LLAMA3},
        {"rope_parameters": {**LLAMA3, "rope_theta": 500.0}},
    ],
)
def test_rotary_positions_of_old_and_new_configs_are_those_of_the_library(rotation, tmp_path):
    save(tmp_path, tiny_module("llama"), **rotation)
    module = AutoModelForSequenceClassification.from_pretrained(tmp_path, attn_implementation="eager").eval()
    expected = module(torch.tensor([IDS])).logits[0].detach().numpy()
    model = sl.load(tmp_path)
    np.testing.assert_allclose(model.trace(model.encode(ids=IDS)).logits, expected, atol=1e-5)
    plain = tiny_model("llama", dtype=torch.float32)
    assert np.abs(plain.trace(plain.encode(ids=IDS)).logits - expected).max() > 1e-3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "'rope_scaling' .* .default or linear or llama3"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "'rope_scaling' .* positive numbers"),
        ({"rope_scaling": {"rope_type": "linear", "type": "dynamic", "factor": 2.0}}, "'rope_scaling'"),
        ({"num_key_value_heads": 3}, "3 key and value heads do not divide 4 attention heads"),
        ({"head_dim": 7}, "even width per head, and it is 7"),
        ({"use_bidirectional_attention": True}, "'use_bidirectional_attention' .* must be false or null"),
        ({"sliding_window": 0}, "'sliding_window' .* whole number from 1"),
    ],
)
def test_a_setting_that_cannot_be_run_is_named(changes, sentence, tmp_path):
    with pytest.raises(ModelError, match=sentence):
        sl.load(save(tmp_path, tiny_module("llama"), **changes))


@pytest.mark.parametrize("family", DECODERS)
def test_a_classifier_whose_pad_token_ends_texts_reads_the_token_the_library_reads(family):
    module = tiny_module(family, pad_token_id=102, eos_token_id=102)
    model = sl.load(module)
    for ids in (IDS, [*IDS[:-1], 55], [*IDS, 102, 102]):
        encoding = model.encode(ids=ids)
        expected = module(torch.tensor([ids])).logits[0].detach().numpy()
        np.testing.assert_allclose(model.trace(encoding).logits, expected, atol=1e-5)
        place = int(np.flatnonzero(model.trace(encoding).readout)[0])
        assert ids[place] != 102
        assert set(ids[place + 1 :]) <= {102}


def test_a_decoder_that_reads_in_both_directions_is_refused():
    with pytest.raises(UnsupportedError, match="'gemma3_text' model is a decoder whose tokens see each other in both"):
        sl.load(tiny_module("gemma3_text", use_bidirectional_attention=True))


def test_padding_on_the_left_is_refused():
    model = tiny_model("llama")
    with pytest.raises(InputError, match="begin with 2 pad tokens .* leave padding out"):
        model.encode(ids=[0, 0, *IDS])
    with pytest.raises(InputError, match="begin with 1 pad token "):
        model.encode(ids=[0, *IDS])
    assert len(tiny_model("llama", pad_token_id=101).encode(ids=IDS)) == len(IDS)  # one that also begins texts
    assert len(tiny_model("bert").encode(ids=[0, *IDS])) == len(IDS) + 1


def test_a_head_that_the_family_lacks_is_refused_with_those_it_has(tmp_path):
    save(tmp_path, tiny_module("llama"))
    with pytest.raises(
        UnsupportedError, match=r"^'llama' models have no head for masked_lm; .*: sequence_classification, .*\.$"
    ):
        sl.load(tmp_path, "masked_lm")


@pytest.mark.parametrize("auto", [AutoModelForCausalLM, AutoModelForSequenceClassification])
@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_without_pad_token_gives_the_same_alone_and_in_a_batch(family, auto):
    tokenizer = byte_level()
    tokenizer.pad_token = None
    tokenizer.padding_side = "left"  # nothing is padded by the tokenizer
    module = tiny_module(family, auto=auto, pad_token_id=None, vocab_size=max(VOCABULARY, len(tokenizer)))
    model = sl.load(module, tokenizer=tokenizer)
    texts = ["the old mill", "hello world, the river and the mill"]
    alone = [model.explain(text, "input_x_gradient") for text in texts]
    for one, other in zip(alone, model.explain(texts, "input_x_gradient"), strict=True):
        np.testing.assert_allclose(other.scores, one.scores, atol=1e-5)
        ids = torch.tensor([one.encoding.ids.tolist()])
        logits = module(ids).logits[0].detach().numpy()
        expected = logits[-1] if logits.ndim == 2 else logits
        np.testing.assert_allclose(model.trace(one.encoding).logits, expected, atol=1e-4)


@pytest.fixture
def reader():
    """A language model with a byte-level vocabulary, in which a word begins with its space."""
    tokenizer = byte_level()
    module = tiny_module("llama", auto=AutoModelForCausalLM, vocab_size=max(VOCABULARY, len(tokenizer)))
    return sl.load(module, tokenizer=tokenizer)


def test_a_target_word_is_the_token_a_sentence_would_have(reader):
    vocabulary = reader.tokenizer.get_vocab()
    assert {"hello", "Ġhello"} <= set(vocabulary)
    trace = reader.trace("the old mill", "hello")
    assert trace.target.index == vocabulary["Ġhello"]
    contrast = reader.trace("the old mill", ("river", "world")).target
    assert (contrast.index, contrast.contrast) == (vocabulary["Ġriver"], vocabulary["Ġworld"])
    assert reader.trace("the old mill", vocabulary["hello"]).target.index == vocabulary["hello"]


def test_a_contrast_of_tokens_is_the_difference_of_their_logits(reader):
    trace = reader.trace("the old mill", ("river", "world"))
    assert trace.value == pytest.approx(trace.logits[trace.target.index] - trace.logits[trace.target.contrast])


def test_a_target_word_of_several_pieces_is_a_clear_choice(reader):
    with pytest.raises(
        TargetError, match="'miller' is not one token of this vocabulary but 2 .* name one of them"
    ) as caught:
        reader.explain("the old", "gradient", "miller")
    assert "(' mill', 'er')" in str(caught.value)
    assert reader.trace("the old", " mill").target.index == reader.tokenizer.convert_tokens_to_ids("Ġmill")
