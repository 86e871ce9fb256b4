"""Tokens, words, sentences and paragraphs as groups of tokens: folding, spreading, nesting, drawing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import OptionError
from sightline.text import LEVELS, encode_ids, encode_text, units_of
from tests.tiny_tokenizers import byte_level, unigram, wordpiece

TOKENIZERS = {"wordpiece": wordpiece(), "bytes": byte_level(), "unigram": unigram()}
PIECES = [*'aTh .!?,。\n\t👩é…"', "the mill", " old river", "\n\n", "Hello ", "👩\u200d👩\u200d👧🏽"]
TEXTS = (
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=30)
    .map("".join)
    .filter(lambda text: any(character.isalnum() for character in text))
)


def encode(name, text, pair=None):
    return encode_text(TOKENIZERS[name], text, pair, max_tokens=None)


def groups(encoding, level):
    return [list(unit.tokens) for unit in units_of(encoding, level)]


@pytest.mark.parametrize("level", LEVELS)
def test_every_ordinary_token_is_in_one_part_in_document_order(level):
    encoding = encode_text(wordpiece(), "The millers! Hello world.", "An old river. The mill.", max_tokens=None)
    flat = [i for group in groups(encoding, level) for i in group]
    assert flat == np.flatnonzero(~encoding.special).tolist()


def test_words_and_sentences_of_a_pair():
    encoding = encode_text(wordpiece(), "Hello world. Old rivers", "The mill.", max_tokens=None)
    assert encoding.tokens == (
        "[CLS]",
        "Hello",
        "world",
        ".",
        "Old",
        "river",
        "s",
        "[SEP]",
        "The",
        "mill",
        ".",
        "[SEP]",
    )
    assert groups(encoding, "sentence") == [[1, 2, 3], [4, 5, 6], [8, 9, 10]]
    assert groups(encoding, "word") == [[1], [2], [3], [4], [5, 6], [8], [9], [10]]


def test_a_document_of_specials_has_no_parts():
    encoding = encode_ids([101, 102], special_ids=[101, 102])
    assert [groups(encoding, level) for level in LEVELS] == [[], [], [], []]
    assert units_of(encoding).fold(np.ones(2)).shape == (0,)
    assert units_of(encoding).spread([]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS, pair=st.none() | TEXTS, seed=st.integers(0, 99))
def test_scores_folded_onto_units_keep_their_sum_and_spread_ones_fold_back(name, text, pair, seed):
    encoding = encode(name, text, pair)
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(2, 3, len(encoding)))
    for level in LEVELS:
        units = units_of(encoding, level)
        folded = units.fold(scores)
        assert folded.shape == (2, 3, len(units))
        for number, unit in enumerate(units):
            np.testing.assert_allclose(folded[..., number], scores[..., list(unit.tokens)].sum(axis=-1), atol=1e-12)
        np.testing.assert_allclose(folded.sum(axis=-1), scores[..., ~encoding.special].sum(axis=-1), atol=1e-12)
        values = generator.normal(size=len(units))
        spread = units.spread(values)
        assert (spread[encoding.special] == 0).all()
        np.testing.assert_allclose(units.fold(spread), values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS, pair=st.none() | TEXTS)
def test_every_level_is_nested_in_the_next_and_in_document_order(name, text, pair):
    encoding = encode(name, text, pair)
    levels = [units_of(encoding, level) for level in LEVELS]
    for units in levels:
        assert ((units.of_token >= 0) == ~encoding.special).all()
        assert (np.diff(units.of_token[~encoding.special]) >= 0).all()
        assert (units.sizes > 0).all()
        assert [len(positions) for positions in units.tokens] == units.sizes.tolist()
    for finer, coarser in pairwise(levels):
        parents = finer.parents(coarser)
        np.testing.assert_array_equal(parents[finer.of_token[~encoding.special]], coarser.of_token[~encoding.special])
        assert (finer.segments == coarser.segments[parents]).all()


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS, pair=st.none() | TEXTS)
def test_drawable_units_are_visible_pieces_of_the_text_one_after_the_other(name, text, pair):
    encoding = encode(name, text, pair)
    scores = np.arange(1.0, 1 + len(encoding))
    for level in LEVELS:
        units = units_of(encoding, level)
        drawn = units.drawable(encoding)
        places = [(unit.segment, unit.start, unit.end) for unit in drawn]
        assert places == sorted(places)
        for (segment, _, end), (next_segment, start, _) in pairwise(places):
            assert segment < next_segment or end <= start
        for unit in drawn:
            assert unit.text == encoding.segment_texts[unit.segment][unit.start : unit.end] == unit.text.strip() != ""
        visible = [unit for unit in units if encoding.segment_texts[unit.segment][unit.start : unit.end].strip()]
        assert sorted(i for unit in drawn for i in unit.tokens) == sorted(i for unit in visible for i in unit.tokens)
        assert drawn.fold(scores).sum() == sum(scores[i] for unit in visible for i in unit.tokens)


def test_a_line_break_belongs_to_the_word_and_the_sentence_that_follow_it():
    encoding = encode("bytes", "the mill.\n\nold river")
    blank = [i for i in np.flatnonzero(~encoding.special) if not encoding.tokens[i].strip()]
    assert blank
    sentences = units_of(encoding, "sentence")
    assert {sentences.of_token[i] for i in blank} == {1}
    assert [unit.text for unit in sentences.drawable(encoding)] == ["the mill.", "old river"]


def test_words_know_their_text_their_type_and_their_place():
    units = units_of(encode("wordpiece", "Hello old Millers", "hello"))
    assert units.texts == ("Hello", "old", "Millers", "hello")
    assert units.types == ("hello", "old", "millers", "hello")
    assert units.segments.tolist() == [0, 0, 0, 1]
    assert list(zip(units.starts, units.ends, strict=True)) == [(0, 5), (6, 9), (10, 17), (0, 5)]
    assert units.first_tokens.tolist() == [1, 2, 3, 7]
    assert units.positions([2, 0]) == [1, 3, 4, 5]


def test_units_without_some_tokens_drop_what_is_left_empty():
    units = units_of(encode("wordpiece", "Hello old Millers"))
    left = units.without([2, 4])
    assert [unit.tokens for unit in left] == [(1,), (3, 5)]
    assert left.texts == ("Hello", "Millers")
    assert units.without([]).of_token.tolist() == units.of_token.tolist()


def test_selected_units_are_numbered_in_the_order_given():
    units = units_of(encode("wordpiece", "Hello old Millers"))
    chosen = units.select([2, 0])
    assert chosen.texts == ("Millers", "Hello")
    assert [unit.tokens for unit in chosen] == [(3, 4, 5), (1,)]


def test_an_unknown_level_and_scores_of_another_document_are_refused():
    encoding = encode("wordpiece", "Hello")
    with pytest.raises(OptionError, match="level='line' is not known. Use one of: token, word, sentence, paragraph"):
        units_of(encoding, "line")
    with pytest.raises(ValueError, match="one per token"):
        units_of(encoding).fold(np.ones(7))
