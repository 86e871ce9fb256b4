"""A real browser for the pages: the system's Chromium, driven by Playwright, cut off from any network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for the whole session; tests that need it are skipped where there is none."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this system")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return a function that opens HTML from a file; afterwards no error and no request may have happened."""
    troubles: list[str] = []
    pages = []

    def opener(html: str, **options: Any) -> Any:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(**{"viewport": {"width": 1280, "height": 800}, **options})
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: request.url == path.as_uri() or troubles.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield opener
    for page in pages:
        page.close()
    assert troubles == []
