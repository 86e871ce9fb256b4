"""Map scores to colours: one scale for the page, the notebook and the terminal.

level = round(LEVELS · ((min(|s|, m) − e) / (m − e))^γ) with the sign of s, 0 below e. m is the magnitude that 99.5 % of
the scores stay below; e is the mean of these magnitudes, the score of each word if all counted alike. Without e, the
many words that count less would tint passages that say nothing. On a long document a linear scale up to the largest
score shows nothing either: a few outliers take all the colour. Clipping at m and γ < 1 make the middle visible again;
the page draws the scale it used.

Blue is for, orange against (a pair that stays apart under all common colour blindnesses), violet is for methods
without a sign. Text keeps a contrast of at least 4.5 : 1 on every step, in the light and in the dark theme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from sightline.text.units import Units

LEVELS = 8
GAMMA = 0.75
CLIPPED_SHARE = 0.005
"""Share of the strongest scores that get the full colour."""

Theme = Literal["light", "dark"]
Hue = Literal["for", "against", "plain"]

BACKGROUND: dict[Theme, str] = {"light": "#fdfcf9", "dark": "#17191d"}
INK: dict[Theme, str] = {"light": "#1f2328", "dark": "#ecebe7"}
FULL: dict[Theme, dict[Hue, str]] = {
    "light": {"for": "#5fa3e0", "against": "#f29a3c", "plain": "#a98fdb"},
    "dark": {"for": "#2a69ad", "against": "#9c5010", "plain": "#6d4fae"},
}

FIRST_STEP: dict[Theme, float] = {"light": 0.15, "dark": 0.3}
"""Distance of the first colour from the background, as a share of that of the full one: it must be visible, and dark
colours are harder to tell apart than light ones."""


def reference(scores: ArrayLike) -> float:
    """Return m: the magnitude that gets the full colour (0 when all scores are 0)."""
    magnitudes = np.sort(np.abs(np.asarray(scores, dtype=np.float64)))
    if not magnitudes.size:
        return 0.0
    clipped = int(CLIPPED_SHARE * magnitudes.size)
    # When nearly all scores are zero, only the clipped ones can be shown.
    return float(magnitudes[-1 - clipped] or magnitudes[-1])


def even_share(scores: ArrayLike, full: float) -> float:
    """Return e: the mean magnitude of the scores clipped at `full`, or 0 where all of them reach it."""
    magnitudes = np.minimum(np.abs(np.asarray(scores, dtype=np.float64)), full)
    mean = float(magnitudes.mean()) if magnitudes.size else 0.0
    return mean if mean < full * (1 - 1e-9) else 0.0


def levels(scores: ArrayLike, gamma: float = GAMMA) -> NDArray[np.int64]:
    """Return one level from −LEVELS to LEVELS for each score; 0 means no colour."""
    values = np.asarray(scores, dtype=np.float64)
    full = reference(values)
    even = even_share(values, full)
    if full == 0.0:
        return np.zeros(values.shape, dtype=np.int64)
    strength = (np.maximum(np.minimum(np.abs(values), full) - even, 0.0) / (full - even)) ** gamma
    # Half up, as JavaScript's Math.round does, so that page and terminal agree on every word.
    signed_levels: NDArray[np.int64] = (np.sign(values) * np.floor(LEVELS * strength + 0.5)).astype(np.int64)
    return signed_levels


def steps(hue: Hue, theme: Theme = "light") -> tuple[str, ...]:
    """Return the colours of levels 1 … LEVELS as #rrggbb, from nearly the background to the full colour."""
    low, high = _rgb(BACKGROUND[theme]), _rgb(FULL[theme][hue])
    shares = [FIRST_STEP[theme] + (1 - FIRST_STEP[theme]) * step / (LEVELS - 1) for step in range(LEVELS)]
    return tuple(_hex(low + (high - low) * share) for share in shares)


def css_variables(theme: Theme) -> str:
    """Return the declarations `--for-1: #…; … --ink: #…` of one theme."""
    ramps = [
        f"--{hue}-{step}:{colour}" for hue in FULL[theme] for step, colour in enumerate(steps(hue, theme), start=1)
    ]
    return ";".join([f"--background:{BACKGROUND[theme]}", f"--ink:{INK[theme]}", *ramps])


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, 1 … 21 (WCAG 2, relative luminance)."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = _rgb(colour) / 255.0
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def _rgb(colour: str) -> NDArray[np.float64]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)


def _hex(channels: NDArray[Any] | Sequence[float]) -> str:
    return "#" + "".join(f"{round(float(c)):02x}" for c in channels)


def text_pieces(text: str, segment: int, units: Units) -> Iterator[tuple[str, int | None]]:
    """Yield all of the text of one segment: every unit with its number, and the text between units with None."""
    end = 0
    for number, unit in enumerate(units):
        if unit.segment != segment:
            continue
        if end < unit.start:
            yield text[end : unit.start], None
        yield text[unit.start : unit.end], number
        end = unit.end
    if end < len(text):
        yield text[end:], None
