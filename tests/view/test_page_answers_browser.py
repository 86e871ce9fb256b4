"""The page answers first: sentence, verdict and strongest words, then the text; everything else is one click away."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from sightline.results.check import Reading
from tests.sample_explanations import check_of, encoding, explanation, smallest_set_of
from tests.sample_pages import render_page
from tests.view.conftest import choose, open_appearance, open_fold, open_view
from tests.view.sample_inside import sample_inside

pytestmark = pytest.mark.browser

WIDTHS = (1024, 1400, 1920)
LINE = "The old river {} runs, hello world {}. The miller is old and hello again."
LONG = "\n\n".join(LINE.format(i, i * 7) for i in range(12))
RANDOM = ((2.0, 1.8), (2.2, 1.4))
"""Log-odds without random words."""
CLIPPED = """() => [...document.querySelectorAll('.details *, .answer *, .toolbar *')].filter((one) => {
    const style = getComputedStyle(one);
    const clips = style.overflowX !== 'visible' && style.textOverflow !== 'ellipsis';
    if (one.closest('.unseen')) return false;
    const box = one.getBoundingClientRect();
    return box.width > 1 && style.position !== 'absolute' && ((clips && one.scrollWidth > one.clientWidth + 1) ||
        box.right > innerWidth + 1);
}).map((one) => one.outerHTML.slice(0, 120))"""


def long_page() -> str:
    encoded = encoding(LONG)
    scores = np.zeros(len(encoded))
    for place, token in enumerate(encoded.tokens):
        scores[place] = {"river": 1.0, "hello": -0.4, "the": 3.0}.get(token.lower(), 0.001)
    layers = np.stack([0.983 * scores, 0.017 * scores])
    shown = [
        explanation(encoded, scores, layers=layers, layer_kind="additive"),
        explanation(encoded, np.abs(scores), method="integrated_gradients"),
        explanation(encoded, np.abs(scores), method="rollout", signed=False),
    ]
    without = (Reading(0.0, "PL", 0.5, 0.5), Reading(-2.2, "AI", 0.9, 0.1))
    facts = {"counts": (4, 40), "without": without, "random": RANDOM}
    shown[:2] = [replace(one, check=check_of(one, 0, **facts)) for one in shown[:2]]
    return render_page(shown, inside=sample_inside(encoded))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_answer_verdict_text_and_strongest_words_are_in_sight_and_nothing_is_clipped(open_page, width, scheme):
    page = open_page(long_page(), viewport={"width": width, "height": 800}, color_scheme=scheme)
    sentence = page.locator(".sentence").inner_text()
    assert sentence.startswith("The model says “PL” (73 %)")
    for part in (".badge .mark", ".classes", "[data-side=for]", ".toolbar"):
        assert page.locator(part).is_visible()
    strongest = page.locator("[data-side=for] li").first.bounding_box()
    assert strongest["x"] + strongest["width"] <= width
    page.keyboard.press("n")
    assert page.locator("[data-section=scores] tbody th").all_inner_texts() == [
        "AttCAT",
        "Integrated gradients",
        "Attention rollout",
    ]
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_text_begins_in_the_upper_third_after_at_most_120_words_of_ours(open_page):
    page = open_page(long_page(), viewport={"width": 1400, "height": 900})
    assert page.locator(".text .unit:not([data-special])").first.bounding_box()["y"] < 300
    assert page.locator(".text .for-8").first.bounding_box()["y"] < 450
    said = " ".join(
        page.locator(".top, .notices, .answer, .toolbar").evaluate_all(
            "all => all.map((one) => [...one.querySelectorAll('p, li, button, summary, label > span, .key span')]"
            ".filter((part) => part.checkVisibility() && !part.closest('.popover, .unseen'))"
            ".map((part) => part.innerText)).flat()"
        )
    )
    assert 20 < len(said.split()) <= 120


def test_the_probability_stands_once_before_the_text(open_page):
    page = open_page(long_page(), viewport={"width": 1400, "height": 900})
    assert page.locator("main").inner_text().count("73 %") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_sentences_and_classes_are_written_in_full(open_page, width, scheme):
    """What is cut off with three dots is not clipped for the browser, but a reader misses it."""
    page = open_page(long_page(), "#level=sentence", viewport={"width": width, "height": 800}, color_scheme=scheme)
    strongest = page.locator("[data-side=for] li button").first.inner_text()
    assert strongest.startswith("The miller is old and hello again.")
    for part in ("[data-side] li button", ".classes li", ".sentence"):
        widths = page.locator(part).evaluate_all("all => all.map((one) => [one.scrollWidth, one.clientWidth])")
        assert widths
        assert all(needed <= given + 1 for needed, given in widths), part


def test_two_methods_side_by_side_begin_with_the_texts_and_say_what_chance_would_give(open_page):
    page = open_page(long_page(), "#compare=rollout")
    said = page.locator(".agreement").inner_text()
    assert "strongest words; by chance, " in said
    assert said.endswith("(0 by chance, 1 for the same ranking).")
    assert page.locator("article header").first.bounding_box()["y"] < 400


def test_a_text_without_line_breaks_has_an_outline_of_sentences(open_page):
    page = open_page(render_page([explanation(encoding(LONG.replace("\n\n", " ")))]), "#layout=outline")
    assert page.locator("[data-level=paragraph]").count() == 0
    assert page.locator("[data-level=sentence]").count() == 24
    page.get_by_role("button", name="Open sentence 1", exact=True).click()
    assert page.locator("[data-level=word] .quote").first.inner_text() == "The"


def test_raw_scores_of_a_column_have_one_power_of_ten(open_page):
    page = open_page(long_page(), "#view=compare")
    column = [text.strip() for text in page.locator(".sortable tbody td:nth-child(3)").all_inner_texts()]
    assert len(column) > 3
    assert not any("e" in text for text in column)
    assert len({len(text.partition(".")[2]) for text in column}) == 1


def test_on_a_phone_all_views_are_in_sight_and_the_text_has_the_room(open_page):
    page = open_page(long_page(), viewport={"width": 390, "height": 800})
    for tab in page.locator("nav.tabs button").all():
        box = tab.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    text = page.locator(".text").bounding_box()
    assert text["width"] >= 0.8 * 390
    page.locator(".scroller").evaluate("box => (box.scrollTop = 1000)")
    assert page.locator(".scroller").bounding_box()["height"] >= 0.8 * 800
    choose(page, "level", "outline")
    assert page.locator(".branch .quote").first.bounding_box()["width"] > 250


def test_a_notice_is_one_line_that_can_be_dismissed(open_page):
    page = open_page(render_page([explanation(encoding(LONG, max_tokens=60))]), viewport={"width": 1400, "height": 900})
    notice = page.locator(".notices p")
    assert "cut off" in notice.inner_text()
    assert notice.bounding_box()["height"] < 60
    page.get_by_role("button", name="Dismiss").click()
    assert page.locator(".notices").count() == 0


def test_a_phrase_and_a_passage_lead_into_the_text(open_page):
    page = open_page(long_page())
    phrases = page.locator(".sentence button")
    assert phrases.count() > 0
    for phrase in phrases.all():
        phrase.click()
        assert page.locator(".text .chosen").inner_text() == phrase.inner_text().strip("“”")
    open_fold(page, "passages").locator("li button").nth(2).click()
    assert page.locator(".text .chosen").count() == 1


def test_methods_have_names_a_sentence_and_a_formula_on_demand(open_page):
    page = open_page(long_page())
    names = page.locator("[data-control=method] option").all_inner_texts()
    assert names == ["AttCAT", "Integrated gradients", "Attention rollout", "Attention"]
    assert not page.locator(".details code").is_visible()
    assert open_fold(page, "about").locator("code").inner_text().startswith("s_i")


def test_one_layer_keeps_the_colours_of_the_whole(open_page):
    page = open_page(long_page())
    open_appearance(page)
    assert page.locator(".text .for-8").count() > 0
    open_view(page, "Inside the model")
    page.get_by_role("button", name="Layer 1", exact=True).click()
    assert page.locator(".shares tr").first.inner_text().split("\t")[0] == "layer 0"
    open_view(page, "Text")
    assert page.locator(".text .for-8").count() == 0
    open_appearance(page)
    choose(page, "range", "selected layers")
    assert page.locator(".text .for-8").count() > 0


def test_the_curve_has_an_axis_in_words_and_the_line_where_the_answer_changes(open_page):
    page = open_page(long_page(), "#view=change")
    plot = page.locator(".curve svg")
    across = ["0", "1", "2", "5", "10", "20", "words taken out (logarithmic)"]
    assert plot.locator("text.tick").all_text_contents() == across
    assert plot.locator(".border text").text_content() == "below this line the answer changes"
    assert plot.locator("circle").count() == 4  # the whole text, and without 2, 4 and 40 words
    assert plot.locator("path.chance").count() == 2
    finding = page.locator("[data-section=finding] p").inner_text()
    assert finding == "Without its 40 strongest words the probability of “PL” is 10 % instead of 90 %."


def changing_page() -> str:
    """A page on which the answer changes without "river" and "mill", the two strongest words."""
    encoded = encoding("The river, the old mill. Hello world!")
    exp = explanation(encoded, [0.0, 0.1, 4.0, 0.3, 0.1, 0.1, 3.0, 0.2, 0.1, 0.1, 0.1, 0.0])
    path = ((1, Reading(0.4, "PL", 0.6, 0.6)), (2, Reading(-0.66, "AI", 0.66, 0.34)))
    smallest = smallest_set_of(exp, 1, 5)
    return render_page(
        [replace(exp, check=check_of(exp, 1, 5, path=path, without=(path[1][1],), smallest_set=smallest))]
    )


def test_the_smallest_set_is_struck_out_in_place_and_can_be_put_back_word_by_word(open_page):
    html = changing_page()
    page = open_page(html)
    assert page.locator(".text .deciding").all_inner_texts() == ["river", "mill"]
    page.locator(".text .deciding").first.click()
    tested = page.locator("[data-section=tested]").inner_text()
    assert tested == "Without it and 1 other tested word the model says AI (66 %)."
    open_view(page, "What would change it")
    assert page.locator("[data-section=finding] p").all_inner_texts() == [
        "Without these 2 words the model says AI (66 %) instead of PL (73 %).",
        "2 random words changed the answer in 0 of 14 draws. No smaller set was found in the order of AttCAT.",
    ]
    struck, known = page.locator(".plain-text del"), page.locator("[data-section=known]")
    assert page.locator(".plain-text").inner_text() == "The river, the old mill. Hello world!"
    assert struck.all_inner_texts() == ["river", "mill"]
    assert known.inner_text() == "The model says AI (66 %)."
    taken = page.locator(".taken button")
    taken.nth(1).click()
    assert struck.all_inner_texts() == ["river"]
    assert known.inner_text().startswith("The model says PL (60 %).")  # the strongest word alone was read
    taken.nth(0).click()
    assert known.inner_text().startswith("The model says PL (90 %).")
    taken.nth(1).click()
    assert known.inner_text().startswith("This was not measured, and this file cannot run the model.")
    again = open_page(html, page.evaluate("location.hash"))
    assert again.locator(".plain-text del").all_inner_texts() == ["mill"]
    again.get_by_role("button", name="start again").click()
    assert again.locator(".plain-text del").count() == 2


def test_the_outline_opens_from_paragraphs_to_sentences_to_words(open_page):
    page = open_page(long_page(), "#layout=outline")
    assert page.locator("[data-level=paragraph]").count() == 12
    page.get_by_role("button", name="Open paragraph 1", exact=True).click()
    assert page.locator("[data-level=sentence]").count() == 2
    page.get_by_role("button", name="Open sentence 1", exact=True).click()
    words = page.locator("[data-level=word] .quote").all_inner_texts()
    assert words[:3] == ["The", "old", "river"]
    page.locator("[data-level=word] .quote").nth(2).click()
    assert page.locator(".card h2").inner_text() == "river"


def test_a_sentence_has_the_same_share_of_the_total_wherever_it_is_shown(open_page):
    encoded = encoding(LONG)
    scores = np.zeros(len(encoded))
    river, hello = (next(i for i, token in enumerate(encoded.tokens) if token == name) for name in ("river", "hello"))
    scores[[0, river, hello]] = 7.0, 3.0, -1.0  # both words are in the first sentence: 3 − 1 of 3 + 1
    page = open_page(render_page([explanation(encoded, scores)]))
    passages = open_fold(page, "passages")
    shown = [passages.locator(".share").first.inner_text()]
    note = passages.locator(".quiet").inner_text()
    page.evaluate("location.hash = 'level=sentence'")
    title = page.locator("[data-side=for] li button").first.get_attribute("title")
    shown.append(title.split(" of the total")[0])
    page.evaluate("location.hash = 'view=compare&level=sentence'")
    shown.append(page.locator(".sortable tbody td").nth(1).inner_text().strip())
    page.evaluate("location.hash = 'layout=outline'")
    page.get_by_role("button", name="Open paragraph 1", exact=True).click()
    shown += page.locator("[data-level] .amount").all_inner_texts()[:2]
    assert shown == ["+50 %"] * 5
    assert note.startswith("Shares of the total of absolute word scores")


def test_no_line_ends_between_a_number_and_its_percent_sign(open_page):
    exp = explanation(checks={"special_share": 0.123})
    exp = replace(exp, check=check_of(exp, 0))
    for width in range(1000, 1100, 10):
        page = open_page(render_page([exp]), viewport={"width": width, "height": 800})
        page.locator("[data-section=verdict] summary").click()
        lines = page.locator("[data-section=verdict] .whole").evaluate_all(
            "all => all.map(e => e.getClientRects().length)"
        )
        assert set(lines) == {1}


def test_sizes_are_not_to_be_relied_on_where_much_of_the_number_is_in_no_score(open_page):
    for error, said in ((0.6, 1), (0.1, 0)):
        page = open_page(render_page([explanation(checks={"conservation_error": error})]))
        assert page.locator("[data-section=order-only]").count() == said


def test_a_file_says_in_one_line_what_needs_the_server(open_page):
    page = open_page(long_page(), "#view=change")
    assert "sightline serve" in page.locator("[data-section=own]").inner_text()
    assert page.locator("[data-control=edit]").count() == 0


def test_a_search_ends_with_escape_and_says_how_many_are_whole_words(open_page):
    page = open_page(render_page([explanation(encoding("The old mill, the older miller. Old mills."))]))
    page.keyboard.press("/")
    page.keyboard.type("old")
    assert page.locator(".matches").inner_text() == "3 matches, 2 of them whole words"
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    assert page.locator("[data-control=find]").input_value() == ""
    assert page.locator(".text .chosen").count() == 1


def test_every_share_says_what_it_is_a_share_of_and_what_an_even_spread_would_give(open_page):
    page = open_page(long_page())
    passages = open_fold(page, "passages").inner_text()
    assert re.search(r"every one of the \d+ sentences would have [\d.]+ %", passages)
    shares = open_fold(page, "shares").inner_text()
    assert "not a share of the probability" in shares
    assert re.search(r"strong words of [\d,]+ have [\d.]+ % of the total", shares)
    assert re.search(r"spread evenly, they would have [\d.]+ %", shares)
