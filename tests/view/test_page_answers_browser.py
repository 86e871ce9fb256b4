"""The page answers first: sentence, passages, shares, methods by name, one scale, curves, outline and trials."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from sightline.results.explanation import RemovalCurve
from tests.sample_explanations import encoding, explanation
from tests.sample_pages import render_page
from tests.view.conftest import open_appearance
from tests.view.sample_inside import sample_inside

pytestmark = pytest.mark.browser

WIDTHS = (1024, 1400, 1920)
LINE = "The old river {} runs, hello world {}. The miller is old and hello again."
LONG = "\n\n".join(LINE.format(i, i * 7) for i in range(12))
RANDOM = [[0.9, 0.88, 0.86], [0.9, 0.9, 0.8]]
CLIPPED = """() => [...document.querySelectorAll('.details *, .headline *, .controls *')].filter((one) => {
    const style = getComputedStyle(one);
    const clips = style.overflowX !== 'visible' && style.textOverflow !== 'ellipsis';
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
    removal = RemovalCurve([0, 0.02, 0.2], [0.9, 0.5, 0.1], RANDOM, [0, 4, 40])
    shown = [
        explanation(
            encoded, scores, layers=layers, layer_kind="additive", removal=removal, checks={"probability_empty": 0.6}
        ),
        explanation(encoded, np.abs(scores), method="integrated_gradients", removal=removal),
        explanation(encoded, np.abs(scores), method="rollout", signed=False),
    ]
    return render_page(shown, inside=sample_inside(encoded))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_sentence_passages_and_words_are_in_sight_and_nothing_is_clipped(open_page, width, scheme):
    page = open_page(long_page(), viewport={"width": width, "height": 800}, color_scheme=scheme)
    sentence = page.locator(".headline p").inner_text()
    assert sentence.startswith("The model says “PL” (73 %), according to AttCAT in part because of “river” (13 % of")
    assert page.locator("[data-section=passages] li").count() == 5
    share = page.locator("[data-section=passages] .share").first.inner_text()
    assert share.startswith("+")
    assert share.endswith(" %")
    for part in ("[data-section=passages]", "[data-side=for]", "[data-section=verdict]"):
        assert page.locator(part).is_visible()
    first = page.locator("[data-side=for] td").nth(1).bounding_box()
    assert first["x"] + first["width"] <= width
    page.keyboard.press("n")
    assert page.locator("[data-section=scores] tbody th").all_inner_texts() == [
        "AttCAT",
        "Integrated gradients",
        "Attention rollout",
    ]
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_sentences_classes_and_the_status_are_written_in_full(open_page, width, scheme):
    """What is cut off with three dots is not clipped for the browser, but a reader misses it."""
    page = open_page(long_page(), "#level=sentence", viewport={"width": width, "height": 800}, color_scheme=scheme)
    strongest = page.locator("[data-side=for] td button").first.inner_text()
    assert strongest.startswith("The miller is old and hello again.")
    for part in ("[data-side] td button", ".classes span:first-child", ".status"):
        widths = page.locator(part).evaluate_all("all => all.map((one) => [one.scrollWidth, one.clientWidth])")
        assert widths
        assert all(needed <= given + 1 for needed, given in widths), part
    page.keyboard.press("n")
    needed, given = page.locator(".status").evaluate("one => [one.scrollWidth, one.clientWidth]")
    assert needed <= given + 1


def test_two_methods_side_by_side_begin_with_the_texts_and_say_what_chance_would_give(open_page):
    page = open_page(long_page(), "#compare=rollout")
    said = page.locator(".agreement").inner_text()
    assert "strongest words; by chance, " in said
    assert said.endswith("(0 by chance, 1 for the same ranking).")
    assert page.locator("[data-section=passages]").count() == 0
    assert page.locator("article header").first.bounding_box()["y"] < 400


def test_a_text_without_line_breaks_has_an_outline_of_sentences(open_page):
    page = open_page(render_page([explanation(encoding(LONG.replace("\n\n", " ")))]), "#view=outline")
    assert page.locator("[data-level=paragraph]").count() == 0
    assert page.locator("[data-level=sentence]").count() == 24
    page.get_by_role("button", name="Open sentence 1", exact=True).click()
    assert page.locator("[data-level=word] .quote").first.inner_text() == "The"


def test_raw_scores_of_a_column_have_one_power_of_ten(open_page):
    page = open_page(long_page(), "#view=words")
    column = [text.strip() for text in page.locator(".sortable tbody td:nth-child(3)").all_inner_texts()]
    assert len(column) > 3
    assert not any("e" in text for text in column)
    assert len({len(text.partition(".")[2]) for text in column}) == 1


def test_on_a_phone_all_views_are_in_sight_and_names_do_not_touch(open_page):
    page = open_page(long_page(), viewport={"width": 390, "height": 800})
    for tab in page.locator("nav.tabs button").all():
        box = tab.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    mark, settings = page.locator(".brief .mark").bounding_box(), page.locator(".brief button").bounding_box()
    assert mark["x"] + mark["width"] < settings["x"]
    page.get_by_role("button", name="Layers", exact=True).click()
    names = sorted((box["x"], box["x"] + box["width"]) for box in map(box_of, page.locator(".peaks button").all()))
    assert names
    assert all(end <= start for (_, end), (start, _) in pairwise(names))
    page.get_by_role("button", name="Outline", exact=True).click()
    assert page.locator(".branch .quote").first.bounding_box()["width"] > 250


def test_on_a_phone_notices_leave_the_room_to_the_text_while_a_word_is_selected(open_page):
    cut = explanation(encoding(LONG, max_tokens=60))
    page = open_page(render_page([cut]), viewport={"width": 390, "height": 800})
    assert page.locator(".notices").is_visible()
    page.keyboard.press("n")
    assert not page.locator(".notices").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".notices").is_visible()


def box_of(part):
    return part.bounding_box()


def test_a_phrase_and_a_passage_lead_into_the_text(open_page):
    page = open_page(long_page())
    page.locator(".headline p button").first.click()
    assert page.locator(".text .chosen").inner_text() == "river"
    page.locator("[data-section=passages] li button").nth(2).click()
    assert page.locator(".text .chosen").count() == 1


def test_methods_have_names_a_sentence_and_a_formula_on_demand(open_page):
    page = open_page(long_page())
    method = page.locator("[data-section=method]")
    names = method.locator("[data-control=method] label").all_inner_texts()
    assert names == ["AttCAT", "Integrated gradients", "Attention rollout", "Attention"]
    assert not method.locator("code").is_visible()
    method.get_by_text("Formula").click()
    assert method.locator("code").inner_text().startswith("s_i")
    for view, hidden in (("Curves", "[data-section=colour]"), ("Heads", "[data-section=appearance]")):
        page.get_by_role("button", name=view, exact=True).click()
        assert page.locator(hidden).count() == 0


def test_one_layer_keeps_the_colours_of_the_whole(open_page):
    page = open_page(long_page())
    open_appearance(page)
    assert page.locator(".text .for-8").count() > 0
    page.get_by_role("button", name="Layer 1", exact=True).click()
    assert page.locator(".text .for-8").count() == 0
    page.locator("[data-control=range]").get_by_text("selected layers", exact=True).click()
    assert page.locator(".text .for-8").count() > 0
    page.get_by_role("button", name="Layers", exact=True).click()
    assert page.locator(".shares tr").first.inner_text().split("\t")[0] == "layer 0"
    assert page.locator(".heat-axis .peaks button").count() > 0
    # Special tokens are no words: the axis ends with the number of words that the other views give.
    assert page.locator(".heat-axis .ticks span").last.inner_text() == str(len(encoding(LONG).words))


def test_one_plot_shows_all_methods_over_the_number_of_words(open_page):
    page = open_page(long_page(), "#view=curves")
    assert page.locator(".curves figure").count() == 1
    legend = page.locator(".curves .lines li").all_inner_texts()
    assert legend[:2] == ["AttCAT", "Integrated gradients"]
    plot = page.locator(".curves svg[role=img]")
    ticks = plot.locator("g.tick text").all_text_contents()
    assert (ticks[0], ticks[-1]) == ("0", "1")
    assert plot.locator("text.name").first.text_content() == "words deleted (logarithmic)"
    assert plot.locator(".series-random .band").count() == 1


def test_the_outline_opens_from_paragraphs_to_sentences_to_words(open_page):
    page = open_page(long_page(), "#view=outline")
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
    shown = [page.locator("[data-section=passages] .share").first.inner_text()]
    note = page.locator("[data-section=passages] .quiet").inner_text()
    page.evaluate("location.hash = 'level=sentence'")
    shown.append(page.locator("[data-side=for] td").nth(1).inner_text())
    page.evaluate("location.hash = 'view=words&level=sentence'")
    shown.append(page.locator(".sortable tbody td").nth(1).inner_text().strip())
    page.evaluate("location.hash = 'view=outline'")
    page.get_by_role("button", name="Open paragraph 1", exact=True).click()
    shown += page.locator("[data-level] .amount").all_inner_texts()[:2]
    assert shown == ["+50 %"] * 5
    assert note.startswith("Shares of the total of absolute word scores")


def test_no_line_ends_between_a_number_and_its_percent_sign(open_page):
    measured = {"faithfulness": 0.5, "random_mean": 0.0, "random_beaten": 20, "random_orderings": 20, "stake": 0.2}
    telling = {"probability": 0.853, "probability_without": 0.11, "probability_without_random": 0.853}
    checks = {**measured, **telling, "removed_words": 125, "removed_share": 0.154, "special_share": 0.123}
    for width in range(1000, 1100, 10):
        page = open_page(render_page([explanation(checks=checks)]), viewport={"width": width, "height": 800})
        lines = page.locator("[data-section=verdict] .whole").evaluate_all(
            "all => all.map(e => e.getClientRects().length)"
        )
        assert lines == [1] * 5


def test_a_file_says_what_the_check_measured_without_the_words(open_page):
    page = open_page(long_page(), "#view=trials")
    rows = page.locator(".trials .without tbody tr").all_inner_texts()
    assert rows == [
        "none\t90 %\t90 %",
        "4 (2.0 % of the text)\t50 %\t89 %",
        "40 (20 % of the text)\t10 %\t83 %",
        "all\t60 %\t60 %",
    ]
    assert (
        page.locator(".trials .without caption")
        .inner_text()
        .endswith("; random: mean of 2 random orders. Below 50 % (bold) the model says “AI”")
    )
    assert page.locator(".trials .without b").all_inner_texts() == ["10 %"]
    assert page.locator("[data-control=rerun]").count() == 0


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
    passages = page.locator("[data-section=passages] > p").inner_text()
    assert "not of the probability" in passages
    assert re.search(r"every one of the \d+ sentences would have [\d.]+ %", passages)
    strongest = page.locator("[data-section=strongest]").inner_text()
    assert re.search(r"of [\d,]+ words, punctuation marks included, have [\d.]+ % of the total", strongest)
    assert re.search(r"spread evenly, they would have [\d.]+ %", strongest)
    assert "not of the probability" in strongest
