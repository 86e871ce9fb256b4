"""Tokens, words and sentences as the parts of a document."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.methods.segments import groups_of, sentence_starts
from sightline.text import encode_ids, encode_text
from tests.tiny_tokenizers import wordpiece


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The mill. The river.", ["The mill. ", "The river."]),
        ("Really?! Yes.", ["Really?! ", "Yes."]),
        ('He said "no." Then left.', ['He said "no." ', "Then left."]),
        ("See e.g. this one, 3.14 of them.", ["See e.g. this one, 3.14 of them."]),
        ("Title\n\nfirst words", ["Title\n\n", "first words"]),
        ("日本。語！本", ["日本。", "語！", "本"]),
        ("one line\nanother", ["one line\nanother"]),
        ("The end.  ", ["The end.  "]),
        ("", [""]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text, sentences):
    starts = sentence_starts(text).tolist()
    assert [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)] == sentences


@pytest.mark.parametrize("level", ["token", "word", "sentence"])
def test_every_ordinary_token_is_in_one_part_in_document_order(level):
    encoding = encode_text(wordpiece(), "The millers! Hello world.", "An old river. The mill.", max_tokens=None)
    flat = [i for group in groups_of(encoding, level) for i in group]
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
    assert groups_of(encoding, "sentence") == [[1, 2, 3], [4, 5, 6], [8, 9, 10]]
    assert groups_of(encoding, "word") == [[1], [2], [3], [4], [5, 6], [8], [9], [10]]


def test_a_document_of_specials_has_no_parts():
    encoding = encode_ids([101, 102], special_ids=[101, 102])
    assert [groups_of(encoding, level) for level in ("token", "word", "sentence")] == [[], [], []]
