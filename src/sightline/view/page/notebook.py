"""The views for notebooks: HTML without script, and the module of the report page shown by anywidget.

In the HTML every string is escaped, and colours suit light and dark. The widget gets its arrays as binary buffers;
beside it a notebook keeps the HTML, for places where no widget can run: a notebook converted to HTML without widget
state, a viewer on the web, a notebook opened without its kernel.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from sightline.errors import SightlineError
from sightline.results.check import REASONS
from sightline.settings.extras import require
from sightline.text.units import units_of
from sightline.view import colours
from sightline.view.colours import text_pieces
from sightline.view.page import payload
from sightline.view.page.html import script, style
from sightline.view.words.headline import headline, list_words
from sightline.view.words.phrases import SHARES_NOTE, format_share
from sightline.view.words.sentences import further_sentences, notices, number
from sightline.view.words.verdict import MARKS, describe_verdict

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation
    from sightline.results.report import Report

LISTED = 8
MOST_WORDS = 600
"""Words of the text that are shown; of a longer document those around the strongest."""
AROUND = 20
ARTEFACT_MARK = ";text-decoration:underline dotted"
Predict = Callable[[str, "str | None"], Any]
"""Returns the `Prediction` for an edited text and its pair."""


def render_static(report: Report) -> str:
    """Return the first explanation as HTML without script, and the names of those that only the page shows."""
    first, *others = report
    if not others:
        return render_fragment(first)
    names = ", ".join(f"{other.method} ({other.target.description()})" for other in others)
    return f"{render_fragment(first)}<p>{html.escape(f'The widget also shows: {names}.')}</p>"


def render_fragment(explanation: Explanation) -> str:
    """Return prediction, verdict, top words, coloured text and further checks as HTML for any place in a page."""
    sentence, method = headline(explanation), f"{explanation.method}, {explanation.target.description()}."
    checks = further_sentences(explanation)
    parts = [
        '<div style="max-width:48rem;line-height:1.7">',
        f'<p style="margin:.3em 0"><b>{html.escape(sentence)}</b> {html.escape(method)}</p>',
        _verdict(explanation),
        *(f'<p style="margin:.3em 0"><b>{html.escape(notice)}</b></p>' for notice in notices(explanation)),
        *_top_words(explanation),
        f'<div style="max-height:32rem;overflow:auto;white-space:pre-wrap">{_coloured_text(explanation)}</div>',
        f'<p style="margin:.3em 0;opacity:.75">{html.escape(" ".join(checks))}</p>',
        "</div>",
    ]
    return "".join(parts)


def _verdict(explanation: Explanation) -> str:
    """Return how far to trust it: the mark first, then the reasons."""
    text = describe_verdict(explanation)
    shape, words = MARKS[text.level]
    reasons = html.escape(" ".join(text.all_sentences))
    if text.warning is not None:
        reasons += f" <b>{html.escape(text.warning)}</b>"
    return f'<p style="margin:.3em 0"><b>{shape} {words}.</b> {reasons}</p>'


def _top_words(explanation: Explanation) -> list[str]:
    titles = {"for": "For", "against": "Against", "any": "Strongest"}
    lists = list_words(explanation, LISTED)
    lines = []
    for sign, words in lists.sides:
        if words:
            shares = [(html.escape(word.text), format_share(explanation, word.score, lists.total)) for word in words]
            listed = ", ".join(f"{word} {share}" for word, share in shares)
            lines.append(f'<p style="margin:.3em 0">{titles[sign]}: {listed}</p>')
    notes = " ".join([*([lists.note] if lists.note else []), SHARES_NOTE])
    lines.append(f'<p style="margin:.3em 0;opacity:.75">{html.escape(notes)}</p>')
    return lines


def _coloured_text(explanation: Explanation) -> str:
    """Return each segment with tinted words; tints are half transparent, so that they suit any background.

    Of a long document only the words around the strongest ones.
    """
    units = units_of(explanation.encoding, "word").drawable(explanation.encoding)
    scores = units.fold(explanation.scores).tolist()
    levels = colours.levels(scores)
    flagged = explanation.artefact_tokens
    shown = _shown_words(scores)
    blocks = []
    for segment, text in enumerate(explanation.encoding.segment_texts):
        pieces: list[str] = []
        is_shown = True
        for piece, place in text_pieces(text, segment, units):
            if place is not None and is_shown != (place in shown):
                is_shown = not is_shown
                pieces += [] if is_shown else [" […] "]
            if not is_shown:
                continue
            word = html.escape(piece)
            if place is not None and levels[place]:
                reason = next((flagged[position] for position in units.tokens[place] if position in flagged), None)
                mark, note = ("", "") if reason is None else (ARTEFACT_MARK, f": {REASONS[reason]}")
                style = f"background:{_tint(explanation, int(levels[place]))}{mark}"
                word = f'<span style="{style}" title="{number(scores[place])}{note}">{word}</span>'
            pieces.append(word)
        blocks.append(f'<div dir="auto">{"".join(pieces)}</div>')
    return "<hr>".join(blocks)


def _shown_words(scores: list[float]) -> set[int]:
    """Return the numbers of the words that are shown: all, or those around the strongest."""
    if len(scores) <= MOST_WORDS:
        return set(range(len(scores)))
    shown: set[int] = set()
    for strongest in sorted(range(len(scores)), key=lambda place: -abs(scores[place])):
        around = shown | set(range(max(0, strongest - AROUND), min(len(scores), strongest + AROUND + 1)))
        if len(around) > MOST_WORDS or (shown and not scores[strongest]):
            break
        shown = around
    return shown


def _tint(explanation: Explanation, level: int) -> str:
    hue: colours.Hue = "plain" if not explanation.signed else "for" if level > 0 else "against"
    red, green, blue = (int(colours.FULL["light"][hue][i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{0.75 * abs(level) / colours.LEVELS:.2f})"


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
