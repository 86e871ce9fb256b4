"""The static view for notebooks: HTML without script, every string escaped, colours that suit light and dark."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from sightline.results.artefacts import REASONS
from sightline.text.units import units_of
from sightline.view import colours
from sightline.view.coloured_text import text_pieces
from sightline.view.words.headline import headline
from sightline.view.words.lists import list_words
from sightline.view.words.sentences import MARKS, describe_verdict, further_sentences, notices, number
from sightline.view.words.shares import SHARES_NOTE, format_share

if TYPE_CHECKING:
    from sightline.results.explanation import Explanation
    from sightline.results.report import Report

LISTED = 8
ARTEFACT_MARK = ";text-decoration:underline dotted"


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
    text = describe_verdict(explanation.verdict)
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
    """Return each segment with tinted words; tints are half transparent, so that they suit any background."""
    units = units_of(explanation.encoding, "word").drawable(explanation.encoding)
    scores = units.fold(explanation.scores).tolist()
    levels = colours.levels(scores)
    flagged = explanation.artefact_tokens
    blocks = []
    for segment, text in enumerate(explanation.encoding.segment_texts):
        pieces = []
        for piece, place in text_pieces(text, segment, units):
            word = html.escape(piece)
            if place is not None and levels[place]:
                reason = next((flagged[position] for position in units.tokens[place] if position in flagged), None)
                mark, note = ("", "") if reason is None else (ARTEFACT_MARK, f": {REASONS[reason]}")
                style = f"background:{_tint(explanation, int(levels[place]))}{mark}"
                word = f'<span style="{style}" title="{number(scores[place])}{note}">{word}</span>'
            pieces.append(word)
        blocks.append(f'<div dir="auto">{"".join(pieces)}</div>')
    return "<hr>".join(blocks)


def _tint(explanation: Explanation, level: int) -> str:
    hue: colours.Hue = "plain" if not explanation.signed else "for" if level > 0 else "against"
    red, green, blue = (int(colours.FULL["light"][hue][i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{0.75 * abs(level) / colours.LEVELS:.2f})"
