"""Several methods over the layers of one model: rows of one token side by side, and curves of one number per layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.view.plots.maps import NAMED_TOKENS
from sightline.view.plots.style import (
    CATEGORIES,
    CHANCE,
    GRID,
    SEQUENTIAL,
    in_house_style,
    new_figure,
    position_ticks,
    to_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.floating[Any]]

STYLES = ("-", "--", "-.", ":")


@in_house_style
def layer_panels(
    panels: Mapping[str, FloatArray],
    labels: Sequence[str],
    *,
    probabilities: Mapping[str, float] | None = None,
    title: str,
    caption: str = "",
) -> Figure:
    """Draw one heat map (L, n) per method side by side, the first layer at the bottom; columns are tokens.

    For the readout row of raw attention, rollout and flow this is "[CLS] over the layers"; for the row of a masked
    token and the few tokens it may refer to, with `probabilities` of the words that could fill it as bars on the left,
    it is the pronoun figure (Abnar & Zuidema 2020). Each panel has its own colour scale.
    """
    layers, n = next(iter(panels.values())).shape
    named = n <= NAMED_TOKENS
    wide = max(1.3, (0.19 if n > 6 else 0.42) * n) if named else 3.2
    bars = 1.5 if probabilities else 0.0
    figure = new_figure(
        1.0 + bars + (wide + 0.75) * len(panels), 1.7 + 0.24 * max(3, layers) + (0.6 if named else 0.0), title, caption
    )
    count = len(panels) + bool(probabilities)
    widths = [*([bars] if probabilities else []), *[wide + 0.5] * len(panels)]
    drawn = list(figure.subplots(1, count, width_ratios=widths, squeeze=False)[0])
    if probabilities:
        _probability_bars(drawn.pop(0), probabilities)
    for place, (axes, (name, values)) in enumerate(zip(drawn, panels.items(), strict=True)):
        lowest = min(0.0, float(values.min()))
        image = axes.imshow(
            values, cmap=SEQUENTIAL, vmin=lowest, aspect="auto", origin="lower", interpolation="nearest"
        )
        axes.set_title(to_label(name))
        axes.set_yticks(range(layers), [str(layer) for layer in range(layers)] if place == 0 else [""] * layers)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        if named:
            position_ticks(axes, labels, "x", NAMED_TOKENS)
        else:
            axes.set_xlabel("position")
        bar = figure.colorbar(image, ax=axes, pad=0.02, fraction=0.05, ticks=[lowest, float(values.max())])
        bar.ax.set_yticklabels([f"{value:.2g}" for value in bar.get_ticks()], fontsize=6)
        bar.outline.set_visible(False)
    drawn[0].set_ylabel("layer")
    return figure


def _probability_bars(axes: Axes, probabilities: Mapping[str, float]) -> None:
    places = range(len(probabilities))
    axes.bar(places, list(probabilities.values()), color=CATEGORIES[: len(probabilities)], width=0.6)
    axes.set_xticks(places, [to_label(name) for name in probabilities])
    axes.set_ylim(0, max(1e-9, *probabilities.values()) * 1.2)
    for place, value in zip(places, probabilities.values(), strict=True):
        axes.annotate(
            f"{value:.2g}", (place, value), xytext=(0, 2), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set_title("probability")
    axes.locator_params(axis="y", nbins=4)


@in_house_style
def layer_curves(
    curves: Mapping[str, FloatArray],
    *,
    unit: str,
    chance: Mapping[str, FloatArray] | None = None,
    title: str,
    caption: str = "",
) -> Figure:
    """Draw one line (L,) per name over the layers, for example Spearman's rho with a reference, or anisotropy.

    chance: by name, what chance gives at each layer, drawn dotted in grey. A layer without a value (NaN) is a gap.
    """
    figure = new_figure(6.5, 3.4, title, caption)
    axes = figure.add_subplot()
    for name in chance or {}:
        axes.plot((chance or {})[name], ":", color=CHANCE, linewidth=1.0)
    for number, (name, values) in enumerate(curves.items()):
        axes.plot(
            np.arange(len(values)),
            values,
            STYLES[number // len(CATEGORIES) % len(STYLES)],
            marker="o",
            markersize=4,
            color=CATEGORIES[number % len(CATEGORIES)],
            label=to_label(name),
        )
    if chance:
        axes.plot([], [], ":", color=CHANCE, linewidth=1.0, label="chance")
    longest = max((len(values) for values in curves.values()), default=1)
    axes.set_xticks(range(longest))
    axes.set(xlabel="layer", ylabel=unit)
    axes.axhline(0, color=GRID, linewidth=0.8, zorder=0)
    figure.legend(loc="outside right upper")
    return figure
