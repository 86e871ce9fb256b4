"""The server's page fits the windows that people have, in light and in dark: form, progress, result and history."""

from __future__ import annotations

import pytest

from tests.browsing import wait_until
from tests.serve.conftest import LONG_TEXT
from tests.serve.test_page_browser import browse, choose, open_settings
from tests.view.test_page_widths_browser import CUT_OFF, SIZES, VIEWS

pytestmark = pytest.mark.browser

__all__ = ["browse"]

PHONE = 390
HEIGHT = 900
OF_RESULT = ("#save-page", "#save", "#earlier a", "#forget", "#view .sentence", "#view .text")
OF_FORM = ("#text", "label[for=file]", "#model", "#target", "#methods", "#check", "#explain")


def sizes(page):
    """Yield every window, in light and in dark."""
    for width, scheme in [*SIZES, (PHONE, "light"), (PHONE, "dark")]:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.emulate_media(color_scheme=scheme)
        yield width


def assert_inside(page, width, *selectors):
    """Each of these is visible, and neither it nor the page is wider than the window."""
    for selector in selectors:
        box = page.locator(selector).first.bounding_box()
        assert box is not None, selector
        assert box["x"] >= 0, selector
        assert box["x"] + box["width"] <= width, selector
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_form_progress_result_and_history_fit_every_window(browse, server):
    def scenario(page):
        page.locator("#text").fill(LONG_TEXT[:2000])
        open_settings(page)
        for width in sizes(page):
            assert_inside(page, width, *OF_FORM)
        choose(page, "attcat", "rollout", "occlusion")
        with server.held_at("occlusion"):
            page.locator("#explain").click()
            page.locator("#stage", has_text="Occlusion: ").wait_for()
            assert_inside(page, PHONE, "#bar", "#stage", "#cancel")
            page.set_viewport_size({"width": 1024, "height": HEIGHT})
            assert_inside(page, 1024, "#bar", "#stage", "#cancel")
        page.locator("#view .sightline[data-ready=true]").wait_for()
        page.locator("#history > summary").click()
        for width in sizes(page):
            page.locator("#view nav.tabs button", has_text="Text").click()
            assert_inside(page, width, *OF_RESULT)
            if width >= SIZES[0][0]:
                assert_inside(page, width, "#view [data-section=strongest] li")
            assert page.evaluate(CUT_OFF) == [], width

    browse(scenario)


def test_every_view_of_a_result_fits_every_window(browse):
    def scenario(page):
        page.locator("#text").fill(LONG_TEXT[:2000])
        choose(page, "attcat", "alti")
        page.locator("#explain").click()
        page.locator("#view .sightline[data-ready=true]").wait_for()
        first = {**VIEWS, "change": "[data-control=edit]"}
        for width in sizes(page):
            for tab in page.locator("#view nav.tabs button").all():
                tab.click()
                name = page.locator("#view main").get_attribute("data-view")
                page.locator(f"#view {first[name]}").first.wait_for()
                assert page.evaluate(CUT_OFF) == [], (name, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        wait_until(page, "document.querySelector('#view').dataset.job !== undefined")

    browse(scenario)
