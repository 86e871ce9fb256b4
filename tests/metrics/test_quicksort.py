"""The sort of the published program, kept for replication: a sort, and the very places in which it left ties."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sightline.metrics.quicksort import quicksort_order, quicksort_ranks

# What np.argsort gives in numpy 1.26 for 40 scores, half of them masked to 0.
ZEROED = np.array([max(0.0, i * 37 % 41 - 20) for i in range(40)])
PUBLISHED_ORDER = [
    *[0, 37, 36, 30, 29, 28, 27, 26, 20, 38, 18, 17, 16, 19, 7, 6, 8, 9, 39, 10],
    *[5, 15, 25, 35, 4, 14, 24, 34, 3, 13, 23, 33, 2, 12, 22, 32, 1, 11, 21, 31],
]


def test_zeros_end_up_where_numpy_left_them_at_the_time():
    assert quicksort_order(ZEROED).tolist() == PUBLISHED_ORDER
    ranks = quicksort_ranks(np.stack([ZEROED, np.arange(40.0)]))
    assert ranks[0][PUBLISHED_ORDER].tolist() == list(range(40))
    assert ranks[1].tolist() == list(range(40))


@given(arrays.arrays(np.float64, st.integers(1, 200), elements=st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.5, 7.0])))
def test_it_sorts(scores):
    order = quicksort_order(scores)
    assert sorted(order.tolist()) == list(range(scores.size))
    assert (np.diff(scores[order]) >= 0).all()


@given(arrays.arrays(np.float64, st.integers(1, 200), elements=st.floats(-9, 9), unique=True))
def test_scores_without_ties_have_their_plain_ranks(scores):
    assert quicksort_ranks(scores).tolist() == np.argsort(np.argsort(scores)).tolist()


def test_a_few_entries_keep_the_order_of_ties():
    assert quicksort_order(np.zeros(16)).tolist() == list(range(16))
