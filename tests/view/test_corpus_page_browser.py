"""The explorer of a corpus in a browser: words and documents follow one selection; sort, search and filters agree."""

from __future__ import annotations

import pandas as pd
import pytest

from sightline.corpus.corpus_summary import ClassWords, CorpusSummary
from sightline.view.corpus_page import render_corpus
from tests.browsing import wait_until

pytestmark = pytest.mark.browser

COUNT = 130
"""More rows than the page lists at once."""
VERDICTS = ("holds", "weak", None)
WORDS = ("neural", "typed", "<b>", "the")


def record(row: int) -> dict[str, object]:
    """Row 7 failed; every fifth prediction is wrong, every ninth row has no label."""
    shared = {"row": row, "document": row, "id": f"doc-{row}", "source": "ab"[row % 2]}
    if row == 7:
        missing = dict.fromkeys(("prediction", "probability", "correct", "verdict", "fall", "excerpt", "vocabulary"))
        return {**shared, "label": "AI", "status": "failed", "error": "The text is empty.", **missing}
    label, prediction = ("AI", "PL")[row % 2], ("AI", "PL")[(row + (row % 5 == 0)) % 2]
    unlabelled = row % 9 == 0
    return {
        **shared,
        "label": None if unlabelled else label,
        "prediction": prediction,
        "probability": row / COUNT,
        "correct": None if unlabelled else label == prediction,
        "status": "done",
        "error": None,
        "verdict": VERDICTS[row % 3],
        "fall": None,
        "vocabulary": "zebra" if row == 11 else "",
        "excerpt": f"The {'neural' if row % 4 else 'typed'} paper {row} <b>reads</b>.",
    }


RECORDS = [record(row) for row in range(COUNT)]


def words_of(row: dict) -> list[str]:
    return [] if row["row"] == 7 else ["neural" if row["row"] % 4 else "typed", "the", *(["<b>"] * (row["row"] < 3))]


def score(word: str, row: dict) -> float:
    return {"neural": 1.0, "typed": -0.5, "the": 3.0, "<b>": 0.25}[word] * (2 if row["correct"] is False else 1)


@pytest.fixture(scope="module")
def html():
    tables = []
    for target in ("AI", "PL"):
        rows = [(word, row["row"], score(word, row)) for row in RECORDS if row["prediction"] == target
                for word in words_of(row)]  # fmt: skip
        frame = pd.DataFrame(rows, columns=["word", "document", "score"]).sort_values(["word", "document"])
        tables.append(ClassWords(target, frame, frozenset({"the"})))
    summary = CorpusSummary(
        title="papers",
        facts={"model": "tiny"},
        counts={"done": COUNT - 1, "failed": 1},
        documents=pd.DataFrame(RECORDS),
        confusion=pd.DataFrame({"label": ["AI"], "prediction": ["AI"], "documents": [COUNT]}),
        words=(),
        slices=None,
        facets=("source",),
        class_words=tuple(tables),
        marked={row["row"]: {word: score(word, row) for word in words_of(row)} for row in RECORDS},
    )
    return render_corpus(summary, {11: "documents/11.html"})


def expect(page, condition) -> None:
    """Wait until the page lists exactly the rows that meet the condition, or the first 100 of them."""
    chosen = [row for row in RECORDS if condition(row)]
    listed = "[...document.querySelectorAll('#list tbody tr')].map((row) => row.cells[0].textContent).join(' ')"
    wait_until(page, f"{listed} === '{' '.join(row['id'] for row in chosen[:100])}'")
    wait_until(page, f"document.querySelector('#matches').textContent.startsWith('{len(chosen)} of {COUNT} documents')")


def word_table(page, target: int) -> dict[str, list[str]]:
    rows = page.locator(f"#words section:nth-child({target}) tbody tr")
    cells = rows.evaluate_all("rows => rows.map(row => [...row.cells].slice(0, 4).map(cell => cell.textContent))")
    return {word: rest for word, *rest in cells}


def expected_words(target: str, condition=lambda row: True) -> dict[str, list[str]]:
    """Documents, wrong documents, and mean score in wrong ones minus that in right ones, by plain sums."""
    table = {}
    for word in WORDS[:3]:
        rows = [r for r in RECORDS if r["prediction"] == target and word in words_of(r) and condition(r)]
        wrong, right = ([score(word, r) for r in rows if r["correct"] is side] for side in (False, True))
        if len(rows) < 2:
            continue
        gap = ""
        if min(len(wrong), len(right)) >= 2:
            gap = f"{sum(wrong) / len(wrong) - sum(right) / len(right):.2g}".replace("-", "−")
        table[word] = [str(len(rows)), str(len(wrong)), gap]
    return table


def same(shown: dict[str, list[str]], expected: dict[str, list[str]]) -> bool:
    def plain(table):
        return {word: (docs, wrong, gap and float(gap.replace("−", "-"))) for word, (docs, wrong, gap) in table.items()}

    return plain(shown) == plain(expected)


def test_all_rows_are_listed_in_steps_and_nothing_becomes_markup(open_page, html):
    page = open_page(html)
    expect(page, lambda row: True)
    page.locator("#more").click()
    wait_until(page, f"document.querySelectorAll('#list tbody tr').length === {COUNT}")
    assert page.locator("#more").is_hidden()
    assert page.locator("#list b, #words b").count() == 0
    assert page.locator("#list a").evaluate_all("all => all.map(a => a.getAttribute('href'))") == ["documents/11.html"]


def test_words_are_counted_by_class_and_stop_words_are_folded(open_page, html):
    page = open_page(html)
    for number, target in enumerate(("AI", "PL"), start=1):
        assert same(word_table(page, number), expected_words(target))
    assert "the" not in word_table(page, 1)
    page.locator("[name=quiet]").check()
    assert next(iter(word_table(page, 1))) == "the"


def test_words_follow_the_documents_and_documents_follow_a_word(open_page, html):
    page = open_page(html)
    page.locator("select[name=outcome]").select_option("false")
    expect(page, lambda row: row["correct"] is False)
    assert same(word_table(page, 1), expected_words("AI", lambda row: row["correct"] is False))
    page.locator("#words section:nth-child(2) td button", has_text="typed").click()
    expect(page, lambda row: row["correct"] is False and "typed" in words_of(row))
    page.locator("#chosen button").click()
    expect(page, lambda row: row["correct"] is False)
    page.locator("#clear").click()
    expect(page, lambda row: True)
    page.locator("[name=count]").fill("40")
    assert all(int(docs) >= 40 for docs, *_ in word_table(page, 1).values())


def test_every_choice_selects_its_rows(open_page, html):
    page = open_page(html)
    for name, values in {
        "label": ("AI", "PL"),
        "prediction": ("AI", "PL"),
        "verdict": ("holds", "weak"),
        "status": ("done", "failed"),
        "source": ("a", "b"),
    }.items():
        for number, value in enumerate(values, start=1):
            page.locator(f"select[name={name}]").select_option(str(number))
            expect(page, lambda row, name=name, value=value: row[name] == value)
        page.locator("#clear").click()


def test_wrong_predictions_confidence_and_search_combine(open_page, html):
    page = open_page(html)
    page.locator("[name=outcome]").select_option("false")
    page.locator("[name=least]").fill("40")
    expect(page, lambda row: row["correct"] is False and row["probability"] >= 0.4)
    page.locator("[name=most]").fill("80")
    between = [row["id"] for row in RECORDS if row["correct"] is False and 0.4 <= row["probability"] <= 0.8]
    expect(page, lambda row: row["id"] in between)
    page.locator("[name=search]").fill("NEURAL paper")
    expect(page, lambda row: row["id"] in between and "neural" in row["excerpt"])


def test_search_finds_whole_texts_ids_and_errors(open_page, html):
    page = open_page(html)
    for text, rows in {"zebra": [11], "doc-22": [22], "is empty": [7], "no such words": []}.items():
        page.locator("[name=search]").fill(text)
        expect(page, lambda row, rows=rows: row["row"] in rows)


def test_columns_sort_in_both_directions(open_page, html):
    page = open_page(html)
    page.locator("#heads button", has_text="sure").click()
    first = "document.querySelector('#list tbody tr').cells[0].textContent"
    wait_until(page, f"{first} === 'doc-{COUNT - 1}'")
    page.locator("#heads button", has_text="sure").click()
    wait_until(page, f"{first} === 'doc-0'")
    page.locator("#words section:nth-child(1) th button", has_text="word").click()
    assert list(word_table(page, 1)) == sorted(word_table(page, 1))


@pytest.mark.parametrize("width", [390, 1024, 1400, 1920])
def test_the_page_fits_its_window(open_page, html, width):
    page = open_page(html, viewport={"width": width, "height": 850})
    expect(page, lambda row: True)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
