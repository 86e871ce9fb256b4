"""Rows of a data set: whatever people have at hand becomes the same thing."""

import numpy as np
import pandas as pd
import pytest

from sightline.errors import InputError
from sightline.text import Example, as_examples, encode_ids


def test_texts_pairs_mappings_and_examples_are_rows():
    rows = ["one", ("two", 1), {"text": "three", "text_pair": "3", "label": "yes", "id": "c"}, Example("four", id="d")]
    assert as_examples(rows) == [
        Example("one", id="0"),
        Example("two", label=1, id="1"),
        Example("three", pair="3", label="yes", id="c"),
        Example("four", id="d"),
    ]


def test_an_example_without_id_is_called_by_its_number():
    assert [one.id for one in as_examples([Example("a", label=0), Example("b", id="own")])] == ["0", "own"]


def test_encodings_are_documents():
    encoding = encode_ids([1, 5, 2], special_ids={1: "[CLS]", 2: "[SEP]"}, vocab_size=10)
    assert as_examples([encoding])[0].text is encoding


def test_a_frame_is_read_by_row_and_an_empty_cell_is_no_label():
    frame = pd.DataFrame({"review": ["good", "bad"], "stars": [5.0, np.nan]})
    assert [(one.text, one.label) for one in as_examples(frame, text="review", label="stars")] == [
        ("good", 5),
        ("bad", None),
    ]


def test_spans_are_kept_as_pairs_of_characters():
    [found] = as_examples([{"text": "a good film", "rationale": [[2, 6]], "answer": [(7, 11)]}])
    assert found.rationale == ((2, 6),)
    assert found.answer == ((7, 11),)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("one text", "Put it in a list"),
        ([], "data set is empty"),
        ([{"body": "x", "label": 1}], "no text in the field 'text'; its fields are: body, label"),
        (["fine", 7], "Row 1 of the data set is of type int"),
        ([{"text": "x", "rationale": "good"}], "'rationale' must be a list of"),
        ([{"text": "x", "label": "2.5 stars"}, {"text": "y", "label": 2.5}], "label 2.5 of row 1 is no class"),
    ],
)
def test_what_is_no_data_set_is_refused_with_a_sentence(rows, sentence):
    with pytest.raises(InputError, match=sentence):
        as_examples(rows)
