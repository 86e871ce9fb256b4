"""Rows of a data set: whatever people have at hand becomes the same thing."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sightline.corpus import read_dataset
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
    assert [example.id for example in as_examples([Example("a", label=0), Example("b", id="own")])] == ["0", "own"]


def test_encodings_are_documents():
    encoding = encode_ids([1, 5, 2], special_ids={1: "[CLS]", 2: "[SEP]"}, vocab_size=10)
    assert as_examples([encoding])[0].text is encoding


def test_a_frame_is_read_by_row_and_an_empty_cell_is_not_a_label():
    frame = pd.DataFrame({"review": ["good", "bad"], "stars": [5.0, np.nan]})
    assert [(example.text, example.label) for example in as_examples(frame, text="review", label="stars")] == [
        ("good", 5),
        ("bad", None),
    ]


def test_spans_are_kept_as_pairs_of_characters():
    [example] = as_examples([{"text": "a good film", "rationale": [[2, 6]], "answer": [(7, 11)]}])
    assert example.rationale == ((2, 6),)
    assert example.answer == ((7, 11),)


def test_rows_in_memory_are_read_like_the_rows_of_a_file(tmp_path):
    rows = [
        {"text": "a good film", "label": "1", "rationale_tokens": [[1, 2]], "id": 7},
        {"text": "a good film", "label": -1.0, "answers": {"text": ["film"], "answer_start": [7]}, "id": 7},
        {"text": "", "label": "no", "rationale": None},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    examples = read_dataset(rows)
    assert examples == read_dataset(tmp_path / "rows.jsonl")
    assert [example.id for example in examples] == ["7", "7#2", "2"]
    assert [replace(example, id="") for example in as_examples(rows)] == [replace(e, id="") for e in examples]


def test_an_encoding_may_stand_in_the_text_field():
    encoding = encode_ids([1, 5, 2], special_ids={1: "[CLS]", 2: "[SEP]"}, vocab_size=10)
    [example] = as_examples([{"text": encoding, "label": np.int64(1)}])
    assert example.text is encoding
    assert example.label == 1


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("one text", "Put the text in a list"),
        ([], "data set is empty"),
        ([{"body": "x", "label": 1}], "no field 'text'; its fields are: body, label"),
        (["fine", 7], "Row 1 of the data set is of type int"),
        ([{"text": "x", "rationale": 7}], "'rationale' must be a list of"),
        ({"text": "x"}, "what was given is of type dict"),
        (7, "what was given is of type int"),
        (
            [{"text": "x", "label": "2.5 stars"}, {"text": "y", "label": 2.5}],
            "Row 1 of the data set: the label 2.5 is not a class",
        ),
    ],
)
def test_anything_else_is_refused_with_a_sentence(rows, sentence):
    with pytest.raises(InputError, match=sentence):
        as_examples(rows)
