"""No cell of a CSV file is run by a spreadsheet, and no cell of a data set is changed when it is read."""

from __future__ import annotations

import csv
import io
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cli.query import export_table
from sightline.corpus import read_examples
from sightline.files.spreadsheet_cells import protect_text, restore_text
from sightline.view.frames import to_csv

FORMULAS = ("=1+1", "+1+1", "-1-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "=cmd|'/C calc'!A0", "-A1", "''=1")
NO_FORMULA = re.compile(r"[+-](\d+(\.\d*)?([eE][+-]?\d+)?)?", re.ASCII)


@given(st.text() | st.sampled_from(FORMULAS) | st.text(alphabet="'=+-@\t x"))
def test_what_is_written_is_never_a_formula_and_reads_back(text):
    written = protect_text(text)
    starts = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
    assert not written.startswith(starts) or NO_FORMULA.fullmatch(written)
    assert restore_text(written) == text


@pytest.mark.parametrize("text", ["plain", "'quoted'", "1-2", "", "a=b", "'s-Gravenhage", "+", "-", "-1", "+2.5e-3"])
def test_ordinary_text_is_written_as_it_is(text):
    assert protect_text(text) == text == restore_text(text)


@pytest.mark.parametrize("formula", FORMULAS)
def test_tables_are_protected_in_cells_and_headings(formula):
    frame = pd.DataFrame({"text": ["plain", formula], "id": [formula, "b"], formula: [-1.5, 2.0], "n": [-1, 2]})
    written = to_csv(frame)
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert rows[0] == ["text", "id", protect_text(formula), "n"]
    assert [row[0] for row in rows[1:]] == ["plain", protect_text(formula)]
    assert [row[2:] for row in rows[1:]] == [["-1.5", "-1"], ["2.0", "2"]], "numbers stay numbers"
    assert [restore_text(row[0]) for row in rows[1:]] == ["plain", formula]


CELLS = ("'-5 degrees", "'+", "'=1+1", "''@x", "-5", "+", "=1+1")


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_no_cell_of_a_data_set_is_changed(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if ending == "tsv" else ",")
        writer.writerow(["text", "label", "id", "'=note"])
        writer.writerows([cell] * 4 for cell in CELLS)
    examples = read_examples(path)
    assert tuple(example.text for example in examples) == CELLS
    assert tuple(example.id for example in examples) == CELLS
    assert [example.label for example in examples] == [*CELLS[:4], -5, *CELLS[5:]]
    assert tuple(example.metadata["'=note"] for example in examples) == CELLS


def test_the_sign_of_a_word_is_written_as_a_sign():
    assert to_csv(pd.DataFrame({"sign": ["+", "-"]})) == '"sign"\n"+"\n"-"\n'
    assert export_table(pd.DataFrame({"sign": ["+", "-"]}), "csv") == b"sign\n+\n-\n"


def test_a_separator_of_other_countries_does_not_open_a_cell():
    assert '"x;=1+1"' in to_csv(pd.DataFrame({"text": ["x;=1+1"]}))


def test_single_precision_keeps_its_short_digits():
    frame = pd.DataFrame({"score": pd.Series([0.1, -0.2], dtype="float32"), "text": ["a", "=b"]})
    assert to_csv(frame) == '"score","text"\n0.1,"a"\n-0.2,"\'=b"\n'
