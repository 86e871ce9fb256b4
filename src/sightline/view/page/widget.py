"""The notebook's interactive view: the same module as the report page, shown by anywidget, arrays as binary buffers.

Beside the widget a notebook keeps HTML without script, for places where no widget can run: a notebook converted to HTML
without widget state, a viewer on the web, a notebook opened without its kernel.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sightline.errors import UnsupportedError
from sightline.view.page import payload
from sightline.view.page.assets import script, style
from sightline.view.page.fragment import render_static

if TYPE_CHECKING:
    from sightline.report import Report


def show(report: Report, *, title: str | None = None) -> Any:
    """Return a widget that draws the page of a report in a notebook, with everything `inside` holds."""
    shown = payload.build(report, title=title)
    arrays = {name: array.tobytes() for name, array in shown.arrays.items()}
    return _widget_class()(render_static(report), payload=shown.json, arrays=arrays)


@cache
def _widget_class() -> Any:
    """Return the widget's class, made on first use because anywidget is an optional extra."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise UnsupportedError(
            "Showing a report as a widget needs anywidget. Install it with: pip install 'sightline[notebook]'. "
            "Without it, an explanation at the end of a cell is shown as text, and to_html() writes a page."
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
            """Return the widget, with the static HTML for places that cannot run it."""
            bundle = super()._repr_mimebundle_(**kwargs)
            if bundle is None:
                return None
            data, metadata = bundle
            return {**data, "text/html": self._static}, metadata

    return ExplanationWidget
