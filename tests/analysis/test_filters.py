"""Filters look at whole words, whatever their case."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.analysis import TokenFilter, stop_word_languages
from sightline.errors import OptionError
from sightline.text import units_of
from tests.sample_explanations import encoding


def kept(filter, text, **options):
    document = encoding(text, **options)
    units = units_of(document)
    return [text for text, stays in zip(units.texts, filter.keep(document), strict=True) if stays]


def test_stop_words_and_punctuation_go_by_default_whatever_their_case():
    assert kept(TokenFilter(), "THE Miller, the river: it Is old!") == ["Miller", "river", "old"]


def test_contractions_are_stop_words_with_either_apostrophe():
    assert kept(TokenFilter(), "don't don’t river") == ["river"]


def test_each_kind_can_be_left_out_or_kept():
    text = "The river, 1984 3.14 2nd 😀"
    assert kept(TokenFilter(stop_words=None, punctuation=False), text) == [
        "The",
        "river",
        ",",
        "1984",
        "3.14",
        "2nd",
        "😀",
    ]
    assert kept(TokenFilter(stop_words=None), text) == ["The", "river", "1984", "3.14", "2nd"]
    assert kept(TokenFilter(stop_words=None, numbers=True), text) == ["The", "river", "2nd"]
    assert kept(TokenFilter(stop_words=None, numbers=True, punctuation=False), text) == [
        "The",
        "river",
        ",",
        "2nd",
        "😀",
    ]
    assert kept(TokenFilter(words=("RIVER",)), text) == ["1984", "3.14", "2nd"]


def test_words_on_which_verdicts_rest_are_no_stop_words():
    assert not any(TokenFilter().drops(word) for word in ("good", "great", "bad", "worst", "old", "big", "fine"))


def test_other_languages_by_code_or_name():
    assert len(stop_word_languages()) > 20
    for language in ("de", "german", "German"):
        assert kept(TokenFilter(stop_words=language), "der alte Fluss the") == ["alte", "Fluss", "the"]
    with pytest.raises(OptionError, match=r"no list of stop words for 'klingon'.*Known: .*de \(german\)"):
        TokenFilter(stop_words="klingon")


def test_a_sub_word_token_goes_with_its_word():
    document = encoding("the miller")  # the, mill, ##er
    np.testing.assert_array_equal(TokenFilter(words=["miller"]).keep_tokens(document), [False] * 5)
    np.testing.assert_array_equal(TokenFilter().keep_tokens(document), [False, False, True, True, False])
    np.testing.assert_array_equal(TokenFilter(specials=False).keep_tokens(document), [True, False, True, True, True])
    np.testing.assert_array_equal(TokenFilter().keep(document, "token"), [False, True, True])


def test_words_of_both_texts_of_a_pair_are_filtered():
    document = encoding("the world", "the river")
    assert [document.tokens[i] for i in np.flatnonzero(TokenFilter().keep_tokens(document))] == ["world", "river"]


def test_a_lone_word_is_not_taken_for_a_list_of_letters():
    with pytest.raises(OptionError, match="words is a list of words"):
        TokenFilter(words="mill")


def test_filters_can_be_compared_and_described():
    assert TokenFilter(words=["a"]) == TokenFilter(words=("a",))
    assert hash(TokenFilter()) == hash(TokenFilter())
    assert TokenFilter().description() == "without stop words (en), punctuation, specials"
    assert TokenFilter(None, False, False, False).description() == "all words"


def test_the_short_english_list_is_that_of_scikit_learn():
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    from sightline.analysis.filters import _read_words

    listed = _read_words("english_stop_words.txt")
    assert len(listed) == 318
    assert set(listed) == ENGLISH_STOP_WORDS
    assert _read_words("english_meaningful_words.txt") < listed


def test_the_english_contractions_are_those_of_the_package_for_other_languages():
    from stop_words import get_stop_words

    assert TokenFilter()._listed >= {word for word in get_stop_words("en") if "'" in word}


def test_negations_and_words_with_a_meaning_of_their_own_can_be_kept():
    fillers = TokenFilter(meaningful=True)
    for word in ("the", "of", "He", "i'm", ",", "!"):
        assert fillers.drops(word)
    for word in ("not", "No", "isn't", "isn\u2019t", "never", "without", "system", "serious", "river"):
        assert not fillers.drops(word)
    assert TokenFilter().drops("not")
    assert TokenFilter().drops("system")
