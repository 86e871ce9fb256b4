"""Settings of config.json that no table lists: named in one warning, refused where they change the computation."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

import sightline as sl
from sightline.errors import ModelError, UnsupportedError
from sightline.models import config
from sightline.models.config import MOST_NAMES
from tests.tiny_models import FAMILIES, UNSEEN_FACTS, tiny_ids, tiny_module

OF_WELL_KNOWN_MODELS = {
    "_name_or_path": "bert-base",
    "torch_dtype": "float32",
    "task_specific_params": {"summary": {"length": 3}},
    "gradient_checkpointing": False,
    "output_past": True,
    "finetuning_task": "sst2",
    "pruned_heads": {},
    "directionality": "bidi",
    "pooler_type": "first_token_transform",
    "num_beams": 4,
    "max_length": 20,
    "output_attentions": True,
    "torchscript": False,
    "tokenizer_class": "BertTokenizer",
    "anything": None,
}


def save(folder, family="bert", **changes):
    tiny_module(family, dtype=torch.float32).save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def warnings_of_loading(folder):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sl.load(folder)
    return [str(entry.message) for entry in caught if "do not know these settings" in str(entry.message)]


def test_unknown_settings_are_named_in_one_warning(tmp_path):
    (sentence,) = warnings_of_loading(save(tmp_path, zeta=1, layer_scale=0.5, mixture="soft"))
    assert f"the config of '{tmp_path}', and leave them out: layer_scale, mixture, zeta." in sentence


def test_many_names_and_names_of_strangers_stay_one_line(tmp_path):
    names = {f"setting_{number:04}": 1 for number in range(500)}
    (sentence,) = warnings_of_loading(save(tmp_path, **names, **{"a\n\x1b[31m" + "x" * 5_000: 1}))
    assert f"and {501 - MOST_NAMES} more" in sentence
    assert sentence.isprintable()
    assert len(sentence) < 2_000


@pytest.mark.parametrize("family", [*FAMILIES, *UNSEEN_FACTS])
@pytest.mark.filterwarnings("ignore:Sightline knows only the embeddings")
def test_what_transformers_saves_is_known(family, tmp_path):
    assert warnings_of_loading(save(tmp_path, family)) == []


def test_settings_without_effect_are_dropped_without_a_word(tmp_path):
    assert warnings_of_loading(save(tmp_path, **OF_WELL_KNOWN_MODELS)) == []


def test_a_setting_that_only_transformers_knows_must_have_its_default(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "KNOWN", config.KNOWN - {"is_decoder"})
    assert warnings_of_loading(save(tmp_path, is_decoder=False)) == []
    with pytest.raises(
        UnsupportedError, match=r"'is_decoder' in the config of '.*' is true, which changes what .*bert"
    ):
        sl.load(save(tmp_path, is_decoder=True))


@pytest.mark.parametrize("changes", [{"rotary_pct": 1.0}, {"rotary_emb_base": 50}])
def test_older_names_of_rotary_positions_are_followed(changes, tmp_path):
    save(tmp_path, "gpt_neox", rope_parameters=None, **changes)
    content = json.loads((tmp_path / "config.json").read_text())
    module = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**content))
    module.load_state_dict(tiny_module("gpt_neox", dtype=torch.float32).state_dict())
    ids = tiny_ids("gpt_neox")
    model = sl.load(tmp_path)
    with torch.no_grad():
        expected = module.eval()(input_ids=torch.tensor([ids])).logits[0].numpy()
    np.testing.assert_allclose(model.predict(model.encode(ids=ids)).logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "is_causal", "reason"),
    [("llama", False, "see each other in both directions"), ("bidirectional-gpt2", True, "set up as a decoder")],
)
def test_a_direction_that_the_family_does_not_have_is_refused(family, is_causal, reason, tmp_path):
    with pytest.raises(UnsupportedError, match=reason):
        sl.load(save(tmp_path, family, is_causal=is_causal))


def test_what_transformers_refuses_is_refused_with_its_reason(tmp_path):
    with pytest.raises(ModelError, match=r"could not be read: .*'layer_norm_eps'.* expected float, got int"):
        sl.load(save(tmp_path, layer_norm_eps=0))
