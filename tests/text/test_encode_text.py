"""Encoding a text: the library's ids, exact places in the original string, reported truncation."""

import logging
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from sightline.api.load import load
from sightline.errors import InputError, ModelError
from sightline.text import encode_text, split_words
from tests.tiny_tokenizers import ALL_KINDS, byte_level, wordpiece

TOKENIZERS = {name: build() for name, build in ALL_KINDS.items()}
BYTE_LEVEL = [name for name in TOKENIZERS if name.startswith("byte_level")]
HARD_CHARACTERS = "the mill é\u0301\u0300İßﬁ½日本語カ😀👨\u200d👩🏽🇩🇪\n\t\u00a0\u3000\u200b\ufeff\u00ad!-'.▁Ġ#שم\0"
TEXTS = (
    st.text(st.sampled_from(HARD_CHARACTERS), min_size=1, max_size=40)
    | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
    | st.lists(st.sampled_from(["the", "miller", "don't", "café", "<mask>", "</s>", "[SEP]", "日本", " ", "\n"])).map(
        " ".join
    )
)


def spans(encoding, segment=0):
    source = encoding.text if segment == 0 else encoding.pair
    return [source[start:end] for start, end in encoding.offsets[encoding.segments == segment]]


def encoded(name, text, pair=None):
    """The encoding, or None for a text that is rightly refused."""
    try:
        return encode_text(TOKENIZERS[name], text, pair, max_tokens=None)
    except InputError:
        return None


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(deadline=None, max_examples=30)
@given(text=TEXTS, pair=st.none() | TEXTS)
def test_ids_and_types_are_exactly_those_of_the_library(name, text, pair):
    encoding = encoded(name, text, pair)
    if encoding is not None:
        library = TOKENIZERS[name](text, pair)
        assert encoding.ids.tolist() == library["input_ids"]
        assert encoding.type_ids.tolist() == library.get("token_type_ids", [0] * len(encoding))
        assert encoding.dropped == 0


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(deadline=None, max_examples=30)
@given(text=TEXTS)
@example("\n\n日本 hello<mask>world  ")
@example("  hello")
def test_spans_are_in_bounds_in_order_and_what_is_shown(name, text):
    encoding = encoded(name, text)
    if encoding is None:
        return
    ordinary = ~encoding.special
    start, end = encoding.offsets[ordinary].T
    assert (start >= 0).all()
    assert (start <= end).all()
    assert (end <= len(text)).all()
    assert (np.diff(start) >= 0).all()
    assert spans(encoding) == [token for token, keep in zip(encoding.tokens, ordinary, strict=True) if keep]
    for shown in spans(encoding):
        assert shown.isspace() or shown == shown.strip()
    assert (encoding.offsets[encoding.special] == 0).all()


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(deadline=None, max_examples=30)
@given(text=TEXTS)
def test_each_token_belongs_to_the_word_of_its_first_visible_character(name, text):
    encoding = encoded(name, text)
    if encoding is None:
        return
    words = split_words(text)
    assert encoding.words == words[: len(encoding.words)]
    word_of_character = {i: w for w, word in enumerate(words) for i in range(word.start, word.end)}
    for (start, end), word_id in zip(encoding.offsets, encoding.word_ids, strict=True):
        visible = [word_of_character[i] for i in range(start, end) if i in word_of_character]
        if visible:
            assert word_id == visible[0]
    assert ((encoding.word_ids == -1) == encoding.special).all()


def brute_force_byte_spans(tokenizer, text):
    """Spans from the tokens' bytes laid end to end beside the text's own bytes; no offsets of the library are used."""
    prefix = tokenizer.backend_tokenizer.pre_tokenizer.add_prefix_space and not text.startswith(" ")
    # The byte alphabet: printable bytes stand for themselves, the others for code points from 256 up, in order.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    character_of_byte = [i for i, character in enumerate(text) for _ in character.encode()]
    result, at = [], -1 if prefix else 0
    for token in tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"]):
        size = len([byte_of[sign] for sign in token])
        touched = character_of_byte[max(at, 0) : at + size]
        at += size
        while len(touched) > 0 and text[touched[0]].isspace() and not all(text[i].isspace() for i in touched):
            touched = touched[1:]
        while len(touched) > 0 and text[touched[-1]].isspace() and not all(text[i].isspace() for i in touched):
            touched = touched[:-1]
        result.append((touched[0], touched[-1] + 1) if touched else (0, 0))
    return result


@pytest.mark.parametrize("name", BYTE_LEVEL)
@settings(deadline=None, max_examples=60)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), min_size=1, max_size=40))
@example("  hello  world \n\n don't")
@example("\n日本 👨\u200d👩\u200d👧 é e\u0301")
def test_byte_level_spans_equal_those_counted_in_bytes(name, text):
    encoding = encoded(name, text)
    if encoding is not None:
        assert encoding.offsets[~encoding.special].tolist() == [
            list(span) for span in brute_force_byte_spans(TOKENIZERS[name], text)
        ]


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(deadline=None, max_examples=30)
@given(text=st.text(st.sampled_from(HARD_CHARACTERS), min_size=1, max_size=40))
def test_spans_cover_every_visible_letter(name, text):
    encoding = encoded(name, text)
    if encoding is None:
        return
    covered = np.zeros(len(text), dtype=bool)
    for start, end in encoding.offsets[~encoding.special]:
        covered[start:end] = True
    missing = [character for character, hit in zip(text, covered, strict=True) if not hit and not character.isspace()]
    if name not in BYTE_LEVEL:  # normalisers take away invisible characters, and marks that stand alone
        missing = [character for character in missing if unicodedata.category(character) not in ("Cc", "Cf", "Mn")]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("wordpiece", "Hello  Café, the MILLER!", ["Hello", "Café", ",", "the", "MILL", "ER", "!"]),
        ("wordpiece", "cafe\u0301 nai\u0308ve", ["cafe\u0301", "nai\u0308ve"]),
        ("wordpiece", "日本語 x", ["日", "本", "語", "x"]),
        ("wordpiece", "😀😀 [MASK]", ["😀😀", "[MASK]"]),
        ("wordpiece", "שלום old", ["שלום", "old"]),
        ("byte_level", "hello  world\n", ["hello", " ", "world", "\n"]),
        ("byte_level", "  hello", [" ", "hello"]),
        ("byte_level", "hello 😀", ["hello", " ", "😀", "😀", "😀", "😀"]),
        ("byte_level", "hello<mask> world", ["hello", "<mask>", "world"]),
        ("byte_level_prefix", "hello<mask>world", ["hello", "<mask>", "world"]),
        ("byte_level_prefix", "\nxé", ["", "\n", "x", "é", "é"]),
        ("byte_level_prefix_untrimmed", "\nxé", ["", "\n", "x", "é", "é"]),
        ("byte_level_untrimmed", "hello  world", ["hello", " ", "world"]),
        ("unigram", "hello  miller", ["hello", "mill", "er"]),
        ("unigram", "日本 river", ["", "日本", "river"]),
        ("unigram", "hello 日本\n", ["hello", " ", "日本", "\n"]),
        ("unigram", "the ﬁ cafe\u0301", ["the", " ", "ﬁ", "ﬁ", "cafe\u0301"]),
        ("unigram", "hello<mask>the", ["hello", "<mask>", "the"]),
    ],
)
def test_people_see_their_own_characters(name, text, expected):
    encoding = encoded(name, text)
    assert [token for token, special in zip(encoding.tokens, encoding.special, strict=True) if not special] == expected


def test_specials_have_their_names_and_no_place_in_the_text():
    encoding = encode_text(TOKENIZERS["byte_level"], "hello", "old", max_tokens=None)
    assert [token for token, special in zip(encoding.tokens, encoding.special, strict=True) if special] == [
        "<s>",
        "</s>",
        "</s>",
        "</s>",
    ]
    assert (encoding.segments[encoding.special] == -1).all()


def test_a_separator_typed_by_a_person_is_special_but_a_mask_is_a_word():
    with pytest.warns(UserWarning, match=r"contains \[SEP\], which the tokenizer reads as a special token"):
        encoding = encode_text(TOKENIZERS["wordpiece"], "hello [SEP] old [MASK] 😀", max_tokens=None)
    assert encoding.tokens == ("[CLS]", "hello", "[SEP]", "old", "[MASK]", "😀", "[SEP]")
    assert encoding.special.tolist() == [True, False, True, False, False, False, True]
    assert encoding.segments.tolist() == [-1, 0, -1, 0, 0, 0, -1]
    assert encoding.words[encoding.word_ids[4]].text == "[MASK]"


def test_the_pair_has_its_own_offsets_types_and_words_after_the_text():
    encoding = encode_text(TOKENIZERS["wordpiece"], "the mill", "Old river!", max_tokens=None)
    assert encoding.type_ids.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert encoding.segments.tolist() == [-1, 0, 0, -1, 1, 1, 1, -1]
    assert encoding.word_ids.tolist() == [-1, 0, 1, -1, 2, 3, 4, -1]
    assert [(word.text, word.segment) for word in encoding.words[2:]] == [("Old", 1), ("river", 1), ("!", 1)]
    assert spans(encoding, segment=1) == ["Old", "river", "!"]


@pytest.mark.parametrize("pair", [None, "old river"])
def test_a_tokenizer_that_adds_no_specials_works(pair):
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "hello": 1, "old": 2, "river": 3}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    plain = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
    encoding = encode_text(plain, "hello there", pair, max_tokens=None)
    assert encoding.ids.tolist() == plain("hello there", pair)["input_ids"]
    assert not encoding.special.any()
    assert encoding.tokens == ("hello", "there", *(pair.split() if pair else ()))


def test_models_with_different_vocabularies_agree_on_the_words():
    text = "Hello, the old miller's café…  日本 3.14!!! 👍🏽\n"
    words = [encoded(name, text).words for name in TOKENIZERS]
    assert all(each == words[0] == split_words(text) for each in words)


# Truncation


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(deadline=None, max_examples=30)
@given(
    text=st.lists(st.sampled_from(["the", "miller", "日本", "xyz"]), min_size=1, max_size=12).map(" ".join),
    pair=st.none() | st.lists(st.sampled_from(["old", "river", "😀"]), min_size=1, max_size=12).map(" ".join),
    max_tokens=st.integers(6, 30),
)
def test_truncation_is_the_librarys_longest_first_and_is_counted(name, text, pair, max_tokens):
    tokenizer = TOKENIZERS[name]
    whole = encode_text(tokenizer, text, pair, max_tokens=None)
    cut = encode_text(tokenizer, text, pair, max_tokens=max_tokens)
    library = tokenizer(text, pair, truncation="longest_first", max_length=max_tokens)
    assert cut.ids.tolist() == library["input_ids"]
    assert cut.type_ids.tolist() == library.get("token_type_ids", [0] * len(cut))
    assert cut.dropped == len(whole) - len(cut) == max(0, len(whole) - max_tokens)
    for segment in (0, 1):
        mine, all_spans = cut.offsets[cut.segments == segment], whole.offsets[whole.segments == segment]
        assert mine.tolist() == all_spans[: len(mine)].tolist()
        owners = [whole.words[w] for w in whole.word_ids[whole.segments == segment]][: len(mine)]
        if spans(cut, segment)[-1:] == [" "]:
            # A last space goes to the word before it: the one after it was not read.
            owners[-1] = [word for word in cut.words if word.segment == segment][-1]
        assert [cut.words[w] for w in cut.word_ids[cut.segments == segment]] == owners


@pytest.mark.parametrize("word", ["the miller ", "x" * 1000 + " ", "日本語"])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_beginning_of_a_very_long_text_has_the_same_spans_as_in_full(name, word):
    text = word * 60
    whole = encoded(name, text)
    cut = encode_text(TOKENIZERS[name], text, max_tokens=20)
    assert cut.dropped == max(0, len(whole) - 20)
    assert cut.offsets[~cut.special].tolist() == whole.offsets[~whole.special][: (~cut.special).sum()].tolist()


def test_words_that_were_not_read_are_not_listed():
    encoding = encode_text(TOKENIZERS["wordpiece"], "the old miller of the river", max_tokens=5)
    assert encoding.tokens == ("[CLS]", "the", "old", "mill", "[SEP]")
    assert [word.text for word in encoding.words] == ["the", "old", "miller"]


def test_a_beginning_of_blank_lines_belongs_to_the_first_word():
    encoding = encode_text(TOKENIZERS["byte_level"], "\n" * 50 + "hello", max_tokens=10)
    assert encoding.tokens == ("<s>", *["\n"] * 8, "</s>")
    assert [word.text for word in encoding.words] == ["hello"]
    assert set(encoding.word_ids[1:-1]) == {0}


@pytest.mark.parametrize(("pair", "too_few", "enough"), [(None, 2, 3), ("old", 4, 5)])
def test_a_limit_without_room_for_text_is_refused(pair, too_few, enough):
    tokenizer = TOKENIZERS["wordpiece"]
    assert len(encode_text(tokenizer, "the mill", pair and "old mill", max_tokens=enough)) == enough
    with pytest.raises(InputError, match="leaves no room for text"):
        encode_text(tokenizer, "the mill", pair and "old mill", max_tokens=too_few)


def test_a_limit_kept_inside_the_tokenizer_does_not_cut_silently():
    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.enable_truncation(max_length=4)
    tokenizer.backend_tokenizer.enable_padding(length=64)
    encoding = encode_text(tokenizer, "the old mill the old mill", max_tokens=6)
    assert (len(encoding), encoding.dropped) == (6, 2)


def test_long_texts_are_read_without_a_warning(caplog):
    tokenizer = wordpiece()
    tokenizer.model_max_length = 8
    library = logging.getLogger("transformers")
    library.addHandler(caplog.handler)  # the library's logger does not propagate
    try:
        encode_text(tokenizer, "the old mill " * 10, max_tokens=8)
    finally:
        library.removeHandler(caplog.handler)
    assert caplog.records == []


# What is refused


def test_global_tokens_must_be_in_the_document():
    tokenizer = TOKENIZERS["wordpiece"]
    assert encode_text(tokenizer, "the mill", max_tokens=None, global_tokens=[2, 0]).global_tokens == (0, 2)
    with pytest.raises(InputError, match="Global token 4 asked for, the document has 4 tokens"):
        encode_text(tokenizer, "the mill", max_tokens=None, global_tokens=[4])


def test_a_model_takes_text_pair_and_global_tokens_in_this_order():
    model = load()
    assert model.encode("the old mill", None, [2, 0]) == model.encode("the old mill", global_tokens=[2, 0])


def test_a_tokenizer_without_offsets_is_refused():
    with pytest.raises(ModelError, match="ByT5Tokenizer is not a fast tokenizer"):
        encode_text(ByT5Tokenizer(), "hello", max_tokens=None)


def test_a_tokenizer_that_changes_the_text_beforehand_is_refused():
    class Reversing(PreTrainedTokenizerFast):
        def __call__(self, text, pair=None, **options):
            return super().__call__(text[::-1], pair, **options)

    tokenizer = Reversing(tokenizer_object=wordpiece().backend_tokenizer)
    with pytest.raises(ModelError, match="Reversing changes the text"):
        encode_text(tokenizer, "the mill", max_tokens=None)


@pytest.mark.parametrize(("text", "pair", "which"), [("[SEP]", None, "text"), ("hello", "\ufffd", "second text")])
def test_a_text_of_which_the_tokenizer_keeps_nothing_is_refused(text, pair, which):
    with pytest.raises(InputError, match=f"finds no token in the {which}"):
        encode_text(TOKENIZERS["wordpiece"], text, pair, max_tokens=None)


def test_tokens_added_to_the_vocabulary_are_placed():
    tokenizer = byte_level()
    tokenizer.add_tokens(["RIVER", "MILL"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<doc>"]})
    encoding = encode_text(tokenizer, "<doc>hello MILL RIVER", max_tokens=None)
    assert encoding.tokens == ("<s>", "<doc>", "hello", " ", "MILL", " ", "RIVER", "</s>")
    assert encoding.ids.tolist() == tokenizer("<doc>hello MILL RIVER")["input_ids"]
