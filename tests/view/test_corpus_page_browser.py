"""The index of a corpus in a browser: every filter and the search select the right rows, alone and together."""

from __future__ import annotations

import pandas as pd
import pytest

from sightline.corpus.summary import CorpusSummary
from sightline.view.corpus_page import render_corpus
from tests.browsing import wait_until

pytestmark = pytest.mark.browser

COUNT = 230
VERDICTS = ("good", "weak", None)
"""More rows than the page lists at once."""


def record(row: int) -> dict[str, object]:
    """Row 7 failed; every fifth prediction is wrong, every ninth row has no label."""
    if row == 7:
        missing = dict.fromkeys(("prediction", "probability", "correct", "verdict", "faithfulness"))
        return {"row": row, "id": "doc-7", "label": "AI", "status": "failed", "error": "The text is empty.", **missing}
    label, prediction = ("AI", "PL")[row % 2], ("AI", "PL")[(row + (row % 5 == 0)) % 2]
    unlabelled = row % 9 == 0
    return {
        "row": row,
        "id": f"doc-{row}",
        "label": None if unlabelled else label,
        "prediction": prediction,
        "probability": row / COUNT,
        "correct": None if unlabelled else label == prediction,
        "status": "done",
        "error": None,
        "verdict": VERDICTS[row % 3],
        "faithfulness": None if VERDICTS[row % 3] is None else row / 1000,
    }


RECORDS = [
    {**record(row), "vocabulary": "", "excerpt": f"The {'neural' if row % 4 else 'typed'} paper {row} <b>reads</b>."}
    for row in range(COUNT)
]


@pytest.fixture(scope="module")
def html():
    summary = CorpusSummary(
        title="papers",
        facts={"model": "tiny"},
        counts={"done": COUNT - 1, "failed": 1},
        documents=pd.DataFrame(RECORDS),
        confusion=pd.DataFrame({"label": ["AI"], "prediction": ["AI"], "documents": [COUNT]}),
        words=(),
        slices=None,
    )
    return render_corpus(summary, {})


def expect(page, condition) -> None:
    """Wait until the page lists exactly the rows that meet the condition, or the first 200 of them."""
    ids = [row["id"] for row in RECORDS if condition(row)]
    listed = "[...document.querySelectorAll('#list tbody tr')].map((row) => row.cells[0].textContent).join(' ')"
    wait_until(page, f"{listed} === '{' '.join(ids[:200])}'")
    wait_until(page, f"document.querySelector('#matches').textContent === '{len(ids)} of {COUNT} documents'")


def clear(page) -> None:
    page.locator("#filters").evaluate("form => { form.reset(); form.dispatchEvent(new Event('input')); }")
    expect(page, lambda row: True)


def test_all_rows_are_listed_in_steps(open_page, html):
    page = open_page(html)
    expect(page, lambda row: True)
    page.locator("#more").click()
    wait_until(page, f"document.querySelectorAll('#list tbody tr').length === {COUNT}")
    assert page.locator("#more").is_hidden()
    assert page.locator("#list b").count() == 0


def test_each_choice_selects_its_rows(open_page, html):
    page = open_page(html)
    for name, values in {
        "label": ("AI", "PL"),
        "prediction": ("AI", "PL"),
        "verdict": ("good", "weak"),
        "status": ("done", "failed"),
    }.items():
        options = page.locator(f"select[name={name}] option").evaluate_all("all => all.map((one) => one.value)")
        assert options == ["", *values]
        for value in values:
            page.locator(f"select[name={name}]").select_option(value)
            expect(page, lambda row, name=name, value=value: row[name] == value)
        clear(page)


def test_wrong_predictions_confidence_and_search_combine(open_page, html):
    page = open_page(html)
    page.locator("[name=wrong]").check()
    expect(page, lambda row: row["correct"] is False)
    page.locator("[name=least]").fill("40")
    expect(page, lambda row: row["correct"] is False and row["probability"] >= 0.4)
    page.locator("[name=most]").fill("80")
    between = [row["id"] for row in RECORDS if row["correct"] is False and 0.4 <= row["probability"] <= 0.8]
    expect(page, lambda row: row["id"] in between)
    page.locator("[name=search]").fill("NEURAL paper")
    expect(page, lambda row: row["id"] in between and "neural" in row["excerpt"])
    page.locator("select[name=prediction]").select_option("PL")
    expect(page, lambda row: row["id"] in between and "neural" in row["excerpt"] and row["prediction"] == "PL")
    clear(page)


def test_search_finds_ids_and_errors_and_reports_nothing_found(open_page, html):
    page = open_page(html)
    page.locator("[name=search]").fill("doc-22")
    expect(page, lambda row: "doc-22" in row["id"])
    page.locator("[name=search]").fill("is empty")
    expect(page, lambda row: row["status"] == "failed")
    page.locator("[name=search]").fill("no such words")
    expect(page, lambda row: False)


@pytest.mark.parametrize("width", [400, 1024, 1400, 1920])
def test_the_page_fits_its_window(open_page, html, width):
    page = open_page(html, viewport={"width": width, "height": 850})
    expect(page, lambda row: True)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
