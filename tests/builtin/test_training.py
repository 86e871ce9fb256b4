"""The parts of training that must hold exactly: vocabulary, conversion, sampling, intervals."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.stats import binomtest
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from sightline.lab.convert import to_longformer
from tools.builtin_model.corpus import Document
from tools.builtin_model.embeddings import chunk_counts, latent_vectors
from tools.builtin_model.evaluate import calibration_error, evaluation_set, over_packages, wilson
from tools.builtin_model.train import Sampler, Stream, calibrate, document_logits, scores
from tools.builtin_model.vocabulary import (
    CLS,
    MASK,
    PAD,
    SEP,
    SPECIALS,
    check_tokenizer,
    save_tokenizer,
    train_tokenizer,
)

pytestmark = pytest.mark.slow


def tiny_bert() -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
        type_vocab_size=1,
        pad_token_id=PAD,
        initializer_range=0.5,  # large weights: differences would show
        num_labels=2,
    )
    bert = BertForSequenceClassification(config).eval()
    for name, weight in bert.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    return bert.double()


def tiny_document(package: str, side: str, words: int, split: str = "train") -> Document:
    return Document(
        package, f"{package}/m{words}.py", side, split, " ".join(["tree" if side == "PL" else "loss"] * words)
    )


@pytest.mark.parametrize("length", [3, 8, 17])
def test_conversion_leaves_the_logits_of_a_text_within_one_window_unchanged(length):
    bert = tiny_bert()
    long = to_longformer(bert, 128, 32, "tile").double().eval()
    ids = torch.randint(5, 60, (3, length), generator=torch.Generator().manual_seed(length))
    ids[:, 0] = CLS
    with torch.inference_mode():
        # In float64, but for the library's Longformer, which takes every softmax in float32 whatever the model's type.
        torch.testing.assert_close(long(input_ids=ids).logits, bert(input_ids=ids).logits, rtol=1e-6, atol=1e-6)


def test_conversion_tiles_the_positions_and_copies_the_global_projections():
    bert = tiny_bert()
    long = to_longformer(bert, 80, 32, "tile").double()
    short_positions = bert.bert.embeddings.position_embeddings.weight
    positions = long.longformer.embeddings.position_embeddings.weight
    assert positions.shape == (80 + PAD + 1, 16)
    for place in (0, 31, 32, 79):
        assert torch.equal(positions[PAD + 1 + place], short_positions[place % 32])
    for layer in long.longformer.encoder.layer:
        attention = layer.attention.self
        assert torch.equal(attention.query.weight, attention.query_global.weight)
        assert torch.equal(attention.key.bias, attention.key_global.bias)
        assert torch.equal(attention.value.weight, attention.value_global.weight)


def test_padding_does_not_change_the_logits_of_a_document():
    long = to_longformer(tiny_bert(), 128, 16, "tile").eval()
    encoded = [list(range(5, 5 + n)) for n in (4, 30, 50)]
    together = document_logits(long, encoded, max_tokens=128, batch=3)
    alone = torch.cat([document_logits(long, [ids], max_tokens=128) for ids in encoded])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_tokenizer_is_read_back_by_the_library_with_the_same_ids(tmp_path):
    texts = ["the parser builds a syntax tree", "the network minimises the loss on a batch"]
    documents = [Document("p", "m", side, "train", text) for side, text in zip(("PL", "AI"), texts, strict=True)]
    tokenizer = train_tokenizer(documents, seed=0, size=80)
    save_tokenizer(tokenizer, tmp_path)
    read_back = AutoTokenizer.from_pretrained(tmp_path)
    for text in texts:
        assert read_back(text)["input_ids"] == tokenizer.encode(text).ids
    assert [read_back.convert_tokens_to_ids(token) for token in SPECIALS] == list(range(len(SPECIALS)))
    assert read_back.decode(read_back("The Parser")["input_ids"], skip_special_tokens=True) == "the parser"


def test_the_same_documents_give_the_same_vocabulary():
    texts = ["".join(chr(97 + (i * j) % 26) for j in range(1, 9)) for i in range(1, 40)]
    documents = [Document("p", "m", side, "train", " ".join(texts)) for side in ("PL", "AI")]
    first, second = (train_tokenizer(documents, seed=0, size=120) for _ in range(2))
    assert first.to_str() == second.to_str()


def test_every_printable_character_is_known_even_if_the_corpus_lacks_it():
    documents = [Document("p", "m", side, "train", "tree tree loss loss") for side in ("PL", "AI")]
    tokenizer = train_tokenizer(documents, seed=0, size=150)
    printable = " ".join(chr(code) for code in range(33, 127))
    assert check_tokenizer(tokenizer, [printable], tolerated=0.0) == 0.0


def test_a_tokenizer_that_knows_too_little_is_refused():
    documents = [Document("p", "m", side, "train", "tree tree loss loss") for side in ("PL", "AI")]
    tokenizer = train_tokenizer(documents, seed=0, size=40)
    with pytest.raises(ValueError, match="unknown to the vocabulary"):
        check_tokenizer(tokenizer, ["黒 猫 白 犬"])


def test_chunk_counts_hold_as_many_chunks_of_either_side():
    counts = chunk_counts([("PL", [5, 5, 6, 7]), ("PL", [6] * 6), ("AI", [8, 9, 9])], 10, chunk=2, seed=0)
    assert counts.shape == (4, 10)
    assert counts[2:].sum(0).A1.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
    assert counts[:2, 8:].sum() == 0


def test_latent_vectors_equal_a_dense_decomposition():
    counts = csr_matrix(np.random.default_rng(0).poisson(0.4, (30, 12)).astype(float))
    dense = counts.toarray()
    X = np.log1p(dense) * np.log((1 + 30) / (1 + (dense > 0).sum(0)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    _, strength, directions = np.linalg.svd(X)
    expected = directions[:4].T * np.sqrt(strength[:4])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = latent_vectors(counts, width=4, spread=0.5, seed=0).double().numpy()
    # Singular vectors are free in sign and order, the angles between the pieces are not.
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-5)


def test_batches_are_balanced_framed_and_partly_hidden():
    streams = [Stream("a", "PL", [10] * 500), Stream("b", "AI", [20] * 40), Stream("c", "neither", [30] * 500)]
    sampler = Sampler(streams, seed=0, blank_share=0.0)
    ids, targets = sampler.batch(9, (64,), hidden_share=0.25)
    assert targets.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]] * 3
    assert (ids[:, 0] == CLS).all()
    assert set(ids[0].tolist()) == {CLS, 10, SEP, MASK}
    assert set(ids[2].tolist()) == {CLS, 30, SEP, MASK}
    assert ids[1, 41] == SEP
    assert (ids[1, 42:] == PAD).all()
    hidden = (ids == MASK).sum() / ((ids == MASK) | (ids == 10) | (ids == 20) | (ids == 30)).sum()
    assert 0.1 < hidden < 0.4


def test_blank_rows_hold_nothing_but_hidden_tokens_and_are_undecided():
    streams = [Stream(side, side, [10] * 500) for side in ("PL", "AI", "neither")]
    ids, targets = Sampler(streams, seed=0, blank_share=1.0).batch(30, (64,), hidden_share=0.0)
    undecided = ids[(targets == 0.5).all(1)]
    assert len(undecided) == 10
    assert set(undecided.flatten().tolist()) == {CLS, SEP, PAD, MASK}
    assert (undecided[:, 1] == SEP).any()  # an empty text


def test_scores_weigh_both_sides_equally():
    logits = torch.tensor([[9.0, 0.0]] * 3 + [[9.0, 0.0]])
    assert scores(logits, ["PL", "PL", "PL", "AI"])["accuracy"] == 0.5


def test_a_text_of_neither_side_costs_nothing_where_the_model_is_undecided():
    logits = torch.tensor([[30.0, 0.0], [0.0, 30.0], [1.0, 1.0]])
    assert scores(logits, ["PL", "AI", "neither"]) == {"loss": pytest.approx(0.0, abs=1e-6), "accuracy": 1.0}


def test_the_temperature_is_the_best_one_and_is_folded_into_the_weights():
    long = to_longformer(tiny_bert(), 128, 16, "tile").float().eval()
    encoded = [[5 + place] * 6 for place in range(40)]
    with torch.no_grad():  # far too sure of itself, and neither class is preferred
        long.classifier.out_proj.weight *= 100
        long.classifier.out_proj.bias -= document_logits(long, encoded, 128).median(0).values
    before = document_logits(long, encoded, 128)
    labels = ["AI" if row[1] > row[0] else "PL" for row in before]
    for place in (before[:, 1] - before[:, 0]).abs().argsort()[:8].tolist():  # those the model is least sure of
        labels[place] = {"AI": "PL", "PL": "AI"}[labels[place]]
    temperature = calibrate(long, [*encoded, [5]], [*labels, "neither"], (128,))
    after = document_logits(long, encoded, 128)
    torch.testing.assert_close(after, before / temperature, rtol=1e-4, atol=1e-4)
    assert 0.1 < temperature < 10
    fits = [scores(before / t, labels)["loss"] for t in (temperature * 0.8, temperature, temperature * 1.25)]
    assert fits[1] == min(fits)


def test_calibration_error_is_the_gap_between_confidence_and_accuracy():
    probabilities = np.array([0.95] * 10 + [0.05] * 10)
    labels = np.array([1] * 8 + [0] * 2 + [0] * 10)
    assert calibration_error(probabilities, labels) == pytest.approx(0.05)  # 18 of 20 right at a confidence of 0.95
    assert calibration_error(np.array([0.75, 0.75, 0.75, 0.75]), np.array([1, 1, 1, 0])) == pytest.approx(0.0)


def test_evaluation_set_is_long_capped_balanced_and_of_one_split():
    documents = [tiny_document("a", "PL", 1_500 + n) for n in range(15)]
    documents += [tiny_document("b", "AI", 1_500 + n) for n in range(4)]
    documents += [tiny_document("c", "AI", 100), tiny_document("d", "AI", 2_000, split="test")]
    tokenizer = train_tokenizer(documents, seed=0, size=40)
    chosen = evaluation_set(documents, "train", tokenizer, seed=0)
    assert [document.side for document in chosen] == ["PL"] * 4 + ["AI"] * 4
    assert {document.package for document in chosen} == {"a", "b"}


@pytest.mark.parametrize(("right", "total"), [(0, 7), (5, 7), (93, 100), (172, 172)])
def test_wilson_interval_equals_scipys(right, total):
    expected = binomtest(right, total).proportion_ci(0.95, method="wilson")
    assert wilson(right, total) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_bootstrap_over_packages_is_wider_when_errors_sit_in_one_package():
    packages = [name for name in "abcdefghij" for _ in range(10)]
    together = np.array([0.0] * 10 + [1.0] * 90)
    spread = np.array(([0.0] + [1.0] * 9) * 10)
    low, high = over_packages(together, packages, seed=0)
    assert low < 0.8
    assert high == 1.0
    assert over_packages(spread, packages, seed=0) == pytest.approx((0.9, 0.9))
