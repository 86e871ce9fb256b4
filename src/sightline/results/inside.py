"""Inside: what one pass recorded inside the model, as reports store it and pages and inspections draw it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.attention.protocol import TopK


class Relations(NamedTuple):
    """The strongest partners of every token in one map; arrays (n, k) in both lists."""

    attended: TopK
    """What each token attends to."""
    attending: TopK
    """What attends to each token."""


class StraightWindows(NamedTuple):
    """Windows with the distance across and the document down, see `analysis.maps.straighten`."""

    maps: npt.NDArray[np.float32]
    """(L, H, r, c) mean weight by position and distance."""
    thumbnails: npt.NDArray[np.float32]
    """(L, H, s, t) the same, smaller."""
    reach: npt.NDArray[np.int64]
    """(L,) the farthest distance in the window of each layer."""


@dataclass(frozen=True, eq=False)
class Inside:
    """Relations between tokens, maps of heads, totals; n tokens, L layers, H heads. `analysis.inside` makes one."""

    tokens: int
    layers: int
    heads: int
    k: int
    relations: dict[str, Relations]
    """By map: `all`, `layer-3`, `head-3-11`; k is the width of the arrays and may be smaller than asked for."""
    received: npt.NDArray[np.float32]
    """(L, H, n) attention received by every token, summed over rows."""
    thumbnails: npt.NDArray[np.float32]
    """(L, H, s, s) mean weight of every block of the maps."""
    images: npt.NDArray[np.float32]
    """(L, H, S, S) the same, larger."""
    importance: npt.NDArray[np.float64] | None = None
    """(L, H) head importance, where it was given."""
    windows: StraightWindows | None = None
    """The windows of all heads straightened, for long documents whose tokens attend to their neighbours only."""

    def __repr__(self) -> str:
        return f"<Inside: {self.tokens:,} tokens, {self.layers} layers with {self.heads} heads each>"
