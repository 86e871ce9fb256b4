"""What a model says while words are taken away from a document: the curve behind the check against random orderings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RemovalCurve:
    """The probability of the explained class while more and more words are deleted; K shares, R random orderings.

    Point k is the document without the share `ratios[k]` of its words, the highest-ranked first; the first share is 0,
    the whole document.
    """

    ratios: NDArray[np.float64]
    """(K,) shares of the words, ascending."""
    probabilities: NDArray[np.float64]
    """(K,) in the order of the explanation."""
    random: NDArray[np.float64]
    """(R, K) in random orders of the same words."""

    def __post_init__(self) -> None:
        for name in ("ratios", "probabilities", "random"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        shape = self.ratios.shape
        if self.ratios.ndim != 1 or self.probabilities.shape != shape or self.random.shape[1:] != shape:
            raise ValueError("the curves of a removal do not have a point for every ratio")

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the arrays as lists, by name."""
        return {name: array.tolist() for name, array in vars(self).items()}
