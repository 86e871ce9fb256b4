"""The text in pieces: what is far from the view is not laid out, and yet can be reached, measured and printed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sample_explanations import encoding, explanation
from tests.sample_pages import render_page
from tests.view.conftest import choose
from tests.view.test_page_browser import LONG, chosen

pytestmark = pytest.mark.browser

LAID_OUT = "all => all.map(line => line.checkVisibility({ contentVisibilityAuto: true }))"


def test_only_the_text_near_the_view_is_laid_out_and_all_of_it_when_printed(open_page):
    page = open_page(render_page([explanation(encoding(LONG[:60_000]))]))
    lines = page.locator(".text p")
    laid_out = lines.evaluate_all(LAID_OUT)
    assert laid_out[0]
    assert 0 < sum(laid_out) < len(laid_out) / 4
    choose(page, "level", "tokens")
    assert lines.evaluate_all(LAID_OUT) == laid_out
    page.emulate_media(media="print")
    assert all(lines.evaluate_all(LAID_OUT))


def test_text_that_was_not_laid_out_is_reached_by_key_by_search_and_by_the_strip(open_page):
    text = LONG[:60_000].replace("mill 700 ", "windmill 700 ")
    encoded = encoding(text)
    page = open_page(render_page([explanation(encoded, np.linspace(1, 2, len(encoded)))]))
    in_view = """() => {
        const box = document.querySelector('.scroller').getBoundingClientRect();
        const word = document.querySelector('.text .chosen').getBoundingClientRect();
        return box.top < word.top && word.bottom < box.bottom;
    }"""
    page.keyboard.press("p")  # the last of the strong words, at the end of the text
    assert page.evaluate(in_view)
    page.locator("[data-control=find]").fill("windmill 700")
    page.keyboard.press("Enter")
    assert page.evaluate(in_view)
    assert chosen(page) in ("wind", "windmill")
    # The same place on the strip leads back to it.
    share = page.evaluate(
        """() => {
            const [scroller, sheet] = ['.scroller', '.sheet'].map(
                (name) => document.querySelector(name).getBoundingClientRect());
            return (scroller.top + scroller.height / 2 - sheet.top) / sheet.height;
        }"""
    )
    page.locator(".scroller").evaluate("box => (box.scrollTop = 0)")
    assert not page.evaluate(in_view)
    strip = page.locator(".strip").bounding_box()
    x, y = strip["x"] + 10, strip["y"] + share * strip["height"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.up()
    assert page.evaluate(in_view)


def test_the_height_of_text_that_is_not_laid_out_is_estimated_well(open_page):
    generator = np.random.default_rng(0)
    words = ["old", "mill", "the", "river", "runs", "hello", "miller"]
    text = "\n".join(" ".join(generator.choice(words, generator.integers(0, 80))) for _ in range(120))
    page = open_page(render_page([explanation(encoding(text))]))
    heights = "all => all.map(piece => piece.offsetHeight)"
    pieces = page.locator(".piece")
    estimated = pieces.evaluate_all(heights)
    pieces.evaluate_all("all => all.forEach(piece => (piece.style.contentVisibility = 'visible'))")
    true = pieces.evaluate_all(heights)
    assert estimated != true
    np.testing.assert_allclose(estimated, true, rtol=0.2)
    np.testing.assert_allclose(sum(estimated), sum(true), rtol=0.1)


def test_a_text_without_line_breaks_is_broken_between_sentences_and_left_out_in_parts(open_page):
    text = " ".join(f"The river runs past the old mill number {i} and the miller says hello." for i in range(400))
    page = open_page(render_page([explanation(encoding(text))]))
    assert page.locator(".text").text_content() == text
    lines = page.locator(".text p").all_text_contents()
    assert len(lines) > 10
    assert all(line.startswith("The river") for line in lines)
    assert max(map(len, lines)) < 2000
    assert sum(page.locator(".text p").evaluate_all(LAID_OUT)) < len(lines) / 2
    # Not even a text without sentences is one line.
    page = open_page(render_page([explanation(encoding("mill river " * 2000))]))
    assert max(map(len, page.locator(".text p").all_text_contents())) < 4000
