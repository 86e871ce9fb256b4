"""An Encoding is a value: operations return new ones whose parts still fit together."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.text import Encoding, Word, encode_ids, encode_text
from tests.tiny_tokenizers import byte_level, wordpiece

BERT, ROBERTA = wordpiece(), byte_level()


@pytest.fixture
def pair() -> Encoding:
    """[CLS] the mill ##er [SEP] old river ##s ! [SEP]"""
    return encode_text(BERT, "The miller", "old rivers!", max_tokens=None, global_tokens=(0, 3, 5))


def test_replacing_ids_keeps_everything_else(pair):
    ids = np.where(pair.special, pair.ids, BERT.mask_token_id)
    masked = pair.replace_ids(ids)
    assert masked.ids.tolist() == ids.tolist()
    assert masked == replace(pair, ids=ids)
    assert masked.tokens == pair.tokens
    assert BERT.mask_token_id not in pair.ids


def test_replacing_ids_needs_one_for_each_token(pair):
    with pytest.raises(ValueError, match="shape"):
        pair.replace_ids(pair.ids[:-1])


def test_dropping_part_of_a_word_keeps_the_word(pair):
    shorter = pair.drop([3])
    assert shorter.tokens == ("[CLS]", "The", "mill", "[SEP]", "old", "river", "s", "!", "[SEP]")
    assert [word.text for word in shorter.words] == ["The", "miller", "old", "rivers", "!"]
    assert shorter.word_ids.tolist() == [-1, 0, 1, -1, 2, 3, 3, 4, -1]
    assert shorter.global_tokens == (0, 4)


def test_dropping_a_whole_word_renumbers_the_others(pair):
    shorter = pair.drop([2, 3, 6])
    assert shorter.tokens == ("[CLS]", "The", "[SEP]", "old", "s", "!", "[SEP]")
    assert [word.text for word in shorter.words] == ["The", "old", "rivers", "!"]
    assert shorter.word_ids.tolist() == [-1, 0, -1, 1, 2, 3, -1]
    assert shorter.type_ids.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert shorter.segments.tolist() == [-1, 0, -1, 1, 1, 1, -1]
    assert shorter.global_tokens == (0, 3)
    assert (shorter.text, shorter.pair) == (pair.text, pair.pair)


@settings(deadline=None)
@given(st.data())
def test_what_is_left_after_dropping_is_what_was_there(data):
    text = data.draw(st.text(st.sampled_from("the mill! 日😀é\n"), min_size=1).filter(lambda text: text.strip()))
    encoding = encode_text(ROBERTA, text, max_tokens=None)
    gone = data.draw(st.sets(st.integers(0, len(encoding) - 1), max_size=len(encoding) - 1))
    rest = [i for i in range(len(encoding)) if i not in gone]
    shorter = encoding.drop(gone)
    assert shorter.tokens == tuple(encoding.tokens[i] for i in rest)
    for name in ("ids", "type_ids", "offsets", "segments", "special"):
        assert getattr(shorter, name).tolist() == getattr(encoding, name)[rest].tolist()
    old_words = [encoding.words[w] if w >= 0 else None for w in encoding.word_ids[rest]]
    assert [shorter.words[w] if w >= 0 else None for w in shorter.word_ids] == old_words
    lost = {encoding.words[w] for w in encoding.word_ids[sorted(gone)] if w >= 0} - set(old_words)
    assert [word for word in encoding.words if word not in lost] == list(shorter.words)


def test_dropping_nothing_changes_nothing(pair):
    assert pair.drop([]) == pair


def test_dropping_everything_is_refused(pair):
    with pytest.raises(InputError, match="nothing would be left"):
        pair.drop(range(len(pair)))


@pytest.mark.parametrize("position", [-1, 10])
def test_a_position_outside_the_document_is_named(pair, position):
    with pytest.raises(InputError, match=rf"Token {position} asked for, the document has 10 tokens \(0-9\)"):
        pair.drop([position])
    with pytest.raises(InputError, match=f"Global token {position} asked for"):
        replace(pair, global_tokens=(0, position))


def test_global_tokens_are_ascending_and_each_once(pair):
    assert replace(pair, global_tokens=(5, 0, 5)).global_tokens == (0, 5)
    assert replace(pair, global_tokens=()).global_tokens == ()
    assert replace(pair, global_tokens=None).drop([1]).global_tokens is None


def test_positions_of_words(pair):
    assert [positions.tolist() for positions in pair.word_positions()] == [[1], [2, 3], [5], [6, 7], [8]]


def test_a_word_that_shares_a_token_owns_none():
    encoding = encode_ids([7, 8])
    shared = replace(encoding, word_ids=[0, 0], words=(Word("7", 0, 1, 0), Word("8", 2, 3, 0)))
    assert [positions.tolist() for positions in shared.word_positions()] == [[0, 1], []]
    assert shared.drop([0]).words == shared.words
    assert shared.drop([]).words == shared.words


def test_the_mask_of_ordinary_tokens(pair):
    expected = [token not in ("[CLS]", "[SEP]") for token in pair.tokens]
    assert pair.without_specials().tolist() == expected


def test_an_encoding_owns_its_arrays(pair):
    ids = pair.ids.copy()
    other = pair.replace_ids(ids)
    ids[:] = 0
    assert other.ids.tolist() == pair.ids.tolist()
    with pytest.raises(ValueError, match="read-only"):
        other.offsets[:] = 0


def test_encodings_that_differ_are_not_equal(pair):
    assert pair != pair.drop([1])
    assert pair != replace(pair, dropped=1)
    assert pair != "something else"


def test_an_encoding_is_shown_in_one_line():
    tokenizer = wordpiece()
    assert (
        repr(encode_text(tokenizer, "The old mill.", max_tokens=20)) == "Encoding('The old mill.': 6 tokens, 3 words)"
    )
    long = encode_text(tokenizer, "the old mill " * 50, "Hello!", max_tokens=20)
    assert repr(long).startswith("Encoding('the old mill the old mill the old mill t…', 'Hello!': 20 tokens, ")
    assert repr(long).endswith(f", {long.dropped} dropped)")


def test_selecting_tokens_equals_dropping_all_others(pair):
    everything = np.arange(len(pair))
    for chosen in ([0, 2, 3], [1], everything.tolist(), everything[::2].tolist()):
        expected = pair.drop(np.setdiff1d(everything, chosen).tolist())
        assert pair.select(np.array(chosen)) == expected


@pytest.mark.parametrize("positions", [[], [3, 2], [1, 1], [-1, 2], [0, 10_000]])
def test_only_ascending_positions_of_the_document_are_selected(pair, positions):
    with pytest.raises(InputError, match="No token was selected|must ascend within"):
        pair.select(np.array(positions, dtype=np.int64))
