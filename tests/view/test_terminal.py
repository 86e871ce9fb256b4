"""The terminal's view: safe for any document, plain and stable for pipes, the strongest passages of long texts."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sightline.view.words.headline import headline
from sightline.view.words.phrases import format_share, percent, word_total
from sightline.view.words.sentences import check_sentences, number
from sightline.view.words.terminal import plain_report, print_report, printable, strongest_lines, wrapped
from sightline.view.words.verdict import describe_verdict
from tests.sample_explanations import check_of, encoding, explanation, smallest_set_of


def shown(*explanations, width: int = 80) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=width)
    print_report(console, explanations)
    return console.file.getvalue()


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_the_plain_report_is_tab_separated_without_colours_or_boxes():
    exp = explanation(
        encoding("hello world the old mill"),
        [9.0, 0.5, -0.5, 2.0, 0.0, -3.0, -9.0],
        checks={"completeness_gap": 0.003, "special_share": 0.75},
    )
    exp = replace(exp, check=check_of(exp, 0))
    assert plain_report(exp, top=2).split("\n") == [
        f"summary\t{headline(exp)}",
        "method\tattcat",
        "predicted\tPL\t0.7311",
        "target\tlog-odds of 'PL'",
        "tokens\t7",
        "\t".join(["trust", "holds up", *describe_verdict(exp).all_sentences]),
        "warning\tSpecial tokens such as [CLS] carry 75 % of the total of all tokens: the words are the smaller part.",
        "check\tThe scores add up to the explained difference within 0.3 % (completeness gap).",
        "list\tThe list leaves out stop words and punctuation, 33 % of the total.",
        "shares\tShares are of the total of absolute word scores, not of the probability.",
        "",
        "side\trank\tword\tscore\tcount\tshare",
        "for\t1\thello\t0.5\t1\t+8.3 %",
        "against\t1\tmill\t-3\t1\t−50 %",
        "against\t2\tworld\t-0.5\t1\t−8.3 %",
        "",
    ]


def test_no_sentence_of_the_plain_report_is_cut():
    words = ["international" * 4, "administration" * 4, "characterisation" * 4]
    exp = explanation(encoding(" ".join(words)))
    exp = replace(exp, check=check_of(exp, 0, 1, 2, smallest_set=smallest_set_of(exp, 0, 1, 2, label="a" * 40)))
    summary = plain_report(exp).splitlines()[0]
    assert len(summary) > 200
    assert summary == f"summary\t{headline(exp)}"


def test_stop_words_and_punctuation_are_listed_on_request():
    exp = explanation(encoding("the river, the old mill"), [0.0, 2.0, 0.5, -1.0, 2.0, 0.25, -3.0, 0.0])
    plain, everything = (plain_report(exp, all_words=all_words).splitlines() for all_words in (False, True))
    assert "list\tThe list leaves out stop words and punctuation, 57 % of the total." in plain
    assert not any(line.startswith("list") for line in everything)
    assert [line for line in everything if line not in plain] == [
        "for\t1\tthe\t4\t2\t+46 %",
        "for\t2\triver\t0.5\t1\t+5.7 %",
        "for\t3\told\t0.25\t1\t+2.9 %",
        "against\t2\t,\t-1\t1\t−11 %",
    ]
    assert "57 % of the total. Add --all-words to list them." in without_colours(shown(exp, width=100))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_shares_are_shown_in_full_at_any_width(width):
    text = "Honorificabilitudinitatibus Floccinaucinihilipilification"
    exp = explanation(encoding(text), np.resize([0.123, -0.000456], len(encoding(text))))
    table = without_colours(shown(exp, width=width))
    for word in exp.top(2):
        assert format_share(exp, word.score, word_total(exp)) in table


def test_shares_are_written_as_the_page_writes_them():
    signed, plain = explanation(), explanation(signed=False)
    written = [format_share(signed, score, 100.0) for score in (0.0, 6.12, 12.4, -0.31, 0.049, 0.004, -0.004)]
    assert written == ["0 %", "+6.1 %", "+12 %", "−0.3 %", "+0.05 %", "< +0.01 %", "> −0.01 %"]
    assert format_share(plain, 6.12, 100.0) == "6.1 %"
    assert format_share(signed, 0.0, 0.0) == "0 %"


@given(st.text())
def test_nothing_a_terminal_obeys_survives_and_places_stay(text):
    safe = printable(text)
    assert len(safe) == len(text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", safe)


def test_escape_sequences_in_a_document_are_shown_not_obeyed():
    exp = explanation(encoding("old \x1b[31mmill\x1b]0;title\x07 river [bold]world[/bold]"))
    for report in (plain_report(exp, 50), without_colours(shown(exp))):
        assert "\x1b" not in report
        assert "\x07" not in report
    assert "␛[31mmill" in without_colours(shown(exp))
    assert "[bold]world[/bold]" in without_colours(shown(exp))


def test_a_short_text_is_shown_whole_with_prediction_tables_and_checks():
    text = without_colours(shown(explanation(checks={"completeness_gap": 0.003, "untrained": True})))
    assert "The river runs past the old mill." in text
    assert "The model says PL (73 %)" in text
    assert "For 'PL'" in text
    assert "Against 'PL'" in text
    assert "The scores add up to the explained difference within 0.3 % (completeness gap)." in text
    assert "Some weights of this model are random" in text
    assert "✕ do not trust." in text
    assert "The strongest" not in text


def test_a_long_text_is_cut_to_its_strongest_lines_and_says_so():
    text = "\n".join(f"hello old river {i}" for i in range(200)) + "\nthe mill"
    encoded = encoding(text)
    scores = np.zeros(len(encoded))
    for line in (20, 150):
        scores[encoded.offsets[:, 0].searchsorted(text.index(f"river {line}\n"))] = 1.0
    scores[[i for i, token in enumerate(encoded.tokens) if token == "mill"]] = -2.0
    report = without_colours(shown(explanation(encoded, scores)))
    assert "the mill" in report
    assert re.search(r"The strongest \d+ of 201 lines", report)
    assert len(report.split("\n")) < 40


@given(st.lists(st.floats(0, 10), max_size=100))
def test_the_strongest_line_is_always_among_those_shown_and_few_are(strength):
    lines = strongest_lines(strength)
    assert lines == sorted(set(lines))
    if strength:
        assert int(np.argmax(strength)) in lines
    assert len(lines) <= max(24, 14)


@given(st.text(st.sampled_from("ab \n日👩é"), max_size=200), st.integers(4, 30))
def test_wrapping_loses_no_character_and_keeps_the_width(text, width):
    from rich.cells import cell_len

    lines = wrapped(text, width)
    assert all(cell_len(text[start:end]) <= width for start, end in lines)
    covered = {i for start, end in lines for i in range(start, end)}
    assert all(character.isspace() or place in covered for place, character in enumerate(text))


def test_an_unsigned_method_has_one_list():
    exp = explanation(scores=np.ones(len(encoding())), signed=False)
    assert "Strongest words" in shown(exp)
    assert "Against" not in shown(exp)
    assert "against\t" not in plain_report(exp)


def test_the_pair_is_shown_after_the_text():
    report = without_colours(shown(explanation(encoding("the old mill", "hello world"))))
    assert report.index("the old mill") < report.index("hello world")


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (1e-9, "< 0.1 %"), (0.0031, "0.3 %"), (0.0994, "9.9 %"), (0.0996, "10 %"), (0.5, "50 %"),
     (0.9951, "99.5 %"), (0.99999, "> 99.9 %"), (1, "100 %"), (1.5, "150 %")],
)  # fmt: skip
def test_percent_never_rounds_something_to_nothing_or_to_everything(share, text):
    assert percent(share) == text


def test_numbers_have_three_digits_and_a_sign():
    assert [number(x) for x in (0.0, 0.31234, -1.234e-5, 12345.0)] == ["0", "+0.312", "−1.23e-05", "+1.23e+04"]


def test_unknown_checks_are_shown_by_name():
    assert check_sentences({"sinks_found": 3, "flat": True, "error": 0.12345, "note": "see the guide."}) == [
        "Sinks found: 3.", "Flat: yes.", "Error: 0.123.", "Note: see the guide."
    ]  # fmt: skip
