"""Words as tokens: all of them are the original string, and without some of them a text is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.text.encode import encode_words, join_words
from sightline.text.words import has_visible_character
from tests.tiny_tokenizers import wordpiece

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(has_visible_character)


@given(TEXTS, st.none() | TEXTS)
def test_all_words_are_the_original_text(text, pair):
    expected = (text,) if pair is None else (text, pair)
    assert join_words(encode_words(text, pair)) == expected


@pytest.mark.parametrize(
    ("text", "removed", "expected"),
    [
        ("I did not like it.", ["not"], "I did like it."),
        ("  Good  film. ", ["Good"], "  film. "),
        ('He said "hi" twice', ['"'], "He said hi twice"),
        ("One.\n\nTwo words", ["Two"], "One.\n\nwords"),
        ("very very good", ["very"], "good"),
        ("我很好", ["很"], "我好"),
        ("all of it", ["all", "of", "it"], ""),
    ],
)
def test_words_leave_a_gap_that_separates_the_others(text, removed, expected):
    encoding = encode_words(text)
    places = [place for place, token in enumerate(encoding.tokens) if token in removed]
    assert join_words(encoding.drop(places)) == (expected,)


def test_an_encoding_of_a_tokenizer_is_refused():
    from sightline.text import encode_text

    with pytest.raises(InputError, match="made for another model"):
        join_words(encode_text(wordpiece(), "the cat", max_tokens=None))
