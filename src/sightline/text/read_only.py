"""Arrays that cannot be written, so that nobody changes a finished result by accident.

numpy forgets the mark when an array is copied or pickled; `ReadOnlyArrays` sets it again.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

A = TypeVar("A", bound=NDArray[Any])


def protect(array: A) -> A:
    """Return `array`, marked so that numpy refuses to write to it."""
    array.flags.writeable = False
    return array


class ReadOnlyArrays:
    """Base of results whose fields hold protected arrays: those of copies and of unpickled results are protected, too.

    The fields themselves may be arrays, or dictionaries of arrays.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        for field in state.values():
            for value in field.values() if isinstance(field, dict) else (field,):
                if isinstance(value, np.ndarray):
                    protect(value)
        vars(self).update(state)
