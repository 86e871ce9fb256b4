"""Units that only say which token belongs to which unit, for tests of what is computed on them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.text import Units


def bare_units(of_token: npt.ArrayLike) -> Units:
    """Return words numbered as in `of_token` (n,), named by their number, one character each."""
    unit = np.asarray(of_token, dtype=np.int64)
    count = int(unit.max(initial=-1)) + 1
    places = np.arange(count)
    return Units("word", tuple(map(str, places)), np.zeros_like(places), places, places + 1, unit)
