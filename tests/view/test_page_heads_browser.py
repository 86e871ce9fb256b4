"""Heads of long documents on the page: straightened windows with axes and frames, both ends of a cell in the text."""

from __future__ import annotations

import pytest

from tests.browsing import wait_until
from tests.sample_explanations import encoding, explanation
from tests.sample_pages import build, render_page
from tests.view.sample_inside import banded_inside

pytestmark = pytest.mark.browser

WORDS = " ".join(f"river the old mill {i}." for i in range(40))
SIZES = [(1024, "light"), (1024, "dark"), (1400, "light"), (1400, "dark"), (1920, "light"), (1920, "dark")]


@pytest.fixture(scope="module")
def encoded():
    return encoding(WORDS)


@pytest.fixture(scope="module")
def html(encoded):
    return render_page([explanation(encoded)], inside=banded_inside(encoded))


def darkest_column(page, selector: str) -> int:
    """The column of a map whose pixels differ most from its first pixel, in whatever theme."""
    return page.locator(selector).evaluate(
        """canvas => {
            const { width, height } = canvas;
            const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
            const sums = Array.from({ length: width }, (_, x) => {
                let sum = 0;
                for (let y = 1; y < height - 1; y++) sum += Math.abs(data[4 * (y * width + x)] - data[4 * width]);
                return sum;
            });
            return sums.indexOf(Math.max(...sums));
        }"""
    )


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_grid_shows_windows_with_axes_frames_and_a_scale(open_page, html, width, scheme):
    page = open_page(html, "#view=inside", viewport={"width": width, "height": 850}, color_scheme=scheme)
    page.wait_for_selector(".thumbnail canvas")
    # Head h attends to the distance 2h - 2 of -4 … 4, in a map of 8 columns.
    assert [darkest_column(page, f".thumbnail >> nth={head} >> canvas") for head in range(3)] == [2, 4, 6]
    assert page.locator(".axis.across").first.inner_text().split() == ["−4", "0", "+4"]
    frames = page.locator(".thumbnail").evaluate_all("all => all.map((one) => getComputedStyle(one).boxShadow)")
    assert len(set(frames)) == 6
    assert "most important head" in page.locator("[data-section=grid-legend]").inner_text()
    clipped = page.locator("main").evaluate("main => main.scrollWidth - main.clientWidth")
    assert clipped <= 0


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_an_opened_head_fills_the_panel_and_leads_to_both_ends(open_page, html, encoded, width, scheme):
    page = open_page(html, "#view=inside&head=1,2", viewport={"width": width, "height": 850}, color_scheme=scheme)
    canvas = page.locator(".head canvas")
    wait_until(page, "document.querySelector('.head canvas').width === 9")
    assert darkest_column(page, ".head canvas") == 6
    panel, map_ = page.locator("main").bounding_box(), canvas.bounding_box()
    assert map_["width"] > 0.4 * panel["width"]
    assert map_["height"] > 0.5 * panel["height"]
    assert page.locator(".thumbnail").count() == 0
    assert page.locator(".distances span").all_inner_texts() == ["−4", "−2", "0", "+2", "+4"]
    assert page.locator(".plot .rows span").first.inner_text().startswith("[CLS]")

    canvas.hover(position={"x": map_["width"] * 6.5 / 9, "y": map_["height"] / 2})
    wait_until(page, "document.querySelectorAll('.end-lines path').length === 2")
    named = page.locator("[data-section=named]").inner_text()
    assert "2 after" in named
    assert "attend" in named
    marks = page.locator("[data-section=ends] mark")
    assert marks.count() >= 2
    boxes = [page.locator(f"mark.{name}").first.bounding_box() for name in ("attends", "attended")]
    assert all(box["x"] >= map_["x"] + map_["width"] for box in boxes)
    assert all(box["x"] + box["width"] <= panel["x"] + panel["width"] + 1 for box in boxes)
    canvas.press("ArrowLeft")
    wait_until(page, "document.querySelector('[data-section=named]').textContent.includes('1 after')")


def test_all_pairs_neighbours_and_the_grid_are_one_click_away(open_page, html):
    page = open_page(html, "#view=inside&head=0,2")
    page.get_by_text("all pairs").click()
    page.wait_for_selector("[data-section=resolution]")
    page.get_by_role("button", name="Next head").click()
    assert page.locator(".head h2").inner_text().startswith("Layer 1, head 0")
    page.locator("[data-control=all-heads]").click()
    assert page.locator(".thumbnail").count() == 6


def test_windows_come_before_maps_of_all_pairs(encoded):
    groups = [group[0] for group in build([explanation(encoded)], inside=banded_inside(encoded)).optional]
    assert groups.index("windows") < groups.index("thumbnails")
    assert groups.index("window.1.2") < groups.index("window.0.0") < groups.index("image.1.2")
