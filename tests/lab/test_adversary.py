"""Adversarial attention on tiny models: each test by its definition, and what it promises."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from typer.testing import CliRunner

import sightline as sl
from sightline.cli.app import app
from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.lab import AdversarialResult
from sightline.models.shared_weights import hash_weights
from sightline.text.new_tokenizers import word_tokenizer
from tests.models.test_single_attention import ids_of, tiny_single
from tests.tiny_models import tiny_ids, tiny_model

QUICK = {"steps": 30, "restarts": 2, "permutations": 9, "epochs": 2}


@pytest.fixture(scope="module")
def model():
    return sl.load(tiny_single())


@pytest.fixture(scope="module")
def documents(model):
    return [model.encode(ids=ids_of(n, seed=n)) for n in (6, 9, 12)]


@pytest.fixture(scope="module")
def result(model, documents):
    tests = ("uniform", "permuted", "frozen", "retrained", "unfrozen")
    return sl.lab.adversary(model, documents, tests=tests, strengths=(0.1, 2.0), labels=[0, 1, 2], **QUICK)


def output_of(model, encoding, weights):
    module = model.network.module
    with torch.no_grad():
        hidden, _ = module.model.encode(torch.from_numpy(encoding.ids)[None], None)
        return torch.softmax(module.decode(torch.from_numpy(weights) @ hidden[0]), dim=-1).numpy()


@pytest.mark.parametrize("test", ["uniform", "permuted", "frozen", "retrained"])
def test_outputs_and_distances_are_those_of_the_other_weights(model, documents, result, test):
    pairs = result.select(test, 2.0 if test in ("frozen", "retrained") else None)
    assert [pair.encoding for pair in pairs] == documents
    for pair in pairs:
        np.testing.assert_allclose(
            pair.other_probabilities, output_of(model, pair.encoding, pair.other_weights), atol=1e-9
        )
        np.testing.assert_allclose(pair.weights, model.explain(pair.encoding, "raw_attention").scores, atol=1e-9)
        assert pair.other_weights.sum() == pytest.approx(1)
        assert pair.other_weights[[0, -1]].tolist() == [0, 0]
        assert pair.jsd == pytest.approx(jensenshannon(pair.weights, pair.other_weights) ** 2, abs=1e-9)
        assert pair.tvd == pytest.approx(np.abs(pair.probabilities - pair.other_probabilities).sum() / 2)


def test_the_other_weights_are_what_their_test_says(result):
    for pair in result.select("uniform"):
        assert np.ptp(pair.other_weights[1:-1]) < 1e-12
    for pair in result.select("permuted"):
        np.testing.assert_allclose(np.sort(pair.other_weights), np.sort(pair.weights))


def test_more_strength_moves_the_weights_further(result):
    weak, strong = ([pair.jsd for pair in result.select("frozen", strength)] for strength in (0.1, 2.0))
    assert np.mean(strong) >= np.mean(weak) - 1e-6
    for pair in result.select("frozen", 2.0):
        assert pair.tvd - 2.0 * pair.jsd < 0  # better than leaving the weights as they are


@pytest.mark.parametrize("test", ["retrained", "unfrozen"])
def test_documents_are_measured_with_what_others_have_taught(model, documents, test):
    options = {"tests": [test], "strengths": [1.0], "epochs": 2}
    halves = sl.lab.adversary(model, documents, **options)
    for first in (0, 1):
        given = sl.lab.adversary(model, documents[first::2], training=documents[1 - first :: 2], **options)
        for pair, other in zip(halves.pairs[first::2], given.pairs, strict=True):
            np.testing.assert_allclose(pair.other_weights, other.other_weights, atol=1e-12)
            np.testing.assert_allclose(pair.other_probabilities, other.other_probabilities, atol=1e-12)
    with pytest.raises(InputError, match="give at least two"):
        sl.lab.adversary(model, documents[:1], **options)
    with pytest.raises(OptionError, match="training has no effect: only retrained and unfrozen learn"):
        sl.lab.adversary(model, documents, tests=["uniform"], training=documents)


@pytest.mark.parametrize("test", ["retrained", "unfrozen"])
def test_learning_moves_the_weights_and_holds_the_predictions(model, test):
    documents = [model.encode(ids=ids_of(n, seed=n)) for n in range(6, 30)]
    options = {"tests": [test], "strengths": [2.0], "training": documents, "learning_rate": 0.02}
    short, long = (sl.lab.adversary(model, documents, epochs=epochs, **options).pairs for epochs in (1, 60))
    objectives = [np.mean([pair.tvd - 2.0 * pair.jsd for pair in pairs]) for pairs in (short, long)]
    assert objectives[1] < min(0, objectives[0] - 0.01)


def test_the_table_has_a_row_for_every_test_and_strength(result):
    table = result.table()
    assert list(zip(table["test"], table["documents"], strict=True)) == [
        *(("uniform", 3), ("permuted", 3)),
        *(("frozen", 3), ("frozen", 3), ("retrained", 3), ("retrained", 3), ("unfrozen", 3), ("unfrozen", 3)),
    ]
    assert (table["jsd"] <= np.log(2) + 1e-9).all()
    assert table[["jsd_low", "jsd_high", "tvd_low", "tvd_high"]].isna().to_numpy().all()  # of three documents
    assert {"accuracy", "other_accuracy", "same_prediction"} <= set(table.columns)
    assert result.pairs[0].to_frame().columns.tolist() == ["token", "weight", "other_weight"]


def test_the_same_seed_gives_the_same_result_and_the_model_stays(model, documents):
    weights = model.network.weights_hash
    first, second = (sl.lab.adversary(model, documents, **QUICK) for _ in range(2))
    for pair, other in zip(first.pairs, second.pairs, strict=True):
        np.testing.assert_array_equal(pair.other_weights, other.other_weights)
    assert hash_weights(model.network.module) == weights


def test_requests_that_cannot_be_met_are_refused(model, documents):
    with pytest.raises(OptionError, match="Unknown test 'magic'"):
        sl.lab.adversary(model, documents, tests=["magic"])
    with pytest.raises(OptionError, match="positive numbers"):
        sl.lab.adversary(model, documents, strengths=[0])
    with pytest.raises(OptionError, match="positive numbers up to"):
        sl.lab.adversary(model, documents, strengths=[1e308])
    with pytest.raises(OptionError, match="seed must be a whole number"):
        sl.lab.adversary(model, documents, seed=2**70)
    with pytest.raises(OptionError, match="at least 1"):
        sl.lab.adversary(model, documents, steps=0)
    with pytest.raises(InputError, match="the list is empty"):
        sl.lab.adversary(model, [])
    with pytest.raises(InputError, match="2 labels were given for 3 documents"):
        sl.lab.adversary(model, documents, labels=[0, 1])
    with pytest.raises(InputError, match="'odd' is not a class"):
        sl.lab.adversary(model, documents, labels=[0, 1, "odd"])
    other = tiny_model("bert")
    with pytest.raises(UnsupportedError, match="single attention"):
        sl.lab.adversary(other, [other.encode(ids=tiny_ids("bert"))])


def test_the_page_draws_every_document_under_both_weights(tmp_path):
    words = ["the", "film", "was", "<b>great</b>", "dull"]
    tokenizer = word_tokenizer(words)
    module = tiny_single(vocab_size=len(tokenizer), unattended_ids=[2, 3], id2label={0: "bad", 1: "good & bad"})
    model = sl.load(module, tokenizer=tokenizer)
    texts = ["the film was <b>great</b>", "dull the film"]
    result = sl.lab.adversary(model, texts, tests=["uniform", "frozen"], strengths=(1.0,), **QUICK)
    page = result.to_html()
    assert result.to_html(tmp_path / "page.html").read_text() == page
    assert "<script" not in page
    assert "<b>great" not in page
    tree = ElementTree.fromstring(re.search(r"<main>.*</main>", page, re.DOTALL)[0])
    articles = tree.findall(".//article")
    assert len(articles) == 2 * 2 * 2
    drawn = ["".join(article.find("div").itertext()) for article in articles]
    assert drawn == [text for text in [*texts, *texts] for _ in range(2)]
    for article, pair, weights in zip(
        articles[::2], result.pairs, [pair.weights for pair in result.pairs], strict=True
    ):
        label = model.labels[pair.probabilities.argmax()]
        assert article.find("h4").text.startswith(f"Weights of the model: “{label}”")
        shown = {mark.text: float(mark.get("title").removeprefix("weight ")) for mark in article.findall(".//mark")}
        for word, weight in zip(pair.encoding.tokens, weights, strict=True):
            if word in shown:
                assert shown[word] == pytest.approx(weight, abs=5e-4)


def test_both_texts_of_a_pair_have_one_scale_of_colour():
    tokenizer = word_tokenizer(["a", "b", "c"])
    model = sl.load(tiny_single(vocab_size=len(tokenizer), unattended_ids=[2, 3]), tokenizer=tokenizer)
    (pair,) = sl.lab.adversary(model, ["a b c"], tests=["uniform"]).pairs
    pair = replace(pair, weights=np.array([0, 1.0, 0, 0, 0]), other_weights=np.array([0, 0.0, 0.5, 0.5, 0]))
    page = AdversarialResult((pair,), None, tuple(model.labels)).to_html()
    levels = re.findall(r'<mark class="level-(\d)" title="weight ([\d.]+)">(\w)</mark>', page)
    assert [(word, weight) for _, weight, word in levels] == [("a", "1.000"), ("b", "0.500"), ("c", "0.500")]
    assert levels[0][0] == "8"
    even = 2 / 6  # the mean weight of the six words drawn, those of both texts: less than that has no colour
    assert levels[1][0] == levels[2][0] == str(round(8 * ((0.5 - even) / (1 - even)) ** 0.75))


def test_the_command_prints_the_table_and_writes_the_page(tmp_path):
    tokenizer = word_tokenizer(["a", "b", "c"])
    module = tiny_single(vocab_size=len(tokenizer), unattended_ids=[2, 3]).float()
    module.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    data = tmp_path / "data.csv"
    data.write_text("text,label\na b c,0\nc b,1\n")
    arguments = ["adversary", str(data), "--model", str(tmp_path / "model"), "--tests", "uniform,permuted"]
    result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["test", "uniform", "permuted"]
    assert "Weights of the model" in (tmp_path / "page.html").read_text()
    refused = CliRunner().invoke(app, [*arguments, "--strengths", "1,much"])
    assert (refused.exit_code, "--strengths 1,much" in refused.output) == (2, True)
    missing = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "nowhere" / "page.html")])
    assert missing.exit_code == 2
