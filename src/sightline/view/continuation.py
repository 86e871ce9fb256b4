"""A generated text in sentences and as a page: the prompt, the generated words as buttons, and the words behind each.

The sentences are the same on the page, in a notebook and in a terminal. Scores are sums over words. The script of the
page only colours what the page holds; it loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.files.foreign import printable
from sightline.text.units import Units
from sightline.view import colours
from sightline.view.sections.shell import Shell, read_source, render_facts
from sightline.view.words.phrases import count, format_number, percent
from sightline.view.words.verdict import MARKS

if TYPE_CHECKING:
    from sightline.results.continuation import ContinuationExplanation, Origin

_LEVELS = "\n".join(
    f".{hue}{step}{{background:var(--{hue}-{step})}}"
    for hue in colours.FULL["light"]
    for step in range(1, colours.LEVELS + 1)
)
LISTED = 5
LONGEST_TITLE = 60
"""Characters of the continuation in the title."""
DIGITS = 4
"""Significant digits of the scores in a page."""
_SHELL = Shell(read_source("continuation.css") + _LEVELS, read_source("continuation.js"))
POLICY = _SHELL.policy
"""The content security policy of the page."""
_BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})
"""Visible symbols for words of white space, so that they can be clicked."""
HEADINGS: dict[Origin | None, str] = {
    "generated": "Generated",
    "given": "Given continuation, not written by the model",
    None: "Continuation",
}
_OPENINGS: dict[Origin | None, str] = {
    "generated": "Written by the model, always the likeliest next token",
    "given": HEADINGS["given"],
    None: HEADINGS[None],
}
_CONTRIBUTION = "the share that each word has in the contributions to the vector that predicts the token"
_ATTENTION = "the share of the attention that reaches each word from where the token is predicted"
_WEIGHTED = "the attention to each word, weighted by what speaks for the token"
_ACTIVATION = "how far each word's activations raise (below zero: lower) the {quantity} of the token, over all layers"
MEANINGS = {
    "norm_rollout": _CONTRIBUTION,
    "globenc": _CONTRIBUTION,
    "alti": _CONTRIBUTION,
    "raw_attention": _ATTENTION,
    "rollout": _ATTENTION,
    "flow": _ATTENTION,
    "received_attention": "the attention that each word receives from all words",
    "attgrads": _WEIGHTED,
    "attention_gradcam": _WEIGHTED,
    "partial_lrp": _WEIGHTED,
    "transatt": _WEIGHTED,
    "gradient": "the share that each word has in how sensitive the {quantity} of the token is",
    "cat": _ACTIVATION,
    "attcat": f"{_ACTIVATION}, weighted by attention",
    "grads": "how the {quantity} of the token changes with the attention to each word",
    "random": "random numbers, which say nothing about any word",
}
"""Meaning of a score, for methods whose scores are not contributions to the quantity."""


def render_continuation(continuations: Sequence[ContinuationExplanation], *, title: str | None = None) -> str:
    """Return the page of one generated text, explained by one or more methods, as one string of HTML."""
    first = continuations[0]
    words, rows, probabilities = first.units("word"), first.generated_units("word"), first.unit_probabilities("word")
    shown = dict(zip(rows, probabilities.tolist(), strict=True))
    name = title or _title(first)
    content = "".join(
        [
            f"<h1>{escape(name)}</h1>",
            f'<p class="quiet">{escape(describe_origin(first))} <span id="meaning"></span></p>',
            f'<p class="quiet">{escape(describe_check())}</p>',
            '<p><label>Method <select id="method"></select></label> ',
            '<button type="button" class="all" id="all" aria-pressed="true">All words of the continuation</button>',
            "</p>",
            '<p id="status" class="quiet" role="status"></p><div class="columns"><main>',
            '<h2>Prompt</h2><div class="text" id="prompt" dir="auto">',
            _text(first, words, shown, generated=False),
            f'</div><h2>{escape(HEADINGS[first.origin])}</h2><div class="text" id="continuation" dir="auto">',
            _text(first, words, shown, generated=True),
            '</div><p class="quiet">The small number behind a word is the probability that the model gives it.</p>',
            "</main>",
            '<aside><h2>Strongest words</h2><table id="list"><tbody></tbody></table>',
            '<h2>Colours</h2><p id="legend" class="legend"></p>',
            '<p class="quiet">The arrow keys go from one word of the continuation to the next.</p>',
            f"<h2>What produced this</h2>{render_facts(first.provenance)}</aside></div>",
        ]
    )
    data = {
        "words": list(words.texts),
        "generated": [
            {"unit": unit, "text": words.texts[unit], "probability": probability} for unit, probability in shown.items()
        ],
        "methods": [_method(continuation, words, rows) for continuation in continuations],
    }
    return _SHELL.render(name, content, {"data": data})


def render_fragment(continuation: ContinuationExplanation) -> str:
    """Return the generated words, each with its strongest earlier words, as a table without script for notebooks."""
    lines = [
        f"<tr><td>{escape(word)}</td><td>{escape(percent(float(probability)))}</td><td>"
        + ", ".join(f"{escape(text)} {format_number(score)}" for text, score in behind)
        + "</td></tr>"
        for (word, behind), probability in zip(continuation.top(LISTED), continuation.unit_probabilities(), strict=True)
    ]
    opening = f"{describe_origin(continuation)} {describe_scores(continuation)} {describe_check()}"
    head = "<tr><th>word</th><th>probability</th><th>strongest words before it</th></tr>"
    return f"<p>{escape(opening)}</p><table>{head}{''.join(lines)}</table>"


def _title(continuation: ContinuationExplanation) -> str:
    text = _shorten(continuation.text)
    if continuation.origin == "generated":
        return f"What “{text}” was written from"
    return f"The words behind the {'given ' if continuation.origin else ''}continuation “{text}”"


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_TITLE else f"{flat[:LONGEST_TITLE].rstrip()}…"


def _method(continuation: ContinuationExplanation, words: Units, rows: dict[int, tuple[int, ...]]) -> dict[str, Any]:
    folded = words.fold(continuation.matrix)
    return {
        "title": continuation.method,
        "signed": continuation.signed,
        "meaning": describe_scores(continuation),
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
    continuation: ContinuationExplanation, words: Units, probabilities: dict[int, float], *, generated: bool
) -> str:
    """Return the text of the prompt or of the continuation, every word an element with its number."""
    text, border = continuation.encoding.text, continuation.border
    pieces: list[str] = []
    end, stop = (border, len(text)) if generated else (0, border)
    for unit in range(len(words)):
        start, finish = int(words.starts[unit]), int(words.ends[unit])
        if (unit in probabilities) != generated or words.segments[unit] != 0 or not end <= start < stop:
            continue
        pieces.append(escape(text[end:start]))
        written = text[start:finish]
        if generated:
            likely = escape(percent(probabilities[unit]))
            pieces.append(
                f'<button type="button" aria-pressed="false" class="word" data-word="{unit}">'
                f"{escape(written if written.strip() else written.translate(_BLANKS))}</button><small>{likely}</small>"
            )
        else:
            pieces.append(f'<span class="word" data-word="{unit}">{escape(written)}</span>')
        end = finish
    pieces.append(escape(text[end:stop]))
    return "".join(pieces)


def describe_origin(continuation: ContinuationExplanation) -> str:
    """Return who wrote the continuation and how long it is, as one sentence."""
    return (
        f"{_OPENINGS[continuation.origin]}: {count(len(continuation), 'token')} after a prompt of "
        f"{continuation.prompt_length:,}."
    )


def describe_scores(continuation: ContinuationExplanation) -> str:
    """Return what the scores of the method are, as one sentence."""
    quantity = continuation.rows[0].target.quantity_name
    if continuation.method in MEANINGS:
        meaning = MEANINGS[continuation.method].format(quantity=quantity)
    elif continuation.signed:
        meaning = f"an estimate of what each word added to the {quantity} of the token (below zero: what it took away)"
    else:
        meaning = "how strongly each word counts, for or against the token"
    sign = "" if continuation.signed else ", without a sign"
    return f"Scores by {continuation.method}{sign}: for every token of the continuation, {meaning}."


def describe_check() -> str:
    """Return one sentence: a continuation has no verdict."""
    mark, words = MARKS["unchecked"]
    return f"{mark} {words}: nothing was tested on the model, so there is no verdict; model.check() tests one of .rows."


def describe_continuation(continuation: ContinuationExplanation, top: int) -> str:
    """Return lines of text: a few sentences, then one line per word: its probability and `top` earlier words."""
    words = [(printable(word), behind) for word, behind in continuation.top(top)]
    width = min(24, max((len(word) for word, _ in words), default=0))
    lines = [describe_origin(continuation), describe_scores(continuation), describe_check()]
    if words:
        lines.append("Each word of the continuation, its probability, and the earlier words that count most:")
    else:
        lines.append("The continuation has special tokens only, which belong to no word.")
    for (word, behind), probability in zip(words, continuation.unit_probabilities(), strict=True):
        listed = ", ".join(f"{printable(text)} {format_number(score)}" for text, score in behind)
        lines.append(f"  {word:<{width}}  {percent(float(probability)):>8}  {listed or '–'}")
    return "\n".join(lines) + "\n"
