"""Folders with an ONNX graph: the answers of the graph itself, explained as those of a function."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import sightline as sl
from sightline.errors import ModelError, OptionError, UnsupportedError
from tests.tiny_tokenizers import wordpiece

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

LABELS = {"0": "harmless", "1": "injection", "2": "toxic"}
FLOAT, INT64 = 1, 7


def field(number, value):
    """Return one field of a protocol buffer message: a whole number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value):
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def node(operation, inputs, output, *attributes, outputs=()):
    named = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs or [output])
    return field(1, named + field(4, operation) + b"".join(field(5, a) for a in attributes))


def value(name, kind, *dims):
    shape = b"".join(field(1, field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def write_graph(path, table, *, reads=("input_ids", "attention_mask"), quantised=False):
    """Write a graph that returns the mean of the rows of `table` (V, C) at the ids, rounded in steps if `quantised`.

    The steps are a 255th of the range of all numbers of a batch.
    """
    tensor = b"".join(field(1, size) for size in table.shape) + field(2, FLOAT) + field(8, "table")
    tensor += field(9, table.astype("<f4").tobytes())
    axes = field(1, "axes") + field(8, 1) + field(20, 7)
    keep = field(1, "keepdims") + field(3, 0) + field(20, 2)
    rounded = node("DynamicQuantizeLinear", ["found"], "steps", outputs=("steps", "scale", "zero"))
    rounded += node("DequantizeLinear", ["steps", "scale", "zero"], "rows")
    graph = node("Gather", ["table", reads[0]], "found" if quantised else "rows") + (rounded if quantised else b"")
    graph += node("ReduceMean", ["rows"], "logits", axes, keep)
    graph += field(2, "mean of rows") + field(5, tensor)
    graph += b"".join(field(11, value(name, INT64, "documents", "tokens")) for name in reads)
    graph += field(12, value("logits", FLOAT, "documents", "classes"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))


@pytest.fixture
def table():
    return np.random.default_rng(0).normal(size=(len(wordpiece()), 3)).astype(np.float32)


@pytest.fixture
def folder(tmp_path, table):
    write_graph(tmp_path / "model.onnx", table)
    config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "id2label": LABELS}
    (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 24}))
    wordpiece().save_pretrained(tmp_path)
    return tmp_path


TEXT = "The river runs past the old mill."


def expected_logits(table, text, pair=None):
    return table[wordpiece()(text, pair)["input_ids"]].mean(axis=0)


def test_probabilities_are_those_of_the_graph_for_texts_and_pairs(folder, table):
    model = sl.load(folder)
    assert model.labels == tuple(LABELS.values())
    texts = [TEXT, "Hello, Miller!", (TEXT, "The mill is old.")]
    for text, prediction in zip(texts, model.predict(texts), strict=True):
        logits = expected_logits(table, *(text if isinstance(text, tuple) else (text,)))
        np.testing.assert_allclose(prediction.logits, logits, rtol=1e-5)
        np.testing.assert_allclose(prediction.probabilities, np.exp(logits) / np.exp(logits).sum(), rtol=1e-5)


def test_words_are_explained_by_changing_the_text(folder, table):
    explanation = sl.load(folder, batch_size=4, budget=500).explain(TEXT, "occlusion", target="toxic", quantity="logit")
    without = expected_logits(table, "The runs past the old mill.")[2]
    river = next(word.score for word in explanation.words() if word.text == "river")
    assert river == pytest.approx(expected_logits(table, TEXT)[2] - without, rel=1e-4)
    assert "gradient" in sl.load(folder).methods_not_offered
    report = sl.load(folder).report(TEXT, check=True)  # which also reads texts without any word
    assert report.first.check is not None
    assert report.first.check.calls > 0


def test_a_graph_in_its_own_folder_one_number_and_independent_labels(folder, table):
    config = json.loads((folder / "config.json").read_text())
    (folder / "model.onnx").unlink()
    write_graph(folder / "onnx" / "model.onnx", table, reads=("input_ids", "token_type_ids"))
    (folder / "config.json").write_text(json.dumps({**config, "problem_type": "multi_label_classification"}))
    probabilities = sl.load(folder).predict(TEXT).probabilities
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-expected_logits(table, TEXT))), rtol=1e-5)
    write_graph(folder / "onnx" / "model.onnx", table[:, :1])
    (folder / "config.json").write_text(json.dumps({**config, "id2label": {"0": "score"}}))
    assert sl.load(folder).predict(TEXT).logits == pytest.approx(expected_logits(table, TEXT)[:1], rel=1e-5)


def test_a_graph_of_another_name_whose_config_says_nothing_about_its_classes(folder, table):
    quantised = (folder / "model.onnx").rename(folder / "model_quantized.onnx")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": ["BertModel"]}))
    names = ["harmless", "injection", "toxic"]
    model = sl.load(folder, labels=names, multi_label=True)
    assert model.labels == tuple(names)
    probabilities = 1 / (1 + np.exp(-expected_logits(table, TEXT)))
    np.testing.assert_allclose(model.predict(TEXT).probabilities, probabilities, rtol=1e-5)
    write_graph(folder / "model_int8.onnx", table + 1)
    with pytest.raises(ModelError, match=r"several graphs \(model_int8.onnx, model_quantized.onnx\)"):
        sl.load(folder, labels=names)
    assert sl.load(quantised, labels=names).predict(TEXT).logits == pytest.approx(
        expected_logits(table, TEXT), rel=1e-5
    )


def test_a_quantised_graph_says_the_same_of_a_text_beside_others(folder, table):
    table[54] *= 50  # that of the letter "z", so that a text with it has a range of its own
    write_graph(folder / "model.onnx", table, quantised=True)
    texts = [TEXT, "The z runs past the old mill.", "The mill runs past the old mill."]
    model = sl.load(folder)
    assert len({len(wordpiece()(text)["input_ids"]) for text in texts}) == 1
    alone = [model.predict(text).logits for text in texts]
    np.testing.assert_array_equal([prediction.logits for prediction in model.predict(texts)], alone)
    assert not np.allclose(alone[0], expected_logits(table, TEXT), rtol=1e-5)


def test_a_text_that_is_too_long_is_cut_off_with_a_warning(folder, table):
    with pytest.warns(UserWarning, match="and the ONNX model reads 24: its end is cut off"):
        prediction = sl.load(folder).predict(TEXT * 5)
    ids = wordpiece()(TEXT * 5)["input_ids"]
    np.testing.assert_allclose(prediction.logits, table[[*ids[:23], ids[-1]]].mean(axis=0), rtol=1e-5)


def test_different_graphs_have_different_hashes_and_copies_the_same(folder, table):
    model = sl.load(folder)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(TEXT).logits, model.predict(TEXT).logits)
    assert copied.network.weights_hash == model.network.weights_hash
    write_graph(folder / "model.onnx", table + 1)
    assert sl.load(folder).network.weights_hash != model.network.weights_hash


def test_graphs_that_are_no_classifier_of_texts_are_refused(folder, table):
    write_graph(folder / "model.onnx", table, reads=("input_ids", "pixel_values"))
    with pytest.raises(UnsupportedError, match="reads input_ids, pixel_values; Sightline gives it"):
        sl.load(folder)
    write_graph(folder / "model.onnx", table[:, :2])
    with pytest.raises(UnsupportedError, match=r"has shape \(1, 2\) for 1 texts and not"):
        sl.load(folder).predict(TEXT)
    with pytest.raises(OptionError, match="leave out task="):
        sl.load(folder, task="masked_lm")
    with pytest.raises(OptionError, match="dtype has no effect"):
        sl.load(folder, dtype="float64")
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelError, match="'model.onnx' in .* cannot be read"):
        sl.load(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        sl.load(folder)
