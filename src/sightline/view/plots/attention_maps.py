"""Attention as pictures: how much each head matters, thumbnails of all heads, one head in full.

Rows are the tokens that attend, columns the tokens attended to. Weights of one map span orders of magnitude (a sink
beside a thousand tokens that share the rest), so colours follow the square root of the weight and the strongest
0.5 % of the pixels share the last colour; the colour bars show the weights themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sightline.view.plots.style import (
    CATEGORIES,
    GRID,
    INK,
    SEQUENTIAL,
    FloatArray,
    in_house_style,
    new_figure,
    pooling_sentence,
    position_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAMMA = 0.5
CLIPPED_SHARE = 0.005
ANNOTATED_HEADS = 200
"""Up to this many heads, values are written into the heat map."""
NAMED_TOKENS = 60
"""Axes name the tokens of a document up to this length and count positions beyond it."""
GAP = 0.16
"""Space between thumbnails, as a share of their side."""
FRAME = CATEGORIES[1]
ROWS_AND_COLUMNS = "Row: the token that attends; column: the token attended to."


@in_house_style
def head_importance_map(importance: FloatArray, *, title: str = "Head importance", caption: str = "") -> Figure:
    """Heat map (layers, heads) of how much each head matters, values written in."""
    values = np.asarray(importance, dtype=np.float64)
    layers, heads = values.shape
    figure = new_figure(max(4.2, 1.6 + 0.52 * heads), max(2.4, 1.5 + 0.36 * layers), title, caption)
    axes = figure.add_subplot()
    image = axes.imshow(values, cmap=SEQUENTIAL, aspect="auto")
    _label_cells(axes, values, image)
    axes.set_xticks(range(heads))
    axes.set_yticks(range(layers))
    axes.set(xlabel="head", ylabel="layer")
    _without_frame(axes)
    figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02).outline.set_visible(False)
    return figure


@in_house_style
def attention_grid(
    maps: FloatArray,
    *,
    tokens: int,
    importance: FloatArray | None = None,
    title: str = "Attention of all heads",
    caption: str = ROWS_AND_COLUMNS,
) -> Figure:
    """Thumbnails (layers, heads, s, s) on one colour scale, with a stronger frame for heads that matter more."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    layers, heads, size = maps.shape[:3]
    cell = float(np.clip(9.5 / heads, 0.62, 1.5))
    sentences = [
        caption,
        "All pictures share one colour scale.",
        pooling_sentence(tokens, size) if caption == ROWS_AND_COLUMNS else "",
    ]
    if importance is not None:
        sentences.append("The stronger the orange frame, the more important the head.")
    text = " ".join(filter(None, sentences))
    figure = new_figure(max(5.0, 1.0 + cell * heads), max(3.0, 1.25 + cell * layers), title, text)
    axes = figure.add_subplot()
    # One image of all thumbnails: 144 separate images take ten times as long to write.
    mosaic, step = thumbnails(maps)
    picture = axes.imshow(mosaic, cmap=SEQUENTIAL, vmin=0.0, vmax=1.0, interpolation="nearest")
    picture.set_gid("maps")
    strengths = np.zeros((layers, heads)) if importance is None else _unit(np.asarray(importance, dtype=np.float64))
    frames = PatchCollection(
        [
            Rectangle((head * step - 0.5, layer * step - 0.5), size, size)
            for layer in range(layers)
            for head in range(heads)
        ],
        facecolor="none",
        edgecolor=[_mix(GRID, FRAME, float(strength)) for strength in strengths.ravel()],
        linewidth=[0.4 + 2.4 * strength for strength in strengths.ravel()],
        zorder=3,
    )
    frames.set_gid("frames")
    axes.add_collection(frames)
    gap = step - size
    axes.set_xlim(-gap, heads * step)
    axes.set_ylim(layers * step, -gap)
    axes.set_xticks([head * step + size / 2 for head in range(heads)], [str(head) for head in range(heads)])
    axes.set_yticks([layer * step + size / 2 for layer in range(layers)], [str(layer) for layer in range(layers)])
    axes.set(xlabel="head", ylabel="layer")
    _without_frame(axes)
    return figure


@in_house_style
def attention_map(image: FloatArray, labels: Sequence[str], *, title: str = "Attention", caption: str = "") -> Figure:
    """One head (s, s). Up to 60 tokens are named (`labels`, (n,)); longer documents count positions."""
    n = len(labels)
    figure = new_figure(7.0, 6.3, title, " ".join(filter(None, [caption, pooling_sentence(n, image.shape[1])])))
    axes = figure.add_subplot()
    _draw_head(axes, image, (-0.5, n - 0.5, n - 0.5, -0.5), "equal")
    position_ticks(axes, labels, "x", NAMED_TOKENS)
    position_ticks(axes, labels, "y", NAMED_TOKENS)
    axes.set(xlabel="attended to", ylabel="attending")
    return figure


@in_house_style
def window_map(image: FloatArray, labels: Sequence[str], *, reach: int, title: str, caption: str = "") -> Figure:
    """One straightened window (r, c): the document down, the distance -reach … reach to the attended token across."""
    sentence = f"{len(labels):,} tokens on {len(image):,} rows: a pixel is the mean of its tokens and distances."
    figure = new_figure(7.0, 6.3, title, " ".join(filter(None, [caption, sentence])))
    axes = figure.add_subplot()
    _draw_head(axes, image, (-reach - 0.5, reach + 0.5, len(labels) - 0.5, -0.5), "auto")
    axes.axvline(0, color="white", linewidth=0.5, linestyle=(0, (2, 3)))
    position_ticks(axes, labels, "y", NAMED_TOKENS)
    axes.set(xlabel="distance to the attended token", ylabel="attending token")
    return figure


def _draw_head(
    axes: Axes, image: FloatArray, extent: tuple[float, float, float, float], aspect: Literal["equal", "auto"]
) -> None:
    """Draw weights in colours that follow their square root, and a colour bar with ticks evenly apart."""
    from matplotlib.colors import PowerNorm

    full = _full(image)
    picture = axes.imshow(
        image,
        cmap=SEQUENTIAL,
        aspect=aspect,
        norm=PowerNorm(GAMMA, vmin=0.0, vmax=full, clip=True),
        extent=extent,
        interpolation="nearest",
    )
    ticks = [full * step**2 for step in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    bar = axes.figure.colorbar(picture, ax=axes, shrink=0.9, pad=0.015, label="weight", extend="max", ticks=ticks)
    bar.ax.set_yticklabels([f"{tick:.2g}" for tick in ticks])
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)


def _label_cells(axes: Axes, values: FloatArray, image: Any) -> None:
    """Write each value into its cell, dark on light colours and light on dark ones."""
    if values.size > ANNOTATED_HEADS:
        return
    colours = image.cmap(image.norm(values))
    for (row, column), value in np.ndenumerate(values):
        luminance = colours[row, column, :3] @ (0.299, 0.587, 0.114)
        text = f"{value:z.2f}".replace("-", "−")
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=INK if luminance > 0.55 else "white")


def thumbnails(maps: FloatArray) -> tuple[FloatArray, int]:
    """Return maps (layers, heads, s, s), all on one scale, as one picture, and the pixels from one to the next.

    The space between the maps is NaN, which is not drawn.
    """
    layers, heads, size = maps.shape[:3]
    step = size + max(1, round(GAP * size))
    mosaic = np.full((layers * step, heads * step), np.nan)
    scaled = to_unit_scale(maps)
    for layer, head in np.ndindex(layers, heads):
        top, left = layer * step, head * step
        mosaic[top : top + size, left : left + size] = scaled[layer, head]
    return mosaic, step


def to_unit_scale(pictures: FloatArray) -> FloatArray:
    """Return pictures on one scale, 0 to 1: the root of each weight by the one that gets the full colour."""
    full = _full(pictures)
    scaled: FloatArray = np.clip(np.asarray(pictures, dtype=np.float64) / full, 0.0, 1.0) ** GAMMA
    return scaled


def _full(picture: FloatArray) -> float:
    """Return the weight that gets the full colour; 1 for an empty map, which then stays dark."""
    values = np.asarray(picture, dtype=np.float64)
    return float(np.quantile(values, 1.0 - CLIPPED_SHARE) or values.max() or 1.0)


def _unit(values: FloatArray) -> FloatArray:
    """Return values scaled to 0 … 1 for drawing; 0 if all are equal."""
    low, high = float(values.min()), float(values.max())
    scaled: FloatArray = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return scaled


def _mix(first: str, second: str, share: float) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(a + (b - a) * share for a, b in zip(to_rgb(first), to_rgb(second), strict=True))


def _without_frame(axes: Axes) -> None:
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
