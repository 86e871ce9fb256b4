"""The common style of all figures: colours, fonts, captions, and reproducible files.

Figures are made with matplotlib's object API, never with pyplot, so that drawing one leaves no window and no current
figure behind. matplotlib is imported when the first figure is drawn.

Colours stay apart under the common colour blindnesses: viridis for amounts, orange (against) to blue (for) as on the
page for signed scores, Okabe and Ito's eight for categories (Okabe & Ito 2008).
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from sightline.errors import UsageError
from sightline.files.writing import replacing
from sightline.settings.extras import require
from sightline.view.plots.fonts import FONT, font_families, note_missing, replace_missing, warning_about_missing
from sightline.view.words.terminal import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

P = ParamSpec("P")

SEQUENTIAL = "viridis"
CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#000000")
FOR, AGAINST, PLAIN = "#2a6db0", "#c8691a", "#7a5cbf"
"""Blue is for, orange against, violet is for scores without a sign."""
INK, QUIET, GRID = "#1f2328", "#5f646b", "#dedbd3"
CHANCE = "#8a8d91"
"""What chance alone would give."""

PNG_RESOLUTION = 144
CHARACTERS_PER_INCH = 15.5
"""Of the small type that captions are set in."""

_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "Sightline"},
    "png": {"Software": "Sightline"},
    "pdf": {"CreationDate": None, "Creator": "Sightline"},
}


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
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
    figure = Figure(figsize=(width, height), dpi=PNG_RESOLUTION, layout=layout)
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
    note_missing(_make_visible(text))
    return measured_label(text).replace("$", r"\$")


def measured_label(text: str) -> str:
    """Return the characters that are drawn for a label, to measure its width."""
    return replace_missing(_make_visible(text))


def _make_visible(text: str) -> str:
    return printable(text).replace("\n", "␊").replace("\r", "␍")


def token_label(text: str, longest: int = 18) -> str:
    """Return the label of a token or word, shortened to the length of a label; white space is made visible."""
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return to_label(text if text.strip() else text.replace(" ", "␣") or "∅")


def signed_colours() -> Colormap:
    """Orange (against) through white to blue (for)."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("for-against", ["#7a3b05", AGAINST, "#fbfaf7", FOR, "#0f3a66"])


NAMED_PLACES = 9
"""Tokens that an axis along a long document names."""


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
