"""The inside of the model on the page: relations as lines and lists, heads, layers, two readings, tables, curves."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest

from tests.browsing import settle, wait_until
from tests.sample_explanations import encoding, explanation
from tests.sample_pages import render_page
from tests.view.conftest import choose, open_appearance, open_fold, open_view
from tests.view.sample_inside import known_attention, sample_inside

pytestmark = pytest.mark.browser

TEXT = "The river, the old mill. Hello world!"  # every word is one token


@pytest.fixture
def encoded():
    return encoding(TEXT)


def partners(page, direction: str) -> list[tuple[int, float]]:
    """Position and weight of every partner listed."""
    page.wait_for_selector(f".partners[data-direction={direction}] li")
    found = []
    for item in page.locator(f".partners[data-direction={direction}] li").all():
        place = item.locator("small").inner_text()
        found.append((int(place) if place else -1, float(item.locator("span").last.inner_text())))
    return found


def expected(row: np.ndarray, k: int) -> list[tuple[int, float]]:
    """The k strongest tokens of a row by the number of their word; specials have none. Every token is a word here."""
    order = np.argsort(-row, kind="stable")[:k]
    last = len(row) - 1
    return [(int(i) if 0 < i < last else -1, float(f"{row[i]:.3g}")) for i in order]


def close(found: list[tuple[int, float]], wanted: list[tuple[int, float]]) -> bool:
    return [place for place, _ in found] == [place for place, _ in wanted] and np.allclose(
        [weight for _, weight in found], [weight for _, weight in wanted], rtol=0.01
    )


def test_a_clicked_token_shows_what_it_attends_to_and_what_attends_to_it(open_page, encoded):
    weights = known_attention(encoded).weights
    page = open_page(render_page([explanation(encoded)], inside=sample_inside(encoded)))
    choose(page, "level", "tokens")
    token = 3
    page.locator(".text .unit:not([data-special])").nth(token - 1).click()
    mean = weights.mean(axis=(0, 1))
    assert close(partners(page, "attended"), expected(mean[token], 3))
    assert close(partners(page, "attending"), expected(mean[:, token], 3))

    open_view(page, "Inside the model")
    page.get_by_role("button", name="Layer 1", exact=True).click()
    open_view(page, "Text")
    wait_until(page, "document.querySelector('.relations').textContent.includes('layer 1')")
    assert close(partners(page, "attended"), expected(weights[1].mean(axis=0)[token], 3))

    open_view(page, "Inside the model")
    page.get_by_role("button", name="Head 2", exact=True).click()
    open_view(page, "Text")
    wait_until(page, "document.querySelector('.relations').textContent.includes('head 2')")
    assert close(partners(page, "attended"), expected(weights[1, 2, token], 3))


def test_relations_are_drawn_as_lines_and_the_list_jumps(open_page, encoded):
    page = open_page(render_page([explanation(encoded)], inside=sample_inside(encoded)), "#unit=3&hide=")
    page.wait_for_selector(".links path.attended")
    shown = {direction: page.locator(f".links path.{direction}").count() for direction in ("attended", "attending")}
    assert 2 <= shown["attended"] <= 3
    open_appearance(page)
    choose(page, "links", "to")
    assert page.locator(".links path.attending").count() == 0
    assert page.locator(".links path.attended").count() == shown["attended"]
    choose(page, "links", "none")
    assert page.locator(".links path").count() == 0
    before = page.locator(".card h2").inner_text()
    name = page.locator(".partners[data-direction=attended] bdi").all_inner_texts()
    place = next(i for i, text in enumerate(name) if text != before)
    page.locator(".partners[data-direction=attended] button").nth(place).click()
    assert page.locator(".card h2").inner_text() == name[place]


def test_a_choice_that_the_file_does_not_hold_is_reported(open_page, encoded):
    page = open_page(
        render_page([explanation(encoded)], inside=sample_inside(encoded, budget=1000)), "#unit=3&layers=0&heads=1"
    )
    wait_until(
        page, "document.querySelector('[data-section=relations]')?.textContent.includes('does not contain relations')"
    )
    without = open_page(render_page([explanation(encoded)]), "#unit=3")
    assert "contains no attention" in without.locator("[data-section=relations]").inner_text()
    assert without.get_by_role("button", name="Inside the model").count() == 0


def test_the_heads_are_a_grid_and_one_opens_with_zoom_and_names(open_page, encoded):
    page = open_page(render_page([explanation(encoded)], inside=sample_inside(encoded)))
    open_view(page, "Inside the model")
    assert page.locator(".thumbnail").count() == 6
    assert (
        page.locator(".thumbnail").nth(5).get_attribute("aria-label")
        == "Layer 1, head 2, importance 6, the most important head"
    )
    painted = page.locator(".thumbnail canvas").first.evaluate(
        "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    )
    assert painted > 20
    page.locator(".thumbnail").nth(4).click()
    settle(page)
    canvas = page.locator(".head canvas")
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 2, "y": 2})
    assert "[CLS]" in page.locator("[data-section=named]").inner_text()
    assert "attends to" in page.locator("[data-section=named]").inner_text()
    whole = canvas.evaluate("canvas => canvas.toDataURL()")
    page.get_by_role("button", name="Zoom in").click()
    zoomed = canvas.evaluate("canvas => canvas.toDataURL()")
    assert zoomed != whole
    canvas.press("ArrowRight")
    assert canvas.evaluate("canvas => canvas.toDataURL()") != zoomed
    assert page.locator(".head .partners li").count() == 12
    assert "head=1%2C1" in page.evaluate("location.hash")
    page.get_by_role("button", name="show in the text").click()
    assert page.evaluate("location.hash").count("layers=1&heads=1") == 1
    assert page.locator(".text").is_visible()


def test_an_opened_head_says_how_fine_its_map_is(open_page):
    long = encoding(" ".join(f"old mill {i}" for i in range(100)))
    n = len(long)
    assert 256 < n < 512
    for image, sentence in (
        (16, f"16 × 16 pixels, each the mean over about {n / 16:.3g} × {n / 16:.3g} token pairs."),
        (n, "Each pixel is one pair of tokens."),
    ):
        page = open_page(
            render_page([explanation(long)], inside=sample_inside(long, image=image)), "#view=inside&head=1,2"
        )
        page.wait_for_selector("[data-section=resolution]")
        assert page.locator("[data-section=resolution]").inner_text().startswith(sentence)
    weights = known_attention(long).weights[1, 2]
    page.locator(".head canvas").hover(position={"x": 40, "y": 90})
    named = page.locator("[data-section=named]").inner_text()
    row, column = (int(token) for token in re.findall(r"\(token (\d+)\)", named))
    assert row > column
    assert float(named.split(" with ")[1]) == pytest.approx(weights[row, column], abs=weights.max() / 200)


def test_layers_are_a_table_of_shares_and_one_of_them_colours_the_text(open_page, encoded):
    layers = np.zeros((3, len(encoded)))
    layers[2, 5] = 3.0
    layers[0, 1] = 1.0
    exp = explanation(encoded, layers.sum(axis=0), layers=layers, layer_kind="additive")
    page = open_page(render_page([exp, explanation(encoded, method="rollout")]), "#view=inside")
    assert [row.split()[-2:] for row in page.locator(".shares tr").all_inner_texts()] == [
        ["25", "%"],
        ["0", "%"],
        ["75", "%"],
    ]
    page.get_by_role("button", name="Layer 2", exact=True).click()
    open_view(page, "Text")
    assert page.locator(".text [class^=for]").all_inner_texts() == ["old"]
    choose(page, "method", "Attention rollout")
    open_view(page, "Inside the model")
    assert "Attention rollout has no scores by layer" in page.locator(".inside").inner_text()


def test_two_methods_and_attention_stand_side_by_side(open_page, encoded):
    page = open_page(
        render_page(
            [explanation(encoded), explanation(encoded, method="rollout", signed=False)], inside=sample_inside(encoded)
        )
    )
    open_appearance(page)
    choose(page, "compare", "Attention")
    assert page.locator("article h2").all_inner_texts() == ["AttCAT", "Attention"]
    assert page.locator(".text").count() == 2
    assert page.locator("article").nth(1).locator("[class^=plain]").count() > 0
    first_text, second_text = page.locator("article .text").all_inner_texts()
    assert first_text == second_text
    # The second text is a copy of the first: it follows the level and leads to words like the first.
    for level, tag in (("tokens", encoded.tokens[2]), ("words", None)):
        choose(page, "level", level)
        counts = [page.locator("article").nth(i).locator(".unit").count() for i in range(2)]
        assert counts[0] == counts[1] > 0
        assert tag is None or page.locator("article").nth(1).locator(".unit").nth(2).inner_text().lower() == tag.lower()
    page.keyboard.press("Escape")
    page.locator("article").nth(1).locator(".unit").nth(3).click()
    assert (
        page.locator("article .chosen").all_inner_texts()
        == [page.locator("article").nth(1).locator(".unit").nth(3).inner_text()] * 2
    )
    page.keyboard.press("Escape")
    wait_until(page, "document.querySelector('.agreement').textContent.includes('ρ = ')")
    choose(page, "method", "Attention")
    open_fold(page, "shares").get_by_label("list them too").check()
    received = known_attention(encoded).received.mean(axis=(0, 1))[1:-1]
    first = page.locator("[data-side=plain] bdi").first.inner_text().lower()
    names = [token.lower() for token in encoded.tokens[1:-1]]
    sums = {name: sum(value for other, value in zip(names, received, strict=True) if other == name) for name in names}
    assert first == max(sums, key=sums.get)


def test_tables_sort_filter_and_download(open_page, encoded):
    scores = np.linspace(-1, 1, len(encoded))
    page = open_page(
        render_page([explanation(encoded, scores), explanation(encoded, np.abs(scores), method="rollout")])
    )
    open_view(page, "Compare methods")
    page.locator(".compare").get_by_label("list them too").check()
    choose(page, "by", "by position")
    rows = page.locator(".sortable tbody tr")
    assert rows.count() == len(encoded) - 2
    assert rows.first.locator("td").first.inner_text() == "!"
    page.locator(".sortable").get_by_role("button", name="AttCAT").click()
    assert rows.first.locator("td").first.inner_text() == "The"
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("AttCAT")
    page.locator("[data-control=filter]").fill("ol")
    assert rows.count() == 1
    page.locator("[data-control=filter]").fill("")
    choose(page, "side", "against")
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("AttCAT")
    assert rows.first.locator("td").first.inner_text() == "The"
    choose(page, "side", "for")
    with page.expect_download() as download:
        page.locator("[data-control=csv]").click()
    content = download.value.path().read_text(encoding="utf-8-sig")
    read = list(csv.DictReader(io.StringIO(content)))
    assert download.value.suggested_filename == "words-attcat.csv"
    assert [row["word"] for row in read] == list(encoded.tokens[len(encoded) // 2 : -1])[::-1]
    np.testing.assert_allclose([float(row["score"]) for row in read], scores[len(encoded) // 2 : -1][::-1], rtol=1e-6)
    total = np.abs(scores[1:-1]).sum()
    np.testing.assert_allclose(
        [float(row["AttCAT"]) for row in read], [float(row["score"]) / total for row in read], rtol=1e-6
    )
    choose(page, "by", "by word")
    rows.first.locator("button").click()
    assert page.locator(".card").is_visible()
