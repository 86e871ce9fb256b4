"""Pages, payloads and widgets of a list of explanations, for tests of everything that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.results.explanation import Explanation
from sightline.results.inside import Inside
from sightline.results.report import Report
from sightline.view.page import payload


def render_page(explanations: Sequence[Explanation], *, inside: Inside | None = None, title: str | None = None) -> str:
    """Return the page as HTML."""
    return Report.of(explanations, inside=inside).to_html(title=title)


def build(
    explanations: Sequence[Explanation], *, inside: Inside | None = None, title: str | None = None
) -> payload.Payload:
    """Return what the page is given."""
    return payload.build(Report.of(explanations, inside=inside), title=title)


def show(explanations: Sequence[Explanation], *, inside: Inside | None = None, title: str | None = None) -> Any:
    """Return the notebook widget."""
    return Report.of(explanations, inside=inside).show(title=title)
