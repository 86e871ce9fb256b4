"""Wait in browser tests: every reading waits until the page has drawn what follows from the actions before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from tests.patience import PATIENCE

SETTLED = f"""new Promise((done, fail) => {{
    const end = performance.now() + {1000 * PATIENCE};
    const isBusy = () => document.querySelector('[aria-busy=true]') !== null;
    const wait = (frames) => requestAnimationFrame(() => setTimeout(() => {{
        if (performance.now() > end) fail(new Error('the page is still busy'));
        else if (isBusy()) wait(2);
        else if (frames) wait(frames - 1);
        else done();
    }}, 0));
    wait(2);
}})"""

LOCATOR_READINGS = (
    *("all", "all_inner_texts", "all_text_contents", "bounding_box", "count", "evaluate", "evaluate_all"),
    *("get_attribute", "inner_html", "inner_text", "input_value", "is_hidden", "is_visible", "text_content"),
)


def settle(page: Any) -> None:
    """Wait until the page shows what follows from the last action.

    Effects run a frame after the change that they belong to, and may change something else; data that a view needs
    arrives later still, and the page is marked as busy until it has.
    """
    page.evaluate(SETTLED)


@contextmanager
def settle_before_readings() -> Iterator[None]:
    """Let every reading of a Playwright page or locator settle the page first, however busy the machine is."""
    from playwright.sync_api import Locator, Page

    evaluate = Page.evaluate

    def settled(read: Callable[..., Any], page_of: Callable[[Any], Any]) -> Callable[..., Any]:
        @wraps(read)
        def settle_and_read(self: Any, *arguments: Any, **options: Any) -> Any:
            evaluate(page_of(self), SETTLED)
            return read(self, *arguments, **options)

        return settle_and_read

    with pytest.MonkeyPatch.context() as patch:
        for name in LOCATOR_READINGS:
            patch.setattr(Locator, name, settled(getattr(Locator, name), lambda locator: locator.page))
        patch.setattr(Page, "evaluate", settled(evaluate, lambda page: page))
        yield


def wait_until(page: Any, expression: str) -> None:
    """Return when `expression` is true in the page; fail with the expression when it never is.

    `page.wait_for_function` evaluates text in the page, which the policy of our pages forbids.
    """
    end = time.monotonic() + PATIENCE
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true in the page: {expression}"
        page.wait_for_timeout(20)
