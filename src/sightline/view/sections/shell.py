"""The frame of every page that is written here: head, content security policy, style sheet, and escaping.

A page loads nothing but pictures. Texts are escaped, data travel in JSON blocks, and the content security policy allows
exactly the page's own style and script, by hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from sightline.view import colours
from sightline.view.words.terminal import printable

# Characters that could end the data block or confuse an older parser; lone surrogates cannot be written as UTF-8.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Shell:
    """What all pages of one kind share: what their style adds to the common one, their script, and their pictures."""

    extra_style: str
    script: str = ""
    images: str = ""
    """Where pictures may come from, as a source list of the content security policy; empty if there are none."""

    @cached_property
    def style(self) -> str:
        """The whole style sheet."""
        light, dark = colours.css_variables("light"), colours.css_variables("dark")
        ramps = f":root{{{light}}}\n@media(prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        return ramps + read_source("shell.css") + self.extra_style

    @cached_property
    def policy(self) -> str:
        """The content security policy of the pages."""
        images = f"img-src {self.images}; " if self.images else ""
        script = f"script-src {hash_source(self.script)}; " if self.script else ""
        style = f"style-src {hash_source(self.style)}; "
        return f"default-src 'none'; {images}{style}{script}base-uri 'none'; form-action 'none'"

    def render(self, title: str, content: str, data: Mapping[str, Any] | None = None) -> str:
        """Return a page as one string of HTML; `content` is HTML, `data` the values of JSON blocks by their id."""
        blocks = "".join(
            f'<script type="application/json" id="{name}">{embed_json(value)}</script>\n'
            for name, value in (data or {}).items()
        )
        script = f"<script>{self.script}</script>\n" if self.script else ""
        page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{self.policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Sightline">
<title>{to_html_text(title)} · Sightline</title>
<style>{self.style}</style>
</head>
<body>
{content}
{blocks}{script}</body>
</html>
"""
        return page.replace("\0", "\ufffd")  # browsers drop NUL characters, and other programs call the file binary


def read_source(name: str) -> str:
    """Return a style sheet or a script of this folder."""
    return resources.files("sightline.view.sections").joinpath(name).read_text(encoding="utf-8")


def embed_json(value: Any) -> str:
    """Return JSON that is safe inside a <script type="application/json"> element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def hash_source(content: str) -> str:
    """Return the source expression with which a content security policy allows exactly this style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def to_html_text(text: str) -> str:
    """Return a text escaped for HTML, with every control character replaced by one that is printed."""
    return html.escape(printable(text))


def render_facts(facts: Mapping[str, Any], kind: str = "") -> str:
    """Return names and values as a list of terms."""
    rows = "".join(f"<dt>{to_html_text(name)}</dt><dd>{to_html_text(str(value))}</dd>" for name, value in facts.items())
    return f"<dl{kind}>{rows}</dl>"
