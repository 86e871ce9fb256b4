"""Data sets are read from every usual form, with spans as characters, and bad ones get one sentence."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from sightline.corpus import read_examples
from sightline.errors import InputError, OptionError, UnsupportedError
from sightline.text import Example, as_examples

ROWS = [
    {"id": "a", "split": "train", "text": 'The mill, old;\nand "grey".', "text_pair": "Is it?", "label": 1},
    {"id": "b", "split": "test", "text": "日本 river\tbank", "text_pair": "", "label": 0},
    {"id": "c", "split": "test", "text": "plain", "text_pair": "", "label": None},
]
EXPECTED = [
    Example(ROWS[0]["text"], "Is it?", 1, id="a", split="train"),
    Example(ROWS[1]["text"], None, 0, id="b", split="test"),
    Example("plain", None, None, id="c", split="test"),
]


def lines_of(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_table(path, delimiter, encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(ROWS[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(ROWS)


def written(folder, form):
    path = folder / f"data.{form.split()[0]}"
    match form:
        case "csv" | "csv (semicolons)" | "tsv":
            write_table(path, {"csv": ",", "csv (semicolons)": ";", "tsv": "\t"}[form])
        case "csv (byte-order mark)":
            write_table(path, ",", "utf-8-sig")
        case "csv (UTF-16)":
            write_table(path, "\t", "utf-16")
        case "jsonl" | "ndjson" | "json (lines)":
            path.write_text(lines_of(ROWS), encoding="utf-8")
        case "json":
            path.write_text(json.dumps(ROWS, indent=1), encoding="utf-8")
        case "jsonl.gz" | "csv.gz":
            plain = written(folder, form.removesuffix(".gz"))
            path.write_bytes(gzip.compress(plain.read_bytes()))
        case "parquet":
            pandas = pytest.importorskip("pandas")
            pandas.DataFrame(ROWS).to_parquet(path)
        case "folder":
            datasets = pytest.importorskip("datasets")
            datasets.Dataset.from_list(ROWS).save_to_disk(path)
    return path


FORMS = [
    "csv",
    "csv (semicolons)",
    "csv (byte-order mark)",
    "csv (UTF-16)",
    "csv.gz",
    "tsv",
    "jsonl",
    "jsonl.gz",
    "ndjson",
    "json",
]
FORMS += ["json (lines)", "parquet", "folder"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_examples(tmp_path, form):
    assert read_examples(written(tmp_path, form)) == EXPECTED


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_split_and_limit_choose_rows_and_keep_their_ids(tmp_path, form):
    path = written(tmp_path, form)
    assert [example.id for example in read_examples(path, split="test")] == ["b", "c"]
    assert [example.id for example in read_examples(path, split="test", limit=1)] == ["b"]
    assert [example.id for example in read_examples(path, limit=2)] == ["a", "b"]


def test_a_saved_data_set_with_splits_needs_the_choice_of_one(tmp_path):
    datasets = pytest.importorskip("datasets")
    parts = {"train": datasets.Dataset.from_list(ROWS[:1]), "test": datasets.Dataset.from_list(ROWS[1:])}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    assert [example.id for example in read_examples(tmp_path / "saved", split="test")] == ["b", "c"]
    with pytest.raises(InputError, match=r"several splits \(train, test\): choose one with split="):
        read_examples(tmp_path / "saved")
    with pytest.raises(InputError, match="no split 'dev'. Its splits: train, test"):
        read_examples(tmp_path / "saved", split="dev")


def test_a_limit_reads_no_further_than_it_must(tmp_path):
    (tmp_path / "long.jsonl").write_text('{"text": "fine"}\n{"text": "broken\n')
    assert [example.text for example in read_examples(tmp_path / "long.jsonl", limit=1)] == ["fine"]


def test_fields_may_have_other_names(tmp_path):
    (tmp_path / "a.csv").write_text("premise,hypothesis,gold\nIt rains.,It is wet.,entailment\n")
    read = read_examples(tmp_path / "a.csv", text="premise", pair="hypothesis", label="gold")
    assert read == [Example("It rains.", "It is wet.", "entailment", id="0")]


def test_bare_texts_are_rows(tmp_path):
    (tmp_path / "a.json").write_text('["one", "two"]')
    assert [example.text for example in read_examples(tmp_path / "a.json", text="sentence")] == ["one", "two"]


def test_rows_without_text_are_kept(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": ""}\n\n{"text": null}\n{"text": "  "}\n')
    assert [example.text for example in read_examples(tmp_path / "a.jsonl")] == ["one", "", "", "  "]


def test_a_cell_may_hold_a_long_document_and_the_process_s_limit_stays(tmp_path):
    before = csv.field_size_limit()
    document = "word " * 100_000
    (tmp_path / "a.csv").write_text(f"text,label\n{document},1\n")
    assert read_examples(tmp_path / "a.csv")[0].text == document
    assert csv.field_size_limit() == before


def test_repeated_ids_are_told_apart(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n7,one\n7,two\n,three\n7,four\n")
    assert [example.id for example in read_examples(tmp_path / "a.csv")] == ["7", "7#2", "2", "7#3"]
    (tmp_path / "a.csv").write_text("id,text\na,one\na,two\na#2,three\n")
    assert [example.id for example in read_examples(tmp_path / "a.csv")] == ["a", "a#3", "a#2"]


def test_a_split_is_found_under_its_usual_names(tmp_path):
    (tmp_path / "a.csv").write_text("text,split\none,Training\ntwo,DEV\nthree,Test\nfour,holdout\n")
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text().replace("split", "Split"))
    for name, texts in {"train": ["one"], "val": ["two"], "TEST": ["three"], "holdout": ["four"]}.items():
        for file in ("a.csv", "b.csv"):
            assert [example.text for example in read_examples(tmp_path / file, split=name)] == texts


def test_minus_one_is_missing_only_where_the_data_set_says_so(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = [{"text": "one", "label": -1}, {"text": "two", "label": 1}]
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"]))
    for typed, labels in ((None, [-1, 1]), (features, [None, 1])):
        data = datasets.Dataset.from_list(rows, features=typed)
        assert [example.label for example in as_examples(data)] == labels
        data.save_to_disk(tmp_path / f"saved-{typed is None}")
        assert [example.label for example in read_examples(tmp_path / f"saved-{typed is None}")] == labels


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        ("1", 1),
        ("1.0", 1),
        (" 0 ", 0),
        ("-1", -1),
        ("Bad ", "Bad"),
        ("positive", "positive"),
        ("", None),
        ("1.5", "1.5"),
    ],
)
def test_labels_of_a_table_are_numbers_where_they_look_like_numbers(tmp_path, cell, label):
    (tmp_path / "a.csv").write_text(f"text,label\nhello,{cell}\n")
    assert read_examples(tmp_path / "a.csv")[0].label == label


def one_row(tmp_path, **fields):
    (tmp_path / "row.jsonl").write_text(json.dumps(fields) + "\n", encoding="utf-8")
    return read_examples(tmp_path / "row.jsonl")[0]


def marked(example, spans):
    return [example.text[start:end] for start, end in spans]


def test_rationales_are_characters_or_counted_in_pieces(tmp_path):
    text = "a  dull ,\nlong\tfilm . yes"
    direct = one_row(tmp_path, text=text, rationale=[[3, 7], [15, 19]])
    assert marked(direct, direct.rationale) == ["dull", "film"]
    counted = one_row(tmp_path, text=text, rationale_tokens=[[1, 4], [6, 7]])
    assert marked(counted, counted.rationale) == ["dull ,\nlong", "yes"]
    assert [text.split()[1:4], text.split()[6:7]] == [piece.split() for piece in marked(counted, counted.rationale)]


def test_pieces_of_a_rationale_are_those_of_split_for_every_white_space():
    from sightline.text.examples import _read_rationale

    text = "".join(f"w{i}{chr(i)}" for i in range(0x3001) if chr(i).isspace())
    pieces = text.split()
    spans = _read_rationale({"rationale_tokens": [[i, i + 1] for i in range(len(pieces))]}, text, "here")
    assert [text[start:end] for start, end in spans] == pieces


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["308", "308 points"], "answer_start": [34, 34]},
        [{"text": "308", "answer_start": 34}, {"text": "308 points", "answer_start": 34}],
        [[34, "308"], [34, "308 points"], [34, "308"]],
    ],
)
def test_answers_of_every_form_become_characters(tmp_path, answers):
    example = one_row(tmp_path, text="The Panthers defense gave up just 308 points.", answers=answers)
    assert marked(example, example.answer) == ["308", "308 points"]


def test_tables_hold_spans_as_json(tmp_path):
    (tmp_path / "a.csv").write_text('text,rationale,answer\nhello world,"[[0, 5]]","[[6, 11]]"\nbye,,\n')
    first, second = read_examples(tmp_path / "a.csv")
    assert (first.rationale, first.answer) == (((0, 5),), ((6, 11),))
    assert (second.rationale, second.answer) == (None, None)


def test_a_single_answer_may_stand_outside_a_list(tmp_path):
    row = one_row(tmp_path, text="hello world", answers={"text": "world", "answer_start": 6})
    assert row.answer == ((6, 11),)


def test_an_answer_that_is_only_worded_has_no_place(tmp_path):
    assert one_row(tmp_path, text="hello world", answer="world").answer is None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"answers": [[3, "world"]]}, "line 1: the answer 'world' is not at character 3"),
        ({"answers": [[-5, "world"]]}, "does not have the form"),
        ({"answers": [6]}, "does not have the form"),
        ({"rationale": [[0, 99]]}, r"\[0, 99\] in 'rationale' is not a \[start, end\) within 0-11"),
        ({"rationale": [[5, 5]]}, r"\[5, 5\]"),
        ({"rationale_tokens": [[1, 3]]}, r"\[1, 3\] in 'rationale_tokens' is not a \[start, end\) within 0-2"),
        ({"rationale": 7}, "must be a list"),
        ({"rationale": "world"}, "in a table write JSON"),
        ({"label": [1]}, r"the label \[1\] is not a class"),
        ({"label": 0.5}, "the label 0.5 is not a class"),
        ({"text": 12}, "the field 'text' holds 12, not a text"),
        ({"label": float("inf")}, "the label inf is not a class"),
        ({"label": 1e300}, "the label 1e.300 is not a class"),
        ({"label": 10**4000}, "the label 10+… is not a class"),
        ({"label": "9" * 5000}, "the label inf is not a class"),
        ({"label": "bad \ud800"}, "half of a surrogate pair"),
        ({"id": "bad \ud800"}, "the id 'bad .ud800' holds half of a surrogate pair"),
        ({"id": ["a"]}, r"the id \['a'\] is neither a name nor a number"),
        ({"id": "x" * 10_001}, "is longer than 10,000 characters"),
        ({"answers": {"text": "world", "answer_start": [6]}}, "needs one start per text"),
        ({"answers": {"text": 5, "answer_start": 5}}, "does not have the form"),
        ({"answers": 5}, "must be a list"),
        ({"rationale": "[" * 5000}, "in a table write JSON"),
        ({"rationale": "[" * 100 + "]" * 100}, "nested too deeply"),
        ({"rationale": "[[0, " + "9" * 5000 + "]]"}, "in a table write JSON"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, fields, sentence):
    with pytest.raises(InputError, match=sentence):
        one_row(tmp_path, **{"text": "hello world", **fields})


BAD_FILES = {
    "empty.csv": (b"", "is empty: it has no rows"),
    "header_only.csv": (b"text,label\n", "is empty: it has no rows"),
    "empty.jsonl": (b"\n\n", "is empty: it has no rows"),
    "other_columns.csv": (
        b"sentence,label\nx,1\n",
        "no field 'text'. Did you mean 'sentence'\\? Its fields: sentence, label",
    ),
    "near_column.csv": (b"txt,label\nx,1\n", "Did you mean 'txt'?"),
    "unclosed.csv": (b'text,label\nold,1\n"never closed,1\nmill,0\n', "line 3: a quoted cell is never closed"),
    "unquoted.csv": (b"text,label\na, b,1\n", "line 2 has 3 cells, the header 2"),
    "second_row.csv": (b'text,label\n"a\nb",1\na, b,1\n', "line 4 has 3 cells"),
    "broken.jsonl": (b'{"text": "a"}\n\n{"text": \n', "Line 3 of .* is not JSON"),
    "number.jsonl": (b'{"text": "a"}\n7\n', "Line 2 of .* is 7, not an object"),
    "lost_field.jsonl": (b'{"text": "a"}\n{"txt": "b"}\n', "line 2 has no field 'text'"),
    "broken.json": (b'[{"text": "a"},\n{]', "is not JSON: .* on line 2"),
    "latin1.csv": ("text\nplain\ncafé\n".encode("latin-1"), "Line 3 of .* is not UTF-8 text: byte 0xe9 at position 3"),
    "workbook.csv": (b"PK\x03\x04\x14\x00 no line end", "workbook.csv' is not text: line 1 contains NUL bytes"),
    "picture.tsv": (b"\x89PNG\r\n\x1a\n\x00\x00\xff", "Line 1 of .* is not UTF-8 text: byte 0x89"),
    "late.jsonl": (b'{"text": "a"}\n{"te\x00\x00\x00xt": "b"}\n', "is not text: line 2 contains NUL bytes"),
    "control.jsonl": (b'{"text": "a mill"}\n{"text": "a \x00mill"}\n', "Line 2 of .* is not JSON: Invalid control"),
    "unmarked.csv": ("text\nplain\n".encode("utf-16-le"), "is not text: line 1 contains NUL bytes"),
    "utf32.csv": ("text\nplain\n".encode("utf-32"), "is not text: line 1 contains NUL bytes"),
    "odd.csv": ("text\nplain\n".encode("utf-16")[:-1], "begins like UTF-16 text but is not"),
    "damaged.csv.gz": (b"text\nplain\n", "not a complete gzip file"),
    "cut.jsonl.gz": (gzip.compress(b'{"text": "a"}\n' * 9999)[:60], "not a complete gzip file"),
    "damaged.parquet": (b"PAR1 no", "is not a Parquet file that can be read"),
    "deep.jsonl": (
        b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "Line 1 of .* is nested more than 64 levels",
    ),
    "deeper_than_read.json": (b'[{"text": "a", "x": ' + b"[" * 80 + b"]" * 80 + b"}]", "is nested more than 64 levels"),
    "digits.jsonl": (b'{"text": "a", "label": ' + b"9" * 5000 + b"}\n", "contains a number of more than 4,300 digits"),
    "digits.json": (b'[{"text": "a", "label": ' + b"9" * 5000 + b"}]", "contains a number of more than 4,300 digits"),
    "bare_return.csv": (b"text,label\na\rb,1\n", "line 2: an unquoted cell contains a carriage return"),
    "unclosed_header.csv": (b'text,"label\na,1\n', "The header of .* cannot be read: a quoted cell is never closed"),
    "wide.csv": (b"text" + b"," * 200_000 + b"\nx\n", "has more than 100,000 columns"),
    "escapes.csv": (b"\x1b[31mred\x07,label\nx,1\n", "Its fields: �\\[31mred�, label"),
    "long_line.csv": (b"text\n" + b"x" * 40_000_000, "Line 2 of .* is longer than 32 MB"),
    "long_cr_line.csv": (b"text\r" + b"x" * 40_000_000, "Line 2 of .* is longer than 32 MB"),
    "bomb.csv.gz": (gzip.compress(b"text\n" + b"x" * 40_000_000), "Line 2 of .* is longer than 32 MB"),
    "notes.docx": (b"text", "The format of .* is not known"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_gets_one_sentence(tmp_path, name):
    content, sentence = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_examples(tmp_path / name)


@pytest.mark.parametrize("form", ["csv", "csv (UTF-16)", "tsv", "jsonl"])
def test_lines_may_end_with_a_carriage_return_alone(tmp_path, form):
    encoding = "utf-16" if "UTF-16" in form else "utf-8"
    rows = ["text,label", '"the old; ""mill""\rby the river",1', "plain,0"]
    if form == "tsv":
        rows = [row.replace(",", "\t") for row in rows]
    if form == "jsonl":
        rows = [
            json.dumps({"text": text, "label": label})
            for text, label in [('the old; "mill"\rby the river', 1), ("plain", 0)]
        ]
    path = tmp_path / f"data.{form.split()[0]}"
    for many in (1, 3_000):  # shorter and longer than what is read at once
        path.write_bytes(
            ("\r".join([*rows, *["plain,0".replace(",", "\t") if form == "tsv" else rows[-1]] * many]) + "\r").encode(
                encoding
            )
        )
        examples = read_examples(path)
        assert [(example.text, example.label) for example in examples[:2]] == [
            ('the old; "mill"\rby the river', 1),
            ("plain", 0),
        ]
        assert len(examples) == 2 + many


def test_a_heading_may_be_longer_than_the_library_s_limit_and_hold_a_line_break(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(f'text,"{"h" * 200_000}","two\nlines"\nhello,1,2\nworld,3,4\n')
    assert [example.text for example in read_examples(path)] == ["hello", "world"]
    path.write_text('text,"two\nlines"\nhello,1\na,b,c\n')
    with pytest.raises(InputError, match="line 4 has 3 cells"):
        read_examples(path)


def test_a_small_file_that_grows_without_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("sightline.corpus.data_files.FREE_EXPANSION", 100_000)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"text\n" + b"x\n" * 400_000))
    with pytest.raises(InputError, match="bomb.csv.gz' expands to more than"):
        read_examples(path)
    assert len(read_examples(path, limit=5)) == 5


def test_a_list_that_is_too_long_to_be_read_at_once_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sightline.corpus.data_files.LARGEST_LIST", 1_000)
    path = tmp_path / "data.json"
    path.write_text(json.dumps([{"text": "x"}] * 100, indent=1))
    with pytest.raises(InputError, match="Save it as JSON lines"):
        read_examples(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device that never ends is needed")
@pytest.mark.parametrize("name", ["data.csv", "data.jsonl", "data.json", "data.parquet", "data.csv.gz"])
def test_only_regular_files_are_read(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/zero")
    os.mkfifo(tmp_path / f"pipe.{name}")
    for path in (tmp_path / name, tmp_path / f"pipe.{name}"):
        with pytest.raises(InputError, match="a device or a pipe, not a regular file"):
            read_examples(path)


def test_a_parquet_value_that_python_cannot_represent_is_reported(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    times = pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("ms"))
    parquet.write_table(pa.table({"text": ["a", "b"], "time": times}), tmp_path / "data.parquet")
    with pytest.raises(InputError, match="has a value in row 0 or later that cannot be read"):
        read_examples(tmp_path / "data.parquet")


def test_a_parquet_file_that_encodes_billions_of_values_is_refused(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr("sightline.corpus.data_files.MOST_PARQUET_VALUES", 1_000)
    pandas.DataFrame({"text": ["a"] * 2_000}).to_parquet(tmp_path / "data.parquet")
    with pytest.raises(InputError, match="has 2,000 values in one row group"):
        read_examples(tmp_path / "data.parquet")


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("state.json", {"_data_files": [{"filename": "../outside.arrow"}]}, "leads out of the folder"),
        ("state.json", {"_data_files": [{"filename": "/dev/zero"}]}, "leads out of the folder"),
        ("state.json", {"_data_files": 5}, "has no list '_data_files'"),
        ("state.json", {"_data_files": [5]}, "names a file that is missing"),
        ("dataset_dict.json", {"splits": ["../other"]}, "must name folders beside it"),
        ("dataset_dict.json", [], "has no list 'splits'"),
    ],
)
def test_a_saved_folder_reads_nothing_outside_itself(tmp_path, file, content, sentence):
    datasets = pytest.importorskip("datasets")
    (tmp_path / "outside.arrow").write_bytes(b"")
    folder = tmp_path / "saved"
    datasets.Dataset.from_list(ROWS).save_to_disk(folder)
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(InputError, match=sentence):
        read_examples(folder)


@pytest.mark.parametrize("kind", ["Image", "Audio"])
def test_pictures_and_sounds_that_rows_name_are_not_opened(tmp_path, kind):
    datasets = pytest.importorskip("datasets")
    stored = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    features = datasets.Features({"text": datasets.Value("string"), "media": stored})
    row = {"text": "the old mill", "media": {"bytes": None, "path": str(tmp_path / "pipe")}}
    datasets.Dataset.from_list([row], features).save_to_disk(tmp_path / "saved")
    info = json.loads((tmp_path / "saved/dataset_info.json").read_text())
    info["features"]["media"] = {"_type": kind}
    (tmp_path / "saved/dataset_info.json").write_text(json.dumps(info))
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    assert datasets.load_from_disk(tmp_path / "saved").features["media"] == getattr(datasets, kind)()
    assert [example.text for example in read_examples(tmp_path / "saved")] == ["the old mill"]


def test_a_missing_file_folder_or_field_is_reported(tmp_path):
    path = written(tmp_path, "jsonl")
    with pytest.raises(InputError, match="There is no data set"):
        read_examples(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="but not a data set saved by the datasets library"):
        read_examples(tmp_path)
    with pytest.raises(InputError, match="no field 'lable', requested as label. Did you mean 'label'?"):
        read_examples(path, label="lable")
    with pytest.raises(InputError, match="no row in the split 'dev'. Its splits: test, train"):
        read_examples(path, split="dev")
    (tmp_path / "a.csv").write_text("text\nhello\n")
    with pytest.raises(InputError, match="has no field 'split'"):
        read_examples(tmp_path / "a.csv", split="test")
    with pytest.raises(OptionError, match="limit must be a whole number of at least 1, not 0"):
        read_examples(path, limit=0)


def test_without_the_datasets_library_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    (tmp_path / "state.json").write_text("{}")
    for source in (tmp_path, "hf://imdb"):
        with pytest.raises(UnsupportedError, match=r"pip install 'sightline-xai\[datasets\]'"):
            read_examples(source)


def test_a_hub_data_set_that_cannot_be_fetched_is_reported():
    pytest.importorskip("datasets")
    with pytest.raises(InputError, match="'nobody/nothing' of the hub could not be read"):
        read_examples("hf://nobody/nothing")
    with pytest.raises(InputError, match="needs the name"):
        read_examples("hf://")


def test_a_saved_data_set_whose_arrow_offsets_lead_out_of_the_file_is_refused(tmp_path):
    datasets = pytest.importorskip("datasets")
    texts = ["four", "a text of some length"]
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(tmp_path / "saved")
    (arrow,) = (tmp_path / "saved").glob("*.arrow")
    ends = np.cumsum([0, *map(len, texts)]).astype("<i4").tobytes()
    raw = arrow.read_bytes()
    assert raw.count(ends) == 1
    arrow.write_bytes(raw.replace(ends, ends[:-4] + (2**31 - 1).to_bytes(4, "little")))
    with pytest.raises(InputError, match="could not be read"):
        read_examples(tmp_path / "saved")
