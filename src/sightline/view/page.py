"""One self-contained page for one document: the text overlaid with scores, top words, prediction, checks.

Safety: everything from a document or a model travels as JSON inside a data block in which `<`, `>` and `&` are
written as escapes, and enters the page as text nodes. The content security policy allows exactly our style and our
script, by hash, and no connection of any kind.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import accumulate
from string import Template
from typing import TYPE_CHECKING, Any

from sightline.errors import UsageError
from sightline.view import colours
from sightline.view.fragment import render_fragment
from sightline.view.sentences import check_sentences, notices
from sightline.view.units import DisplayUnit, display_units, segment_texts

if TYPE_CHECKING:
    from sightline.explanation import Explanation

__all__ = ["render_fragment", "render_page"]

SHOWN_CLASSES = 6
LONGEST_TITLE = 70

# Characters that could end the data block or confuse an older parser; lone surrogates cannot be written as UTF-8.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def render_page(explanations: Sequence[Explanation], *, title: str | None = None) -> str:
    """Return the page as one string of HTML; several explanations must be of the same document and get a switch."""
    if not explanations:
        raise UsageError("A page needs at least one explanation.")
    first = explanations[0]
    if any(not same_document(first, other) for other in explanations[1:]):
        raise UsageError("A page shows one document: the explanations given are of different texts.")
    title = title or _title(first)
    style, script = _style(), _static("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    return Template(_static("page.html")).substitute(
        csp=html.escape(policy, quote=False),
        title=html.escape(f"{title} · Sightline"),
        style=style,
        data=embedded_json(page_data(explanations, title)),
        script=script,
    )


def same_document(first: Explanation, second: Explanation) -> bool:
    """Whether two explanations are of the same text cut into the same tokens."""
    a, b = first.encoding, second.encoding
    return a.text == b.text and a.pair == b.pair and a.tokens == b.tokens and bool((a.offsets == b.offsets).all())


def page_data(explanations: Sequence[Explanation], title: str) -> dict[str, Any]:
    """Return everything the script draws; places in the text count UTF-16 units, as JavaScript does."""
    first = explanations[0]
    texts = segment_texts(first)
    places = [_utf16_places(text) for text in texts]
    names = ("Text", "Second text")
    units = {level: display_units(first, level) for level in ("word", "token")}
    read = [
        max((unit.end for unit in units["token"] if unit.segment == segment), default=0)
        if first.encoding.dropped
        else len(text)
        for segment, text in enumerate(texts)
    ]
    return {
        "title": title,
        "steps": colours.LEVELS,
        "gamma": colours.GAMMA,
        "clipped": colours.CLIPPED_SHARE,
        "blocks": [
            {"name": names[segment], "text": text, "read": places[segment][read[segment]]}
            for segment, text in enumerate(texts)
        ],
        "units": {
            level: {
                "segment": [unit.segment for unit in found],
                "start": [places[unit.segment][unit.start] for unit in found],
                "end": [places[unit.segment][unit.end] for unit in found],
                "position": [_span(unit.tokens) for unit in found],
            }
            for level, found in units.items()
        },
        "explanations": [
            _explanation_data(explanation, name, units)
            for explanation, name in zip(explanations, _names(explanations), strict=True)
        ],
    }


def embedded_json(value: Any) -> str:
    """Return JSON that is safe inside a <script type="application/json"> element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _explanation_data(explanation: Explanation, name: str, units: dict[str, list[DisplayUnit]]) -> dict[str, Any]:
    prediction = explanation.prediction
    ranked = sorted(zip(prediction.labels, prediction.probabilities.tolist(), strict=True), key=lambda one: -one[1])
    target = explanation.target
    label = f"“{target.label}”" + (f" over “{target.contrast_label}”" if target.contrast_label is not None else "")
    return {
        "name": name,
        "summary": _summary(explanation.method),
        "signed": explanation.signed,
        "label": label,
        "target": f"the {target.description()}",
        "prediction": {
            "label": prediction.label,
            "probability": prediction.probability,
            "classes": ranked[:SHOWN_CLASSES],
        },
        "scores": {
            level: [_short(sum(float(explanation.scores[i]) for i in unit.tokens)) for unit in found]
            for level, found in units.items()
        },
        "notices": notices(explanation),
        "checks": check_sentences(explanation.checks),
        "facts": _facts(explanation),
    }


def _summary(method: str) -> str:
    """What the method computes; empty for a file made with a method that is not registered here."""
    from sightline.methods import METHODS

    return METHODS.get(method).summary if method in METHODS else ""


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Settings and provenance as name and value, nested values as JSON."""
    facts = {"method": explanation.method, "tokens": f"{len(explanation.encoding):,}"}
    for values in (explanation.options, explanation.provenance):
        for name, value in values.items():
            facts[name.replace("_", " ")] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return list(facts.items())


def _names(explanations: Sequence[Explanation]) -> list[str]:
    """What the switch calls each explanation: its method, and what tells it from others by the same method."""
    names = [explanation.method for explanation in explanations]
    if len(set(names)) == len(names):
        return names
    targets = [
        f"{name}: {explanation.target.description()}" for name, explanation in zip(names, explanations, strict=True)
    ]
    if len(set(targets)) == len(targets):
        return targets
    return [f"{number}. {name}" for number, name in enumerate(targets, start=1)]


def _title(explanation: Explanation) -> str:
    """Return the first line of the document that has words, shortened."""
    line = next((line.strip() for line in explanation.encoding.text.splitlines() if line.strip()), "Explanation")
    shortened = textwrap.shorten(line, LONGEST_TITLE, placeholder=" …")
    # A first "word" longer than a title (a web address, a sentence in Chinese) is cut where it is.
    return line[:LONGEST_TITLE] if shortened == "…" else shortened


def _short(value: float) -> float:
    """Six significant digits: more than anyone reads, half the size."""
    return float(f"{value:.6g}")


def _span(tokens: tuple[int, ...]) -> str:
    return str(tokens[0]) if len(tokens) == 1 else f"{tokens[0]}–{tokens[-1]}"


def _utf16_places(text: str) -> list[int]:
    """Return for every character place 0 … len(text) how many UTF-16 units come before it."""
    return list(accumulate((2 if character > "\uffff" else 1 for character in text), initial=0))


def _style() -> str:
    ramps = "".join(
        f".{hue}-{step}{{background:var(--{hue}-{step})}}"
        for hue in colours.FULL["light"]
        for step in range(1, colours.LEVELS + 1)
    )
    dark = f"@media (prefers-color-scheme:dark){{:root{{{colours.css_variables('dark')}}}}}"
    return f":root{{{colours.css_variables('light')}}}{dark}\n{_static('page.css')}{ramps}"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _static(name: str) -> str:
    return resources.files("sightline.view").joinpath("static", name).read_text(encoding="utf-8")
