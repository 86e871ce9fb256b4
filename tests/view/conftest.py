"""A real browser for the pages: the system's Chromium, driven by Playwright, cut off from any network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browsing import settle, settle_before_readings
from tests.patience import PATIENCE

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def open_appearance(page: Any) -> None:
    """Open the settings that the tools of the text hide under "More"."""
    page.locator("details.appearance:not([open]) > summary").click()


def choose(page: Any, control: str, text: str) -> None:
    """Choose one of the alternatives of a control, a list that opens or a row of buttons, by what it is called."""
    alternatives = page.locator(f"[data-control={control}]")
    if alternatives.evaluate("one => one.tagName") == "SELECT":
        alternatives.select_option(label=text)
    else:
        alternatives.get_by_text(text, exact=True).click()
    settle(page)


def open_view(page: Any, title: str) -> None:
    """Go to a view by its tab."""
    page.locator("nav.tabs").get_by_role("button", name=title).click()
    settle(page)


def open_fold(page: Any, section: str) -> Any:
    """Open what stands behind a fold and return it."""
    fold = page.locator(f"details[data-section={section}]")
    if fold.get_attribute("open") is None:
        fold.locator("> summary").click()
    return fold


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for the whole session; tests that need it are skipped where there is none."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this system")
    playwright = pytest.importorskip("playwright.sync_api")
    with settle_before_readings(), playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


def allowed(address: str, path: Path) -> bool:
    """Only the page itself, whatever its state, and files that the page makes for the user to keep."""
    return address.split("#")[0] == path.as_uri() or address.startswith("blob:")


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return a function that opens HTML from a file, at an address `#…`; there may be no error and no request."""
    troubles: list[str] = []
    pages = []

    def opener(html: str, address: str = "", **options: Any) -> Any:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(**{"viewport": {"width": 1280, "height": 800}, **options})
        page.set_default_timeout(1000 * PATIENCE)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: allowed(request.url, path) or troubles.append(f"request: {request.url}"))
        page.goto(path.as_uri() + address)
        page.wait_for_selector("[data-ready]")
        pages.append(page)
        return page

    yield opener
    for page in pages:
        page.close()
    assert troubles == []
