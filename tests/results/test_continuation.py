"""Continuations: every row is the explanation of one generated token from what precedes it, on one shared forward."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import AutoModelForCausalLM

import sightline as sl
from sightline.errors import InputError, ModelError, OptionError, UnsupportedError
from sightline.methods import METHODS
from sightline.passes.prefixes import PrefixPass
from sightline.results.continuation import ContinuationExplanation
from sightline.text import LEVELS, continue_ids, continue_text, encode_text
from sightline.text.new_tokenizers import word_tokenizer
from tests.contract.test_contract import QUICK
from tests.sample_explanations import explanation
from tests.tiny_models import DECODERS, VOCABULARY, tiny_ids, tiny_model, tiny_module
from tests.tiny_tokenizers import ALL_KINDS, byte_level

PROMPT, GENERATED = tiny_ids("llama", 8)[:7], [40, 55, 33, 71]
TEXT = "the old mill"


@pytest.fixture(scope="module", params=DECODERS)
def model(request):
    return tiny_model(request.param, auto=AutoModelForCausalLM)


@pytest.fixture(scope="module")
def reader():
    tokenizer = byte_level()
    module = tiny_module("llama", auto=AutoModelForCausalLM, vocab_size=max(VOCABULARY, len(tokenizer)))
    return sl.load(module, tokenizer=tokenizer)


def silent(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.explain(*arguments, **options)


def explain(model, method="gradient", **options):
    return silent(model, model.encode(ids=PROMPT), method, continuation=GENERATED, **options)


@pytest.mark.parametrize(
    ("family", "method"),
    [("gpt2", method) for method in METHODS.names()]
    + [(family, method) for family in DECODERS[1:] for method in ("attcat", "rollout", "alti", "attnlrp", "transatt")],
)
def test_every_row_equals_the_explanation_of_the_next_token_alone(family, method):
    model = tiny_model(family, auto=AutoModelForCausalLM)
    options = QUICK.get(method, {})
    result = explain(model, method, **options)
    assert result.matrix.shape == (4, 11)
    for number, row in enumerate(result.rows):
        before = model.encode(ids=[*PROMPT, *GENERATED[:number]])
        alone = silent(model, before, method, target=GENERATED[number], **options)
        scale = max(1.0, np.abs(alone.scores).max())
        np.testing.assert_allclose(row.scores, alone.scores, rtol=1e-6, atol=1e-6 * scale)
        np.testing.assert_array_equal(result.matrix[number, : len(row.scores)], row.scores)
        assert row.target == alone.target
        assert row.prediction.index == alone.prediction.index
        if alone.layers is not None:
            np.testing.assert_allclose(row.layers, alone.layers, rtol=1e-6, atol=1e-6 * np.abs(alone.layers).max())


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("name", ["eos_token", "bos_token", "cls_token", "sep_token", "pad_token"])
def test_a_special_token_that_is_typed_in_a_continuation_is_plain_text(kind, name):
    tokenizer = ALL_KINDS[kind]()
    mark = getattr(tokenizer, name)
    if mark is None:
        pytest.skip("the tokenizer has no such token")
    prompt = encode_text(tokenizer, TEXT, max_tokens=None)
    if kind.startswith("unigram"):  # its vocabulary of pieces contains the marks
        with pytest.raises(InputError, match="always reads as a special token"):
            continue_text(tokenizer, prompt, f" hello {mark} world")
        return
    whole = continue_text(tokenizer, prompt, f" hello {mark} world")
    added = whole.ids[len(prompt) :]
    assert not whole.special[len(prompt) :].any()
    assert tokenizer.convert_tokens_to_ids(mark) not in added
    assert whole.text == f"{TEXT} hello {mark} world"
    # Later texts are read as before.
    assert tokenizer.convert_tokens_to_ids(mark) in encode_text(tokenizer, f"{TEXT} {mark}", max_tokens=None).ids


@pytest.mark.parametrize("method", ["attcat", "rollout", "alti", "attnlrp", "input_x_gradient"])
def test_a_row_is_zero_from_the_generated_token_on(model, method):
    matrix = explain(model, method).matrix
    for number, row in enumerate(matrix):
        assert row[: len(PROMPT) + number].any()
        assert not row[len(PROMPT) + number :].any()


@pytest.mark.parametrize("quantity", ["logit", "probability", "log_probability", "margin"])
def test_every_quantity_is_that_of_the_generated_token(model, quantity):
    result = explain(model, "input_x_gradient", quantity=quantity)
    for number, row in enumerate(result.rows):
        before = model.encode(ids=[*PROMPT, *GENERATED[:number]])
        alone = model.explain(before, "input_x_gradient", target=GENERATED[number], quantity=quantity)
        np.testing.assert_allclose(row.scores, alone.scores, atol=1e-6)


def test_gradient_methods_share_one_forward_and_one_backward_per_generated_token(model):
    network = model.network
    before = network.forward_passes, network.backward_passes
    silent(model, model.encode(ids=PROMPT), methods=["attcat", "gradient", "rollout", "alti"], continuation=GENERATED)
    assert (network.forward_passes - before[0], network.backward_passes - before[1]) == (1, len(GENERATED))


def test_rows_together_give_what_single_rows_give(model, monkeypatch):
    single = explain(model, "attcat").matrix
    monkeypatch.setattr(PrefixPass, "_rows_together", 3)
    np.testing.assert_allclose(explain(model, "attcat").matrix, single, atol=1e-12)


def test_several_methods_give_one_matrix_each(model):
    both = silent(model, model.encode(ids=PROMPT), methods=["attcat", "rollout"], continuation=GENERATED)
    assert list(both) == ["attcat", "rollout"]
    for method, result in both.items():
        assert result.method == method
        np.testing.assert_allclose(result.matrix, explain(model, method).matrix, atol=1e-10)


def test_probabilities_are_those_of_the_library(model):
    module = tiny_module(model.network.config.model_type, auto=AutoModelForCausalLM)
    logits = module(torch.tensor([[*PROMPT, *GENERATED]])).logits[0].detach()
    expected = torch.softmax(logits, -1)[range(len(PROMPT) - 1, len(PROMPT) + 3), GENERATED].numpy()
    np.testing.assert_allclose(explain(model).probabilities, expected, atol=1e-6)


def test_without_a_continuation_the_model_writes_the_likeliest_tokens(model):
    ids = list(PROMPT)
    for _ in range(5):
        ids.append(int(model.trace(model.encode(ids=ids)).logits.argmax()))
    result = model.explain(model.encode(ids=PROMPT), "gradient", max_new_tokens=5)
    written = result.encoding.ids.tolist()
    assert written == ids[: len(written)]
    assert len(written) == len(ids) or written[-1] == 102  # the mark that ends a text


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("continuation", [" river world", "er's world", "river 日本 😀", " "])
def test_prompt_and_continuation_keep_their_tokens_and_characters(kind, continuation):
    tokenizer = ALL_KINDS[kind]()
    model = sl.load(
        tiny_module("gpt2", auto=AutoModelForCausalLM, vocab_size=max(VOCABULARY, len(tokenizer))), tokenizer=tokenizer
    )
    if not continuation.strip():
        with pytest.raises(InputError, match="continuation"):
            model.explain(TEXT, "gradient", continuation=continuation)
        return
    result = model.explain(TEXT, "gradient", continuation=continuation)
    encoding, prompt = result.encoding, model.encode(TEXT)
    assert encoding.text == TEXT + continuation
    assert result.prompt_length == len(prompt)
    np.testing.assert_array_equal(encoding.ids[: len(prompt)], prompt.ids)
    for position in np.flatnonzero(~encoding.special):
        start, end = encoding.offsets[position]
        assert encoding.tokens[position] == encoding.text[start:end]
        if position >= len(prompt):
            assert start >= len(TEXT)
    assert result.text == continuation
    assert len(result.rows) == len(encoding) - len(prompt)


def test_generated_ids_have_their_place_in_the_decoded_text(reader):
    vocabulary = reader.tokenizer.get_vocab()
    ids = [vocabulary[token] for token in ("Ġold", "Ġriver", "er", "</s>")]
    result = reader.explain(TEXT, "gradient", continuation=ids)
    assert result.text == " old riverer"
    assert result.generated == ("old", "river", "er", "</s>")
    assert result.encoding.special[-1]
    assert [unit[0] for unit in result.top()] == ["old", "riverer"]


def test_sums_by_word_are_the_sums_of_the_matrix(reader):
    result = reader.explain(TEXT, "input_x_gradient", continuation=" river. Old miller")
    words = result.units("word")
    sums = result.sums()
    generated = list(result.generated_units())
    assert [words.texts[number] for number in generated] == ["river", ".", "Old", "miller"]
    for row, number in zip(sums, generated, strict=True):
        for column in range(len(words)):
            rows = words.tokens[number] - result.prompt_length
            assert row[column] == pytest.approx(result.matrix[np.ix_(rows, words.tokens[column])].sum(), abs=1e-9)
    np.testing.assert_allclose(result.total(), result.matrix.sum(axis=0))
    assert result.sums("sentence", "token").shape == (2, (~result.encoding.special).sum())
    frame = result.to_frame("word")
    assert (frame["index"] < frame["generated_index"]).all()
    assert len(result.to_frame()) == sum(len(row.scores) for row in result.rows)


PROMPTS = ("the old mill", "The old mill. Rivers", "one\n\ntwo", "mill\n", "3", "don", "the mill ", "日本", "mill.")
CONTINUATIONS = ("s", "had paid", " had paid", "er's. Old mill", ".14", "'t go", "\n\nNew river. Old", "語 😀", ". Old")


@pytest.mark.parametrize(
    "kind", [kind if kind == "byte_level" else pytest.param(kind, marks=pytest.mark.slow) for kind in ALL_KINDS]
)
def test_units_are_cut_at_the_border_and_cover_every_token_once(kind):
    tokenizer = ALL_KINDS[kind]()
    for prompt, text in itertools.product(PROMPTS, CONTINUATIONS):
        start = encode_text(tokenizer, prompt, max_tokens=None)
        whole = continue_text(tokenizer, start, text)
        for encoding in (whole, continue_ids(start, whole.ids[len(start) :], tokenizer=tokenizer)):
            check_cut(sample(encoding, len(start)))


def test_units_of_a_text_read_at_once_are_cut_too():
    """The words of such an encoding span the border."""
    encoding = encode_text(byte_level(), "The old mill had paid. Old river\n\nnew mill", max_tokens=None)
    for prompt in range(1, len(encoding)):
        if not encoding.special[:prompt].all() and not encoding.special[prompt:].all():
            check_cut(sample(encoding, prompt))


def sample(encoding, prompt):
    """A continuation of made-up scores."""
    lengths = range(prompt, len(encoding))
    rows = [explanation(encoding.select(np.arange(length)), np.arange(1.0, length + 1)) for length in lengths]
    return ContinuationExplanation(tuple(rows), encoding, prompt, np.full(len(rows), 0.5))


def check_cut(result):
    prompt, special = result.prompt_length, result.encoding.special
    for level in LEVELS:
        units, generated = result.units(level), result.generated_units(level)
        rows = [row for tokens in generated.values() for row in tokens]
        assert sorted(rows) == np.flatnonzero(~special[prompt:]).tolist()
        others = [int(p) for n, positions in enumerate(units.tokens) if n not in generated for p in positions]
        assert sorted(others) == np.flatnonzero(~special[:prompt]).tolist()
        assert list(generated) == list(range(len(units) - len(generated), len(units)))
        assert generated
        assert level == "token" or all(units.texts)  # a word-boundary sign has no character
        sums = result.sums(level, level)
        assert sums.sum() == pytest.approx(result.matrix[np.ix_(rows, ~special)].sum())
        assert len(result.top(1, level)) == len(generated) == len(result.unit_probabilities(level))


def test_a_word_that_the_border_cuts_has_a_prompt_part_and_a_generated_part(reader):
    result = reader.explain("the old mill", "gradient", continuation="er had")
    assert [word for word, _ in result.top()] == ["er", "had"]
    assert result.units("word").texts == ("the", "old", "mill", "er", "had")
    assert result.units("sentence").texts == result.units("paragraph").texts == ("the old mill", "er had")
    assert [word.text for word in result.rows[-1].words()][:4] == ["the", "old", "mill", "er"]


def test_the_space_before_generated_words_is_that_of_the_whole_text():
    """Tokenizers that join words with spaces decode the first word without one."""
    tokenizer = word_tokenizer(["old", "mill", "river"])
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    prompt = encode_text(tokenizer, "old mill", max_tokens=None)
    ids = tokenizer.convert_tokens_to_ids(["river", "old"])
    assert continue_ids(prompt, ids, tokenizer=tokenizer).text == "old mill river old"


def test_a_continuation_knows_who_wrote_it(reader, tmp_path):
    given = reader.explain(TEXT, "gradient", continuation=" river")
    generated = reader.explain(TEXT, "gradient", max_new_tokens=2)
    assert (given.origin, generated.origin) == ("given", "generated")
    generated.save(tmp_path / "result.json")
    assert ContinuationExplanation.load(tmp_path / "result.json").origin == "generated"
    assert ContinuationExplanation.from_record(given.to_dict()).text == " river"
    for name, wrong in (("origin", "nobody"), ("origin", []), ("border", 10**6), ("border", "x")):
        with pytest.raises((TypeError, ValueError)):
            ContinuationExplanation.from_record({**given.to_dict(), name: wrong})


def test_a_continuation_survives_saving(reader, tmp_path):
    result = reader.explain(TEXT, "attcat", continuation=" river world")
    result.save(tmp_path / "result.json")
    loaded = ContinuationExplanation.load(tmp_path / "result.json")
    np.testing.assert_array_equal(loaded.matrix, result.matrix)
    np.testing.assert_array_equal(loaded.probabilities, result.probabilities)
    assert loaded.encoding == result.encoding
    assert loaded.to_dict() == result.to_dict()
    (tmp_path / "result.json").write_text('{"format": "sightline-continuation", "version": 1}')
    with pytest.raises(InputError, match="is damaged: .* is missing"):
        ContinuationExplanation.load(tmp_path / "result.json")
    with pytest.raises(InputError, match="is saved as .json"):
        result.save(tmp_path / "result.csv")


def test_a_row_can_be_checked(reader):
    result = reader.explain(TEXT, "attcat", continuation=" river world")
    checked = reader.check(result.rows[1], check_readings=16)
    assert checked.verdict.level


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"continuation": ""}, InputError, "continuation"),
        ({"continuation": " river", "target": "old"}, OptionError, "every generated token is a target"),
        ({"continuation": " river", "check": True}, OptionError, "every generated token is a target"),
        ({"continuation": " river", "max_new_tokens": 3}, OptionError, "either continuation= or max_new_tokens="),
        ({"max_new_tokens": 0}, OptionError, "max_new_tokens"),
        ({"continuation": " river" * 200}, InputError, "tokens together, the model reads 130 at most"),
        ({"continuation": [10**9]}, InputError, "is too large"),
        ({"continuation": []}, InputError, "empty"),
        ({"continuation": 5}, InputError, "must be a text or a list of token ids, not int"),
        ({"continuation": b"x"}, InputError, "must be a text or a list of token ids, not bytes"),
    ],
)
def test_a_wrong_request_is_one_sentence(reader, options, error, sentence):
    with pytest.raises(error, match=sentence):
        reader.explain(TEXT, "gradient", **options)


def test_prompts_that_are_too_long_and_models_that_write_nothing_are_refused(reader):
    with pytest.raises(InputError, match="The prompt has .* tokens and the model reads 130 at most: shorten it"):
        reader.explain("old mill " * 100, "gradient", continuation=" river")
    with pytest.raises(InputError, match="A prompt is one text"):
        reader.explain([TEXT, TEXT], "gradient", continuation=" river")
    with pytest.raises(UnsupportedError, match="Only a causal language model continues a text"):
        tiny_model("bert").explain("x", "gradient", continuation="y")
    plain = tiny_model("llama", auto=AutoModelForCausalLM)
    with pytest.raises(ModelError, match="give the continuation as a list of ids"):
        plain.explain(plain.encode(ids=PROMPT), "gradient", continuation=" river")


def test_a_chat_without_messages_is_one_sentence(reader):
    with pytest.raises(InputError, match="The chat has no message"):
        reader.encode([])
    with pytest.raises(InputError, match="The chat has no message"):
        reader.explain([], "gradient", continuation=" river")


@pytest.mark.parametrize("wrong", [3, b"text", {"role": "user"}, [3]])
def test_a_prompt_that_is_no_text_is_one_sentence(reader, wrong):
    with pytest.raises(InputError):
        reader.encode(wrong)
    with pytest.raises(InputError):
        reader.explain(wrong, "gradient", continuation=" river")
