"""No cell of a CSV file is run by a spreadsheet, and every cell comes back as it was."""

from __future__ import annotations

import csv
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.corpus import read_examples
from sightline.spreadsheet_cells import protect_text, restore_text
from sightline.view.frames import to_csv

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "=cmd|'/C calc'!A0", "-", "''=1")


@given(st.text() | st.sampled_from(FORMULAS) | st.text(alphabet="'=+-@\t x"))
def test_what_is_written_is_never_a_formula_and_reads_back(text):
    written = protect_text(text)
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
    assert restore_text(written) == text


@pytest.mark.parametrize("text", ["plain", "'quoted'", "1-2", "", "a=b", "'s-Gravenhage"])
def test_ordinary_text_is_written_as_it_is(text):
    assert protect_text(text) == text == restore_text(text)


@pytest.mark.parametrize("formula", FORMULAS)
def test_tables_are_protected_in_cells_and_headings_and_come_back_through_our_reader(tmp_path, formula):
    frame = pd.DataFrame({"text": ["plain", formula], "id": [formula, "b"], formula: [-1.5, 2.0], "n": [-1, 2]})
    written = to_csv(frame)
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert rows[0] == ["text", "id", protect_text(formula), "n"]
    assert [row[0] for row in rows[1:]] == ["plain", protect_text(formula)]
    assert [row[2:] for row in rows[1:]] == [["-1.5", "-1"], ["2.0", "2"]], "numbers stay numbers"
    path = tmp_path / "table.csv"
    path.write_bytes(written.encode())
    examples = read_examples(path)
    assert [example.text for example in examples] == ["plain", formula]
    assert [example.id for example in examples] == [formula, "b"]
    assert read_examples(path, label=formula)[1].label == 2


def test_a_separator_of_other_countries_does_not_open_a_cell():
    assert '"x;=1+1"' in to_csv(pd.DataFrame({"text": ["x;=1+1"]}))


def test_single_precision_keeps_its_short_digits():
    frame = pd.DataFrame({"score": pd.Series([0.1, -0.2], dtype="float32"), "text": ["a", "=b"]})
    assert to_csv(frame) == '"score","text"\n0.1,"a"\n-0.2,"\'=b"\n'
