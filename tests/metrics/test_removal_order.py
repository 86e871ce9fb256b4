"""Orders of removal: how many units a share stands for, and which tokens go."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightline.metrics.plans import (
    random_order,
    random_score_order,
    removed_positions,
    score_order,
    unit_counts,
)
from tests.sample_units import bare_units


@given(st.lists(st.floats(0, 1), min_size=1, max_size=11), st.integers(1, 300))
def test_shares_stand_for_whole_units_and_a_share_above_nothing_for_one_at_least(ratios, units):
    for ratio, count in zip(ratios, unit_counts(ratios, units), strict=True):
        assert (count == 0) == (ratio == 0)
        assert count <= units
        assert abs(count - ratio * units) <= 0.5 + 1e-6 or count == 1
    assert unit_counts([0.35, 0.5, 1.0], 10).tolist() == [4, 5, 10]
    assert unit_counts([0.0, 0.1, 0.2, 1.0], 1).tolist() == [0, 1, 1, 1]


def test_the_first_units_of_an_order_are_removed_or_kept():
    units = bare_units([-1, 0, 1, 1, -1, 2])
    assert removed_positions([1, 2, 0], units, [0, 1, 3], "remove") == [[], [2, 3], [1, 2, 3, 5]]
    assert removed_positions([1, 2, 0], units, [0, 1, 3], "keep") == [[1, 2, 3, 5], [1, 5], []]


def test_equal_scores_are_removed_in_a_random_order_that_is_the_same_every_time():
    units = bare_units(range(60))
    order = score_order(np.zeros(60), units)
    assert sorted(order.tolist()) == list(range(60))
    assert order.tolist() == score_order(np.ones(60), units).tolist()
    assert abs(np.corrcoef(order, np.arange(60))[0, 1]) < 0.3
    # Scores decide where they differ.
    assert score_order(np.arange(60) // 20, units)[:20].min() >= 40


def test_units_are_ordered_by_the_sum_of_their_tokens():
    units = bare_units([-1, 0, 0, 1, 2, 2])
    assert score_order([9.0, 1.0, 1.5, 2.0, 0.5, 3.0], units).tolist() == [2, 0, 1]
    draws = [random_score_order(units, np.random.default_rng(seed)).tolist() for seed in range(200)]
    assert all(sorted(order) == [0, 1, 2] for order in draws)
    # A word with two tokens leads more often than a word with one.
    assert sum(order[-1] == 1 for order in draws) > 100


def test_random_orders_do_not_favour_words_with_many_tokens():
    units = bare_units([0, *[1] * 40, 2])
    draws = [random_order(units, np.random.default_rng(seed)).tolist() for seed in range(600)]
    assert all(sorted(order) == [0, 1, 2] for order in draws)
    # Each word leads about 200 times (standard deviation 12); random scores would put the long one first every time.
    assert all(140 <= sum(order[0] == unit for order in draws) <= 260 for unit in range(3))
