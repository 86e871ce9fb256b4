"""The notebook's interactive view: the same module as the report, shown by anywidget, arrays sent as binary buffers.

Beside the widget a notebook keeps a form without script, for whoever cannot run one: a notebook made into HTML without
the state of its widgets, a viewer on the web, a notebook that is opened without its kernel.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sightline.errors import UnsupportedError
from sightline.view.page import payload
from sightline.view.page.assets import script, style
from sightline.view.page.curves import Curve
from sightline.view.page.fragment import render_fragment

if TYPE_CHECKING:
    from sightline.analysis.internals import Inside
    from sightline.explanation import Explanation


def show(
    explanations: Sequence[Explanation],
    *,
    inside: Inside | None = None,
    title: str | None = None,
    curves: Sequence[Curve] = (),
    tables: Sequence[payload.Table] = (),
) -> Any:
    """Return a widget that a notebook draws: the page of `render_page`, with all that `inside` holds."""
    shown = payload.build(explanations, inside=inside, title=title, curves=curves, tables=tables)
    arrays = {name: array.tobytes() for name, array in shown.arrays.items()}
    return _widget_class()(static_form(explanations), payload=shown.json, arrays=arrays)


def static_form(explanations: Sequence[Explanation]) -> str:
    """Return the first explanation as HTML without script, and which others only the widget shows."""
    first, *others = explanations
    if not others:
        return render_fragment(first)
    named = ", ".join(f"{other.method} ({other.target.description()})" for other in others)
    return f"{render_fragment(first)}<p>{html.escape(f'The widget also shows: {named}.')}</p>"


@cache
def _widget_class() -> Any:
    """The widget's class, made when the first one is shown: anywidget is an optional extra."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise UnsupportedError(
            "Showing an explanation as a widget needs anywidget. Install it with: pip install 'sightline[notebook]'. "
            "Without it, a notebook shows an explanation that stands at the end of a cell, and to_html() writes a page."
        ) from None

    class ExplanationWidget(anywidget.AnyWidget):  # type: ignore[misc]
        """JSON and arrays of docs/guides/page-data.md, drawn by the view."""

        _esm = script()
        _css = style()
        payload = traitlets.Dict().tag(sync=True)
        arrays = traitlets.Dict().tag(sync=True)

        def __init__(self, static: str, **traits: Any) -> None:
            super().__init__(**traits)
            self._static = static

        def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
            """The widget for whoever can run it, the form without script for all others."""
            bundle = super()._repr_mimebundle_(**kwargs)
            if bundle is None:
                return None
            data, metadata = bundle
            return {**data, "text/html": self._static}, metadata

    return ExplanationWidget
