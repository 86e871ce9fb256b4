"""Loading from a folder: what is accepted, and what is refused with a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import sightline as sl
from sightline.errors import ModelError, NoModelError, OptionError, SightlineError, UnsupportedError, UsageError
from tests.tiny_models import FAMILIES, tiny_ids, tiny_module
from tests.tiny_tokenizers import wordpiece


@pytest.fixture
def folder(tmp_path):
    """A model folder with weights and a tokenizer that fit."""
    tokenizer = wordpiece()
    tiny_module(vocab_size=len(tokenizer), dtype=torch.float32).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def edit_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_is_enough_for_every_family(family, tmp_path):
    module = tiny_module(family, dtype=torch.float32)
    module.save_pretrained(tmp_path)
    model = sl.load(tmp_path)
    ids = tiny_ids(family, 9)
    expected = module(torch.tensor([ids])).logits[0].detach().numpy()
    np.testing.assert_allclose(model.trace(model.encode(ids=ids)).logits, expected, rtol=1e-5, atol=1e-6)
    assert model.task == "sequence_classification"
    assert model.name == tmp_path.name


def test_text_goes_in_where_a_tokenizer_is(folder):
    explanation = sl.load(folder).explain("the cat sat on the mat", method="attcat")
    assert "cat" in [word.text for word in explanation.words()]
    assert explanation.provenance["weights"] == sl.load(folder).network.weights_hash


def test_half_precision_weights_are_computed_in_single_precision(folder):
    edit_weights(folder, lambda weights: weights.update({k: v.half() for k, v in weights.items()}))
    assert sl.load(folder).network.dtype == torch.float32
    assert sl.load(folder, dtype="float64").network.dtype == torch.float64


def test_a_missing_weight_is_refused_and_marked_when_allowed(folder):
    edit_weights(folder, lambda weights: weights.pop("classifier.weight"))
    with pytest.raises(ModelError, match=r"1 missing \(for example classifier.weight\)"):
        sl.load(folder)
    explanation = sl.load(folder, allow_random=True).explain("the cat sat")
    assert explanation.checks["untrained"] is True


def test_an_unexpected_weight_is_refused(folder):
    edit_weights(folder, lambda weights: weights.update({"bert.encoder.layer.9.extra": torch.ones(2)}))
    with pytest.raises(ModelError, match=r"1 unexpected \(for example bert.encoder.layer.9.extra\)"):
        sl.load(folder)


def test_a_weight_of_another_shape_is_refused(folder):
    edit_weights(folder, lambda weights: weights.update({"classifier.bias": torch.ones(7)}))
    with pytest.raises(ModelError, match=r"1 of another shape \(for example classifier.bias\)"):
        sl.load(folder)


def test_leftovers_that_cannot_matter_are_accepted(folder):
    edit_weights(folder, lambda weights: weights.update({"bert.embeddings.position_ids": torch.arange(4)[None]}))
    assert sl.load(folder).explain("the cat sat").checks["untrained"] is False


def test_pickle_is_read_only_with_permission(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="are a pickle .* --allow-pickle"):
        sl.load(folder)
    assert sl.load(folder, allow_pickle=True).explain("the cat sat").scores.any()


def test_a_folder_without_weights_needs_permission_to_be_random(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="has no weights"):
        sl.load(folder)
    assert sl.load(folder, allow_random=True).explain("the cat sat").checks["untrained"] is True


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model-q4.gguf", "GGUF"),
        ("decoder_model.onnx", "ONNX"),
        ("onnx/decoder_model.onnx", "ONNX"),
        ("tf_model.h5", "TensorFlow"),
        ("flax_model.msgpack", "Flax"),
        ("openvino_model.xml", "OpenVINO"),
    ],
)
def test_weights_of_other_programs_are_named(name, kind, folder):
    (folder / "model.safetensors").unlink()
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"weights")
    sentence = rf"has {kind} weights \({path.name}\), which Sightline does not read: give the original model\."
    with pytest.raises(ModelError, match=rf"has no weights \(model\.safetensors\)\. It {sentence}"):
        sl.load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=rf"so it is not a model folder\. It {sentence}$"):
        sl.load(folder)
    if kind == "GGUF":
        with pytest.raises(ModelError, match="is a file; give the folder of the original model that holds"):
            sl.load(path)


@pytest.mark.parametrize("beside", [False, True])
def test_an_adapter_is_not_taken_for_a_model(beside, folder):
    """Beside whole weights it would be ignored, and the model without its fine-tuning explained."""
    base = {"peft_type": "LORA", "base_model_name_or_path": "owner/base"}
    (folder / "adapter_config.json").write_text(json.dumps(base))
    if beside:
        (folder / "adapter_model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    else:
        (folder / "config.json").unlink()
        (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    with pytest.raises(
        ModelError, match=r"adapter to owner/base \(adapter_config\.json\) and not a whole model: merge"
    ):
        sl.load(folder)


def test_of_learned_prompts_the_advice_is_not_to_merge_them(folder):
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "PROMPT_TUNING"}))
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    with pytest.raises(ModelError, match="learned prompts cannot be merged with it, so give a function"):
        sl.load(folder)


def test_a_merged_model_may_keep_the_config_of_its_adapter(folder):
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    assert sl.load(folder).labels


def test_a_folder_of_checkpoints_names_the_last_one(folder):
    (folder / "checkpoint-20").mkdir()
    (folder / "config.json").rename(folder / "checkpoint-20" / "config.json")
    with pytest.raises(ModelError, match=r"not a model folder\. Did you mean its folder 'checkpoint-20'\?$"):
        sl.load(folder)


def test_a_damaged_weights_file_is_one_sentence(folder):
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="could not be loaded"):
        sl.load(folder)


def test_places_that_are_not_models(tmp_path):
    with pytest.raises(UsageError, match="There is no model folder"):
        sl.load(tmp_path / "nowhere")
    with pytest.raises(NoModelError, match=r"has no config.json"):
        sl.load(tmp_path)
    (tmp_path / "config.json").write_text("{broken")
    with pytest.raises(ModelError, match="config of .* could not be read"):
        sl.load(tmp_path)
    with pytest.raises(ModelError, match="is a file"):
        sl.load(tmp_path / "config.json")
    with pytest.raises(ModelError, match="no model of that name could be fetched"):
        sl.load("nobody/no-such-model")


def test_a_mistyped_folder_is_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "reviews").mkdir(parents=True)
    (tmp_path / "models" / "reviews" / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"no model folder 'models/revews'. Did you mean 'reviews'\?$"):
        sl.load("models/revews")
    monkeypatch.chdir(tmp_path / "models")
    with pytest.raises(UsageError, match=r"no model folder 'revews'. Did you mean 'reviews'\? .* write hf://revews\.$"):
        sl.load("revews")
    for name in ("hf://", "hf://a/b/c", "hf://../reviews"):
        with pytest.raises(UsageError, match="does not name a model on the hub"):
            sl.load(name)


def test_an_unsupported_family_or_head_is_named(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
    with pytest.raises(UnsupportedError, match="found: BertModel"):
        sl.load(folder)
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "blossom"}))
    with pytest.raises(SightlineError, match="'blossom' are not supported"):
        sl.load(folder)


def test_a_tokenizer_with_more_words_than_the_model_is_refused(folder):
    tiny_module(vocab_size=20, dtype=torch.float32).save_pretrained(folder)
    with pytest.raises(ModelError, match="does not fit the model"):
        sl.load(folder)


def test_without_tokenizer_text_is_refused_and_ids_are_taken(tmp_path):
    tiny_module(dtype=torch.float32).save_pretrained(tmp_path)
    model = sl.load(tmp_path)
    with pytest.raises(ModelError, match="has no tokenizer"):
        model.explain("the cat sat")
    assert model.explain(model.encode(ids=tiny_ids())).scores.shape == (11,)


def test_number_types_and_implementations_are_checked(folder):
    with pytest.raises(OptionError, match="no number type 'int8'"):
        sl.load(folder, dtype="int8")
    with pytest.raises(OptionError, match="no attention implementation 'flash'"):
        sl.load(folder, attention="flash")
    with pytest.raises(OptionError, match="a tokenizer is given as tokenizer="):
        sl.load(folder, wordpiece())


@pytest.mark.parametrize("dtype", [torch.int8, "float8_e4m3fn", "complex64", "linspace"])
def test_a_number_type_no_model_runs_in_is_refused_with_those_that_do(dtype):
    with pytest.raises(OptionError, match="Use one of: float32, float64, float16, bfloat16"):
        sl.load(tiny_module(), dtype=dtype)


@pytest.mark.parametrize("device", ["abc", "cuda:77"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(device):
    with pytest.raises(OptionError, match=f"The device '{device}' cannot be used here: .*Try 'cpu'"):
        sl.load(tiny_module(), device=device)


def test_a_tokenizer_folder_that_is_not_there_is_reported_as_missing(tmp_path):
    with pytest.raises(ModelError, match="There is no tokenizer folder"):
        sl.load(tiny_module(), tokenizer=tmp_path / "nowhere")


def test_global_tokens_belong_to_longformer(folder):
    with pytest.raises(OptionError, match="Global tokens exist only in Longformer"):
        sl.load(folder).encode("the cat sat", global_tokens=[0])


def test_without_tokenizer_mask_and_unknown_token_are_those_of_the_first_vocabulary():
    model = sl.load(tiny_module("bert", vocab_size=200))
    assert model.network.token_ids == {"pad": 0, "unk": 100, "mask": 103}
    ids = [101, 110, 111, 112, 102]
    explanation = model.explain(model.encode(ids=ids), method="occlusion", quantity="logit")
    assert explanation.checks["replacement"] == "mask"

    def logit(changed):
        return model.trace(model.encode(ids=changed)).logits[explanation.target.index]

    expected = [logit(ids) - logit([*ids[:i], 103, *ids[i + 1 :]]) for i in (1, 2, 3)]
    np.testing.assert_allclose(explanation.scores[1:4], expected, atol=1e-12)
    assert sl.load(tiny_module("bert", vocab_size=60)).network.token_ids == {"pad": 0}


def test_windows_of_a_longformer_need_not_divide_each_other():
    module = tiny_module("longformer", attention_window=[4, 4, 6])
    ids = tiny_ids("longformer", 24)
    expected = module(torch.tensor([ids])).logits[0].detach().numpy()
    model = sl.load(module)
    np.testing.assert_allclose(model.trace(model.encode(ids=ids)).logits, expected, atol=1e-6)


def test_bfloat16_models_are_explained():
    model = sl.load(tiny_module("bert", dtype=torch.bfloat16))
    explanations = model.explain(model.encode(ids=tiny_ids("bert", 9)), methods=["attcat", "rollout", "occlusion"])
    for explanation in explanations.values():
        assert np.isfinite(explanation.scores).all()
        assert explanation.prediction.logits.dtype == np.float32


def test_a_model_without_a_position_for_a_token_is_refused():
    module = tiny_module("roberta", max_position_embeddings=2, pad_token_id=1)
    with pytest.raises(ModelError, match="has no position for a token: max_position_embeddings is too small"):
        sl.load(module)


@pytest.mark.parametrize("limit", [0, 0.5, -3, float("inf"), float("nan")])
def test_a_meaningless_limit_of_the_tokenizer_is_ignored(limit):
    tokenizer = wordpiece()
    tokenizer.model_max_length = limit
    model = sl.load(tiny_module(vocab_size=len(tokenizer)), tokenizer=tokenizer)
    assert model.max_tokens == model.network.max_tokens
