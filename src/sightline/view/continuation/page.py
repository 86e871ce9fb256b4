"""One self-contained page for a generated text: the prompt, the generated words as buttons, and the words behind each.

Scores are sums over words. The page embeds everything it shows and loads nothing: texts are escaped, numbers travel in
a JSON block, and the content security policy allows exactly our style and script, by hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.text.units import Units, units_of
from sightline.view import colours
from sightline.view.continuation.assets import SCRIPT, STYLE
from sightline.view.inspect.page import GENERATOR
from sightline.view.page.html import embed_json, hash_source
from sightline.view.words.numbers import count, format_number

if TYPE_CHECKING:
    from sightline.continuation import ContinuationExplanation

LISTED = 5
DIGITS = 4
"""Significant digits of the scores in a page."""


def render_continuation(continuations: Sequence[ContinuationExplanation], *, title: str | None = None) -> str:
    """Return the page of one generated text, explained by one or more methods, as one string of HTML."""
    first = continuations[0]
    words = units_of(first.encoding, "word").drawable(first.encoding)
    rows = _generated_words(first, words)
    name = title or f"What “{_shorten(first.text)}” was written from"
    policy = (
        f"default-src 'none'; style-src {hash_source(STYLE)}; script-src {hash_source(SCRIPT)}; "
        "base-uri 'none'; form-action 'none'"
    )
    content = "".join(
        [
            f"<h1>{escape(name)}</h1>",
            f'<p class="quiet">{escape(_opening(first))}</p>',
            '<p><label>Method <select id="method"></select></label> ',
            '<button type="button" class="all" id="all" aria-pressed="true">All generated words</button></p>',
            '<p id="status" class="quiet" role="status"></p><div class="columns"><main>',
            '<h2>Prompt</h2><div class="text" id="prompt" dir="auto">',
            _text(first, words, rows, generated=False),
            '</div><h2>Generated</h2><div class="text" dir="auto">',
            _text(first, words, rows, generated=True),
            "</div></main>",
            '<aside><h2>Strongest words</h2><table id="list"><tbody></tbody></table>',
            '<h2>Colours</h2><p id="legend" class="legend"></p>',
            '<p class="quiet">The arrow keys go from one generated word to the next.</p>',
            "<h2>What produced this</h2><dl>",
            *(f"<dt>{escape(str(key))}</dt><dd>{escape(str(value))}</dd>" for key, value in first.provenance.items()),
            "</dl></aside></div>",
        ]
    )
    data = embed_json(
        {
            "words": list(words.texts),
            "generated": [
                {
                    "unit": unit,
                    "text": words.texts[unit],
                    "probability": float(np.prod(first.probabilities[list(tokens)])),
                }
                for unit, tokens in rows.items()
            ],
            "methods": [_method(continuation, words, rows) for continuation in continuations],
        }
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{escape(policy, quote=True)}"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"{GENERATOR}<title>{escape(name)} · Sightline</title><style>{STYLE}</style></head><body>{content}"
        f'<script type="application/json" id="data">{data}</script><script>{SCRIPT}</script></body></html>\n'
    )


def render_fragment(continuation: ContinuationExplanation) -> str:
    """Return the generated words with the strongest words behind each as a table without script, for notebooks."""
    lines = [
        f"<tr><td>{escape(word)}</td><td>"
        + ", ".join(f"{escape(text)} {format_number(score)}" for text, score in behind)
        + "</td></tr>"
        for word, behind in continuation.top(LISTED)
    ]
    head = "<tr><th>generated</th><th>strongest words before it</th></tr>"
    return f"<p>{escape(_opening(continuation))}</p><table>{head}{''.join(lines)}</table>"


def _opening(continuation: ContinuationExplanation) -> str:
    return (
        f"{count(len(continuation), 'generated token')} after a prompt of {continuation.prompt_length}: what each word "
        f"added to the {continuation.rows[0].target.quantity.replace('_', ' ')} of every generated token."
    )


def _shorten(text: str, characters: int = 60) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= characters else f"{flat[:characters].rstrip()}…"


def _generated_words(continuation: ContinuationExplanation, words: Units) -> dict[int, tuple[int, ...]]:
    """Return the rows of the matrix that belong to each generated word, by the word's number."""
    start = continuation.prompt_length
    return {
        number: tuple(int(position) - start for position in positions)
        for number, positions in enumerate(words.tokens)
        if positions[0] >= start
    }


def _method(continuation: ContinuationExplanation, words: Units, rows: dict[int, tuple[int, ...]]) -> dict[str, Any]:
    folded = words.fold(continuation.matrix)
    return {
        "title": continuation.method,
        "signed": continuation.signed,
        "rows": [_scores(folded[list(tokens)].sum(axis=0)) for tokens in rows.values()],
        "total": _scores(folded.sum(axis=0)),
    }


def _scores(sums: NDArray[np.float64]) -> dict[str, list[Any]]:
    values = np.nan_to_num(sums)  # sums of finite scores may overflow
    return {
        "levels": colours.levels(values).tolist(),
        "scores": [float(f"{value:.{DIGITS}g}") for value in values.tolist()],
    }


def _text(
    continuation: ContinuationExplanation, words: Units, rows: dict[int, tuple[int, ...]], *, generated: bool
) -> str:
    """Return the text of the prompt or of what follows it, every word an element with its number."""
    text = continuation.encoding.text
    border = min((int(words.starts[unit]) for unit in rows), default=len(text))
    pieces: list[str] = []
    end, stop = (border, len(text)) if generated else (0, border)
    for unit in range(len(words)):
        start, finish = int(words.starts[unit]), int(words.ends[unit])
        if start < end or start >= stop:
            continue
        pieces.append(escape(text[end:start]))
        tag = "button" if unit in rows else "span"
        button = ' type="button" aria-pressed="false"' if unit in rows else ""
        pieces.append(f'<{tag}{button} class="word" data-word="{unit}">{escape(text[start:finish])}</{tag}>')
        end = finish
    pieces.append(escape(text[end:stop]))
    return "".join(pieces)
