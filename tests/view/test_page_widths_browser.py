"""Every view of the page fits the windows that people have, in light and in dark."""

from __future__ import annotations

import pytest

from tests.sample_explanations import encoding, explanation
from tests.sample_pages import render_page
from tests.view.sample_inside import sample_inside
from tests.view.test_page_answers_browser import long_page

pytestmark = pytest.mark.browser

SIZES = [(width, scheme) for width in (1024, 1400, 1920) for scheme in ("light", "dark")]
VIEWS = {
    "text": ".text .unit:not([data-special])",
    "change": ".curve svg",
    "compare": "[data-section=methods]",
    "inside": ".thumbnail canvas",
}
"""What each view shows first."""
CUT_OFF = """() => [...document.querySelectorAll('main *')].filter((one) => {
    // Measuring text that is not laid out would lay it out.
    if (one.closest('.away, .text, .unseen, svg') || !one.checkVisibility()) return false;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    if (box.width < 2) return false;
    const hides = ['hidden', 'clip'].includes(style.overflowX) && style.textOverflow !== 'ellipsis';
    const scrolls = one.parentElement.closest('.scroll, .inside');
    return (hides && one.scrollWidth > one.clientWidth + 1) || (!scrolls && box.right > innerWidth + 1);
}).map((one) => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_no_view_is_cut_off_and_each_shows_what_it_is_for(open_page, width, scheme):
    page = open_page(long_page(), viewport={"width": width, "height": 800}, color_scheme=scheme)
    offered = page.locator("nav.tabs button")
    assert offered.count() == len(VIEWS)
    for tab, (name, first) in zip(offered.all(), VIEWS.items(), strict=True):
        tab.click()
        shown = page.locator(first).first
        shown.wait_for()
        box = shown.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] < 800
        assert page.evaluate(CUT_OFF) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert name == "text" or page.locator("[data-section=finding] p").first.is_visible()


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_lines_between_words_are_arcs_with_marked_ends(open_page, width, scheme):
    encoded = encoding("The river, the old mill. Hello world!")
    page = open_page(
        render_page([explanation(encoded)], inside=sample_inside(encoded)),
        "#unit=3&hide=",
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
    )
    page.wait_for_selector(".links path.attended", state="attached")
    curves = page.locator(".links path").evaluate_all("all => all.map((path) => path.getAttribute('d'))")
    assert curves
    assert all("C" in curve or "Q" in curve or "A" in curve for curve in curves)
    assert page.locator(".links circle").count() > len(curves)
    edge = page.locator(".scroller").bounding_box()
    for box in page.locator(".links circle").evaluate_all(
        "all => all.map((dot) => { const { left, right } = dot.getBoundingClientRect(); return [left, right] })"
    ):
        assert edge["x"] <= box[0] <= box[1] <= edge["x"] + edge["width"]
