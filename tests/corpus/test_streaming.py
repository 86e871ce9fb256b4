"""Rows are chosen by condition, limit and sample while the data set is read, and a bad row costs no other."""

from __future__ import annotations

import json
import os
import warnings
from itertools import islice

import pytest

from sightline.corpus import Selection, read_examples, stream_examples
from sightline.errors import InputError, OptionError
from tests.corpus.conftest import rows_of_data
from tests.text.documents.samples import docx, paragraph


def numbers(source, **selection):
    return [row.number for row in stream_examples(source, Selection(**selection))]


def test_conditions_limits_and_samples_choose_rows_by_their_number(data_file):
    every = list(range(len(rows_of_data())))
    assert numbers(data_file) == every
    assert numbers(data_file, limit=3) == [0, 1, 2]
    assert numbers(data_file, where="label = 'PL'", limit=2) == [1, 6]
    assert numbers(data_file, where="year % 2 = 0 AND label IS NOT NULL")[:3] == [0, 2, 6]


def test_a_sample_is_seeded_in_order_and_without_repeats(data_file):
    first, second = (numbers(data_file, sample=7, seed=seed) for seed in (1, 2))
    assert first == numbers(data_file, sample=7, seed=1)
    assert first != second
    assert first == sorted(set(first))
    assert len(first) == 7
    assert numbers(data_file, sample=500) == numbers(data_file)


def test_every_row_is_equally_likely_in_a_sample():
    texts = [f"text {number}" for number in range(10)]
    counts = [0] * 10
    for seed in range(600):
        for number in numbers(texts, sample=3, seed=seed):
            counts[number] += 1
    # 180 expected, standard deviation 11: beyond five of these the draw is not uniform.
    assert all(abs(count - 180) < 55 for count in counts)


def test_a_row_that_cannot_be_used_is_yielded_with_its_error(tmp_path):
    path = tmp_path / "mixed.jsonl"
    path.write_text('{"text": "fine"}\n{"text": 7}\n{"text": "fine, too", "label": 0.5}\n{"text": "good"}\n')
    rows = list(stream_examples(path))
    assert [row.example is None for row in rows] == [False, True, True, False]
    assert "line 2" in rows[1].error
    with pytest.raises(InputError, match="line 2"):
        read_examples(path)


def test_a_stream_reads_no_more_than_is_requested(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text('{"text": "fine"}\n' * 5 + "this is not JSON\n")
    assert len(list(islice(stream_examples(path), 5))) == 5
    with pytest.raises(InputError, match="Line 6"):
        list(stream_examples(path))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("score = 0.5", [0]),
        ("score > 0.5", [1]),
        ("score IS NULL", [2]),
        ("year = 2022", [1]),
        ("year >= 2022 AND year < 2023", [0, 1]),
        ("code = '007'", [0]),
        ("code = '7'", [1]),
        ("id = 'a1'", [2]),
        ("id = '1'", [0]),
        ("long = '99999999999999999999'", [1]),
        ("spaced = 0.5", [0]),
        ("spaced IS NULL", [2]),
        ("mixed = 0.5", [2]),
        ("mixed = 7", [0]),
        ("short = 0.5", [0, 2]),
    ],
)
def test_cells_of_a_table_that_are_numbers_are_compared_as_numbers(where, expected, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(
        "id,text,score,year,code,long,spaced,mixed,short\n1,a,0.5,2022.4,007,1, 0.5,007,.5\n"
        "2,b,0.54,2022,7,99999999999999999999,0.54 ,0.54,0.54\na1,c,,2021,x,3, ,0.5,+.5e0\n"
    )
    assert numbers(path, where=where) == expected


def test_a_column_has_one_type_in_all_of_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("sightline.corpus.streaming._BATCH_ROWS", 2)
    path = tmp_path / "data.csv"
    path.write_text("name,text,score\n1,a,1\n2,b,2\nx,c,1.4\ny,d,\n")
    assert numbers(path, where="name = 'x' OR name = '2'") == [1, 2]
    assert numbers(path, where="score = 1") == [0]


@pytest.mark.parametrize("where", ["labl = 1", "label =", "1; DROP TABLE data", "id IN (SELECT * FROM 'x.csv')"])
def test_a_condition_that_is_none_is_refused_with_the_fields(data_file, where):
    with pytest.raises(OptionError, match="Fields: id, text, label, year"):
        numbers(data_file, where=where)


def test_conditions_need_a_file_and_numbers_must_be_positive():
    with pytest.raises(OptionError, match="where="):
        numbers(["text"], where="label = 1")
    with pytest.raises(OptionError, match="sample must be"):
        Selection(sample=0)


def test_a_folder_of_text_files_is_labelled_by_its_sub_folders(tmp_path):
    (tmp_path / "spam").mkdir()
    (tmp_path / "spam" / "b.txt").write_text("Buy now")
    (tmp_path / "spam" / "d.docx").write_bytes(docx(paragraph("Act now")))
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfHello")
    examples = read_examples(tmp_path)
    assert [(example.text, example.label, example.id) for example in examples] == [
        ("Hello", None, "a.txt"),
        ("Buy now", "spam", "spam/b.txt"),
        ("Act now\n", "spam", "spam/d.docx"),
    ]
    (tmp_path / "spam" / "c.txt").write_bytes(b"\xff bad")
    with pytest.raises(InputError, match="c.txt' is not UTF-8"):
        read_examples(tmp_path)


def test_a_document_that_cannot_be_read_does_not_stop_the_others(tmp_path):
    (tmp_path / "A.TXT").write_text("Hello")
    (tmp_path / "b.rtf.txt").write_bytes(b"{\\rtf1 hello}")
    (tmp_path / "c.html").write_text("<p>Good&nbsp;bye</p>")
    (tmp_path / "~$c.docx").write_bytes(b"\x05lock")
    for selection in (Selection(), Selection(where="id != 'x' AND text IS NOT NULL")):
        rows = list(stream_examples(tmp_path, selection))
        assert [row.example and row.example.text for row in rows] == ["Hello", None, "Good bye\n"]
        assert "b.rtf.txt' is in RTF" in rows[1].error


def test_nested_and_mixed_fields_are_compared_as_text(tmp_path):
    path = tmp_path / "nested.jsonl"
    rows = [{"text": "a", "tag": 1}, {"text": "b", "tag": "one"}, {"text": "c", "tag": ["x"]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert numbers(path, where="tag = '1'") == [0]


def test_files_of_a_folder_that_are_not_read_are_counted_by_suffix(tmp_path):
    for name in ("a.txt", "scan.JPG", "b.jpg", "notes", ".hidden.doc", "~$a.docx", "old/b.txt", "old/older/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Hello")
    with pytest.warns(UserWarning, match=r"^4 files are not read: 2 \.jpg, 1 without a suffix, 1 more than one folder"):
        assert [example.id for example in read_examples(tmp_path)] == ["a.txt", "old/b.txt"]
    for number in range(7):
        (tmp_path / f"x.s{number}").touch()
    with pytest.warns(UserWarning, match=r"11 files are .* 4 of other kinds, 1 more than .* Documents end in \.txt, "):
        read_examples(tmp_path)
    for file in tmp_path.rglob("*"):
        if file.is_file() and (file.suffix != ".txt" or file.parent.name == "older"):
            file.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_examples(tmp_path)) == 2


def test_a_folder_of_documents_gives_only_regular_files_inside_it(tmp_path):
    """Somebody else's folder may hold a link to a file of the user, or a pipe that never ends."""
    folder, outside = tmp_path / "letters", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    (folder / "a.txt").write_text("Hello")
    os.mkfifo(folder / "pipe.txt")
    (folder / "device.txt").symlink_to("/dev/zero")
    assert [example.text for example in read_examples(folder)] == ["Hello"]
    for name, target in (("b.txt", outside / "a.txt"), ("spam", outside)):
        (folder / name).symlink_to(target)
        with pytest.raises(InputError, match="leads out of the folder"):
            read_examples(folder)
        (folder / name).unlink()
