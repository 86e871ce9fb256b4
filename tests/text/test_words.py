"""Words are found in the original string alone."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.text.words import Word, count_words, has_visible_character, split_words, words_of_tokens

HANGUL_FILLERS = "\u115f\u1160\u3164\uffa0"  # letters that cannot be seen
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop: it’s 5!", ["Don't", "stop", ":", "it’s", "5", "!"]),
        ("rock'n'roll 'quoted' state-of-the-art", ["rock'n'roll", "'", "quoted", "'", "state-of-the-art"]),
        ("a--b well- -5", ["a", "-", "-", "b", "well", "-", "-", "5"]),
        ("3.14 and 1,000, not 3. or v1.2.3", ["3.14", "and", "1,000", ",", "not", "3", ".", "or", "v1.2.3"]),
        ("snake_case f(x)=$5", ["snake", "_", "case", "f", "(", "x", ")", "=", "$", "5"]),
        ("日本語のカーテン。", ["日", "本", "語", "の", "カ", "ー", "テ", "ン", "。"]),
        ("AI入門 한국어 텍스트", ["AI", "入", "門", "한국어", "텍스트"]),
        ("👨‍👩‍👧👍🏽🇩🇪🇫🇷1️⃣❤️x", ["👨‍👩‍👧", "👍🏽", "🇩🇪", "🇫🇷", "1️⃣", "❤️", "x"]),
        ("cafe\u0301 e\u0301te\u0301! か\u3099", ["cafe\u0301", "e\u0301te\u0301", "!", "か\u3099"]),
        ("नमस्ते می\u200cخواهم co\u00adop", ["नमस्ते", "می\u200cخواهم", "co\u00adop"]),
        ("שלום, עולם", ["שלום", ",", "עולם"]),
        ("a\u200bb\u2060c \ufeffd\u200f", ["a", "b\u2060c", "d"]),
        ("\u0600 1", ["\u0600", "1"]),
        ("a [MASK]. <mask>s [MASKS] <b>", ["a", "[MASK]", ".", "<mask>", "s", "[", "MASKS", "]", "<", "b", ">"]),
        ("\n\t \u200b", []),
    ],
)
def test_words_are_what_a_reader_would_say(text, words):
    assert [word.text for word in split_words(text)] == words


@given(TEXT)
def test_words_hold_every_visible_character_once_and_nothing_white(text):
    words = split_words(text, segment=1)
    covered = np.zeros(len(text), dtype=int)
    for word in words:
        assert word == Word(text[word.start : word.end], word.start, word.end, 1)
        assert not any(character.isspace() for character in word.text)
        covered[word.start : word.end] += 1
    assert [word.start for word in words] == sorted(word.start for word in words)
    assert covered.max(initial=0) <= 1
    for character, count in zip(text, covered, strict=True):
        if unicodedata.category(character)[0] in "LNPS" and character not in HANGUL_FILLERS:
            assert count == 1
    assert bool(words) == has_visible_character(text)


@given(TEXT, st.integers(0, 60))
def test_a_stop_gives_the_first_words_and_at_least_one(text, stop):
    words = split_words(text)
    expected = tuple(word for word in words if word.start < stop) or words[:1]
    assert split_words(text, stop=stop) == expected


def test_a_token_belongs_to_the_word_of_its_first_visible_character():
    text = "  one two\n"
    words = split_words(text)
    starts = {"a blank before": 0, "o of one": 2, "n of one": 3, "the space between": 5, "two": 6, "the line break": 9}
    assert words_of_tokens(np.array(list(starts.values())), words).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "count"),
    [("The mill, No. 5 (old).", 5), ("… — !", 0), ("don't 3.14 state-of-the-art", 3), ("水車 👩‍👧 [MASK]", 3), ("", 0)],
)
def test_words_are_counted_as_a_reader_counts_them_without_punctuation(text, count):
    assert count_words(split_words(text)) == count
