"""The common style of all figures: colours, fonts, captions, and reproducible files.

Figures are made with matplotlib's object API, never with pyplot, so that drawing one leaves no window and no current
figure behind. matplotlib is imported when the first figure is drawn.

Colours stay apart under the common colour blindnesses: viridis for amounts, orange (against) to blue (for) as on the
page for signed scores, Okabe and Ito's eight for categories (Okabe & Ito 2008).

One font draws everything; other installed fonts draw the characters that it lacks.

matplotlib draws a box for a character without a glyph. Here another installed font is looked for first; characters that
no font has are drawn as `MISSING`, and one warning per figure names their scripts and says what to do.
"""

from __future__ import annotations

import functools
import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

import numpy as np
from numpy.typing import NDArray

from sightline.errors import UsageError
from sightline.files.writing import replacing
from sightline.settings.extras import require
from sightline.view.words.terminal import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

P = ParamSpec("P")
FloatArray = NDArray[np.floating[Any]]

SEQUENTIAL = "viridis"
CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#000000")
FOR, AGAINST, PLAIN = "#2a6db0", "#c8691a", "#7a5cbf"
"""Blue is for, orange against, violet is for scores without a sign."""
INK, QUIET, GRID = "#1f2328", "#5f646b", "#dedbd3"
CHANCE = "#8a8d91"
"""Colour of chance levels."""

PNG_RESOLUTION = 144
CHARACTERS_PER_INCH = 15.5
"""Of the small type that captions are set in."""

_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "Sightline"},
    "png": {"Software": "Sightline"},
    "pdf": {"CreationDate": None, "Creator": "Sightline"},
}
NAMED_PLACES = 9
"""Tokens that an axis along a long document names."""
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


def require_matplotlib() -> None:
    """Raise UnsupportedError if there is no matplotlib; called before work whose results are to be drawn."""
    require("matplotlib", "plots", "Drawing figures")


@contextmanager
def house_style() -> Iterator[None]:
    """Draw with these settings whatever the user's matplotlibrc says, and restore the user's settings afterwards."""
    import matplotlib

    settings = {
        **{name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")},
        "font.family": FONT,
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "axes.unicode_minus": True,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "lines.linewidth": 1.1,
        "svg.hashsalt": "sightline",  # the names of clip paths and glyphs would be random otherwise
        # Outlines: SVG embeds no font. Where DejaVu Sans is missing, real text would not fill the colours behind it.
        "svg.fonttype": "path",
        "pdf.fonttype": 42,
    }
    with matplotlib.rc_context(settings):
        yield


def in_house_style(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a function that draws, to use the common style; its figure is laid out once, so that all files agree."""

    @functools.wraps(draw)
    def draw_in_style(*args: P.args, **kwargs: P.kwargs) -> Figure:
        require_matplotlib()
        from matplotlib.text import Text

        with warning_about_missing(), house_style():
            figure = draw(*args, **kwargs)
            for text in figure.findobj(Text):
                assert isinstance(text, Text)
                text.set_fontfamily(font_families(text.get_text()))
            layout = figure.get_layout_engine()
            assert layout is not None
            layout.execute(figure)
            figure.set_layout_engine("none")
        return figure

    return draw_in_style


def new_figure(width: float, height: float, title: str, caption: str = "") -> Figure:
    """Return an empty figure, inches wide and high, with a title above and a caption in small type below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
    figure: Figure = _figure_class()(figsize=(width, height), dpi=PNG_RESOLUTION, layout=layout)
    FigureCanvasAgg(figure)
    figure.suptitle(
        _wrap(to_label(title), width * CHARACTERS_PER_INCH * 0.66),
        x=0.01,
        ha="left",
        fontsize=12,
    )
    if caption:
        figure.supxlabel(wrap_caption(caption, width), x=0.01, ha="left", fontsize=8, color=QUIET)
    return figure


@cache
def _figure_class() -> Any:
    """Return the class of our figures: a notebook shows one without `%matplotlib inline`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook shows as a picture."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.set_dpi(PNG_RESOLUTION)
            with house_style():
                FigureCanvasAgg(self).print_png(buffer, metadata=_METADATA["png"])  # type: ignore[no-untyped-call]
            return buffer.getvalue()

    return NotebookFigure


def wrap_caption(caption: str, width: float) -> str:
    """Return a caption as it is written below a figure of `width` inches, line by line."""
    return _wrap(to_label(caption), width * CHARACTERS_PER_INCH)


def save_figure(figure: Figure, path: Path | str) -> None:
    """Write a figure as .svg, .png or .pdf by its name, completely or not at all; the bytes are reproducible."""
    path = Path(path)
    form = path.suffix.lower().lstrip(".")
    if form not in _METADATA:
        raise UsageError(f"Cannot draw '{path.name}': figures are written as {', '.join(_METADATA)}. Rename the file.")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # Not figure.savefig, which draws everything twice to compute a layout that is already known.
    figure.set_dpi(PNG_RESOLUTION)  # writing SVG leaves another one behind
    with house_style(), replacing(path) as part:
        printers: dict[str, Any] = {"svg": FigureCanvasSVG, "png": FigureCanvasAgg, "pdf": FigureCanvasPdf}
        getattr(printers[form](figure), f"print_{form}")(part, metadata=_METADATA[form])


def to_label(text: str) -> str:
    """Return any text as a label: never parsed as mathematics, without control characters or missing glyphs."""
    note_missing(one_line(text))
    return measured_label(text).replace("$", r"\$")


def measured_label(text: str) -> str:
    """Return the characters that are drawn for a label, to measure its width."""
    return replace_missing(one_line(text))


def token_label(text: str, longest: int = 18) -> str:
    """Return the label of a token or word, shortened to the length of a label; white space is made visible."""
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return to_label(text if text.strip() else text.replace(" ", "␣") or "∅")


def signed_colours() -> Colormap:
    """Orange (against) through white to blue (for)."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("for-against", ["#7a3b05", AGAINST, "#fbfaf7", FOR, "#0f3a66"])


def position_ticks(axes: Axes, labels: Sequence[str], axis: str, most: int) -> None:
    """Name every token along an axis if there are at most `most`; otherwise a few, each with its position."""
    place = axes.set_xticks if axis == "x" else axes.set_yticks
    if len(labels) > most:
        chosen = [round(share * (len(labels) - 1) / (NAMED_PLACES - 1)) for share in range(NAMED_PLACES)]
        between = "\n" if axis == "x" else "  "
        place(chosen, [f"{token_label(labels[i], 12)}{between}{i:,}" for i in chosen], fontsize=7)
        return
    rotation: dict[str, Any] = {"rotation": 90} if axis == "x" else {}
    place(range(len(labels)), [token_label(label) for label in labels], fontsize=7, **rotation)


def pooling_sentence(cells: int, pixels: int) -> str:
    """Return how many tokens share a pixel, as a sentence; empty if each has its own."""
    if cells <= pixels:
        return ""
    return f"{cells:,} tokens on {pixels:,} pixels: one pixel pools about {cells / pixels:.3g} × {cells / pixels:.3g}."


def _wrap(text: str, width: float) -> str:
    return "\n".join(textwrap.wrap(text, max(20, int(width))))


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
