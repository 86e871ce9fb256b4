"""The order in which a published program left tied scores, for replication only.

That program set the scores of masked tokens to 0 and ranked what came out of numpy's default sort, so that its numbers
depend on where the sort leaves equal scores. In every numpy of its time that was Hoare's quicksort with the median of
three as pivot and insertion of up to 16 entries (Sedgewick 1978); the scans stop at entries equal to the pivot, so that
ties change places. Numpy has other sorts today; this one gives the published numbers on any machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.attention.compiled import compiled

INSERTED = 16
"""Parts of up to so many entries are sorted by insertion."""


@compiled
def quicksort_order(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the positions (n,) of `scores` (n,) from the lowest to the highest. O(n log n) unless built to be slow."""
    order = np.arange(scores.size)
    waiting = [(0, scores.size - 1)]
    while waiting:
        low, high = waiting.pop()
        while high - low + 1 > INSERTED:
            middle = low + (high - low) // 2
            for left, right in ((low, middle), (middle, high), (low, middle)):
                if scores[order[right]] < scores[order[left]]:
                    order[left], order[right] = order[right], order[left]
            pivot = scores[order[middle]]
            # Both ends are on their sides already; the pivot waits beside the upper end.
            order[middle], order[high - 1] = order[high - 1], order[middle]
            up, down = low + 1, high - 2
            while True:
                while scores[order[up]] < pivot:
                    up += 1
                while pivot < scores[order[down]]:
                    down -= 1
                if up >= down:
                    break
                order[up], order[down] = order[down], order[up]
                up, down = up + 1, down - 1
            order[up], order[high - 1] = order[high - 1], order[up]
            waiting.append((low, up - 1))
            low = up + 1
        for entry in range(low + 1, high + 1):
            moving, place = order[entry], entry
            while place > low and scores[moving] < scores[order[place - 1]]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = moving
    return order


def quicksort_ranks(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the ranks (..., n) of `scores` (..., n) along the last axis: 0 for the lowest, all different."""
    ranks = np.empty_like(scores)
    for row, row_ranks in zip(scores.reshape(-1, scores.shape[-1]), ranks.reshape(-1, scores.shape[-1]), strict=True):
        row_ranks[quicksort_order(np.ascontiguousarray(row))] = np.arange(float(row.size))
    return ranks
