"""What the page of a study says about its verdicts, and how its figures treat texts from files."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from sightline_studies import STUDIES, StudyResult
from sightline_studies.study import Claim, Figure, Finding, LayerMap, Measured, Outcome, Published, Verdict
from sightline_studies.view import (
    FEW,
    LONGEST_LABEL,
    MEANINGS,
    TRIAL,
    claims_frame,
    draw_figure,
    finding_sentence,
    warnings,
)

CLAIM = Claim("a claim", "It holds.", "Confirmed if it does.")


def finding(verdict="confirmed", documents=40, control=None, published=None):
    return Finding(CLAIM, verdict, "Evidence.", Measured(0.3, 0.2, 0.4, documents), published, control=control)


def result(size="small", *findings):
    return StudyResult(STUDIES["flow"], Outcome([], [], findings, []), {}, size)


def test_a_published_number_says_where_it_is_from():
    assert "Published: 0.41 (Table 1)." in finding_sentence(finding(published=Published(0.41, "Table 1")))
    assert "Published" not in finding_sentence(finding())


def test_the_difference_to_the_control_is_named():
    sentence = finding_sentence(finding("undecided", control=Measured(0.45, -0.05, 0.95, 8)))
    assert sentence.startswith("Undecided. It holds. Evidence. Measured minus control: −0.15 (−0.66 to 0.36, 8 docu")
    assert "control" not in finding_sentence(finding())


def test_every_verdict_is_explained():
    assert set(MEANINGS) == set(get_args(Verdict))


def test_few_documents_are_named():
    assert warnings(result("small", finding(documents=40))) == []
    assert warnings(result("small", finding(documents=40), finding(documents=6))) == [FEW]
    assert warnings(result("tiny", finding(documents=6))) == [TRIAL]
    assert warnings(result("small", Finding(CLAIM, "not measured", "Nothing."))) == []


def test_the_verdict_stands_right_after_the_claim():
    frame = claims_frame(result("small", finding(published=Published(0.1, "Table 1"))))
    assert list(frame.columns)[:3] == ["claim", "verdict", "published"]
    assert frame.loc[0, "difference"] == pytest.approx(0.2)


def test_words_of_thousands_of_characters_are_shortened_in_figures():
    labels = ["x" * 5000, "mill"]
    drawn = draw_figure(Figure("map", "A map", LayerMap(np.ones((2, 2)), labels, "separate", signed=False)))
    texts = [text.get_text() for axes in drawn.axes for text in axes.get_xticklabels()]
    assert "mill" in texts
    assert max(map(len, texts)) <= LONGEST_LABEL
