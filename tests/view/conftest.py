"""A real browser for the pages: the system's Chromium, driven by Playwright, cut off from any network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browsing import settle_before_readings
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
    """Open the settings that the panel hides under "Appearance"."""
    page.locator("details.appearance:not([open]) > summary").click()


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
