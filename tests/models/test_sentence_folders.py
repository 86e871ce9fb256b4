"""Folders of sentence-transformers: modules read as data, vectors as by hand, and the rows that pooling reads."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding

import sightline as sl
from sightline.errors import ModelError, OptionError, UnsupportedError
from sightline.methods import METHODS
from tests.contract.test_contract import QUICK
from tests.tiny_models import SIZES, randomise, tiny_module
from tests.tiny_tokenizers import wordpiece

TEXTS = ("The old mill.", "Hello river world, hello miller!")
KIND = "sentence_transformers.models."
WIDTH, CLASSES = 32, 3


def write_json(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def body_of(model_type, **facts):
    tokenizer = wordpiece()
    if model_type == "t5":
        sizes = {"d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
        auto = AutoModelForTextEncoding
    else:
        sizes, auto = {**SIZES, "max_position_embeddings": 64}, AutoModel
    config = AutoConfig.for_model(model_type, vocab_size=len(tokenizer), pad_token_id=0, **sizes, **facts)
    return randomise(auto.from_config(config, attn_implementation="eager"))


def make_folder(
    folder, *, model_type="bert", pooling=("mean",), dense=True, normalise=False, activation="Identity", named=True
):
    """A folder like those that sentence-transformers saves, with a linear classifier as its last Dense module."""
    labels = {str(i): f"class {i}" for i in range(CLASSES)} if dense and named else {}
    body = body_of(model_type, **({"id2label": labels} if labels else {}))
    body.save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    keys = {"cls": "cls_token", "lasttoken": "lasttoken"}
    modes = {f"pooling_mode_{keys.get(mode, mode + '_tokens')}": True for mode in pooling}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH, **modes})
    if dense:
        modules.append(("2_Dense", "Dense"))
        shape = {"in_features": WIDTH * len(pooling), "out_features": CLASSES, "bias": True}
        name = f"torch.nn.modules.activation.{activation}"
        write_json(folder / "2_Dense" / "config.json", {**shape, "activation_function": name})
        generator = torch.Generator().manual_seed(3)
        weights = {
            "linear.weight": torch.randn(CLASSES, WIDTH * len(pooling), generator=generator) / 4,
            "linear.bias": torch.randn(CLASSES, generator=generator),
        }
        save_file(weights, folder / "2_Dense" / "model.safetensors")
    if normalise:
        modules.append(("3_Normalize", "Normalize"))
    entries = [{"idx": i, "name": str(i), "path": p, "type": KIND + kind} for i, (p, kind) in enumerate(modules)]
    write_json(folder / "modules.json", entries)
    return body


def pool_by_hand(mode, rows):
    n = len(rows)
    weights = torch.arange(1, n + 1, dtype=rows.dtype)[:, None]
    return {
        "cls": lambda: rows[0],
        "mean": lambda: sum(rows) / n,
        "mean_sqrt_len": lambda: sum(rows) / math.sqrt(n),
        "max": lambda: torch.stack([column.max() for column in rows.T]),
        "weightedmean": lambda: (rows * weights).sum(0) / weights.sum(),
        "lasttoken": lambda: rows[-1],
    }[mode]()


@pytest.mark.parametrize("model_type", ["bert", "mpnet", "t5"])
@pytest.mark.parametrize(
    "pooling", [("mean",), ("cls",), ("mean_sqrt_len",), ("max", "mean"), ("weightedmean",), ("lasttoken",)]
)
def test_logits_of_a_padded_batch_equal_a_computation_by_hand(model_type, pooling, tmp_path):
    body = make_folder(tmp_path, model_type=model_type, pooling=pooling)
    model = sl.load(tmp_path, dtype="float64")
    head = model.network.module.head[0]
    encodings = [model.encode(text) for text in TEXTS]
    for encoding, logits in zip(encodings, model.network.run(encodings), strict=True):
        rows = body.double()(torch.from_numpy(encoding.ids)[None])[0][0]
        vector = torch.cat([pool_by_hand(mode, rows) for mode in pooling])
        np.testing.assert_allclose(logits, (head.weight @ vector + head.bias).detach(), atol=1e-5)
    assert model.labels == ("class 0", "class 1", "class 2")


def test_a_cross_encoder_that_was_saved_is_the_classifier_in_its_folder(tmp_path):
    module = tiny_module("bert", num_labels=2)
    module.save_pretrained(tmp_path)
    write_json(tmp_path / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": f"{KIND}Transformer"}])
    ids = [2, 7, 10, 3]
    expected = module(torch.tensor([ids])).logits[0].detach()
    model = sl.load(tmp_path)
    np.testing.assert_allclose(model.predict(model.encode(ids=ids)).logits, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [("mean", lambda n: np.full(n, 1 / n)), ("cls", lambda n: np.eye(n)[0]), ("lasttoken", lambda n: np.eye(n)[-1])],
)
def test_the_rows_that_are_read_come_from_the_gradient(pooling, expected, tmp_path):
    make_folder(tmp_path, pooling=(pooling,))
    model = sl.load(tmp_path, dtype="float64")
    trace = model.trace(TEXTS[1], target=1)
    readout = expected(trace.token_count)
    np.testing.assert_allclose(trace.readout, readout, atol=1e-10)
    # Raw attention is the readout's mean of the rows of the last layer.
    by_hand = (readout[:, None] * trace.attentions[-1].dense().mean(axis=0)).sum(axis=0)
    np.testing.assert_allclose(model.explain(trace, "raw_attention").scores, by_hand, atol=1e-10)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", METHODS.names())
def test_every_method_explains_a_mean_pooled_classifier(method, mean_pooled):
    scores = [mean_pooled.explain(text, method, target=1, **QUICK.get(method, {})).scores for text in TEXTS]
    together = mean_pooled.explain(list(TEXTS), method, target=1, **QUICK.get(method, {}))
    for alone, explanation in zip(scores, together, strict=True):
        assert np.isfinite(alone).all()
        np.testing.assert_allclose(explanation.scores, alone, rtol=1e-5, atol=1e-9)


@pytest.fixture(scope="module")
def mean_pooled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mean")
    make_folder(folder, activation="Tanh")
    return sl.load(folder, dtype="float64")


def test_without_a_classifier_the_similarity_to_a_text_is_explained(tmp_path):
    body = make_folder(tmp_path, dense=False, normalise=True).double()
    with pytest.raises(ModelError, match="without a classifier, .* similar_to="):
        sl.load(tmp_path)
    model = sl.load(tmp_path, dtype="float64", similar_to=TEXTS[0])
    vectors = [body(torch.from_numpy(model.encode(text).ids)[None])[0][0].mean(0) for text in TEXTS]
    expected = torch.nn.functional.cosine_similarity(*vectors, dim=0)
    explanation = model.explain(TEXTS[1], "integrated_gradients")
    assert explanation.prediction.logits[0] == pytest.approx(float(expected), abs=1e-6)
    assert model.trace(TEXTS[0]).value == pytest.approx(1)
    assert model.default_methods == ("attcat",)
    assert explanation.provenance["similar_to"] == TEXTS[0]
    assert TEXTS[0] in explanation.to_html()
    with pytest.raises(UnsupportedError, match="no rule for the division of a vector by its length"):
        model.explain(TEXTS[1], "attnlrp")


def test_a_model_compares_with_another_text_without_being_loaded_again(tmp_path):
    make_folder(tmp_path, dense=False, normalise=True)
    first = sl.load(tmp_path, dtype="float64", similar_to=TEXTS[0])
    before = first.explain(TEXTS[1], "gradient")
    second = first.similar_to(TEXTS[1])
    other_side = second.explain(TEXTS[0], "gradient")
    assert other_side.prediction.logits[0] == pytest.approx(before.prediction.logits[0], abs=1e-9)
    assert other_side.provenance["similar_to"] == TEXTS[1]
    assert second.network.twin().reference_text == TEXTS[1]
    expected = sl.load(tmp_path, dtype="float64", similar_to=TEXTS[1]).explain(TEXTS[0], "gradient")
    np.testing.assert_allclose(other_side.scores, expected.scores, atol=1e-12)
    after = first.explain(TEXTS[1], "gradient")
    np.testing.assert_array_equal(after.scores, before.scores)
    assert after.provenance["similar_to"] == TEXTS[0]
    make_folder(tmp_path / "classifier")
    with pytest.raises(OptionError, match="This model compares no texts"):
        sl.load(tmp_path / "classifier").similar_to("A text.")


@pytest.mark.parametrize("labels", [None, ["low", "middle", "high"]])
def test_a_last_linear_map_without_names_in_the_config_is_a_classifier(labels, tmp_path):
    make_folder(tmp_path, named=False)
    make_folder(tmp_path / "named")
    expected = sl.load(tmp_path / "named").predict(TEXTS[0])
    model = sl.load(tmp_path, labels=labels)
    assert model.labels == tuple(labels or ("LABEL_0", "LABEL_1", "LABEL_2"))
    np.testing.assert_array_equal(model.predict(TEXTS[0]).probabilities, expected.probabilities)
    with pytest.raises(OptionError, match="scores 3 classes, and labels= names 2"):
        sl.load(tmp_path, labels=["no", "yes"])


@pytest.mark.parametrize(
    ("activation", "final"), [("Sigmoid", torch.sigmoid), ("Softmax", lambda z: torch.softmax(z, 0))]
)
def test_an_activation_that_gives_probabilities_gives_those_of_the_prediction(activation, final, tmp_path):
    make_folder(tmp_path / "plain")
    make_folder(tmp_path / "final", activation=activation)
    logits = torch.from_numpy(sl.load(tmp_path / "plain").predict(TEXTS[0]).logits)
    prediction = sl.load(tmp_path / "final").predict(TEXTS[0])
    expected = torch.sigmoid(logits) if activation == "Sigmoid" else torch.softmax(logits, 0)
    np.testing.assert_allclose(prediction.probabilities, expected.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(prediction.logits, logits.numpy())


def test_a_long_vector_is_no_classifier_unless_its_outputs_have_names(tmp_path):
    make_folder(tmp_path, named=False)
    weights = {"linear.weight": torch.ones(40, WIDTH), "linear.bias": torch.zeros(40)}
    save_file(weights, tmp_path / "2_Dense" / "model.safetensors")
    with pytest.raises(ModelError, match="without a classifier, .* name them: labels="):
        sl.load(tmp_path)
    assert len(sl.load(tmp_path, labels=[f"topic {number}" for number in range(40)]).labels) == 40


def test_a_text_is_cut_into_windows_of_the_length_that_the_folder_names(tmp_path):
    make_folder(tmp_path)
    write_json(tmp_path / "sentence_bert_config.json", {"max_seq_length": 16})
    model = sl.load(tmp_path)
    assert model.max_tokens == 16
    assert len(model.encode(TEXTS[1] * 5).windows) > 1


def change_modules(folder, change):
    content = json.loads((folder / "modules.json").read_text())
    change(content)
    (folder / "modules.json").write_text(json.dumps(content))


def set_path(content, path):
    content[1]["path"] = path


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda f: change_modules(f, lambda c: set_path(c, "../outside")), "not the name of a folder inside it"),
        (lambda f: change_modules(f, lambda c: set_path(c, "/etc")), "not the name of a folder inside it"),
        (lambda f: change_modules(f, lambda c: c.reverse()), "has the modules Dense, Pooling, Transformer"),
        (lambda f: change_modules(f, lambda c: c.clear()), "not a list of 1 to 16 modules"),
        (lambda f: (f / "1_Pooling" / "config.json").unlink(), "has no '1_Pooling/config.json'"),
        (lambda f: write_json(f / "1_Pooling" / "config.json", {}), "is not one of cls, max, mean"),
        (
            lambda f: write_json(f / "2_Dense" / "config.json", {"activation_function": "os.system"}),
            "'system' .* not one",
        ),
        (lambda f: (f / "2_Dense" / "model.safetensors").unlink(), "read from safetensors only"),
        (
            lambda f: save_file({"linear.weight": torch.ones(3, 5)}, f / "2_Dense" / "model.safetensors"),
            "reads 5 numbers and gets 32",
        ),
        (
            lambda f: save_file({"linear.weight": torch.full((3, 32), math.nan)}, f / "2_Dense" / "model.safetensors"),
            "NaN or infinity",
        ),
    ],
)
def test_a_folder_that_asks_for_anything_else_is_refused(damage, sentence, tmp_path):
    make_folder(tmp_path)
    damage(tmp_path)
    with pytest.raises((ModelError, UnsupportedError), match=sentence):
        sl.load(tmp_path)


def test_pickled_weights_of_a_module_are_not_read(tmp_path):
    make_folder(tmp_path)
    (tmp_path / "2_Dense" / "model.safetensors").unlink()
    (tmp_path / "2_Dense" / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    with pytest.raises(ModelError, match="safetensors only"):
        sl.load(tmp_path, allow_pickle=True)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    folder = tmp_path / "model"
    make_folder(folder)
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    (folder / "1_Pooling" / "config.json").unlink()
    (folder / "1_Pooling" / "config.json").symlink_to(outside)
    with pytest.raises(ModelError, match="leads out of the folder"):
        sl.load(folder)


def test_a_reference_text_goes_only_with_vectors():
    with pytest.raises(OptionError, match="goes with a sentence-transformers folder"):
        sl.load(tiny_module(), tokenizer=wordpiece(), similar_to="a text")


def test_another_task_is_refused(tmp_path):
    make_folder(tmp_path)
    with pytest.raises(OptionError, match=r"has no head for token_classification: leave out task= \(--task\)\.$"):
        sl.load(tmp_path, task="token_classification")
    assert sl.load(tmp_path, task="sequence_classification").labels == sl.load(tmp_path).labels
