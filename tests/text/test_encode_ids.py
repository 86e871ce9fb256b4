"""Bare ids become a document that can be shown like any other."""

import numpy as np
import pytest
import torch

from sightline.errors import InputError
from sightline.text import encode_ids, encode_text
from tests.tiny_models import tiny_model
from tests.tiny_tokenizers import byte_level, wordpiece

SPECIALS = {101: "[CLS]", 102: "[SEP]"}


def test_ids_are_shown_as_numbers_and_specials_by_name():
    encoding = encode_ids([101, 17, 4, 17, 102], special_ids=SPECIALS)
    assert encoding.tokens == ("[CLS]", "17", "4", "17", "[SEP]")
    assert encoding.text == "17 4 17"
    assert encoding.offsets.tolist() == [[0, 0], [0, 2], [3, 4], [5, 7], [0, 0]]
    assert encoding.segments.tolist() == [-1, 0, 0, 0, -1]
    assert encoding.special.tolist() == [True, False, False, False, True]
    assert encoding.word_ids.tolist() == [-1, 0, 1, 2, -1]
    assert [encoding.text[word.start : word.end] for word in encoding.words] == ["17", "4", "17"]
    assert encoding.type_ids.tolist() == [0] * 5
    assert (encoding.dropped, encoding.pair, encoding.global_tokens) == (0, None, None)


def test_specials_without_a_name_are_shown_as_numbers():
    assert encode_ids([101, 17], special_ids={101}).tokens == ("101", "17")
    assert encode_ids([101, 17], special_ids=[101]).special.tolist() == [True, False]


@pytest.mark.parametrize("ids", [[5, 6], (5, 6), np.array([5, 6], dtype=np.int32), torch.tensor([5, 6])])
def test_any_sequence_of_whole_numbers_will_do(ids):
    assert encode_ids(ids).ids.tolist() == [5, 6]


def test_one_token_or_only_specials_are_a_document():
    assert len(encode_ids([3])) == 1
    assert encode_ids([101, 102], special_ids=SPECIALS).words == ()


def test_token_types_and_global_tokens_are_kept():
    encoding = encode_ids([101, 5, 102, 6], special_ids=SPECIALS, type_ids=[0, 0, 0, 1], global_tokens=[2, 0])
    assert encoding.type_ids.tolist() == [0, 0, 0, 1]
    assert encoding.global_tokens == (0, 2)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "empty"),
        ([[1, 2]], r"shape \(1, 2\)"),
        ([1, -7], "Id -7 at position 1 is negative"),
        ([1, 10], r"Id 10 at position 1 is too large: the model knows 10 tokens \(0-9\)"),
        ([1.5], "whole numbers"),
        (["a"], "whole numbers"),
        ([True], "whole numbers"),
        ([2**70], "whole numbers"),
    ],
)
def test_ids_that_are_none_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        encode_ids(ids, vocab_size=10)


def test_ragged_lists_are_refused():
    with pytest.raises(InputError, match="unequal length"):
        encode_ids([[1], [1, 2]])


def test_token_types_must_fit():
    with pytest.raises(InputError, match="1 token types were given for 2 ids"):
        encode_ids([1, 2], type_ids=[0])


@pytest.mark.parametrize("tokenizer", [wordpiece(), byte_level()], ids=["wordpiece", "byte_level"])
def test_with_a_tokenizer_ids_of_a_text_give_the_text(tokenizer):
    text = "the old miller"
    ids = tokenizer(text)["input_ids"]
    assert encode_ids(ids, tokenizer=tokenizer) == encode_text(tokenizer, text, max_tokens=None)
    assert encode_ids(ids, tokenizer=tokenizer, global_tokens=[1]).global_tokens == (1,)
    assert encode_ids(ids, tokenizer=tokenizer, type_ids=[1] * len(ids)).type_ids.tolist() == [1] * len(ids)


def test_with_a_tokenizer_other_ids_are_numbers_with_named_specials():
    tokenizer = wordpiece()
    cls, sep, piece = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]", "##er"])
    encoding = encode_ids([cls, piece, piece, sep], tokenizer=tokenizer)
    assert encoding.tokens == ("[CLS]", str(piece), str(piece), "[SEP]")
    assert encode_ids([cls, sep], tokenizer=tokenizer).tokens == ("[CLS]", "[SEP]")
    assert not encode_ids([cls, tokenizer.mask_token_id, piece], tokenizer=tokenizer).special[1]


def test_a_second_text_beside_ids_is_refused():
    with pytest.raises(InputError, match="ids already hold both texts"):
        tiny_model().encode(ids=[101, 5, 102], pair="the old river")
