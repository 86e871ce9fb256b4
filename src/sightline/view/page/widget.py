"""The notebook's interactive view: the same module as the report page, shown by anywidget, arrays as binary buffers.

Beside the widget a notebook keeps HTML without script, for places where no widget can run: a notebook converted to HTML
without widget state, a viewer on the web, a notebook opened without its kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from sightline.errors import SightlineError
from sightline.settings.extras import require
from sightline.view.page import payload
from sightline.view.page.assets import script, style
from sightline.view.page.fragment import render_static

if TYPE_CHECKING:
    from sightline.results.report import Report


Predict = Callable[[str, "str | None"], Any]
"""Returns the `Prediction` for an edited text and its pair."""


def show(report: Report, *, title: str | None = None, predict: Predict | None = None) -> Any:
    """Return a widget that draws the page of a report in a notebook, with everything `inside` holds.

    With `predict` the reader can edit the text in the page and see the new prediction beside the old one.
    """
    shown = payload.build(report, title=title)
    arrays = {name: array.tobytes() for name, array in shown.arrays.items()}
    shown_json = shown.json if predict is None else {**shown.json, "live": {"predict": True}}
    return _widget_class()(render_static(report), predict, payload=shown_json, arrays=arrays)


@cache
def _widget_class() -> Any:
    """Return the widget's class, made on first use because anywidget is an optional extra."""
    require("anywidget", "notebook", "Showing a report as a widget", instead="or write a page with to_html()")
    import anywidget
    import traitlets

    class ExplanationWidget(anywidget.AnyWidget):  # type: ignore[misc]
        """JSON and arrays of docs/guides/page-data.md, drawn by the view."""

        _esm = script()
        _css = style()
        payload = traitlets.Dict().tag(sync=True)
        arrays = traitlets.Dict().tag(sync=True)

        def __init__(self, static: str, predict: Predict | None, **traits: Any) -> None:
            super().__init__(**traits)
            self._static = static
            self._predict = predict
            if predict is not None:
                self.on_msg(self._answer)

        def _answer(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
            """Send the prediction for the text of a message, or the sentence that says why there is none."""
            if self._predict is None or content.get("about") != "predict":
                return
            try:
                prediction = self._predict(str(content["text"]), content.get("pair"))
                classes = zip(prediction.labels, prediction.probabilities.tolist(), strict=True)
                answer: dict[str, Any] = {
                    "label": prediction.label,
                    "probability": prediction.probability,
                    "classes": [{"label": label, "probability": share} for label, share in classes],
                }
            except SightlineError as error:
                answer = {"error": str(error)}
            self.send({"id": content.get("id"), **answer})

        def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
            """Return the widget, with the static HTML for places that cannot run it."""
            bundle = super()._repr_mimebundle_(**kwargs)
            if bundle is None:
                return None
            data, metadata = bundle
            return {**data, "text/html": self._static}, metadata

    return ExplanationWidget
