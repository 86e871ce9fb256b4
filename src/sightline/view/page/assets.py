"""The built view: one style sheet and one module, the same for report, notebook and server.

They are built from `web/` (`make web`) and shipped in `static/`, so that users of the package do not need Node.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from sightline.view import colours


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
        f"@media (prefers-color-scheme:dark){{.sightline:not([data-theme=light]){{{dark}}}}}"
        f".sightline[data-theme=dark]{{{dark}}}"
    )
    return f"{themes}\n{static('view.css')}{ramps}"


def script() -> str:
    """Return the view as one JavaScript module; it draws the report it finds in its page, if there is one."""
    return static("view.js")


@cache
def static(name: str) -> str:
    """Return a file of `static/`."""
    return resources.files("sightline.view").joinpath("static", name).read_text(encoding="utf-8")
