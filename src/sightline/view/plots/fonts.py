"""Fonts of figures: one for everything, and others that are installed for the characters that it lacks.

matplotlib draws a box for a character without a glyph. Here another installed font is looked for first; characters that
no font has are drawn as `MISSING`, and one warning per figure names their scripts and says what to do.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import NamedTuple

FONT = "DejaVu Sans"
"""Comes with matplotlib."""
MISSING = "▯"
_PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "WenQuan Zen Hei",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Noto Sans Ethiopic",
    "Noto Sans Symbols",
    "Noto Sans Symbols2",
    "Noto Emoji",
)
"""Tried first, so that texts look the same wherever these are installed."""

_CONTROL_PICTURES = re.compile("[\u2400-\u243f]")
"""Shown for line breaks and the like; readers need no font for them."""

_missing: ContextVar[set[str] | None] = ContextVar("_missing", default=None)
"""Characters without a glyph in the figure that is being drawn."""


def font_families(text: str) -> list[str]:
    """Return the fonts that draw a text: the default one, and others only for characters that it lacks."""
    return list(dict.fromkeys([FONT, *(family for sign in text if (family := _family_of(sign)) is not None)]))


def replace_missing(text: str) -> str:
    """Return a text with `MISSING` in place of the characters that no font can draw."""
    return "".join(sign if _family_of(sign) is not None else MISSING for sign in text)


def note_missing(text: str) -> None:
    """Remember the characters of a text of a figure that no font can draw, for the warning about it."""
    missing = _missing.get()
    if missing is not None:
        missing |= {sign for sign in text if _family_of(sign) is None and not _CONTROL_PICTURES.match(sign)}


@contextmanager
def warning_about_missing() -> Iterator[None]:
    """Warn after a figure was drawn if it has characters that no font can draw."""
    missing: set[str] = set()
    token = _missing.set(missing)
    try:
        yield
    finally:
        _missing.reset(token)
    if missing:
        warnings.warn(
            f"No installed font can draw some characters of this figure ({_name_scripts(missing)}); each is drawn as "
            f"{MISSING}. Install a font that has them, for example one of the Noto fonts, and draw the figure again. "
            "Pages (.html) use the fonts of the browser.",
            stacklevel=4,  # what called the function that draws
        )


def _name_scripts(signs: Iterable[str]) -> str:
    """Return the scripts of some characters: "Chinese characters, Hangul, symbols"."""
    return ", ".join(sorted({_script_of(sign) for sign in signs}))


def _script_of(sign: str) -> str:
    if not unicodedata.category(sign).startswith(("L", "M", "N")):
        return "symbols"
    script = unicodedata.name(sign, "unnamed characters").partition(" ")[0]
    return "Chinese characters" if script == "CJK" else script.capitalize()


@cache
def _family_of(sign: str) -> str | None:
    """Return the first font that can draw a character; None if no font can. Line breaks need no glyph."""
    if sign == "\n" or ord(sign) in _glyphs(FONT):
        return FONT
    return next((family for family in _further_families() if ord(sign) in _glyphs(family)), None)


@cache
def _further_families() -> tuple[str, ...]:
    """Return the other fonts that are installed: the preferred ones first, those without a regular face last."""
    files = _installed_files()
    regular = sorted(family for family, file in files.items() if file.regular)
    others = sorted(files.keys() - set(regular))
    return tuple(dict.fromkeys([*(name for name in _PREFERRED if name in files), *regular, *others]))


class _FontFile(NamedTuple):
    path: str
    regular: bool
    """Upright, of normal weight and width."""


@cache
def _installed_files() -> dict[str, _FontFile]:
    """Return a file of every installed font by its name, that of the regular face if there is one.

    Fonts that come with matplotlib are left out: they are for mathematics, or have a box for every character there is.
    """
    import matplotlib
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - known):  # matplotlib keeps its list when fonts are installed
        try:
            fontManager.addfont(path)
        except (OSError, RuntimeError, ValueError):  # not a font that FreeType reads
            continue
    own = Path(matplotlib.get_data_path())
    files: dict[str, _FontFile] = {}
    for entry in sorted(fontManager.ttflist, key=lambda entry: entry.fname):
        regular = (entry.style, entry.stretch) == ("normal", "normal") and entry.weight in (400, "normal", "regular")
        outside = entry.name != FONT and own not in Path(entry.fname).parents
        if outside and (entry.name not in files or (regular and not files[entry.name].regular)):
            files[entry.name] = _FontFile(entry.fname, regular)
    return files


@cache
def _glyphs(family: str) -> frozenset[int]:
    """Code points that a font can draw; none if its file cannot be read."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    path = findfont(FontProperties(family=FONT)) if family == FONT else _installed_files()[family].path
    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError, ValueError):
        return frozenset()
