"""What the page of a study says about its verdicts, and how its figures treat texts from files."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from sightline.view.sections.pages import Table
from sightline_studies import STUDIES, StudyResult
from sightline_studies.study import Figure, LayerMap, Outcome, Setting
from sightline_studies.tables import read_published
from sightline_studies.verdicts import Case, Claim, Finding, Measured, Verdict
from sightline_studies.view import (
    FEW,
    LONGEST_LABEL,
    MEANINGS,
    TRIAL,
    cases_frame,
    claims_frame,
    differences_frame,
    draw_figure,
    finding_sentence,
    opening_sentences,
    settings_frame,
    study_sections,
    warnings,
)

CLAIM = Claim("a claim", "It holds.", "some number", "Table 1")


def finding(documents=40, control=None, published=(), aside=""):
    measured = Measured(0.3, 0.2, 0.4, documents)
    return Finding(CLAIM, [Case("a model", measured, published, control, set_aside=aside)], "Evidence.")


def result(size="small", *findings):
    return StudyResult(STUDIES["flow"], Outcome([], [], findings, []), {}, size)


def test_a_claim_says_what_is_compared_and_where_it_is_printed():
    assert finding_sentence(finding()) == "Agrees. It holds. Quantity: some number (Table 1). Evidence."


def test_a_case_has_what_is_printed_what_is_measured_and_the_verdict():
    frame = cases_frame(result("small", finding(published=(0.31, 0.67), control=Measured(0.1, 0.05, 0.15, 9))))
    row = frame.iloc[0]
    assert row[["claim", "case", "published", "verdict", "artefact", "reason"]].tolist() == [
        "a claim",
        "a model",
        "0.31 to 0.67",
        "agrees",
        "no",
        "–",
    ]
    assert row[["measured", "measured_low", "measured_high", "control"]].tolist() == [0.3, 0.2, 0.4, 0.1]
    assert row["could_show"] == pytest.approx(0.2 * 2.8 / 3.92)
    assert cases_frame(result("small", finding())).loc[0, "published"] == "not printed"
    aside = cases_frame(result("small", finding(aside="has not learnt its task"))).iloc[0]
    assert aside[["verdict", "reason"]].tolist() == ["set aside", "has not learnt its task"]


def test_claims_are_counted_by_case():
    frame = claims_frame(result("small", finding(), finding(aside="has not learnt its task")))
    assert frame["verdict"].tolist() == ["agrees", "cannot tell"]
    assert frame["agrees"].tolist() == [1, 0]


def test_only_a_claim_that_cannot_be_told_has_a_reason():
    frame = claims_frame(result("small", finding(), finding(aside="has not learnt its task"), Finding(CLAIM)))
    assert frame["reason"].tolist() == ["–", "has not learnt its task", "not measured: see “Left out”"]


@pytest.mark.parametrize("name", STUDIES)
def test_the_appendix_holds_every_fact_that_the_paper_states(name):
    *_, appendix = study_sections(StudyResult(STUDIES[name], Outcome([], [], [], []), {}, "small"))
    facts = next(part for part in appendix.parts if isinstance(part, Table) and part.name == "facts").frame
    assert facts["printed"].tolist() == [row["value"] for row in read_published(f"{name}_facts")]
    assert len(facts)


def test_every_verdict_is_explained():
    assert set(get_args(Verdict)) < set(MEANINGS)


def test_a_page_says_what_its_size_cannot_judge():
    sentences = " ".join(opening_sentences(result("small", finding())))
    assert "1 claim: 1 agrees." in sentences
    assert STUDIES["flow"].cannot_judge["small"] in sentences


@pytest.mark.parametrize("name", STUDIES)
def test_every_smaller_size_has_something_that_it_cannot_judge(name):
    assert set(STUDIES[name].cannot_judge) == {"tiny", "small"}


def test_settings_stand_beside_those_of_the_paper():
    setting = Setting("tokens", "2,048", "1,024", "768", why_at_paper_size="memory")
    assert settings_frame([setting]).to_dict("records") == [
        {"setting": "tokens", "paper": "2,048", "here": "768", "reason": "–"}
    ]
    assert differences_frame([setting]).to_dict("records") == [
        {"setting": "tokens", "paper": "2,048", "size_paper": "1,024", "reason": "memory"}
    ]


def test_few_documents_are_named():
    assert warnings(result("small", finding(documents=40))) == []
    assert warnings(result("small", finding(documents=40), finding(documents=6))) == [FEW]
    assert warnings(result("tiny", finding(documents=6))) == [TRIAL]
    assert warnings(result("small", Finding(CLAIM))) == []


def test_words_of_thousands_of_characters_are_shortened_in_figures():
    labels = ["x" * 5000, "mill"]
    drawn = draw_figure(Figure("map", "A map", LayerMap(np.ones((2, 2)), labels, "separate", signed=False)))
    texts = [text.get_text() for axes in drawn.axes for text in axes.get_xticklabels()]
    assert "mill" in texts
    assert max(map(len, texts)) <= LONGEST_LABEL
