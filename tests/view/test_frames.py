"""Tables: CSV comes back as it was, LaTeX, Markdown and HTML show every string and run none."""

from __future__ import annotations

import csv
import io
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.files.spreadsheet_cells import protect_text, restore_text
from sightline.view import frames

AWKWARD = [
    "a,b",
    'say "x"',
    "line\nbreak",
    "<b>&amp;",
    "50 % & $5 #1_a ^~\\{}|",
    "NA",
    "",
    "=1+1",
    "漢字 😀",
    "a|b`c*d_",
]

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@given(st.lists(st.tuples(TEXT, st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False))))
@settings(max_examples=40, deadline=None)
def test_csv_comes_back_bit_for_bit(rows):
    frame = pd.DataFrame(rows, columns=["text", "count", "score"])
    # Whoever reads it sees which fields are texts: they alone are quoted.
    heading, *back = csv.reader(io.StringIO(frames.to_csv(frame)), quoting=csv.QUOTE_NONNUMERIC)
    assert heading == ["text", "count", "score"]
    assert back == [[protect_text(text), float(count), score] for text, count, score in rows]


def test_csv_keeps_line_breaks_and_quotes():
    frame = pd.DataFrame({"text": AWKWARD})
    back = pd.read_csv(io.StringIO(frames.to_csv(frame)), keep_default_na=False)
    assert [restore_text(text) for text in back["text"]] == AWKWARD


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_html_shows_any_text_and_adds_no_tag(words):
    parser = Cells()
    parser.feed(frames.to_html(pd.DataFrame({"text": words}), "caption"))
    assert set(parser.tags) <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert parser.tags.count("td") == len(words)


def test_html_cells_hold_the_text():
    parser = Cells()
    parser.feed(frames.to_html(pd.DataFrame({"text": ["<script>alert(1)</script>", "a & b"]})))
    assert {"<script>alert(1)</script>", "a & b"} <= set(parser.texts)


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_a_markdown_table_keeps_its_shape_whatever_the_words(words):
    lines = frames.to_markdown(pd.DataFrame({"text": words, "n": 1})).splitlines()
    assert len(lines) == 2 + len(words)
    for line in lines:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
        assert not re.search(r"<(?!\\)", line)


def test_markdown_escapes_what_would_be_formatting():
    assert frames.markdown("*a* _b_ `c` [d](e) <f> g|h") == (r"\*a\* \_b\_ \`c\` \[d\]\(e\) &lt;f&gt; g\|h")


@given(TEXT)
def test_latex_leaves_no_sign_with_a_meaning(text):
    escaped = frames.latex(text)
    plain = re.sub(r"\\(text[a-z]+|ensuremath)\{(-|\d)?\}|\\[{}$&#%_]|\{[\[\]]\}", "", escaped)
    assert not set(plain) & set('\\{}$&#%_^~<>|"[]')


def test_latex_is_a_booktabs_table_with_numbers_to_the_right():
    table = frames.to_latex(pd.DataFrame({"top_word": ["50 %"], "score": [-0.5]}), "A & B")
    assert table.splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{A \& B}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"top word & score \\",
        r"\midrule",
        r"50 \% & \ensuremath{-}0.500 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.5, "0.500"),
        (-0.01234, "−0.0123"),
        (123456.0, "123,456"),
        (1.23e-7, "1.23e-07"),
        (-1.23e-7, "−1.23e-07"),
        (9.999, "10.00"),
        (12, "12"),
        (np.int64(-4096), "−4,096"),
        (True, "yes"),
        (None, "–"),
        (float("nan"), "–"),
        (np.float32(0.25), "0.250"),
        ("word", "word"),
    ],
)
def test_values_are_written_as_readers_want_them(value, shown):
    assert frames.format_value(value) == shown


def test_text_columns_are_aligned_also_for_wide_characters():
    lines = frames.to_text(pd.DataFrame({"word": ["漢字", "mill"], "n": [1, 20]})).splitlines()
    assert lines == ["word   n", "漢字   1", "mill  20"]


def test_a_table_is_written_in_three_forms_and_long_ones_are_cut_for_readers(tmp_path):
    frame = pd.DataFrame({"n": range(250)})
    paths = frames.write_table(frame, tmp_path, "counts", "Counts")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in paths)
    assert len(pd.read_csv(tmp_path / "counts.csv")) == 250
    assert "(first 100 of 250 rows)" in (tmp_path / "counts.md").read_text().replace("\\", "")
    assert (tmp_path / "counts.tex").read_text().count(r"\\") == 101


def test_an_empty_frame_is_a_table_of_headings():
    frame = pd.DataFrame({"word": [], "n": []})
    assert frames.to_markdown(frame).splitlines()[0] == "| word | n |"
    assert "<tbody>" in frames.to_html(frame)
    assert frames.to_text(frame) == "word  n\n"


def test_numbers_of_a_column_have_one_power_of_ten():
    frame = pd.DataFrame(
        {
            "score": [3.2e-5, -4.5e-6, 1.2e-7, 0.0, math.nan],
            "count": [1.5e7, 2.0e6, 3.0, 1.0, 2.0],
            "share": [0.5, 0.02, 2e-7, -3e-9, 0.0],
        }
    )
    assert frames.headings(frame) == ["score (× 10⁻⁶)", "count (× 10⁶)", "share"]
    rows = [re.split(r"\s{2,}", line.strip()) for line in frames.to_text(frame).splitlines()[1:]]
    assert rows == [
        ["32.0", "15.0", "0.500"],
        ["−4.50", "2.00", "0.0200"],
        ["0.120", "< 0.0001", "< 0.0001"],
        ["0", "< 0.0001", "> −0.0001"],
        ["–", "< 0.0001", "0"],
    ]
    assert r"score (\texttimes{} 10\textsuperscript{-}\textsuperscript{6})" in frames.to_latex(frame)
    assert not re.search(r"\de[−-]?\d", frames.to_html(frame) + frames.to_markdown(frame))
    assert frames.to_csv(frame).splitlines()[0] == '"score","count","share"'


def test_records_hold_only_what_json_has_words_for():
    frame = pd.DataFrame({"number": [np.float64(1.5), math.inf, math.nan], "known": [np.True_, None, pd.NA]})
    assert frames.to_records(frame) == [
        {"number": 1.5, "known": True},
        {"number": None, "known": None},
        {"number": None, "known": None},
    ]
