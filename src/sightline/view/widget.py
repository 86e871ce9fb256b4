"""The notebook's interactive view: the same module as the report, shown by anywidget, arrays sent as binary buffers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sightline.errors import UnsupportedError
from sightline.view import payload
from sightline.view.assets import script, style
from sightline.view.curves import Curve

if TYPE_CHECKING:
    from sightline.analysis.inside import Inside
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
    return _widget_class()(payload=shown.json, arrays={name: array.tobytes() for name, array in shown.arrays.items()})


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

    return ExplanationWidget
