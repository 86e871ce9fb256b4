"""Tokenizers are found where they are, and one that cannot belong to the model is refused."""

import json

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from sightline.errors import ModelError
from sightline.text import check_fit, check_known, encode_text, load_tokenizer, special_tokens
from tests.tiny_tokenizers import ALL_KINDS, byte_level, wordpiece


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": 100}))
    return tmp_path


@pytest.mark.parametrize("name", ALL_KINDS)
def test_a_saved_tokenizer_comes_back(name, tmp_path):
    tokenizer = ALL_KINDS[name]()
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path, local_only=True)
    text = "Hello the\n old miller, café 日本 😀"
    assert encode_text(again, text, max_tokens=9) == encode_text(tokenizer, text, max_tokens=9)


def test_a_plain_vocabulary_file_is_enough(folder):
    vocabulary = wordpiece().get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n")
    tokenizer = load_tokenizer(str(folder), local_only=True)
    assert encode_text(tokenizer, "the old miller", max_tokens=None).tokens == (
        "[CLS]",
        "the",
        "old",
        "mill",
        "er",
        "[SEP]",
    )


def test_a_folder_without_vocabulary_has_no_tokenizer(folder):
    assert load_tokenizer(folder, local_only=True) is None
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    assert load_tokenizer(folder, local_only=True) is None


def test_a_vocabulary_of_special_tokens_only_is_not_a_tokenizer(folder):
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    assert load_tokenizer(folder, local_only=True) is None


def test_a_broken_tokenizer_file_is_named(folder):
    (folder / "tokenizer.json").write_text("{not json")
    with pytest.raises(ModelError, match=f"tokenizer.json in '{folder}' could not be read: it is not valid JSON"):
        load_tokenizer(folder, local_only=True)


def test_a_name_that_is_nowhere_is_named():
    with pytest.raises(ModelError, match="The tokenizer of 'nobody/nothing' cannot be loaded"):
        load_tokenizer("nobody/nothing", local_only=True)


def test_a_vocabulary_larger_than_the_model_does_not_fit():
    tokenizer = wordpiece()
    check_fit(tokenizer, len(tokenizer))
    check_fit(tokenizer, len(tokenizer) + 1000)
    last = len(tokenizer) - 1
    with pytest.raises(ModelError, match=f"does not fit the model: its ids go up to {last}, the model knows {last} "):
        check_fit(tokenizer, last)


def test_a_vocabulary_that_was_not_read_does_not_fit():
    empty = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordPiece({"[UNK]": 0, "[CLS]": 1}, unk_token="[UNK]")),
        unk_token="[UNK]",
        cls_token="[CLS]",
    )
    with pytest.raises(ModelError, match="knows only its 2 special tokens"):
        check_fit(empty, 30_000)


def test_a_text_of_mostly_unknown_tokens_tells_that_the_tokenizer_does_not_fit():
    tokenizer = wordpiece()

    def check(text):
        check_known(encode_text(tokenizer, text, max_tokens=None), tokenizer.unk_token_id)

    with pytest.raises(ModelError, match="5 of 8 tokens are unknown to the tokenizer: it does not fit the model"):
        check("ж ж ж ж ж the old mill")
    check("ж ж ж ж the old old mill")  # half is not most
    check("ж ж ж ж ж ж the")  # too few to judge


def test_a_tokenizer_without_unknown_token_knows_everything():
    check_known(encode_text(byte_level(), "ж " * 20, max_tokens=None), None)


def test_special_tokens_are_the_marks_of_a_sequence():
    assert set(special_tokens(wordpiece()).values()) == {"[PAD]", "[CLS]", "[SEP]"}
    assert special_tokens(byte_level()) == {0: "<s>", 1: "<pad>", 2: "</s>"}


def test_unknown_words_are_not_special_where_the_pad_token_is_the_unknown_token():
    tokenizer = wordpiece()
    tokenizer.pad_token = "[UNK]"
    assert set(special_tokens(tokenizer).values()) == {"[CLS]", "[SEP]"}
