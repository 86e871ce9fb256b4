"""Model folders from strangers: nothing in them runs, is allocated or leaves the folder, and each gets one sentence."""

from __future__ import annotations

import ast
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING

import sightline as sl
from sightline.errors import ModelError, SightlineError, SizeError, UnsupportedError
from sightline.models.config import KNOWN, SPECIAL, UNUSED
from sightline.models.families import FAMILIES
from tests.tiny_models import tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import wordpiece

ROOT = Path(__file__).parents[2]
COMMAND = "from sightline.cli import main; main()"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = wordpiece()
    tiny_module(vocab_size=len(tokenizer), dtype=torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    copy = tmp_path / "model"
    copy.mkdir()
    for path in original.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def change_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value != "absent"}))


def change_tokenizer(folder, change):
    content = json.loads((folder / "tokenizer.json").read_text())
    change(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))


class Canary:
    """A pickle that writes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path(self.path).write_text, ("ran",))


def test_every_call_that_could_run_foreign_code_forbids_it():
    careless = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr in ("from_pretrained", "from_config"):
                given = {word.arg: word.value for word in node.keywords}
                code = given.get("trust_remote_code")
                if not (isinstance(code, ast.Constant) and code.value is False):
                    careless.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not careless


@pytest.mark.slow
@pytest.mark.parametrize("config", [{"model_type": "evilbert"}, {}, {"model_type": "bert"}])
def test_code_in_a_model_folder_is_never_run_whatever_standard_input_says(config, tmp_path):
    canary = tmp_path / "canary"
    folder = tmp_path / "evil"
    folder.mkdir()
    code = f"import pathlib\npathlib.Path({str(canary)!r}).write_text('ran')\nclass C: pass\n"
    (folder / "c.py").write_text(code)
    auto = {"AutoConfig": "c.C", "AutoModelForSequenceClassification": "c.C", "AutoTokenizer": ["c.C", None]}
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": auto}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": auto}))
    (tmp_path / "t.txt").write_text("some text")
    result = subprocess.run(
        [sys.executable, "-c", COMMAND, "explain", str(tmp_path / "t.txt"), "--model", str(folder)],
        input="y\n" * 9,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert result.returncode == 1
    assert "never runs code from a model folder" in result.stderr
    assert "[y/N]" not in result.stdout + result.stderr
    assert not canary.exists()


def test_a_tokenizer_that_brings_code_is_refused(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["auto_map"] = {"AutoTokenizer": ["t.T", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="tokenizer needs code of its own .* never runs code"):
        sl.load(folder)


@pytest.mark.parametrize("name", ["weights.bin", "pytorch_model.bin", "weights.safetensors.bin"])
def test_an_index_cannot_name_a_pickle(name, folder, tmp_path):
    canary = tmp_path / "canary"
    (folder / name).write_bytes(pickle.dumps(Canary(str(canary))))
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(weights, name)}))
    with pytest.raises(ModelError, match=f"names '{name}'; weights are read only from safetensors files in the folder"):
        sl.load(folder)
    assert not canary.exists()


def test_a_pickle_that_is_allowed_still_runs_nothing(folder, tmp_path):
    canary = tmp_path / "canary"
    (folder / "model.safetensors").unlink()
    torch.save({"classifier.bias": Canary(str(canary))}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        sl.load(folder, allow_pickle=True)
    assert not canary.exists()


def test_a_folder_is_loaded_and_explained_without_the_network(folder, monkeypatch):
    def refuse(*_arguments):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    assert sl.load(folder).explain("the old mill").scores.any()


@pytest.mark.parametrize(
    "where", ["../outside.safetensors", "absolute", "/dev/zero", "link", "device", "folder", "loop"]
)
def test_weights_are_read_only_from_regular_files_inside_the_folder(where, folder, tmp_path):
    outside = tmp_path / "outside.safetensors"
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(outside)
    name = str(outside) if where == "absolute" else where
    if where == "link":
        name = "link.safetensors"
        (folder / name).symlink_to(outside)
    if where == "device":
        name = "device.safetensors"
        (folder / name).symlink_to("/dev/zero")
    if where == "folder":
        name = "folder.safetensors"
        (folder / name).mkdir()
    if where == "loop":
        name = "loop.safetensors"
        (folder / name).symlink_to(folder / name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(weights, name)}))
    with pytest.raises(
        ModelError, match="only from safetensors files|leads out of|not a regular file|cannot be opened"
    ):
        sl.load(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"])
def test_a_link_to_a_device_is_refused(name, folder):
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with pytest.raises(ModelError, match="leads out of the folder"):
        sl.load(folder)


def test_shards_named_by_an_index_are_read(folder, original):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    parts = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(weights)}
    for file in set(parts.values()):
        save_file({name: weights[name] for name in weights if parts[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": parts}))
    assert sl.load(folder).network.weights_hash == sl.load(original).network.weights_hash


def test_a_snapshot_of_the_hub_cache_may_link_to_its_blobs(folder, tmp_path):
    repository = tmp_path / "models--a--b"
    snapshot = repository / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for path in folder.iterdir():
        path.rename(repository / "blobs" / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    assert sl.load(snapshot).explain("the old mill").scores.any()


WRONG_SETTINGS = [
    ({"vocab_size": "30522"}, "'vocab_size' .* is 30522; it must be a whole number"),
    ({"vocab_size": True}, "'vocab_size' .* is true; it must be"),
    ({"vocab_size": 10**5000}, "more than 4,300 digits|it must be a whole number"),
    ({"hidden_size": 32.5}, "'hidden_size' .* is 32.5"),
    ({"hidden_size": None}, "'hidden_size' .* is null"),
    ({"num_hidden_layers": 0}, "'num_hidden_layers' .* is 0; it must be a whole number from 1"),
    ({"num_attention_heads": 5}, "5 attention heads do not divide a width of 32"),
    ({"dtype": "nope"}, "'dtype' .* is nope; it must be one of"),
    ({"torch_dtype": 7}, "'torch_dtype' .* is 7"),
    ({"id2label": ["a", "b", "c"]}, "'id2label' .* is a list; it must be an object"),
    ({"id2label": {"0": "a", "2": "c", "3": "d"}}, 'none with the number "1"'),
    ({"id2label": {"a": 0}}, 'none with the number "0"'),
    ({"id2label": {"0": ["x"]}}, 'none with the number "0"'),
    ({"id2label": {}}, "'id2label' .* is an object"),
    ({"hidden_act": "explode"}, "'hidden_act' .* activation function"),
    ({"hidden_act": ["gelu"]}, "'hidden_act' .* is a list"),
    ({"layer_norm_eps": "1e-12"}, "'layer_norm_eps' .* must be a number"),
    ({"hidden_dropout_prob": 1e308}, "'hidden_dropout_prob'"),
    ({"architectures": "BertForSequenceClassification"}, "'architectures' .* a list of names"),
    ({"architectures": [1]}, "'architectures' .* a list of names"),
    ({"pad_token_id": 10**6}, "pad token 1,000,000 lies outside a vocabulary"),
    ({"problem_type": "other"}, "'problem_type' .* one of regression"),
    ({"model_type": 3}, "does not name the family"),
    ({"model_type": "absent"}, "does not name the family"),
    ({"position_embedding_type": "relative_key"}, "'position_embedding_type' .* one of absolute"),
]


@pytest.mark.parametrize(("changes", "sentence"), WRONG_SETTINGS)
@pytest.mark.parametrize("allow_random", [False, True])
def test_a_wrong_setting_is_named_with_what_it_must_be(changes, sentence, allow_random, folder):
    sys.set_int_max_str_digits(0)
    try:
        change_config(folder, **changes)
    finally:
        sys.set_int_max_str_digits(4300)
    with pytest.raises(ModelError, match=sentence):
        sl.load(folder, allow_random=allow_random)


@pytest.mark.parametrize("content", ["true", "[]", "3", '"x"', "null"])
def test_a_config_that_is_not_an_object_is_refused(content, folder):
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelError, match="not a JSON object with settings"):
        sl.load(folder)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested more than 64 levels"),
        ('{"a":' * 80 + "1" + "}" * 80, "nested more than 64 levels"),
        ('{"vocab_size": NaN}', "contains NaN"),
        ("{", "not valid JSON .line 1"),
        ("", "not valid JSON"),
    ],
)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_json_that_cannot_be_read_is_one_sentence(name, content, reason, folder):
    (folder / name).write_text(content)
    with pytest.raises(ModelError, match=f"could not be read: it .*{reason}|could not be read: it contains NaN"):
        sl.load(folder)


def test_settings_that_change_nothing_are_not_handed_on(folder):
    expected = sl.load(folder).explain("the old mill").scores
    change_config(
        folder,
        return_dict=False,
        output_hidden_states=True,
        output_attentions=True,
        to_dict="no method",
        attn_implementation="somebody/kernel",
        _name_or_path="/etc",
        name_or_path="/etc",
        use_return_dict=3,
        chunk_size_feed_forward=7,
        transformers_weights="../x.safetensors",
        fusion_config={"a": True},
        label2id=[1],
    )
    assert (sl.load(folder).explain("the old mill").scores == expected).all()


@pytest.mark.parametrize("model_type", FAMILIES)
def test_every_setting_of_the_library_is_known(model_type):
    from dataclasses import fields

    names = {field.name for field in fields(CONFIG_MAPPING[model_type])} - {"id2label"}
    assert names <= KNOWN | SPECIAL.keys() | UNUSED


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vocab_size": 20_000_000}, "'vocab_size' .* from 1 to 16,777,216"),
        (
            {"vocab_size": 16_000_000},
            "model of 512,031,075 .'bert.embeddings.word_embeddings.weight' alone has",
        ),
        ({"num_labels": 10**8, "id2label": "absent"}, "'num_labels' .* from 1 to 1,000,000"),
        ({"num_hidden_layers": 10**6}, "'num_hidden_layers' .* from 1 to 512"),
        ({"num_hidden_layers": 500}, "500 layers are described, and there are only 57 tensors"),
        ({"intermediate_size": 262_144, "hidden_size": 4096}, "config describes a model of"),
        ({"max_position_embeddings": 10_000_000}, "config describes a model of"),
        ({"type_vocab_size": 10_000_000}, "config describes a model of"),
    ],
)
def test_sizes_are_compared_with_the_weights_before_anything_is_allocated(changes, sentence, folder):
    change_config(folder, **changes)
    with pytest.raises(ModelError, match=sentence):
        sl.load(folder)


def test_random_weights_have_a_limit(folder):
    (folder / "model.safetensors").unlink()
    change_config(folder, hidden_size=4096, vocab_size=200_000)
    with pytest.raises(SizeError, match="random weights are made for at most"):
        sl.load(folder, allow_random=True)


def test_quantised_weights_are_named(folder):
    change_config(folder, quantization_config={"quant_method": "bitsandbytes"})
    with pytest.raises(UnsupportedError, match="Quantised weights"):
        sl.load(folder)


def write_header(folder, header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(raw).to_bytes(8, "little") + raw + data)


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [10**9, 10**9], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}},
        {"a": {"dtype": "S999999999", "shape": [1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
        {n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "ab"},
        {"a": 3},
        [],
        b"[" * 100_000,
    ],
)
def test_a_header_that_lies_is_refused(header, folder):
    write_header(folder, header, b"\0\0\0\0")
    with pytest.raises(ModelError, match=r"^The weights '.*model.safetensors' "):
        sl.load(folder)


def test_a_header_longer_than_its_file_is_refused(folder):
    (folder / "model.safetensors").write_bytes((2**63).to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelError, match="header does not fit into the file"):
        sl.load(folder)


def test_a_regular_expression_that_backtracks_is_refused_at_load(folder):
    def change(content):
        content["pre_tokenizer"] = {
            "type": "Split",
            "pattern": {"Regex": "(a+)+$"},
            "behavior": "Isolated",
            "invert": False,
        }

    change_tokenizer(folder, change)
    with pytest.raises(ModelError, match=r"regular expression .*\(\(a\+\)\+\$\) repeats a group"):
        sl.load(folder)


def test_a_panic_of_the_tokenizers_library_is_one_sentence(folder, capfd):
    change_tokenizer(folder, lambda content: content["post_processor"].update(special_tokens={}))
    with pytest.raises(ModelError, match=r"^The tokenizer in .* cannot be loaded: ") as caught:
        sl.load(folder)
    assert "\n" not in str(caught.value)
    assert "panicked" not in capfd.readouterr().err


def test_a_panic_while_encoding_is_one_sentence(folder):
    from tokenizers import Regex, pre_tokenizers

    model = sl.load(folder)
    model.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    with pytest.raises(ModelError, match="The tokenizer failed on this text: .*retry-limit"):
        model.explain("a" * 50 + "!")


@pytest.mark.parametrize(
    ("pattern", "content"),
    [
        ({"String": "a"}, "aa"),
        ({"Regex": ""}, "a"),
        ({"Regex": "\\b"}, "a"),
        ({"Regex": "$"}, "a"),
        ({"String": ""}, "a"),
    ],
)
def test_replacements_that_multiply_a_text_are_refused(pattern, content, folder):
    double = {"type": "Replace", "pattern": pattern, "content": content}
    change_tokenizer(
        folder, lambda content: content.update(normalizer={"type": "Sequence", "normalizers": [double] * 40})
    )
    with pytest.raises(
        ModelError, match="normalizer of the tokenizer.json may make a text more than (128|16) times as long"
    ):
        sl.load(folder)


def test_replacements_of_tokenizers_in_use_are_accepted(folder):
    patterns = [{"Regex": " {2,}"}, {"Regex": r"\s+"}, {"Regex": r"[\r\n]"}, {"String": "``"}, {"Regex": r"\p{M}+"}]
    parts = [{"type": "Replace", "pattern": pattern, "content": " "} for pattern in patterns] * 4
    change_tokenizer(folder, lambda content: content.update(normalizer={"type": "Sequence", "normalizers": parts}))
    assert sl.load(folder).explain("the  old mill").scores.any()


def test_words_of_any_length_are_not_split_in_quadratic_time(folder):
    change_tokenizer(folder, lambda content: content["model"].update(max_input_chars_per_word=10**9))
    with pytest.raises(ModelError, match="split words of 1000000000 characters"):
        sl.load(folder)


def test_files_named_in_the_tokenizer_config_are_not_opened(folder, tmp_path):
    expected = sl.load(folder).encode("the old mill").ids
    secret = tmp_path / "secret"
    secret.write_text("[UNK]\nroot\n")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.update(vocab_file=str(secret), tokenizer_file="../x", fast_tokenizer_files=["tokenizer.9.json"])
    config.update(init_inputs=[str(secret)], gguf_file="x", name_or_path=3)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert (sl.load(folder).encode("the old mill").ids == expected).all()


@pytest.mark.slow  # loading compares with the library, which computes the whole window
def test_a_window_wider_than_the_text_costs_no_more_than_the_text():
    ids = tiny_ids("longformer", 24)
    wide, usual = (tiny_model("longformer", attention_window=window) for window in (4096, 64))
    traces = [model.trace(model.encode(ids=ids)) for model in (wide, usual)]
    assert abs(traces[0].logits - traces[1].logits).max() < 1e-9
    assert abs(traces[0].attentions[0].dense() - traces[1].attentions[0].dense()).max() < 1e-12
    assert traces[0].attentions[0].window <= 512


def test_a_window_wider_than_any_model_has_is_refused(tmp_path):
    tiny_module("longformer", dtype=torch.float32).save_pretrained(tmp_path)
    change_config(tmp_path, attention_window=20_000)
    with pytest.raises(ModelError, match="'attention_window' .* is 20000; it must be a whole number from 2 to 4,096"):
        sl.load(tmp_path)


def test_windows_without_a_common_multiple_are_not_compared_with_the_library():
    model = tiny_model("longformer", attention_window=[1022, 1018, 1006])
    assert model.explain(model.encode(ids=tiny_ids("longformer", 9)), method="attcat").scores.shape == (9,)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_every_number_type_stays_possible(dtype, folder):
    assert sl.load(folder, dtype=dtype).network.dtype == getattr(torch, dtype)


@pytest.mark.parametrize("path", ["x\0y", "a" * 5000, "~nobody-here/x", "./nowhere", "a/b/c", "../x", "nowhere/"])
def test_a_path_that_cannot_be_is_answered_at_once(path):
    with pytest.raises(SightlineError, match="There is no model folder"):
        sl.load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(value, folder):
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"][1] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="damaged: 'classifier.bias' holds NaN or infinity"):
        sl.load(folder)


def test_a_model_that_overflows_is_refused(folder):
    weights = load_file(folder / "model.safetensors")
    weights["classifier.weight"] = torch.full_like(weights["classifier.weight"], 3e38)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="output is not finite"):
        sl.load(folder).explain("the old mill")


def test_a_model_without_room_for_rotations_is_refused(tmp_path):
    tiny_module("modernbert", dtype=torch.float32).save_pretrained(tmp_path)
    change_config(tmp_path, hidden_size=100)
    with pytest.raises(ModelError, match="rotary positions need an even width per head, and it is 25"):
        sl.load(tmp_path)


def test_trying_a_model_out_counts_no_pass(folder):
    assert sl.load(folder).network.forward_passes == 0
