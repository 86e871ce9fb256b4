"""The text itself as a figure: words on the colour of their scores, for papers and slides.

A long document is not shrunk until it is unreadable: its strongest lines are shown, each with the lines around it, as
many as fit a page, and the caption says how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.text.units import units_of
from sightline.view import colours
from sightline.view.plots.style import (
    INK,
    QUIET,
    font_families,
    in_house_style,
    measured_label,
    new_figure,
    to_label,
    wrap_caption,
)
from sightline.view.words.phrases import percent
from sightline.view.words.sentences import notices, number
from sightline.view.words.verdict import MARKS, describe_verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sightline.results.explanation import Explanation
    from sightline.results.report import Report

WIDTH = 7.5
LINES = 40
"""Lines of text in a figure, whatever the number of explanations: it fits a page."""
FONT_SIZE = 9.5
LINE_HEIGHT = 0.205
"""Inches from one line to the next."""
CAPTION_LINE_HEIGHT = 0.14
ABOVE = 0.4
"""Inches for the title."""
HEADING = 0.3
"""Inches for the heading of one of several texts."""
FINENESS = 10
"""Dots per point when widths are measured."""


class Piece(NamedTuple):
    """Characters on one line: where they start, in points from the left edge, and their level of colour."""

    line: int
    left: float
    width: float
    text: str
    level: int
    score: float
    artefact: bool = False
    """Whether the score belongs to the position, not to the word."""


@in_house_style
def text_overlay(
    explanation: Explanation,
    *,
    true_label: str | None = None,
    total: bool = False,
    lines: int = LINES,
    title: str = "",
    caption: str = "",
) -> Figure:
    """Draw words coloured as on the page: blue for, orange against, violet where the method has no sign.

    true_label: named in the caption, beside the prediction. total: write the sum of all scores there.
    """
    parts = [
        prediction_caption(explanation, true_label) if true_label is not None or total else "",
        total_caption(explanation) if total else "",
        caption,
    ]
    title = title or f"{explanation.method} on the text"
    return _draw_overlays({"": explanation}, lines, title, " ".join(filter(None, parts)))


@in_house_style
def text_overlays(
    explanations: Mapping[str, Explanation],
    *,
    true_label: str | None = None,
    lines: int = LINES,
    title: str = "",
    caption: str = "",
) -> Figure:
    """Draw the same text once per explanation, one below the other, each with its name and its total score.

    All show the same lines: of a long document those where the first explanation is strongest.
    """
    first = next(iter(explanations.values()))
    headed = {f"{name}: {total_caption(explanation)}": explanation for name, explanation in explanations.items()}
    full_caption = " ".join(filter(None, (prediction_caption(first, true_label), total_key(first), caption)))
    return _draw_overlays(headed, lines, title or f"{len(explanations)} methods on one text", full_caption)


@in_house_style
def report_overlay(report: Report, *, true_label: str | None = None, lines: int = LINES) -> Figure:
    """Draw the text once per explanation of a report, under its method, class, verdict and total score.

    The caption is the report's headline with what else a reader must know first, so that the figure says by itself what
    was predicted and how far to trust it. true_label: named in the title, beside the prediction.
    """
    headed = {}
    for method, label, explanation in report.entries():
        of_class = "" if label is None else f", “{label}”"
        verdict, total = MARKS[explanation.verdict.level][1], total_caption(explanation)
        headed[f"{report.titles[method]}{of_class}: {verdict}. {total}"] = explanation
    warnings = {heading: describe_verdict(explanation).warning for heading, explanation in headed.items()}
    named = [f"{heading.partition(':')[0]}: {warning}" for heading, warning in warnings.items() if warning is not None]
    caption = [report.headline, *notices(report.first), *named, colour_key(list(report)), total_key(report.first)]
    title = prediction_caption(report.first, true_label).removesuffix(".")
    return _draw_overlays(headed, lines, title, " ".join(filter(None, caption)))


def colour_key(explanations: Sequence[Explanation]) -> str:
    """Return a sentence on what the colours mean."""
    signed = "Blue counts for the class, orange against it." if any(e.signed for e in explanations) else ""
    plain = "Violet: the method has no sign." if not all(e.signed for e in explanations) else ""
    # Special tokens are artefacts as well, but they are not drawn.
    marked = any(artefact.reason != "special" for e in explanations for artefact in e.artefacts)
    dotted = "Dotted: the score belongs to the position, not to the word." if marked else ""
    return " ".join(filter(None, (signed, plain, dotted)))


def total_key(explanation: Explanation) -> str:
    """Return a sentence on what total scores include that is not drawn."""
    return "Totals include special tokens, which are not drawn." if explanation.encoding.special.any() else ""


def prediction_caption(explanation: Explanation, true_label: str | None = None) -> str:
    """Return a sentence on what was predicted and, if it is known, what is true."""
    predicted = explanation.prediction
    truth = "" if true_label is None else f", true label “{true_label}”"
    explained = explanation.target.name
    target = "" if explained == predicted.label else f", explained “{explained}”"
    return f"Predicted “{predicted.label}” ({percent(predicted.probability)}){truth}{target}."


def total_caption(explanation: Explanation) -> str:
    """Return the sum of the scores of all tokens, special tokens included, as a sentence."""
    total = float(explanation.scores.sum())
    written = number(total) if abs(total) < 1000 else f"{total:+,.0f}".replace("-", "−")
    return f"Total score {written if explanation.signed else written.removeprefix('+')}."


def _draw_overlays(explanations: Mapping[str, Explanation], lines: int, title: str, caption: str) -> Figure:
    """Draw the text of every explanation below its heading; an empty heading takes no room."""
    laid = {heading: laid_out(explanation, WIDTH * 72 - 24) for heading, explanation in explanations.items()}
    pieces = next(iter(laid.values()))
    total = 1 + max((piece.line for piece in pieces), default=0)
    rows = strongest_lines(pieces, total, max(3, lines // len(laid)))
    if total > len(rows):
        shown = f"Shown are {sum(row is not None for row in rows):,} of {total:,} lines: those with the strongest "
        caption = f"{caption} {shown}colours, and the lines around them.".strip()
    below = 0.12 + (CAPTION_LINE_HEIGHT * (1 + wrap_caption(caption, WIDTH).count("\n")) if caption else 0.0)
    text_height = LINE_HEIGHT * len(rows)
    heights = [text_height + (HEADING if heading else 0.0) for heading in laid]
    height = below + sum(heights) + ABOVE
    figure = new_figure(WIDTH, height, title, caption)
    # Placed by hand: one unit must be exactly one line, whatever else the figure holds.
    figure.set_layout_engine("none")
    top = height - ABOVE
    for (heading, placed), block in zip(laid.items(), heights, strict=True):
        top -= block
        axes = figure.add_axes((0.0, top / height, 1.0, text_height / height))
        axes.set_axis_off()
        axes.set_xlim(-0.01 * 72 * WIDTH, 0.99 * 72 * WIDTH)
        axes.set_ylim(len(rows), 0)
        if heading:
            axes.text(0, -0.35, to_label(heading), fontsize=8.5, color=QUIET, va="baseline")
        _draw_lines(axes, placed, explanations[heading].signed, rows)
    _draw_scale(figure, any(explanation.signed for explanation in explanations.values()), height)
    return figure


def _draw_scale(figure: Figure, signed: bool, height: float) -> None:
    """Draw the scale of colours in the upper right corner."""
    from matplotlib.patches import Rectangle

    scale = [*reversed(colours.steps("against")), *colours.steps("for")] if signed else [*colours.steps("plain")]
    axes = figure.add_axes((0.62, 1 - 0.3 / height, 0.36, 0.22 / height))
    axes.set_axis_off()
    axes.set_xlim(-len(scale) / 2, 1.5 * len(scale))
    axes.set_ylim(0, 1)
    for place, colour in enumerate(scale):
        axes.add_patch(Rectangle((place, 0.15), 1, 0.7, facecolor=colour, edgecolor="none"))
    low, high = ("against", "for") if signed else ("little", "much")
    axes.text(-0.4, 0.5, low, fontsize=8, color=QUIET, ha="right", va="center_baseline")
    axes.text(len(scale) + 0.4, 0.5, high, fontsize=8, color=QUIET, ha="left", va="center_baseline")


def _draw_lines(axes: Axes, pieces: list[Piece], signed: bool, rows: Sequence[int | None]) -> None:
    from matplotlib.patches import Rectangle

    ramps = {hue: colours.steps(hue) for hue in ("for", "against", "plain")}
    for top in (place for place, line in enumerate(rows) if line is None):
        axes.text(0, top + 0.7, "[…]", fontsize=FONT_SIZE, color=QUIET, va="baseline")
    places = {line: place for place, line in enumerate(rows) if line is not None}
    for piece in pieces:
        if piece.line not in places:
            continue
        top = places[piece.line]
        if piece.level:
            hue = "plain" if not signed else "for" if piece.level > 0 else "against"
            colour = ramps[hue][abs(piece.level) - 1]
            axes.add_patch(Rectangle((piece.left, top), piece.width, 0.92, facecolor=colour, edgecolor="none"))
        if piece.artefact:
            axes.plot([piece.left, piece.left + piece.width], [top + 0.92] * 2, color=INK, linestyle=":", linewidth=1)
        ink = INK if piece.score or piece.level else QUIET
        axes.text(piece.left, top + 0.7, to_label(piece.text), fontsize=FONT_SIZE, color=ink, va="baseline")


def laid_out(explanation: Explanation, width: float) -> list[Piece]:
    """Set the words of the document line by line within `width` points; line breaks of the text are kept."""
    units = units_of(explanation.encoding, "word").drawable(explanation.encoding)
    scores = units.fold(explanation.scores).tolist()
    levels = colours.levels(scores)
    artefacts = explanation.artefact_tokens.keys()
    texts = explanation.encoding.segment_texts
    pieces: list[Piece] = []
    line, left, at, segment = 0, 0.0, 0, 0
    space = _text_width(" ")
    for unit, score, level in zip(units, scores, levels, strict=True):
        if unit.segment != segment:
            segment, at, line, left = unit.segment, 0, line + 2, 0.0
        between = texts[segment][at : unit.start]
        breaks = between.count("\n")
        word = texts[segment][unit.start : unit.end]
        length = _text_width(word)
        if breaks and pieces:
            line, left = line + min(breaks, 2), 0.0
        elif between and left:
            left += space
        if left and left + length > width:
            line, left = line + 1, 0.0
        pieces.append(Piece(line, left, length, word, int(level), score, not artefacts.isdisjoint(unit.tokens)))
        left, at = left + length, unit.end
    return pieces


def strongest_lines(pieces: list[Piece], total: int, room: int) -> list[int | None]:
    """Return at most `room` rows: the lines with the largest sums of colour levels, their neighbours, None for gaps."""
    if total <= room:
        return list(range(total))
    strength = np.zeros(total)
    np.add.at(strength, [piece.line for piece in pieces], [abs(piece.level) for piece in pieces])
    shown: set[int] = set()
    for line in np.argsort(-strength, kind="stable").tolist():
        wanted = shown | set(range(max(0, line - 1), min(total, line + 2)))
        if len(_with_gaps(wanted, total)) <= room:
            shown = wanted
    return _with_gaps(shown, total)


def _with_gaps(lines: Iterable[int], total: int) -> list[int | None]:
    """Return lines in order, with None wherever lines between them are left out, also before and after them."""
    rows: list[int | None] = []
    for line in sorted(lines):
        before = -1 if not rows else rows[-1]
        if before is not None and line > before + 1:
            rows.append(None)
        rows.append(line)
    last = rows[-1] if rows else None
    return [*rows, None] if last is not None and last < total - 1 else rows


@cache
def _text_width(text: str) -> float:
    """Width in points of a text in the figure's font, measured large because dots are whole."""
    from matplotlib.font_manager import FontProperties

    visible = measured_label(text)
    font = FontProperties(family=font_families(visible), size=FONT_SIZE)
    width, _, _ = _renderer().get_text_width_height_descent(visible, font, ismath=False)
    return float(width) / FINENESS


@cache
def _renderer() -> Any:
    """Return a renderer that measures texts; matplotlib does not type it."""
    from matplotlib.backends import backend_agg

    agg: Any = backend_agg
    return agg.RendererAgg(8, 8, 72 * FINENESS)
