"""The report: one self-contained page for one document, with everything it shows inside.

The view is one style sheet and one module, the same for report, notebook and server. They are built from `web/`
(`make web`) and shipped in `static/`, so that users of the package do not need Node.

Safety: everything from a document or a model travels as JSON inside a data block in which `<`, `>` and `&` are
written as escapes, and enters the page as text nodes. The content security policy allows exactly our style and our
script, by hash, and no connection of any kind. Arrays are compressed and written as base64; those that are not needed
to read the text are left out when the file would grow beyond `LARGEST`.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from functools import cache
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from sightline.files.foreign import printable
from sightline.view import colours
from sightline.view.page import payload
from sightline.view.sections.shell import embed_json, hash_source

if TYPE_CHECKING:
    from sightline.results.report import Report

LARGEST = 1_500_000
"""Bytes a report may have before optional arrays are left out."""


@cache
def style() -> str:
    """Return the style sheet of the view; everything in it is below `.sightline`."""
    ramps = "".join(
        f".sightline .{hue}-{step}{{background:var(--{hue}-{step})}}"
        for hue in colours.FULL["light"]
        for step in range(1, colours.LEVELS + 1)
    )
    light, dark = colours.css_variables("light"), colours.css_variables("dark")
    themes = (
        f".sightline{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{.sightline:not([data-theme=light]){{{dark}}}}}"
        f"@media screen{{.sightline[data-theme=dark]{{{dark}}}}}"
    )
    return f"{themes}\n{static('view.css')}{ramps}"


def script() -> str:
    """Return the view as one JavaScript module; it draws the report it finds in its page, if there is one."""
    return static("view.js")


@cache
def static(name: str) -> str:
    """Return a file of `static/`."""
    return resources.files("sightline.view").joinpath("static", name).read_text(encoding="utf-8")


def render_page(report: Report, *, title: str | None = None) -> str:
    """Return the page of a report as one string of HTML; several explanations get a switch."""
    return render_payload(payload.build(report, title=title))


def render_payload(shown: payload.Payload) -> str:
    """Return a page that holds a payload, as one string of HTML."""
    room = LARGEST - len(style()) - len(script())
    return Template(static("report.html")).substitute(
        csp=html.escape(content_policy(), quote=False),
        title=html.escape(f"{printable(shown.json['title'])} · Sightline"),
        style=style(),
        data=embed_json(inline_arrays(shown, room)),
        script=script(),
    )


def content_policy() -> str:
    """Return the content security policy of a page: its own style and script, and no connection of any kind."""
    return (
        f"default-src 'none'; style-src {hash_source(style())}; script-src {hash_source(script())}; "
        "base-uri 'none'; form-action 'none'"
    )


def inline_arrays(shown: payload.Payload, room: int) -> dict[str, Any]:
    """Return the payload's JSON with the arrays in it, as base64 of zlib; optional ones while there is room."""
    room -= len(json.dumps(shown.json, ensure_ascii=False).encode("utf-8", "replace"))
    left_out: set[str] = set()
    data: dict[str, str] = {}
    optional = {name for group in shown.optional for name in group}
    for group in [tuple(name for name in shown.arrays if name not in optional), *shown.optional]:
        if any(shown.better.get(name) in data for name in group):
            left_out.update(group)
            continue
        packed = {name: base64.b64encode(zlib.compress(shown.arrays[name].tobytes(), 9)).decode() for name in group}
        size = sum(map(len, packed.values()))
        if size > room and group in shown.optional:
            left_out.update(group)
        else:
            data |= packed
            room -= size
    content = shown.without(left_out).json
    return {**content, "arrays": {name: {**info, "data": data[name]} for name, info in content["arrays"].items()}}
