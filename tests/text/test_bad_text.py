"""Texts that cannot be explained are refused with one sentence; unusual ones that can, are not."""

import pytest

from sightline.errors import InputError
from sightline.text import MAX_CHARACTERS, check_text, encode_text
from tests.tiny_tokenizers import byte_level

TOKENIZER = byte_level()
BAD = {
    "empty": ("", "is empty"),
    "spaces": (" \t\r\n\u00a0\u3000", "is only white space"),
    "zero width": ("\u200b\ufeff\u2060 ", "is only white space"),
    "control characters": ("\x07\x1b", "is only white space"),
    "NUL": ("\0 \0", "is only white space"),
    "lone surrogate": ("ab\ud800", "half a surrogate pair at character 2"),
    "too long": ("a" * (MAX_CHARACTERS + 1), "has 5,000,001 characters; Sightline reads at most 5,000,000"),
    "bytes": (b"abc", "must be a string, not bytes"),
    "number": (3, "must be a string, not int"),
    "list": (["a", "b"], "must be a string, not list"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_bad_text_is_refused_in_one_sentence(text, message):
    with pytest.raises(InputError, match=message) as caught:
        encode_text(TOKENIZER, text, max_tokens=8)
    assert str(caught.value).startswith("The text ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_bad_pair_is_refused_and_named(text, message):
    with pytest.raises(InputError, match=f"The second text of the pair .*{message}"):
        encode_text(TOKENIZER, "fine", text, max_tokens=8)


@pytest.mark.parametrize(
    "text", ["שלום עולם", "مرحبا \u202bعالم\u202c", "👨\u200d👩\u200d👧", "a\u200b", "\x07a", "a\0b", "\u0301"]
)
def test_unusual_texts_are_fine(text):
    assert check_text(text) is text
    encoding = encode_text(TOKENIZER, text, max_tokens=None)
    assert encoding.text == text


def test_missing_text_is_not_a_string():
    with pytest.raises(InputError, match="not NoneType"):
        check_text(None)
