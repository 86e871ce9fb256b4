"""What ships in the package: the model folder, its size and files, and the four documents."""

import json
import re
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from sightline.builtin import documents, model_folder
from tools.builtin_model.evaluate import NEUTRAL


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(model_folder())


@pytest.fixture(scope="module")
def loaded():
    return AutoModelForSequenceClassification.from_pretrained(model_folder(), output_loading_info=True)


def test_every_weight_of_the_model_is_in_the_file_and_no_other(loaded):
    _, info = loaded
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]


def test_it_is_a_longformer_with_two_named_classes(loaded):
    model, _ = loaded
    assert type(model).__name__ == "LongformerForSequenceClassification"
    assert model.config.id2label == {0: "programming languages", 1: "artificial intelligence"}
    assert model.config.label2id == {"programming languages": 0, "artificial intelligence": 1}
    assert model.config.attention_window == [128] * 4


def test_weights_are_stored_in_half_precision_and_computed_in_full(loaded):
    model, _ = loaded
    assert model.dtype == torch.float32
    with safe_open(model_folder() / "model.safetensors", framework="pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118


def test_folder_is_at_most_five_megabytes():
    files = [path for path in model_folder().iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 5_000_000


def test_folder_holds_weights_as_safetensors_and_no_pickle():
    names = {path.name for path in model_folder().iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert names >= {"MODEL_CARD.md", "metrics.json"}
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]


def test_tokenizer_has_the_special_tokens_where_the_model_expects_them(tokenizer, loaded):
    model, _ = loaded
    assert tokenizer.cls_token_id == model.config.bos_token_id == 0
    assert tokenizer.pad_token_id == model.config.pad_token_id == 1
    assert tokenizer.sep_token_id == model.config.sep_token_id == 2
    assert tokenizer.unk_token == "[UNK]"
    assert tokenizer.mask_token == "[MASK]"
    assert len(tokenizer) == model.config.vocab_size == 8_000
    ids = tokenizer("A compiler.")["input_ids"]
    assert ids[0] == tokenizer.cls_token_id
    assert ids[-1] == tokenizer.sep_token_id
    assert tokenizer.unk_token_id not in ids


def test_four_thousand_and_ninety_six_tokens_fit(loaded, tokenizer):
    model, _ = loaded
    assert tokenizer.model_max_length == 4_096
    # Positions count from pad + 1, so the last of 4,096 tokens reads row 4,097, the last one there is.
    assert model.config.max_position_embeddings == 4_096 + model.config.pad_token_id + 1


def test_the_four_documents_are_there_and_long(tokenizer):
    assert set(documents()) == {"machine_learning", "programming_languages", "learned_compilers", "library_report"}
    for name, path in documents().items():
        ids = tokenizer(path.read_text(encoding="utf-8"), verbose=False)["input_ids"]
        assert 1_500 <= len(ids) <= 4_000, name
        assert ids.count(tokenizer.unk_token_id) <= 2, name


@pytest.mark.parametrize(
    ("name", "label"),
    [("machine_learning", "artificial intelligence"), ("programming_languages", "programming languages")],
)
def test_the_clear_documents_are_classified_right(name, label, loaded, tokenizer):
    model, _ = loaded
    text = documents()[name].read_text(encoding="utf-8")
    assert probabilities(model, tokenizer, text)[model.config.label2id[label]] > 0.9


def probabilities(model, tokenizer, text):
    with torch.inference_mode():
        return model(**tokenizer(text, return_tensors="pt")).logits.softmax(1)[0]


@pytest.mark.parametrize("text", ["", "[MASK]", " ".join(["[MASK]"] * 500)])
def test_the_model_is_undecided_about_nothing(text, loaded, tokenizer):
    model, _ = loaded
    assert 0.4 <= probabilities(model, tokenizer, text)[1] <= 0.6


def test_the_model_is_undecided_about_everyday_sentences(loaded, tokenizer):
    model, _ = loaded
    chosen = [probabilities(model, tokenizer, text)[1] for text in NEUTRAL.read_text(encoding="utf-8").splitlines()]
    assert 0.4 <= sum(chosen) / len(chosen) <= 0.6
    assert sum(0.4 <= probability <= 0.6 for probability in chosen) >= len(chosen) / 2


def test_ten_words_of_the_demonstration_decide(loaded, tokenizer):
    """Without its few words about machine learning, the report of a library does not get that label."""
    model, _ = loaded
    text = documents()["library_report"].read_text(encoding="utf-8")
    words = [
        "neural",
        "network",
        "train",
        "trained",
        "training",
        "model",
        "learned",
        "learns",
        "predict",
        "predictions",
    ]
    without = re.sub(rf"\b({'|'.join(words)})\b", "", text)
    assert len(text.split()) - len(without.split()) < 25
    assert probabilities(model, tokenizer, text)[1] > 0.6
    assert probabilities(model, tokenizer, without)[1] < 0.5


def test_card_and_metrics_state_the_same_figures():
    metrics = json.loads((model_folder() / "metrics.json").read_text(encoding="utf-8"))
    card = (model_folder() / "MODEL_CARD.md").read_text(encoding="utf-8")
    for figures in metrics["test"]["held_out_packages"].values():
        assert f"{figures['right']} of {figures['documents']}" in card
        assert f"**{figures['accuracy']:.3f}**" in card


@pytest.mark.slow
def test_asking_where_the_model_is_loads_nothing_heavy():
    script = "import sys, sightline.builtin as b; b.documents(); print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
